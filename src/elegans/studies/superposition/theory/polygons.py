"""The exact loss of one-hot features, and the polygons that are its critical points."""

from typing import Any, NamedTuple

import numpy as np

from elegans.calculators.domain import Side, require

DEAD = -0.3
"""The bias of a dead column: any negative number gives the same loss."""
TOLERANCE = 1e-12


class PolygonPoint(NamedTuple):
    """A polygon as a critical point.

    Args:
        length: the norm of its columns.
        bias: their bias.
        loss: the loss.
    """

    length: float
    bias: float
    loss: float


class PolygonArrays(NamedTuple):
    """The parameters of a polygon.

    Args:
        weights: W, shape (2, c).
        bias: b, shape (c,).
    """

    weights: Any
    bias: Any


def one_hot_loss(weights: Any, bias: Any) -> Any:
    """Return the exact loss of a tied autoencoder with a ReLU on one-hot features.

    Formula: L = (1/c) sum_ij s_ij with a = W_j . W_i, t = 1[i = j], [p, q] the part of [0, 1] on which a u + b_j > 0,
        and s = t (1 - (q^3 - p^3))/3 + (t - a)^2 (q^3 - p^3)/3 - (t - a) b_j (q^2 - p^2) + b_j^2 (q - p).
    Source: lemma 3.1 of Chen et al. (2023), in another form.

    Args:
        weights: the matrix W, shape (..., m, c).
        bias: the vector b, shape (..., c).
    """
    if not hasattr(weights, "at"):  # JAX's arrays, which may be traced, keep their precision
        weights, bias = np.asarray(weights, float), np.asarray(bias, float)
    fits = weights.ndim >= 2 and bias.ndim >= 1 and weights.shape[-1] == bias.shape[-1] > 0
    require(fits, "weights must have a column per bias", bias=bias)
    arrays = weights.__array_namespace__()
    products = weights.swapaxes(-1, -2) @ weights
    b, target = bias[..., None, :], arrays.eye(products.shape[-1], dtype=products.dtype)
    ratio = -b / arrays.where(products == 0, 1, products)
    # Outside of [0, 1], and where 1/a^2 overflows, the crossing is constant: its derivative would be 0 times infinity.
    constant = (ratio < 0) | (ratio > 1) | (abs(products) < arrays.finfo(products.dtype).tiny ** 0.5)
    inside = arrays.clip(-b / arrays.where(constant, 1, products), 0, 1)
    crossing = arrays.where(constant, arrays.where(ratio > 1, 1.0, 0.0), inside)
    p = arrays.where(products > 0, crossing, 0)
    q = arrays.where(products > 0, 1, arrays.where(products < 0, crossing, arrays.where(b > 0, 1.0, 0.0)))
    cubes, rest = q**3 - p**3, target - products
    terms = (target * (1 - cubes) + rest**2 * cubes) / 3 - rest * b * (q**2 - p**2) + b**2 * (q - p)
    return terms.sum(axis=(-1, -2)) / products.shape[-1]


def polygon_loss(corners: Side, features: Side = 6, dead: Side = 0) -> float:
    """Return the loss of a polygon of at most four corners whose other columns are zero.

    Formula: L = (1 - k/c) (1/3 - 1/(4c)) + f/(4 c^2).
    Source: Chen et al. (2023), appendix.

    Args:
        corners: k, from 0 to 4.
        features: c, at least k.
        dead: f, how many of the other columns have a negative bias; the biases of the rest are 1/(2c).
    """
    require(0 <= corners <= min(4, features), "a polygon must have at most four corners", corners=corners)
    require(0 <= dead <= features - corners, "dead columns must be other columns", dead=dead, features=features)
    return float((1 - corners / features) * (1 / 3 - 1 / (4 * features)) + dead / (4 * features**2))


def polygon_point(corners: Side, features: Side = 6, dead: Side = 0) -> PolygonPoint:
    """Return length, bias and loss of a regular polygon.

    Up to four corners have length 1 and bias 0; from five corners on, both are minimised over.

    Formula: min over l, b of L(l, b), l the norm and b the bias of the corners.
    Source: Chen et al. (2023), appendix.

    Args:
        corners: k, at least 0.
        features: c, at least k and at least 1.
        dead: how many of the other columns have a negative bias; the biases of the rest are 1/(2c).
    """
    require(features >= 1 and corners <= features, "a polygon must have a feature for each corner", corners=corners)
    require(0 <= dead <= features - corners, "dead columns must be other columns", dead=dead, features=features)
    if corners <= 4:
        return PolygonPoint(1.0, 0.0, polygon_loss(corners, features, dead))
    from scipy.optimize import minimize

    def loss(point: Any) -> float:
        return float(one_hot_loss(*polygon_arrays(corners, features, dead, *point)))

    options = {"xatol": TOLERANCE, "fatol": 1e-16, "maxiter": 4000}
    best = minimize(loss, [1.2, -0.4], method="Nelder-Mead", options=options)
    return PolygonPoint(float(best.x[0]), float(best.x[1]), float(best.fun))


def polygon_arrays(
    corners: Side, features: Side = 6, dead: Side = 0, length: float | None = None, bias: float | None = None
) -> PolygonArrays:
    """Return the parameters of a regular polygon: corners first, then columns of positive, then of negative bias.

    Formula: W_j = l (cos(2 pi j/k), sin(2 pi j/k)), b_j = b for j < k; W_j = 0, and b_j = 1/(2c) or -0.3 for the rest.
    Source: derived here, for the setting of Chen et al. (2023).

    Args:
        corners: k, at least 0.
        features: c, at least k and at least 1.
        dead: how many of the other columns have a negative bias.
        length: l; by default, with ``bias``, as in ``polygon_point``.
        bias: b.
    """
    if length is None or bias is None:
        point = polygon_point(corners, features, dead)
        length, bias = point.length, point.bias
    angle = 2 * np.pi * np.arange(corners) / max(corners, 1)
    weights = np.zeros((2, features))
    weights[:, :corners] = length * np.stack([np.cos(angle), np.sin(angle)])
    spare = [1 / (2 * features)] * (features - corners - dead) + [DEAD] * dead
    return PolygonArrays(weights, np.array([bias] * corners + spare))


def polygon_coefficient(corners: Side, dead: Side = 0) -> float:
    """Return the learning coefficient of a minimum of six one-hot features in two dimensions.

    One of the 18 parameters is a rotation. A dead column of the pentagon is free in three numbers, a dead column of a
    square only in its bias.

    Formula: lambda = (18 - 1 - free)/2, free = 3 f at k = 5, f at k = 4.
    Source: Chen et al. (2023), appendix, for the hexagon and the pentagons; derived here for squares; sampled at
        n beta = 10^6.

    Args:
        corners: k, from 4 to 6.
        dead: f, the number of dead columns.
    """
    require(4 <= corners <= 6, "corners must be from 4 to 6: other polygons are saddles", corners=corners)
    require(0 <= dead <= 6 - corners, "dead columns must be other columns", dead=dead, corners=corners)
    return (17 - dead * {4: 1, 5: 3, 6: 0}[int(corners)]) / 2
