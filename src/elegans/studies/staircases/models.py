"""An initialisation whose hidden biases do not shrink as the dimension grows."""

from typing import Annotated

import numpy as np
from pydantic import Field

from elegans import random
from elegans.models.inits import DenseInit


class BiasedInit(DenseInit, kind="biased"):
    """The dense initialisation, but with hidden biases uniform on [-size, size], whatever the fan-in.

    A ReLU of a sum without bias has no coefficient on products of three signs. With the biases of ``DenseInit`` it
    has one that falls with the dimension as n^(-1/2), here one that does not fall.

    Args: as ``DenseInit``, and
        size: the largest size of a hidden bias.
    """

    size: Annotated[float, Field(gt=0)] = 1.0

    def layer(self, weight: random.Key, bias: random.Key, fan_out: int, fan_in: int) -> dict[str, np.ndarray]:
        made = super().layer(weight, bias, fan_out, fan_in)
        return made | {"bias": made["bias"] * np.float32(self.size / self.bound(fan_in, fan_out))}
