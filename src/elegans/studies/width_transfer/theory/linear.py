"""The two-layer linear network f(x) = v . W x on whitened inputs, target beta . x, under gradient descent.

Its predictor is u = W^T v. With the Gram matrix G = W^T W and the norm q = |v|^2 a step is closed: width enters only
through the start, and through the factors of the two learning rates. In the maximal-update parametrisation, with
G = W^T W / n and q = n |v|^2, both factors are 1.

Shared arguments:
    gram: G, shape (..., d, d).
    predictor: u, shape (..., d).
    norm: q, shape (...,).
    target: beta, shape (d,).
    eta: the learning rate, of a shape that broadcasts with q.
    hidden: the factor of the learning rate of W.
    output: the factor of the learning rate of v.
"""

from typing import Any, NamedTuple

import numpy as np

from elegans.calculators.domain import require


class LinearState(NamedTuple):
    """What a step of the two-layer linear network depends on.

    Args:
        gram: G, shape (..., d, d).
        predictor: u, shape (..., d).
        norm: q, shape (...,).
    """

    gram: np.ndarray
    predictor: np.ndarray
    norm: np.ndarray


def linear_step(
    gram: Any, predictor: Any, norm: Any, target: Any, eta: Any, hidden: float = 1.0, output: float = 1.0
) -> LinearState:
    """Return the state after one step of gradient descent on the population's squared loss |beta - u|^2 / 2.

    Formula: with e = beta - u, h = eta hidden and o = eta output: u + o G e + h q e + h o (u . e) e,
        G + h (u e^T + e u^T) + h^2 q e e^T, q + 2 o u . e + o^2 e . G e.
    Source: derived here.
    """
    g, u, q, beta = (np.asarray(part, float) for part in (gram, predictor, norm, target))
    same_sizes = g.shape[-1:] == g.shape[-2:-1] == u.shape[-1:] == beta.shape
    require(
        same_sizes, "gram, predictor and target must be of one d", gram=g.shape, predictor=u.shape, target=beta.shape
    )
    h, o = (np.asarray(eta, float) * factor for factor in (hidden, output))
    e = beta - u
    mapped = np.einsum("...ij,...j->...i", g, e)
    along, curved = (u * e).sum(-1), (e * mapped).sum(-1)
    cross = u[..., :, None] * e[..., None, :]
    return LinearState(
        g
        + h[..., None, None] * (cross + cross.swapaxes(-1, -2))
        + (h**2 * q)[..., None, None] * e[..., :, None] * e[..., None, :],
        u + o[..., None] * mapped + (h * q + h * o * along)[..., None] * e,
        q + 2 * o * along + o**2 * curved,
    )


def linear_one_step_rate(gram: float, norm: float, hidden: float = 1.0, output: float = 1.0) -> float:
    """Return the learning rate that is best for one step from u = 0, where the target is an eigenvector of G.

    Formula: 1 / (output g + hidden q), G beta = g beta.
    Source: derived here.

    Args:
        gram: g, the eigenvalue.
        norm: q.
    """
    total = output * gram + hidden * norm
    require(total > 0, "output g + hidden q must be positive", gram=gram, norm=norm)
    return 1 / total
