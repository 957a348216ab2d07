"""A start that differs from a dense Gaussian one in the rows of the first layer only."""

import numpy as np
from jaxtyping import Float32

from elegans import random
from elegans.models import GaussianInit, SparseInit
from elegans.models.inits import AffineInit, Role


class SparseRowsInit(SparseInit, kind="sparse-rows"):
    """Exactly ``nonzeros`` non-zero weights per neuron as in ``SparseInit``; all else is drawn as by ``GaussianInit``.

    With the same seed, biases and output weights are those of ``GaussianInit``.

    Source: derived here.

    Args: as ``SparseInit``.
    """

    def for_role(self, role: Role) -> AffineInit:
        return GaussianInit() if role == "last" else self

    def entries(self, key: random.Key, shape: tuple[int, ...], fan_in: int, fan_out: int) -> Float32[np.ndarray, "..."]:
        if len(shape) < 2:
            return GaussianInit().entries(key, shape, fan_in, fan_out)
        return super().entries(key, shape, fan_in, fan_out)

    def readout(self, key: random.Key, width: int, outputs: int) -> dict[str, np.ndarray]:
        return GaussianInit().readout(key, width, outputs)
