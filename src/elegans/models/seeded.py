"""The initial values of another trial."""

from typing import Annotated

import numpy as np
from jaxtyping import Float32
from pydantic import Field, SerializeAsAny

from elegans import random
from elegans.component import Traced
from elegans.models.inits import DenseInit, Init, Layers
from elegans.tasks import Task


class SeededInit(Init, kind="seeded"):
    """The initial values of the trial with a given seed, whatever the seed of this trial.

    One initialisation can thus be trained on many streams of examples, to separate the variation between trials that is
    due to the initialisation from that due to the data. Give the task a support too, or it changes with the seed.

    Source: thesis, chapter 5, figure 5.2 (centre).

    Args:
        of: the distribution of the initial values.
        seed: the seed of the trial that has these initial values, below 2^32.
    """

    shorthand = "seed"
    of: SerializeAsAny[Init] = DenseInit()
    seed: Annotated[int, Field(ge=0, lt=2**32), Traced]

    def check(self, width: int, task: Task) -> None:
        self.of.check(width, task)

    def weights(self, key: random.Key, width: int, n: int) -> Float32[np.ndarray, "width n"]:
        return self.of.weights(random.stream(self.seed, "init").fold(0), width, n)

    def hidden(self, key: random.Key, width: int, task: Task) -> dict[str, np.ndarray]:
        return self.of.hidden(random.stream(self.seed, "init"), width, task)

    def parameters(self, key: random.Key, width: int, task: Task) -> Layers:
        return self.of.parameters(random.stream(self.seed, "init"), width, task)

    def readout(self, key: random.Key, width: int, outputs: int) -> dict[str, np.ndarray]:
        return self.of.readout(random.stream(self.seed, "init"), width, outputs)

    @property
    def has_readout(self) -> bool:
        return self.of.has_readout
