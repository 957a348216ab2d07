"""Your own initialisation; every model with an ``init`` accepts it, by its kind ``my-first``."""

from typing import Annotated, Any

import numpy as np
from pydantic import Field

import elegans as el


class MyFirst(el.Init):
    """Hidden weights of equal size and random sign.

    Args:
        size: the absolute value of each weight.
    """

    size: Annotated[float, Field(gt=0)] = 0.2

    def weights(self, key: el.random.Key, width: int, n: int) -> Any:
        """Draw the hidden weights, float32 of shape (width, n); biases and output weights are drawn as usual."""
        return el.random.rademacher(key, np.arange(width, dtype=np.uint32), n) * np.float32(self.size)
