"""An initialisation in which only a fraction of the neurons has a signal."""

from typing import Annotated

import numpy as np
from pydantic import Field

from elegans import random
from elegans.models.inits import Layers, SphereInit
from elegans.tasks import Task


class DimmedSphereInit(SphereInit, kind="dimmed-sphere"):
    """The sphere initialisation, but all neurons except the first ``share`` of them start without their signal part.

    For the XOR of the first two coordinates: w_sig is (w_1 - w_2, w_2 - w_1) / 2 for a >= 0 and (w_1 + w_2, w_1 +
    w_2) / 2 for a < 0.

    Args:
        share: the fraction of neurons that keep their signal, from 0 to 1.
    """

    share: Annotated[float, Field(ge=0, le=1)] = 1.0

    def __init__(self, radius: float, output: float | None = None, share: float = 1.0) -> None:
        super(SphereInit, self).__init__(radius=radius, output=output, share=share)  # type: ignore[call-arg]

    def parameters(self, key: random.Key, width: int, task: Task) -> Layers:
        """Draw all four parameter arrays; the biases are 0."""
        made = super().parameters(key, width, task)
        weight, sign = made["hidden"]["weight"], np.where(made["output"]["weight"] < 0, 1, -1)
        signal = (weight[:, 0] + sign * weight[:, 1]) / 2
        signal[: round(self.share * width)] = 0
        weight[:, 0] -= signal
        weight[:, 1] -= sign * signal
        return made
