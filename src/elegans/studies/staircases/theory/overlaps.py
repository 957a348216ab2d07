"""One neuron on the sphere that learns one direction: drift, noise, a differential equation, and reused examples.

The neuron's output is s(w . x), |w| = 1, the label g(w* . x), x ~ N(0, I_d), and m = w . w*. A step of rate gamma moves
w along (x - (w . x) w) times the number c, then normalises w; c = y s'(z) for the correlation loss, (y - s(z)) s'(z)
for the square loss. Time is tau = gamma t, and delta = gamma d.

Shared arguments:
    target: g, by the name of a link, such as ``h3``.
    neuron: s, by the name of a link.
    overlap: m, from -1 to 1.
    loss: ``correlation`` or ``square``.
    bias: b, for the neuron relu(z + b).
    delta: the learning rate times the dimension, at least 0.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

import numpy as np

from elegans.boolean.fourier import sign_table
from elegans.calculators.domain import require, require_positive
from elegans.studies.staircases.theory.exponents import hermite_coefficient
from elegans.studies.staircases.theory.links import link_named, normal_rule

OverlapLoss = Literal["correlation", "square"]
DEGREES = 24
"""Hermite coefficients up to this degree enter the drift."""
SIDE = 60
"""Nodes of Gauss-Hermite quadrature over the target's other direction."""
NOISE_GRID = 201
"""Overlaps at which the noise is tabulated for the differential equation."""


def overlap_drift(target: str, neuron: str, overlap: float, bias: float = 0.0) -> float:
    """Return the mean change of the overlap per time, without noise: the same for both losses.

    Formula: (1 - m^2) sum_k k a_k c_k m^(k-1), a_k and c_k the Hermite coefficients of neuron and target.
    Source: derived here; compare section 2 of Ben Arous et al. (2021).
    """
    _require_overlap(overlap)
    products = _products(target, neuron, bias)
    return float((1 - overlap**2) * sum(k * p * overlap ** (k - 1) for k, p in enumerate(products) if k))


def overlap_noise(target: str, neuron: str, overlap: float, loss: OverlapLoss, bias: float = 0.0) -> float:
    """Return the mean square of the gradient's factor, which sets the noise of a step.

    Formula: V(m) = E[c^2], c = y s'(z) or (y - s(z)) s'(z).
    Source: derived here.
    """
    _require_overlap(overlap)
    g, s = link_named(target), link_named(neuron, bias)
    z, weight = normal_rule(s.breaks)
    x, w = _side_rule()
    along = overlap * z[:, None] + math.sqrt(1 - overlap**2) * x
    labels = g.value(along) - (s.value(z)[:, None] if loss == "square" else 0.0)
    return float(weight @ (s.slope(z) ** 2 * (labels**2 @ w)))


def overlap_path(
    target: str,
    neuron: str,
    start: float,
    times: Sequence[float],
    delta: float,
    loss: OverlapLoss = "correlation",
    bias: float = 0.0,
) -> np.ndarray:
    """Return the overlap at some times by the differential equation of many dimensions.

    Formula: m'(tau) = drift(m) - (delta / 2) m V(m), with m(0) = start.
    Source: derived here; compare Arnaboldi et al. (2023).

    Args:
        start: the overlap at time 0, from -1 to 1.
        times: times tau >= 0 in rising order, shape (count,).

    Returns:
        float64 of shape (count,).
    """
    from scipy.integrate import solve_ivp

    _require_overlap(start)
    _require_delta(delta)
    moments = np.asarray(times, float)
    rising = moments.ndim == 1 and bool((np.diff(moments) >= 0).all()) and bool((moments >= 0).all())
    require(rising, "times must be at least 0 and rise", times=moments.tolist()[:5])
    grid = np.linspace(-1, 1, NOISE_GRID)
    noise = np.array([overlap_noise(target, neuron, m, loss, bias) for m in grid]) if delta else np.zeros(NOISE_GRID)
    products = np.asarray(_products(target, neuron, bias))
    powers = np.arange(1, len(products))

    def slope(_: float, m: np.ndarray) -> np.ndarray:
        drift = (1 - m**2) * float((powers * products[1:] * m ** (powers - 1)).sum())
        return np.asarray(drift - delta / 2 * m * np.interp(m, grid, noise))

    end = float(moments[-1])
    if end == 0:
        return np.full(len(moments), start)
    solved = solve_ivp(slope, (0, end), [start], t_eval=moments, rtol=1e-8, atol=1e-10, method="LSODA")
    return np.asarray(solved.y[0])


