"""XOR, phase 2: the clean gradients of a signal-heavy network, and how its margins grow and balance.

The clean gradient takes the loss's slope at the projection of x on the plane, so it depends on x only through its
cluster. Its rate tau_2 = sqrt(2)/4 differs from the rate of phase 1; the source uses one letter for both.

Source of all functions: Glasgow (2024), section D.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    weight: w, shape (p, d).
    output: a, shape (p,).
    basis: an orthonormal Q where the inputs are Q times signs.
    seed: the seed of sampled signs.
    zeta: the zeta for which the network is signal-heavy.
    rate: the step size eta.
"""

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from jaxtyping import Float64

from elegans.calculators.domain import AtMost, Seed, require, require_positive
from elegans.studies.xor_two_phases.theory.network import (
    ROOT2,
    network,
    rotated,
    xor_heaviness,
    xor_margins,
    xor_sizes,
    xor_slope,
)
from elegans.studies.xor_two_phases.theory.noise import Distribution, noise_sums
from elegans.studies.xor_two_phases.theory.surrogate import XorGrowth

PHASE_TWO_RATE = ROOT2 / 4
"""tau_2: how fast the signal of a heavy neuron grows, per unit of step size times steps, slope and |a|."""


def xor_clean_growth(
    weight: Any, output: Any, *, distribution: Distribution = "auto", basis: Any = None, seed: Seed = 0
) -> XorGrowth:
    """Return the growth of every neuron's parts under the clean gradient, exactly.

    For heavy neurons X_s is close to 0: s grows by eta tau_2 g_mu |a| per step and |a| by eta tau_2 g_mu s, so
    their product grows by a factor 1 + 2 eta tau_2 g_mu.

    Formula: with w_sig along mu, w_opp along nu, X_s = P(|w.xi| >= sqrt(2) s), X_o likewise:
        signal |a| tau_2 s (g_mu (1 - X_s/2) - g_{-mu} X_s/2); opposite -|a| tau_2 o (g_nu (1 - X_o/2) - g_{-nu} X_o/2);
        rest -(|a|/4) (gbar_o E[|w.xi|; |w.xi| > sqrt(2) o] - gbar_s E[|w.xi|; |w.xi| > sqrt(2) s]), gbar the mean of g
        over a pair of opposite clusters. The sum is -w . grad_w = -a grad_a.
    Source: derived here; bounded in Glasgow (2024), Claim D.6 and Lemma D.7.

    Args:
        distribution: how the distribution of w . xi is computed: "exact" (d <= 20), "binomial", "gaussian", "sampled",
            or "auto".
    """
    weights, outputs = network(weight, output)
    sizes, slopes = xor_sizes(weights, outputs, basis), xor_slope(xor_margins(weights, outputs, basis))
    rest, scale = rotated(weights, basis)[:, 2:], np.abs(outputs)
    near_signal = noise_sums(rest, ROOT2 * sizes.signal, distribution, seed)
    near_opposite = noise_sums(rest, ROOT2 * sizes.opposite, distribution, seed)
    pairs = np.array([slopes[:2].mean(), slopes[2:].mean()])
    own = (outputs < 0).astype(int)

    def along(cluster: np.ndarray, within: np.ndarray) -> np.ndarray:
        miss = (1 - within) / 2
        return np.asarray(slopes[cluster] * (1 - miss) - slopes[cluster ^ 1] * miss)

    return XorGrowth(
        PHASE_TWO_RATE * scale * sizes.signal * along(sizes.cluster, near_signal.within),
        -PHASE_TWO_RATE * scale * sizes.opposite * along(sizes.facing, near_opposite.within),
        -scale / 4 * (pairs[1 - own] * near_opposite.beyond - pairs[own] * near_signal.beyond),
    )


