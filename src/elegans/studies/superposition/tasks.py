"""Sparse features, which a network must reproduce."""

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from elegans import random
from elegans.studies.superposition.models import TiedAutoencoder
from elegans.studies.superposition.theory.polygons import one_hot_loss
from elegans.tasks import Task

Importance = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class SparseFeatures(Task):
    """The targets are the n inputs themselves: features that are mostly zero, else uniform on [0, 1].

    With the loss ``square`` of scale 2 the loss of an example is sum_i I_i (x_i - y_i)^2, summed over features; code
    that averages over features has the scale 2/n.

    Source: Elhage et al. (2022), Demonstrating Superposition; with ``one_hot``, Chen et al. (2023).

    Args:
        n: the number of features.
        density: the probability with which each feature is active, on its own; 1 - S, S the sparsity.
        importance: the factor I_i of each feature's loss; None for 1 each.
        one_hot: whether exactly one feature is active, with the same probability for each, whatever the density.
        values: the value of an active feature: uniform on [0, 1], or 1.
    """

    n: Annotated[int, Field(ge=1)]
    density: Annotated[float, Field(gt=0, le=1)] = 1.0
    importance: tuple[Importance, ...] | None = None
    one_hot: bool = False
    values: Literal["uniform", "binary"] = "uniform"

    @property
    def input_size(self) -> int:
        return self.n

    @property
    def targets(self) -> int:
        return self.n

    @property
    def target_weights(self) -> tuple[float, ...] | None:
        return self.importance

    def examples(self, hidden: Any, key: random.Key, index: Any) -> tuple[Any, Any]:
        lanes = np.arange(self.n, dtype=np.uint32)
        if self.one_hot:
            active = random.integers(key, index, bound=np.uint32(self.n))[:, None] == lanes
            value = random.uniform(key.fold(1), index)[:, None] + 0 * lanes.astype(np.float32)
        else:
            active = random.uniform(key, index[:, None], lane=lanes) < np.float32(1) * self.density
            value = random.uniform(key.fold(1), index[:, None], lane=lanes)
        x = active * (value if self.values == "uniform" else np.float32(1))
        x = x.astype(np.float32)
        return x, x

    def expected_loss(self, model: Any, parameters: Any) -> Any:
        """Return the exact loss of one-hot uniform features, of importance 1, for a tied autoencoder with a ReLU."""
        closed = self.one_hot and self.values == "uniform" and self.importance is None
        if not closed or not isinstance(model, TiedAutoencoder) or model.activation != "relu":
            return None
        import jax.numpy as jnp

        return one_hot_loss(jnp.asarray(parameters["weight"]), jnp.asarray(parameters["bias"]))
