"""Two features in one dimension, and how much of a dimension each feature has."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from elegans.calculators.domain import require


class TwoFeatureLosses(NamedTuple):
    """The losses of two features in one dimension.

    Args:
        keep: of keeping the more important one.
        antipodal: of both in opposite directions, without biases.
    """

    keep: float
    antipodal: float


def two_feature_losses(density: float, importance: float = 1.0) -> TwoFeatureLosses:
    """Return the losses of keeping one of two features in one dimension, and of both in superposition.

    Formula: L_keep = min(1, r) (p/3 - p^2/4), L_anti = (1 + r) p^2/6.
    Source: derived here, for the setting of Elhage et al. (2022).

    Args:
        density: p, the probability that a feature is active, from 0 to 1.
        importance: r, the importance of the second feature where the first has 1; above 0.
    """
    require(0 <= density <= 1 and importance > 0, "density must be from 0 to 1", density=density, importance=importance)
    p, r = float(density), float(importance)
    return TwoFeatureLosses(min(1.0, r) * (p / 3 - p**2 / 4), (1 + r) * p**2 / 6)


def two_feature_boundary(importance: float = 1.0) -> float:
    """Return the density below which two features in superposition lose less than keeping one.

    Formula: p* = (min(1, r)/3)/((1 + r)/6 + min(1, r)/4).
    Source: derived here, for the setting of Elhage et al. (2022).

    Args:
        importance: r, above 0.
    """
    require(importance > 0, "importance must be above 0", importance=importance)
    least = min(1.0, float(importance))
    return (least / 3) / ((1 + float(importance)) / 6 + least / 4)


def feature_dimensionality(weights: Float[Any, "m n"]) -> Float[np.ndarray, " n"]:
    """Return which share of a dimension each feature has: 1/2 in a digon, 2/5 in a pentagon, 0 for a zero column.

    Formula: D_i = |W_i|^2/sum_j (W_i . W_j/|W_i|)^2.
    Source: Elhage et al. (2022), The Geometry of Superposition.

    Args:
        weights: W, one column per feature.
    """
    w = np.asarray(weights, float)
    require(w.ndim == 2 and w.size > 0, "weights must be a matrix", weights=weights)
    require(bool(np.isfinite(w).all()), "weights must be finite", weights=weights)
    products = w.T @ w
    squares, sums = np.diag(products), (products**2).sum(axis=1)
    return np.asarray(np.divide(squares**2, sums, out=np.zeros_like(squares), where=sums > 0))


def mean_dimensionality(weights: Float[Any, "m n"]) -> float:
    """Return the dimensions per represented feature; 0 for a matrix of zeros.

    Formula: D* = m/|W|_F^2.
    Source: Elhage et al. (2022), The Geometry of Superposition.

    Args:
        weights: W, one column per feature.
    """
    w = np.asarray(weights, float)
    require(w.ndim == 2 and w.size > 0, "weights must be a matrix", weights=weights)
    norm = float((w**2).sum())
    return len(w) / norm if norm else 0.0