class CleanBounds(NamedTuple):
    """Bounds on clean gradients, neuron by neuron, each of shape (p,).

    Args:
        weight: on ||grad_w^cl - grad_w||.
        output: on |grad_a^cl - grad_a|.
        size: on |grad_a^cl|, for any network.
    """

    weight: np.ndarray
    output: np.ndarray
    size: np.ndarray


def xor_clean_bounds(weight: Any, output: Any, zeta: float, basis: Any = None) -> CleanBounds:
    """Return bounds on the distance of a signal-heavy network's gradients from clean ones, and on clean gradients.

    Formula: ||grad_w^cl - grad_w|| <= 4 |a| zeta H_rho; |grad_a^cl - grad_a| <= 4 ||w|| zeta H_rho;
        |grad_a^cl| <= tau_2 g_max ||w||.
    Source: Glasgow (2024), Lemmas D.5 (for (zeta, H)-signal-heavy networks) and D.10.
    """
    weights, outputs = network(weight, output)
    require_positive("Lemma D.5", zeta=zeta)
    norms = np.linalg.norm(weights, axis=1)
    distance = 4 * zeta * xor_heaviness(weights, outputs)
    largest = float(xor_slope(xor_margins(weights, outputs, basis)).max())
    return CleanBounds(distance * np.abs(outputs), distance * norms, PHASE_TWO_RATE * largest * norms)


def xor_noise_decay(
    weight: Any, output: Any, scale: float, *, distribution: Distribution = "auto", basis: Any = None, seed: Seed = 0
) -> np.ndarray:
    """Return the relative rate at which the clean gradient shrinks the weighted noise of every neuron.

    On the heavy neurons of a (zeta, H)-signal-heavy network it is at least zeta^(3/4). (The exponent is hard to read in
    print; it is below 1, and 3/4 fits the inequalities around it.)

    Formula: (w_opp . grad_w^cl + exp(6 H) w_perp . grad_w^cl) / (|a| (||w_opp|| + exp(6 H) ||w_perp||)).
    Source: Glasgow (2024), Corollary D.8.

    Args:
        scale: H.
        distribution: how the distribution of w . xi is computed, as for ``xor_clean_growth``.

    Returns:
        float64 of shape (p,); NaN for neurons without noise or output weight.
    """
    weights, outputs = network(weight, output)
    growth = xor_clean_growth(weights, outputs, distribution=distribution, basis=basis, seed=seed)
    sizes, factor = xor_sizes(weights, outputs, basis), math.exp(6 * scale)
    burden = np.abs(outputs) * (sizes.opposite + factor * sizes.rest)
    shrunk = -(growth.opposite + factor * growth.rest)
    return np.asarray(np.divide(shrunk, burden, out=np.full(len(burden), np.nan), where=burden > 0))


class InductiveStep(NamedTuple):
    """What one step of phase 2 does to a (zeta, H)-signal-heavy network.

    Args:
        zeta: the zeta for which the next network is signal-heavy.
        least: the smallest growth factor of the smallest heavy margin, up to 1 - o(1) in the rate.
        most: the largest growth factor of the largest heavy margin, up to 1 + o(1).
        norm: the largest growth factor of any ||w||^2.
        change: the largest change of any heavy margin.
        gap: the largest difference of a heavy margin from the network's.
        largest_rate: the largest step size, zeta^3.
    """

    zeta: float
    least: float
    most: float
    norm: float
    change: float
    gap: float
    largest_rate: float


