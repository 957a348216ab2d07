"""Gradient flow of a disjoint PolyNet on its parity: a plateau, then an explosion at a finite time.

The network is the product over k blocks of <w_i, x_i>, and the parity has the first input of each block. Under the
correlation loss only the relevant weights v_i move: dv_i/dt = prod_{j != i} v_j. Their squares all grow by the same
q(t), so v_i^2 - v_j^2 never changes, and dq/dt = 2 sqrt(prod_i (q + v_i(0)^2)). With a for the arithmetic and g
for the geometric mean of the v_i(0)^2, the flows that start with all squares equal to a and to g enclose it.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    start: the relevant weights v_i(0), with a positive product; at least three for bounds on times.
    time: times t >= 0, any shape; results have the same shape, float64.
    level: b, at least |v_i(0)|.
    block: i, counted from 0.
    k: the number of blocks, at least 2.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from elegans.calculators.domain import Extended, WithInfinity, require, require_positive
from elegans.errors import TheoryError

_LARGEST = 1e6
"""The relevant weight above which a flow of three or more blocks counts as exploded, about 1e-6 before the
explosion."""
Bound = Annotated[np.ndarray, WithInfinity]
"""Values that are infinite after an explosion."""


def equal_flow(start: float, k: int, time: Any) -> np.ndarray:
    """Return the relevant weights of a flow that starts with all of them equal.

    Formula: v(t) = (v_0^(2 - k) - (k - 2) t)^(-1 / (k - 2)) for k >= 3, infinite after the explosion;
        v_0 e^t for k = 2.
    Source: derived here: dv/dt = v^(k - 1).

    Args:
        start: the common weight v_0, above 0.

    Returns:
        float64 of the same shape.
    """
    require_positive("Lemma B.8", start=start)
    _require_blocks(k)
    return np.asarray(np.sqrt(_square(start**2, k, time)))


def flow_growth_bounds(start: Sequence[float], time: Any) -> tuple[Bound, Bound]:
    """Return bounds on q(t) = v_i(t)^2 - v_i(0)^2, which is the same for all i.

    Formula: (c^(1 - k/2) - (k - 2) t)^(-1 / (k/2 - 1)) - c with c = g below and c = a above; c (e^(2t) - 1) for k = 2;
        infinite after the bound's own explosion.
    Source: thesis, Lemma B.8 and its proof.

    Returns:
        The lower and the upper bound, float64 of the same shape.
    """
    k, arithmetic, geometric = _means(start)
    return _square(geometric, k, time) - geometric, _square(arithmetic, k, time) - arithmetic


def flow_time(start: Sequence[float], growth: Extended = math.inf) -> Extended:
    """Return the time at which the squares of the relevant weights have grown by a given amount.

    Formula: t(c) = integral over 0..c of (1/2) prod_i (q + v_i(0)^2)^(-1/2) dq; c infinite is the explosion.
    Source: thesis, proof of Lemma B.8; the integral by quadrature.

    Args:
        growth: c, at least 0.

    Returns:
        The time, to a relative error of about 1e-8; infinite for k = 2 and an infinite growth.
    """
    from scipy.integrate import quad

    k, arithmetic, _ = _means(start)
    require(growth >= 0, "growth must be at least 0 (Lemma B.8)", growth=growth)
    if k == 2 and math.isinf(growth):
        return math.inf
    squares = np.square(np.asarray(start, np.float64))

    def slowness(root: float) -> float:
        # q = root^2: smooth where a weight starts close to 0
        return float(root / np.sqrt(root**2 + squares).prod())

    middle, end = min(math.sqrt(arithmetic), math.sqrt(growth)), math.sqrt(growth)
    return float(quad(slowness, 0, middle, epsabs=0)[0] + quad(slowness, middle, end, epsabs=0)[0])


def flow_level_time(start: Sequence[float], level: float, block: int = 0) -> float:
    """Return T_i(b): the time until which the relevant weight of a block stays at or below a level.

    Formula: T_i(b) = t(b^2 - v_i(0)^2), by ``flow_time``.
    Source: thesis, Lemma B.8.
    """
    return flow_time(start, _level_growth(start, level, block))


def flow_level_bound(start: Sequence[float], level: float, block: int = 0) -> float:
    """Return a lower bound on the time until which the relevant weight of a block stays at or below a level.

    Formula: T_i(b) >= (a^(1 - k/2) - (a + b^2 - v_i(0)^2)^(1 - k/2)) / (k - 2).
    Source: thesis, Lemma B.8.
    """
    k, arithmetic, _ = _means(start, least=3)
    power = 1 - k / 2
    growth = _level_growth(start, level, block)
    return float((arithmetic**power - (arithmetic + growth) ** power) / (k - 2))


def flow_remaining_bound(start: Sequence[float], level: float, block: int = 0) -> float:
    """Return an upper bound on the time from a block's relevant weight reaching a level to the explosion.

    Formula: T_i(inf) - T_i(b) <= (g + b^2 - v_i(0)^2)^(1 - k/2) / (k - 2).
    Source: thesis, Lemma B.8.
    """
    k, _, geometric = _means(start, least=3)
    return float((geometric + _level_growth(start, level, block)) ** (1 - k / 2) / (k - 2))


def flow_explosion_bounds(start: Sequence[float]) -> tuple[float, float]:
    """Return bounds on the time at which all relevant weights become infinite.

    Formula: a^(1 - k/2) / (k - 2) <= T(inf) <= g^(1 - k/2) / (k - 2) = 1 / ((k - 2) prod_i |v_i(0)|^(1 - 2/k)).
    Source: thesis, Lemma B.8.
    """
    k, arithmetic, geometric = _means(start, least=3)
    return float(arithmetic ** (1 - k / 2) / (k - 2)), float(geometric ** (1 - k / 2) / (k - 2))


def relevant_flow(start: Sequence[float], times: Sequence[float]) -> np.ndarray:
    """Return the relevant weights along gradient flow from any start, by numerical integration.

    Formula: dv_i/dt = prod_{j != i} v_j.
    Source: thesis, appendix B.2.3; solved by an explicit Runge-Kutta method of order 8.

    Args:
        start: the relevant weights v_i(0), at least two, of any signs.
        times: times t >= 0 in increasing order, all before the explosion.

    Returns:
        float64 of shape (times, k), to a relative error of about 1e-9 away from the explosion.
    """
    from scipy.integrate import solve_ivp

    first, moments = np.asarray(start, np.float64), np.asarray(times, np.float64)
    _require_blocks(len(first))
    require(
        len(moments) > 0 and moments[0] >= 0 and bool((np.diff(moments) > 0).all()),
        "times must be at least 0 and in increasing order (gradient flow)",
        times=times,
    )
    others = ~np.eye(len(first), dtype=bool)

    def velocity(_: float, v: np.ndarray) -> np.ndarray:
        return np.asarray(np.where(others, v, 1.0).prod(axis=1))

    def exploded(_: float, v: np.ndarray) -> float:
        return float(np.abs(v).max() - _LARGEST) if len(v) > 2 else -1.0

    exploded.terminal = True  # type: ignore[attr-defined]
    solved = solve_ivp(velocity, (0.0, moments[-1]), first, "DOP853", moments, events=exploded, rtol=1e-11, atol=1e-12)
    if solved.status != 0:
        raise TheoryError(f"times must lie before the explosion (gradient flow): times={times}")
    return np.asarray(solved.y.T)


def _square(square: float, k: int, time: Any) -> np.ndarray:
    """Return v(t)^2 of a flow that starts with all squares equal."""
    moments = np.asarray(time, np.float64)
    require(bool((moments >= 0).all()), "times must be at least 0 (gradient flow)", time=time)
    if k == 2:
        return np.asarray(square * np.exp(2 * moments))
    left = np.maximum(square ** (1 - k / 2) - (k - 2) * moments, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(left ** (-1 / (k / 2 - 1)))


def _means(start: Sequence[float], least: int = 2) -> tuple[int, float, float]:
    """Return k and the arithmetic and geometric means of the squares."""
    _require_blocks(len(start), least)
    require(math.prod(start) > 0, "relevant weights must have a positive product (Lemma B.8)", start=start)
    squares = np.square(np.asarray(start, np.float64))
    return len(squares), float(squares.mean()), float(np.exp(np.log(squares).mean()))


def _level_growth(start: Sequence[float], level: float, block: int) -> float:
    _means(start)
    require(0 <= block < len(start), "block must lie in 0..k-1 (Lemma B.8)", block=block, k=len(start))
    growth = float(level) ** 2 - float(start[block]) ** 2
    require(growth >= 0, "level must be at least |v_i(0)| (Lemma B.8)", level=level, start=start[block])
    return growth


def _require_blocks(k: int, least: int = 2) -> None:
    require(k >= least, f"there must be at least {least} blocks (Lemma B.8)", k=k)
