"""XOR, phase 1: how neurons evolve while the network's output is close to 0.

The surrogate L_0 is the loss to first order at f = 0. Under it neurons do not interact: grad_w L_0 =
-a E[y 1{w . x > 0} x] and grad_a L_0 = -E[y relu(w . x)], with w . grad_w = a grad_a. With s, o and r the norms of a
neuron's signal, opposite and remaining parts, everything follows from the distribution of w . xi, xi the other signs.

Source of all functions: Glasgow (2024), section 4.1 and Lemma C.4.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    weight: w, shape (p, d).
    basis: an orthonormal Q where the inputs are Q times signs.
"""

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float64

from elegans.calculators.domain import AtMost, Form, Seed, require, require_form, require_positive
from elegans.studies.xor_two_phases.theory.network import ROOT2, XorGradients, network, rotated, xor_parts, xor_sizes
from elegans.studies.xor_two_phases.theory.noise import Distribution, blocks, half_signs, noise_sums, within_half

PHASE_ONE_RATE = 1 / math.sqrt(2 * math.pi)
"""tau_1: how fast the signal of a small neuron grows, per unit of step size times steps."""


class XorGrowth(NamedTuple):
    """The growth of each part of every neuron's weights along itself, each of shape (p,).

    Args:
        signal: -w_sig . grad_w.
        opposite: -w_opp . grad_w.
        rest: -w_perp . grad_w.
    """

    signal: np.ndarray
    opposite: np.ndarray
    rest: np.ndarray

    @property
    def total(self) -> np.ndarray:
        """-w . grad_w, which is -a grad_a."""
        return np.asarray(self.signal + self.opposite + self.rest)


def xor_surrogate_growth(
    weight: Any, output: Float[Any, " p"], *, distribution: Distribution = "auto", basis: Any = None, seed: Seed = 0
) -> XorGrowth:
    """Return the growth of every neuron's parts under the surrogate loss.

    Formula: signal (sqrt(2)/4) |a| s P(|w.xi| <= sqrt(2) s); opposite -(sqrt(2)/4) |a| o P(|w.xi| <= sqrt(2) o); rest
        -(|a|/4) E[|w.xi|; sqrt(2) o < |w.xi| <= sqrt(2) s], with + and s, o exchanged where o > s. Gaussian:
        P = erf(s/r), truncated mean r sqrt(2/pi) (exp(-o^2/r^2) - exp(-s^2/r^2)).
    Source: Glasgow (2024), Lemma C.4, B1 to B3; the Gaussian form derived here.

    Args:
        distribution: how to find the distribution of w . xi: "exact" (d <= 20), "binomial", "gaussian", "sampled", or
            "auto".
        seed: the seed of drawn signs.
    """
    weights, outputs = network(weight, output)
    sizes = xor_sizes(weights, outputs, basis)
    rest, scale = rotated(weights, basis)[:, 2:], np.abs(outputs)
    near_signal = noise_sums(rest, ROOT2 * sizes.signal, distribution, seed)
    near_opposite = noise_sums(rest, ROOT2 * sizes.opposite, distribution, seed)
    return XorGrowth(
        ROOT2 / 4 * scale * sizes.signal * near_signal.within,
        -ROOT2 / 4 * scale * sizes.opposite * near_opposite.within,
        -scale / 4 * (near_opposite.beyond - near_signal.beyond),
    )


def xor_surrogate_coordinates(
    weight: Any,
    output: Float[Any, " p"],
    *,
    distribution: Distribution = "exact",
    basis: Any = None,
    form: Form = "corrected",
) -> Float64[np.ndarray, "p d-2"]:
    """Return the growth of every single weight outside the plane under the surrogate loss.

    The printed statement has the opposite sign, against B3, whose terms these sum to.

    Formula: -w_i grad_{w_i} L_0 = (|a| |w_i| / 4) (P(|X - sqrt(2) s| < |w_i|) - P(|X - sqrt(2) o| < |w_i|)),
        X = w . xi - w_i xi_i; printed: the negative.
    Source: Glasgow (2024), Lemma C.4, B4; the sign checked against enumeration.

    Args:
        distribution: "exact" (d <= 20, slow above 14) or "gaussian".
    """
    weights, outputs = network(weight, output)
    require(
        distribution in ("exact", "gaussian"),
        "distribution must be one of exact, gaussian (single weights)",
        distribution=distribution,
    )
    require_form(form)
    sizes = xor_sizes(weights, outputs, basis)
    rest = rotated(weights, basis)[:, 2:]
    chance = _gaussian_near if distribution == "gaussian" else _counted_near
    near = chance(rest, ROOT2 * sizes.signal) - chance(rest, ROOT2 * sizes.opposite)
    growth = np.abs(outputs)[:, None] * np.abs(rest) / 4 * near
    return np.asarray(growth if form == "corrected" else -growth)