def xor_inductive_step(zeta: float, scale: float, rate: float, margins: Any, vanishing: float = 0) -> InductiveStep:
    """Return what one step of phase 2 guarantees: the weakest cluster grows fastest, so margins balance.

    Formula: zeta (1 + 10 eta zeta H); gt_min >= (1 + 2 eta tau_2 (1 - o(1)) g_max) gt_min; gt_max <= (1 + 2 eta tau_2
        (1 + o(1)) g_min) gt_max; ||w||^2 by 1 + 2 eta (1 + 2 zeta H) tau_2 g_max; |gt(t+1) - gt(t)| <= sqrt(eta);
        |gamma - gt| <= 2 zeta H.
    Source: Glasgow (2024), Lemmas D.3, D.11 and D.14.

    Args:
        scale: H, at least 1.
        margins: the four margins gamma.
        vanishing: the value taken for o(1).

    Returns:
        The guarantees; they need rate <= largest_rate.
    """
    require_positive("Lemma D.3", zeta=zeta, rate=rate)
    require(scale >= 1, "H must be at least 1 (Lemma D.3)", H=scale)
    slopes = xor_slope(margins)
    high, low = float(slopes.max()), float(slopes.min())
    return InductiveStep(
        zeta=zeta * (1 + 10 * rate * zeta * scale),
        least=1 + 2 * rate * PHASE_TWO_RATE * (1 - vanishing) * high,
        most=1 + 2 * rate * PHASE_TWO_RATE * (1 + vanishing) * low,
        norm=1 + 2 * rate * (1 + 2 * zeta * scale) * PHASE_TWO_RATE * high,
        change=math.sqrt(rate),
        gap=2 * zeta * scale,
        largest_rate=zeta**3,
    )


def xor_final_loss(heavy_margin: float) -> float:
    """Return the bound on the population loss after phase 2.

    Formula: E l <= 4 exp(-gt_min), from E l <= 2 exp(-gamma_min) E exp(|f(x) - f(z)|).
    Source: Glasgow (2024), proof of Theorem 3.1, for d large.

    Args:
        heavy_margin: the smallest heavy margin.
    """
    return 4 * math.exp(-heavy_margin)


def xor_clean_map(
    margins: Any, rate: float, steps: Annotated[int, AtMost(100_000)]
) -> Float64[np.ndarray, "steps+1 clusters"]:
    """Return how the margins of four clusters of aligned, balanced neurons grow, step by step.

    Formula: each of |a| and s grows by eta tau_2 g_mu times the other, so gamma <- gamma (1 + eta tau_2 g_mu)^2.
    Source: derived here, from Glasgow (2024), Claim D.6.

    Args:
        margins: the initial gamma, above 0, shape (clusters,).
    """
    path = [np.asarray(margins, float)]
    require_positive("clean margins", rate=rate, margin=float(path[0].min()))
    for _ in range(steps):
        path.append(path[-1] * (1 + rate * PHASE_TWO_RATE * xor_slope(path[-1])) ** 2)
    return np.stack(path)


def xor_clean_margin(start: float, time: float) -> float:
    """Return the margin of aligned, balanced neurons after a time, by the implicit solution of their equation.

    Late growth is logarithmic in time, and the ratio between clusters tends to 1.

    Formula: gamma'(t) = sqrt(2) gamma / (1 + e^gamma), solved by log(gamma) + Ei(gamma) = sqrt(2) t + const.
    Source: derived here, from Glasgow (2024), Claim D.6.

    Args:
        start: gamma at time 0, above 0.
        time: eta times the number of steps, at least 0.
    """
    from scipy.optimize import brentq

    require_positive("clean margins", start=start)
    require(time >= 0, "time must be at least 0", time=time)
    level = xor_clean_clock(start) + ROOT2 * time
    # gamma grows at most as exp(sqrt(2) t / 2), and beyond 1 at most as log(e^gamma + sqrt(2) gamma t)
    high = start + 1
    while xor_clean_clock(high) < level:
        high *= 2
    return float(brentq(lambda margin: xor_clean_clock(margin) - level, start, high, xtol=1e-13, rtol=1e-13))


def xor_clean_clock(margin: float) -> float:
    """Return the function of a margin that grows at the constant rate sqrt(2) under the clean equation.

    Formula: log(gamma) + Ei(gamma).
    Source: derived here, from Glasgow (2024), Claim D.6.

    Args:
        margin: gamma, above 0.
    """
    from scipy.special import expi

    require_positive("clean margins", margin=margin)
    return math.log(margin) + float(expi(margin))
