"""A three-layer ReLU network that takes given values around given points, without any training.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    form: "corrected" or "printed".
    inputs: d_f.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float64

from elegans.calculators.domain import AtMost, Form, Listed, power, require, require_form, require_positive

_BUMP = {"corrected": (1, 1, 1, 1), "printed": (1, 1, -1, -1)}
"""The signs of the slopes of a bump's four ramps."""
_OFFSETS = {"corrected": (2, 1, -1, -2), "printed": (2, 1, 2, 1)}
"""The offsets added to u = (x - x_0) / delta, or to -u where the slope is negative."""
_SIGNS = np.array([1.0, -1.0, -1.0, 1.0])


class Memoriser(NamedTuple):
    """The weights of out = relu([relu([x 1] W_1) 1] W_2) w, biases being the last rows.

    Args:
        first: W_1, shape (inputs + 1, d_2).
        second: W_2, shape (d_2 + 1, d_3).
        last: w, shape (d_3,).
    """

    first: Float64[np.ndarray, "inputs_and_bias d2"]
    second: Float64[np.ndarray, "d2_and_bias d3"]
    last: Float64[np.ndarray, " d3"]

    def __call__(self, x: Any) -> Float64[np.ndarray, " count"]:
        """Return the outputs of inputs of shape (count, inputs)."""
        hidden = np.maximum(np.asarray(x, float) @ self.first[:-1] + self.first[-1], 0)
        return np.asarray(np.maximum(hidden @ self.second[:-1] + self.second[-1], 0) @ self.last)


def memoriser_bump(x: Any, delta: float, form: Form = "corrected") -> np.ndarray:
    """Return the bump from which the network is built: 1 within delta of 0, 0 beyond 2 delta, linear in between.

    The printed one is odd, -1 to the left, 0 at 0 and 1 to the right; so is its definition, ramp(x) - ramp(2 delta -
    x), where ramp(x) - ramp(x - 3 delta) is meant.

    Formula: relu(u + 2) - relu(u + 1) - relu(u - 1) + relu(u - 2), u = x / delta; printed: relu(u + 2) - relu(u + 1) -
        relu(-u + 2) + relu(-u + 1).
    Source: thesis, proof of Lemma A.25.

    Args:
        x: of any shape.
        delta: the half width, above 0.

    Returns:
        float64 of the same shape.
    """
    require_form(form)
    require_positive("Lemma A.25", delta=delta)
    u = np.asarray(x, float) / delta
    parts = zip(_SIGNS, _BUMP[form], _OFFSETS[form], strict=True)
    return np.asarray(sum(sign * np.maximum(slope * u + offset, 0) for sign, slope, offset in parts))


def memoriser_shapes(
    points: int, inputs: int, form: Form = "corrected"
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of W_1, W_2 and w.

    The set-up prints W_i with shape (d_{i+1} + 1, d_i), which does not fit x^T W_i; the lemma itself is right.

    Formula: (d_f + 1, 4 n d_f), (4 n d_f + 1, 2 n), (2 n,); printed: (4 n d_f + 1, d_f), (2 n + 1, 4 n d_f), (2 n,).
    Source: thesis, Lemma A.25 and appendix A.2.1.
    """
    require_form(form)
    require_positive("Lemma A.25", points=points, inputs=inputs)
    second, third = 4 * points * inputs, 2 * points
    if form == "printed":
        return (second + 1, inputs), (third + 1, second), (third,)
    return (inputs + 1, second), (second + 1, third), (third,)


def memoriser_units(s: Annotated[int, AtMost(10_000)], symbols: Listed = 2) -> tuple[int, int]:
    """Return how many hidden units a table of all functions of s tokens needs in each of the two layers.

    Formula: (4 s M^s, 2 M^s).
    Source: thesis, Lemma A.23 (two symbols) and appendix A.2.4 (M symbols).

    Args:
        s: the size of the support, at least 1.
        symbols: M, at least 2.
    """
    require(s >= 1 and symbols >= 2, "s must be at least 1 and symbols at least 2 (Lemma A.23)", s=s, symbols=symbols)
    words = int(power(symbols, s))
    return 4 * s * words, 2 * words


def memoriser_norms(
    bound: float, inputs: int, delta: float, largest: float, form: Form = "corrected"
) -> tuple[float, float, float]:
    """Return bounds on the largest entries of W_1, W_2 and w.

    The printed bound on W_1 omits the contribution of the bumps' offsets to its biases.

    Formula: max(1/delta, B/delta + 2), d_f/delta, max |f|; printed: max(1, B)/delta, d_f/delta, max |f|.
    Source: thesis, Lemma A.25; the first corrected from its proof.

    Args:
        bound: B, the largest entry of a point.
        delta: the half width.
        largest: max |f(x_i)|.
    """
    require_form(form)
    _require_width(delta)
    require(min(bound, largest) >= 0, "B and max |f| must be at least 0 (Lemma A.25)", B=bound, largest=largest)
    first = max(1.0, bound) / delta if form == "printed" else max(1 / delta, bound / delta + 2)
    return first, inputs / delta, float(largest)


def memoriser(points: Any, values: Float[Any, " n"], delta: float, form: Form = "corrected") -> Memoriser:
    """Return a network that takes the value f(x_i) wherever every coordinate is within delta of x_i's.

    With the printed bump it does not. Units of the first layer are numbered (q, i, j) with q slowest; in the second
    layer (1, i) comes before (2, i). (The proof's last line has f(x) = x_i where f(x) = f(x_i) is meant.)

    Formula: W_1: slope 1/delta on coordinate j, bias -x_ij/delta + (2, 1, -1, -2)_q; W_2: (1, -1, -1, 1)_q / delta,
        biases 1 - d_f/delta and -d_f/delta; w = f(x_i) and -f(x_i).
    Source: thesis, Lemma A.25, with the bump corrected.

    Args:
        points: x_i, shape (n, d_f), at least 4 delta apart in some coordinate.
        delta: the half width, above 0 and at most 1.
    """
    require_form(form)
    _require_width(delta)
    x, f = np.asarray(points, float), np.asarray(values, float)
    fits = x.ndim == 2 and f.shape == (len(x),)
    require(fits, "points and values must have shapes (n, d_f) and (n,)", points=x.shape, values=f.shape)
    closest = _closest(x)
    apart = closest >= 4 * delta * (1 - 1e-12)
    require(apart, "points must be 4 delta apart (Lemma A.25)", closest=closest, delta=delta)
    n, d = x.shape
    first = np.zeros((d + 1, 4, n, d))
    for q in range(4):
        slope, offset = _BUMP[form][q], _OFFSETS[form][q]
        first[np.arange(d), q, :, np.arange(d)] = slope / delta
        first[d, q] = -slope * x / delta + offset
    second = np.zeros((4, n, d, 2, n))
    second[:, np.arange(n), :, :, np.arange(n)] = _SIGNS[None, :, None, None] / delta
    biases = np.repeat([1 - d / delta, -d / delta], n)
    return Memoriser(first.reshape(d + 1, -1), np.vstack([second.reshape(4 * n * d, 2 * n), biases]), np.append(f, -f))


def _closest(points: np.ndarray) -> float:
    """Return the smallest distance between two points in the maximum norm."""
    if len(points) == 1:
        return float("inf")
    distances = np.abs(points[:, None] - points[None, :]).max(axis=2)
    np.fill_diagonal(distances, np.inf)
    return float(distances.min())


def _require_width(delta: float) -> None:
    require(0 < delta <= 1, "delta must lie in (0, 1] (Lemma A.25)", delta=delta)