def _counted_near(rest: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Return P(|X_i - centre| < |w_i|) for every i, X_i the sum of the others, by enumeration."""
    size = rest.shape[1]
    require(size <= 18, "d must be at most 20 for the exact distribution", d=size + 2)
    signs = half_signs(size)
    found = np.zeros(rest.shape)
    for rows in blocks(len(rest), len(signs)):
        sums = rest[rows] @ signs.T
        for i in range(size):
            others, limit = sums - rest[rows, i : i + 1] * signs[:, i], np.abs(rest[rows, i : i + 1])
            both = [within_half(np.abs(side * others - centre[rows, None]), limit) for side in (1, -1)]
            found[rows, i] = (both[0] + both[1]).mean(axis=1) / 2
    return found


def _gaussian_near(rest: np.ndarray, centre: np.ndarray) -> np.ndarray:
    from scipy.special import ndtr

    others = np.sqrt(np.maximum((rest**2).sum(axis=1, keepdims=True) - rest**2, 0))
    size, middle = np.abs(rest), centre[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        found = ndtr((middle + size) / others) - ndtr((middle - size) / others)
    return np.where(others > 0, found, within_half(np.broadcast_to(middle, size.shape), size))


def xor_surrogate_gradient(
    weight: Any, output: Any, *, distribution: Distribution = "exact", basis: Any = None
) -> XorGradients:
    """Return the population gradients of the surrogate loss.

    Formula: G_w = -growth_sig w_sig / s^2 - growth_opp w_opp / o^2 - sum_i growth_i e_i / w_i; G_a = w . G_w / a.
        First order in s/r and o/r: -G_w on the plane is (|a| / (||w|| sqrt(2 pi))) (w_sig - w_opp).
    Source: Glasgow (2024), Lemma C.4; Equation 4.3 for the first order.

    Args:
        output: a, not 0, shape (p,).
        distribution: "exact" (d <= 20) or "gaussian".
    """
    weights, outputs = network(weight, output)
    require(bool((outputs != 0).all()), "output weights must not be 0", zeros=int((outputs == 0).sum()))
    growth, parts = (
        xor_surrogate_growth(weights, outputs, distribution=distribution, basis=basis),
        xor_parts(weights, outputs, basis),
    )
    sizes = xor_sizes(weights, outputs, basis)
    inner = np.zeros(weights.shape)
    rest = rotated(weights, basis)[:, 2:]
    inner[:, 2:] = _over(xor_surrogate_coordinates(weights, outputs, distribution=distribution, basis=basis), rest)
    along = inner if basis is None else inner @ np.asarray(basis).T
    along = along + _over(growth.signal, sizes.signal**2)[:, None] * parts.signal
    along = along + _over(growth.opposite, sizes.opposite**2)[:, None] * parts.opposite
    return XorGradients(-along, -(weights * along).sum(axis=1) / outputs)


def _over(amount: np.ndarray, divisor: np.ndarray) -> np.ndarray:
    return np.asarray(np.divide(amount, divisor, out=np.zeros(amount.shape), where=divisor != 0))


def xor_surrogate_trajectory(
    sizes: Any, rate: float, steps: Annotated[int, AtMost(10_000)]
) -> Float64[np.ndarray, "steps+1 4 p"]:
    """Return how the parts of neurons evolve under the surrogate loss with Gaussian noise, step by step.

    It predicts a run until the network's output matters: while small, s grows as exp(tau_1 eta t) with tau_1 = 1 /
    sqrt(2 pi), and o shrinks at the same rate.

    Formula: with A = |a|: Delta s = (sqrt(2)/4) A erf(s/r), Delta o = -(sqrt(2)/4) A erf(o/r),
        Delta r = -(A/4) sqrt(2/pi) (exp(-o^2/r^2) - exp(-s^2/r^2)), Delta A = (s Delta s + o Delta o + r Delta r) / A,
        each times eta.
    Source: derived here, from Glasgow (2024), Lemma C.4.

    Args:
        sizes: the initial s, o, r and |a|, shape (4, p), r and |a| above 0.
        rate: the step size eta.
    """
    from scipy.special import erf

    state = np.asarray(sizes, float)
    require_positive("surrogate map", rate=rate)
    require(bool((state[2:] > 0).all()), "r and |a| must be positive (surrogate map)", smallest=float(state[2:].min()))
    path = [state]
    for _ in range(steps):
        s, o, r, scale = path[-1]
        ds, do = ROOT2 / 4 * scale * erf(s / r), -ROOT2 / 4 * scale * erf(o / r)
        dr = -scale / 4 * math.sqrt(2 / math.pi) * (np.exp(-((o / r) ** 2)) - np.exp(-((s / r) ** 2)))
        path.append(path[-1] + rate * np.stack([ds, do, dr, (s * ds + o * do + r * dr) / scale]))
    return np.stack(path)