def overlap_fixed_point(degree: int, delta: float) -> float:
    """Return where learning h_k with a neuron h_k by the correlation loss ends at a constant rate.

    Formula: the largest root below 1 of k (1 - m^2) m^(k-2) = (delta / 2) V(m).
    Source: derived here.

    Args:
        degree: k, from 2 to 8.
        delta: the learning rate times the dimension, above 0.

    Raises:
        TheoryError: there is none, since noise exceeds the drift everywhere.
    """
    from scipy.optimize import brentq

    require(2 <= degree <= 8, "degree must be from 2 to 8", degree=degree)
    require_positive("the fixed point", delta=delta)
    name = f"h{degree}"

    def surplus(m: float) -> float:
        return degree * (1 - m**2) * m ** (degree - 2) - delta / 2 * overlap_noise(name, name, m, "correlation")

    grid = np.linspace(0.999, 0.001, 100)
    signs = np.array([surplus(float(m)) for m in grid])
    rises = np.flatnonzero(signs > 0)
    require(len(rises) > 0, "noise must not exceed the drift everywhere", degree=degree, delta=delta)
    first = int(rises[0])
    return float(brentq(surplus, grid[first], 1.0 if first == 0 else grid[first - 1]))


def escape_time(degree: int, product: float, start: float) -> float:
    """Return the time to leave the plateau at small overlap, without noise.

    Formula: 1 / (k (k - 2) a c m0^(k-2)) for k >= 3; log(1 / m0) / (2 a c) for k = 2; 1 / (a c) for k = 1.
    Source: derived here from dm/dtau = k a c m^(k-1).

    Args:
        degree: k, the information exponent, at least 1.
        product: a c, of the Hermite coefficients of that degree of neuron and target, above 0.
        start: m0, above 0 and below 1.
    """
    require(degree >= 1, "degree must be at least 1", degree=degree)
    require_positive("the escape time", product=product, start=start)
    require(start < 1, "start must be below 1", start=start)
    if degree == 1:
        return 1 / product
    if degree == 2:
        return math.log(1 / start) / (2 * product)
    return float(1 / (degree * (degree - 2) * product * start ** (degree - 2)))


def noise_crossover(degree: int, product: float, delta: float, noise: float) -> float:
    """Return the dimension up to which a constant delta lets the overlap grow from m = d^(-1/2).

    Formula: d = (2 k a c / (delta V(0)))^(2 / (k - 2)), k >= 3.
    Source: derived here: drift k a c m^(k-1) against noise (delta / 2) m V.

    Args:
        degree: k, at least 3.
        product: a c, above 0.
        delta: the learning rate times the dimension, above 0.
        noise: V(0), above 0.
    """
    require(degree >= 3, "degree must be at least 3", degree=degree)
    require_positive("the crossover", product=product, delta=delta, noise=noise)
    return float((2 * degree * product / (delta * noise)) ** (2 / (degree - 2)))


def overlap_diffusion(target: str, neuron: str, overlap: float, loss: OverlapLoss, bias: float = 0.0) -> float:
    """Return the mean square of a step's noise along the target's direction.

    At overlap 0 it is larger than V(0), since examples with large labels lie far out along the target: 7 times for h_3.

    Formula: W(m) = E[c^2 (z* - m z)^2]; the variance of the overlap grows by delta W(m) / d per time.
    Source: derived here.
    """
    _require_overlap(overlap)
    g, s = link_named(target), link_named(neuron, bias)
    z, weight = normal_rule(s.breaks)
    x, w = _side_rule()
    across = math.sqrt(1 - overlap**2) * x
    labels = g.value(overlap * z[:, None] + across) - (s.value(z)[:, None] if loss == "square" else 0.0)
    return float(weight @ (s.slope(z) ** 2 * ((labels * across) ** 2 @ w)))


