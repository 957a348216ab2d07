"""Initial values that another trial had."""

from typing import Annotated

import numpy as np
from jaxtyping import Float32
from pydantic import Field, SerializeAsAny

from elegans import random
from elegans.component import Traced
from elegans.models.inits import DenseInit, Init, Layers
from elegans.tasks import Task


class SeededInit(Init, kind="seeded"):
    """The initial values that the trial with a given seed has: the same for every seed of the trial's own.

    So one initialisation meets many streams of examples, which says how much of what varies between trials is the
    network's luck and how much the data's. Give the task a support too, or it changes with the trial's seed.

    Source: thesis, chapter 5, figure 5.2 (centre).

    Args:
        of: the distribution that the initial values are drawn from.
        seed: the seed of the trial whose initial values they are, below 2^32.
    """

    shorthand = "seed"
    of: SerializeAsAny[Init] = DenseInit()
    seed: Annotated[int, Field(ge=0, lt=2**32), Traced]

    def check(self, width: int, task: Task) -> None:
        """Refuse a width or a task that the initialisation does not cover."""
        self.of.check(width, task)

    def weights(self, key: random.Key, width: int, n: int) -> Float32[np.ndarray, "width n"]:
        return self.of.weights(random.stream(self.seed, "init").fold(0), width, n)

    def parameters(self, key: random.Key, width: int, task: Task) -> Layers:
        return self.of.parameters(random.stream(self.seed, "init"), width, task)

    def readout(self, key: random.Key, width: int, outputs: int) -> dict[str, np.ndarray]:
        """Return the other trial's weights and biases of several outputs."""
        return self.of.readout(random.stream(self.seed, "init"), width, outputs)

    @property
    def has_readout(self) -> bool:
        """Whether the initialisation draws several outputs."""
        return self.of.has_readout
