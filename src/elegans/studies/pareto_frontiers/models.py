"""Lottery tickets: networks that start from the initial values of a few neurons of another network."""

from typing import Annotated

import numpy as np
from jaxtyping import Float32
from pydantic import Field, model_validator

from elegans import random
from elegans.models.inits import Init, Layers
from elegans.models.mlp import MLP
from elegans.tasks import Task


class Ticket(Init):
    """The initial values of some neurons of another network: hidden weights, biases, output weights, output bias.

    A trial's initial values follow from its model and its seed, so model, seed and the positions of the neurons
    determine everything: nothing is stored, and nothing is drawn from the trial's own init stream.

    Source: Pareto frontiers, figure 5 (rewinding, after Frankle and Carbin, 2019).

    Args:
        of: the model of the other network.
        seed: the seed of the trial that it was trained in.
        neurons: which of its neurons, distinct and from 0 to its width - 1. The model that starts from them has as many
            neurons.
    """

    of: MLP
    seed: Annotated[int, Field(ge=0, lt=2**64)]
    neurons: tuple[Annotated[int, Field(ge=0)], ...]

    @model_validator(mode="after")
    def _neurons_are_there(self) -> "Ticket":
        if len(set(self.neurons)) != len(self.neurons) or not self.neurons:
            raise ValueError(
                f"a ticket must have at least one neuron, and its neurons must be distinct: neurons={self.neurons}"
            )
        if max(self.neurons) >= self.of.width:
            raise ValueError(f"neurons of a ticket must be below the width: {self.neurons}, width={self.of.width}")
        return self

    def check(self, width: int, task: Task) -> None:
        """Refuse a width other than the number of neurons, and tasks that the other network could not be trained on."""
        if width != len(self.neurons):
            raise ValueError(f"width must be the ticket's number of neurons: width={width}, neurons={self.neurons}")
        self.of.check(task)

    def weights(self, key: random.Key, width: int, n: int) -> Float32[np.ndarray, "width n"]:
        """Return the hidden weights of the neurons."""
        other = self.of.init.weights(random.stream(self.seed, "init").fold(0), self.of.width, n)
        return other[list(self.neurons)]

    def parameters(self, key: random.Key, width: int, task: Task) -> Layers:
        """Return the four parameter arrays, from the other trial's init stream."""
        other = self.of.init.parameters(random.stream(self.seed, "init"), self.of.width, task)
        kept = list(self.neurons)
        return {
            "hidden": {name: values[kept] for name, values in other["hidden"].items()},
            "output": {"weight": other["output"]["weight"][kept], "bias": other["output"]["bias"]},
        }