def noise_barrier(degree: int, delta: float) -> float:
    """Return how fast the logarithm of the time to learn h_k grows with the dimension at a constant delta.

    Near overlap 0 noise exceeds the drift, so the overlap must climb to the m* at which they are equal.

    Formula: B = integral over 0..m* of ((delta / 2) m V(m) - k (1 - m^2) m^(k-1)) 2 / (delta W(m)) dm; times grow as
        exp(B d).
    Source: derived here, by Kramers' law for a diffusion that leaves a well.

    Args:
        degree: k, from 3 to 8; target and neuron are h_k, the loss is the correlation loss.
        delta: the learning rate times the dimension, above 0.

    Raises:
        TheoryError: noise exceeds the drift everywhere.
    """
    require(3 <= degree <= 8, "degree must be from 3 to 8", degree=degree)
    require_positive("the barrier", delta=delta)
    name = f"h{degree}"
    grid = np.linspace(0, 1, 2001)[1:-1]
    noise, diffusion = (
        np.interp(grid, coarse := np.linspace(0, 1, NOISE_GRID), [of(name, name, m, "correlation") for m in coarse])
        for of in (overlap_noise, overlap_diffusion)
    )
    against = delta / 2 * grid * noise - degree * (1 - grid**2) * grid ** (degree - 1)
    falls = np.flatnonzero(against < 0)
    require(len(falls) > 0, "noise must not exceed the drift everywhere", degree=degree, delta=delta)
    below = slice(0, int(falls[0]))
    return float((against[below] * 2 / (delta * diffusion[below])).sum() * (grid[1] - grid[0]))


def reuse_drift(target: str, rho: float, bias: float = 0.0) -> float:
    """Return the drift of a ReLU neuron without overlap that uses each example twice.

    The first use moves the neuron's input by rho y where it is active; the gradient after that is used.

    Formula: D(rho) = E[z* y p(y)], p(y) = P(z + b > max(0, -rho y)), z ~ N(0, 1).
    Source: derived here, after an idea of Arnaboldi et al. (2024) and Dandi et al. (2024).

    Args:
        rho: the first step's rate times the dimension, at least 0.
    """
    from scipy.stats import norm

    require(rho >= 0, "rho must be at least 0", rho=rho)
    g = link_named(target)
    z, weight = normal_rule(_zeros_of(target))
    y = g.value(z)
    return float(weight @ (z * y * norm.sf(np.maximum(0.0, -rho * y) - bias)))


def boolean_reuse_drift(values: Any, rho: float, bias: float = 0.0) -> np.ndarray:
    """Return the drift of each relevant weight of a ReLU neuron that uses each example twice.

    The target is a function of P uniform signs, and the neuron has not yet found any of them, so its input is
    normal.

    Formula: E[x_j y p(y)], p(y) = P(z + b > max(0, -rho y)), z ~ N(0, 1), by all 2^P inputs.
    Source: derived here.

    Args:
        values: the target's 2^P values, coordinate j being -1 in value i if bit j of i is set.
        rho: the first step's rate times the dimension, at least 0.

    Returns:
        float64 of shape (P,).
    """
    from scipy.stats import norm

    require(rho >= 0, "rho must be at least 0", rho=rho)
    y = np.asarray(values, float)
    fits = y.ndim == 1 and len(y) >= 2 and len(y) & (len(y) - 1) == 0
    require(fits, "values must be a list of 2^P numbers, P at least 1", shape=y.shape)
    x = sign_table(len(y).bit_length() - 1).astype(float)
    return np.asarray((y * norm.sf(np.maximum(0.0, -rho * y) - bias)) @ x / len(y))


def _zeros_of(name: str) -> tuple[float, ...]:
    """Return where a link changes its sign, between which the probability of a second use is smooth."""
    g = link_named(name)
    z = np.linspace(-10, 10, 20_001)
    signs = np.sign(g.value(z))
    return tuple(float(point) for point in (z[:-1] + z[1:])[np.flatnonzero(signs[:-1] * signs[1:] < 0)] / 2)


@cache
def _side_rule() -> tuple[np.ndarray, np.ndarray]:
    x, w = np.polynomial.hermite_e.hermegauss(SIDE)
    return x, w / w.sum()


def _products(target: str, neuron: str, bias: float) -> list[float]:
    degrees = range(DEGREES + 1)
    return [hermite_coefficient(target, k) * hermite_coefficient(neuron, k, bias) for k in degrees]


def _require_overlap(overlap: float) -> None:
    require(-1 <= overlap <= 1, "overlap must be from -1 to 1", overlap=overlap)


def _require_delta(delta: float) -> None:
    require(delta >= 0, "delta must be at least 0", delta=delta)
