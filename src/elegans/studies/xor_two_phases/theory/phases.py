"""XOR: the sizes of the main theorem, the control quantities of both phases, and a lower bound for such algorithms.

Logarithms are natural. The quantities are vacuous at feasible sizes: with zeta = 1 / log(d), T_1a > 0 needs
log(d) > 5 log(log(d)), d above 3e5. Runs have measured marks: see ``xor_marks``.

Source of all functions: Glasgow (2024).

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    d: the number of inputs, at least 3.
    rate: the step size eta.
    theta: the scale of the initialisation.
    zeta: log^-c(d), between 0 and 1.
    step: t.
"""

import math
from typing import NamedTuple

from elegans.calculators.domain import Listed, require, require_positive
from elegans.studies.xor_two_phases.theory.surrogate import PHASE_ONE_RATE

LARGE_EXPONENT = 600
"""The exponent e of zeta at which phase 1b ends (hard to read in print)."""

_LIMIT = 0.25 * 0.15


class XorTheorem(NamedTuple):
    """What the main theorem requires and guarantees.

    Args:
        batch: the smallest minibatch.
        width: the smallest number p of neurons.
        rate: the largest step size.
        steps: the largest number of steps at this step size.
        samples: batch times steps.
    """

    theta: float
    batch: float
    width: float
    rate: float
    steps: float
    samples: float


def xor_theorem_parameters(d: int, constant: float = 1) -> XorTheorem:
    """Return sizes for which minibatch SGD learns the XOR of two of d signs.

    Formula: theta = 1 / log^C(d); m >= d / theta; 1/theta <= p <= d^C; d^-C <= eta <= theta; t <= C log(d) / eta;
        samples m t = C d log(d) / theta^2 = C d log^(2C+1)(d).
    Source: Glasgow (2024), Theorem 3.1. (Lemma C.1 prints m >= d / theta^2.)

    Args:
        constant: C.
    """
    _require_size(d, "Theorem 3.1")
    require_positive("Theorem 3.1", constant=constant)
    log = math.log(d)
    theta = log**-constant
    steps = constant * log / theta
    return XorTheorem(theta, d / theta, 1 / theta, theta, steps, d / theta * steps)


class XorLengths(NamedTuple):
    """How many steps the parts of phase 1 take.

    Args:
        signal: T_1a, the last step with B_t <= theta zeta; 0 or less where the theorem is vacuous.
        growth: T_1b, which ends phase 1.
    """

    signal: int
    growth: int


def xor_phase_one_lengths(d: int, zeta: float, rate: float, exponent: float = LARGE_EXPONENT) -> XorLengths:
    """Return how many steps phases 1a and 1b take.

    Formula: T_1a = floor((log d + 2 log zeta - 3 log log d) / log(1 + 2 eta tau_1 (1 + 1/log d)));
        T_1b = T_1a + floor(log(theta^2 zeta^-e / B_{T_1a}^2) / log(1 + 4 eta)), B^2 being theta^2 zeta^2 by then
        to within one step.
    Source: Glasgow (2024), Definition C.8.

    Args:
        exponent: e.
    """
    _require_phase(d, zeta, rate)
    log = math.log(d)
    first = math.floor((log + 2 * math.log(zeta) - 3 * math.log(log)) / math.log(_fast(d, rate)))
    reached = 3 * math.log(log) - log + first * math.log(_fast(d, rate))
    missing = -exponent * math.log(zeta) - reached
    return XorLengths(first, first + math.floor(missing / math.log(1 + 4 * rate)))


class XorControl(NamedTuple):
    """Bounds on a neuron during phase 1.

    Args:
        signal: B_t^2, on ||w_sig||^2 (and theta^2 zeta^2 in phase 1a).
        noise: Q_t^2; ||w_opp||^2 and ||w_perp||_inf^2 are at most Q_t^2 + theta B_t^2.
    """

    signal: float
    noise: float


def xor_control(d: int, theta: float, zeta: float, rate: float, step: int) -> XorControl:
    """Return the quantities that control a neuron at a step of phase 1.

    Formula: B_t^2 = (log^3(d) theta^2 / d) (1 + 2 eta tau_1 (1 + 1/log d))^t up to T_1a, then times (1 + 4 eta) a
        step; Q_t^2 = (log^2(d) theta^2 / d) (1 + 50 eta / log d)^t.
    Source: Glasgow (2024), Definition C.7; the powers and the 50 of Q are hard to read in print.
    """
    _require_phase(d, zeta, rate)
    require_positive("Definition C.7", theta=theta)
    require(step >= 0, "step must be at least 0 (Definition C.7)", step=step)
    log, first = math.log(d), max(0, xor_phase_one_lengths(d, zeta, rate).signal)
    early, late = min(step, first), max(0, step - first)
    signal = log**3 * theta**2 / d * _fast(d, rate) ** early * (1 + 4 * rate) ** late
    return XorControl(signal, log**2 * theta**2 / d * (1 + 50 * rate / log) ** step)


def xor_strong_signal(
    d: int, theta: float, zeta: float, rate: float, step: Listed, *, spread: float, start: float = 1, excess: float = 1
) -> float:
    """Return the smallest squared signal S_t^2 of a strong neuron at a step of phase 1.

    Formula: S_t^2 = (theta^2 / d) prod_{u<t} (1 + 2 eta tau_1 (1 - eps_u)); eps_u = 1 - 1/C_S for eta tau_1 u <= start,
        then 5 zeta^(1/10) + excess (1 + 2 eta tau_1 / C_S)^(-u/2) up to T_1a, then 19/20.
    Source: Glasgow (2024), Definition C.13, where start is C_S log(800 C_BE …) and excess a constant.

    Args:
        spread: C_S, at least 1.
        start: how long the first part is, in units of 1 / (eta tau_1).
        excess: the constant of the second part.
    """
    _require_phase(d, zeta, rate)
    require_positive("Definition C.13", theta=theta, start=start, excess=excess)
    require(spread >= 1, "spread must be at least 1 (Definition C.13)", spread=spread)
    first, speed = xor_phase_one_lengths(d, zeta, rate).signal, 2 * rate * PHASE_ONE_RATE
    signal = theta**2 / d
    for u in range(step):
        if u >= first:
            slack = 19 / 20
        elif rate * PHASE_ONE_RATE * u <= start:
            slack = 1 - 1 / spread
        else:
            slack = 5 * zeta**0.1 + excess * (1 + speed / spread) ** (-u / 2)
        signal *= 1 + speed * (1 - slack)
    return signal


class XorPhaseTwo(NamedTuple):
    """The starting point and the length of phase 2.

    Args:
        zeta: zeta_{T_1}, the value for which the network is signal-heavy after phase 1.
        scale: H.
        steps: T_2.
        largest_zeta: the largest zeta for which the inductive step holds at its last step.
    """

    zeta: float
    scale: float
    steps: float
    largest_zeta: float


def xor_phase_two(d: int, constant: float, rate: float) -> XorPhaseTwo:
    """Return the parameters of phase 2.

    Formula: zeta_{T_1} = log^(-c/3)(d); H = -log(zeta_{T_1}) / 20; T_2 = zeta_{T_1}^(-1/160) / eta;
        zeta <= zeta_{T_1} (1 + 10 eta zeta_{T_1} H)^(t - T_1).
    Source: Glasgow (2024), Definition D.2, Lemma D.3 and the proof of Theorem 3.1.

    Args:
        constant: c of Lemma C.1.

    Returns:
        The parameters; they need H >= 1.
    """
    _require_size(d, "Definition D.2")
    require_positive("Definition D.2", constant=constant, rate=rate)
    zeta = math.log(d) ** (-constant / 3)
    scale = -math.log(zeta) / 20
    steps = zeta ** (-1 / 160) / rate
    return XorPhaseTwo(zeta, scale, steps, zeta * (1 + 10 * rate * zeta * scale) ** steps)


def small_ball_bound(size: int) -> float:
    """Return a lower bound on the probability that a random signed sum stays within a universal constant.

    Formula: P(|xi . u| <= C) >= 1 / sqrt(l) for ||u||_inf <= 1, u of l entries.
    Source: Glasgow (2024), Lemma B.6.

    Args:
        size: l, at least 1.
    """
    require_positive("Lemma B.6", size=size)
    return 1 / math.sqrt(size)


class XorLowerBound(NamedTuple):
    """The limits of rotation-invariant algorithms.

    Args:
        cells: log2 of the largest number of classes that the sample can distinguish.
        applies: whether the cells are large enough for the bound.
        limit: the limit of the bound on the error as d grows, where it applies; 0 elsewhere. There is no bound for
            finite d: the rate of the proof's o(1) is not stated.
    """

    cells: float
    applies: bool
    limit: float


def xor_lower_bound(d: int, sample: int, constant: float = 1) -> XorLowerBound:
    """Return the proven bound on the error of a rotation-invariant algorithm with few examples, for d large enough.

    Inputs with the same inner products with the sample get the same answer, and the hidden pair of inputs is random.

    Formula: n log2(d + 1) < c d makes the error at least 0.25 x 0.15 (1 - o(1)), stated as 0.03; so do n <=
        d / log^2(d) examples for d large.
    Source: Glasgow (2024), Proposition F.1.

    Args:
        constant: c.
    """
    _require_size(d, "Proposition F.1")
    require_positive("Proposition F.1", constant=constant)
    require(sample >= 0, "sample must be at least 0 (Proposition F.1)", sample=sample)
    cells = sample * math.log2(d + 1)
    applies = cells < constant * d
    return XorLowerBound(cells, applies, _LIMIT if applies else 0.0)


class SampleRates(NamedTuple):
    """Known and conjectured sample sizes, up to constants and logarithms.

    Args:
        kernel: for kernel methods, including the NTK.
        sgd: conjectured for SGD.
        invariant: the smallest for rotation-invariant algorithms.
    """

    kernel: float
    sgd: float
    invariant: float


def xor_sample_rates(d: int, degree: int = 2, leap: int = 2) -> SampleRates:
    """Return the sample sizes known or conjectured for multi-index targets; the defaults describe the XOR.

    Formula: kernels d^D, SGD d^(max(L - 1, 1)), rotation-invariant algorithms d / log^2(d).
    Source: Glasgow (2024), section 1.1 and Proposition F.1; Abbe, Boix-Adserà and Misiakiewicz (2023) for the leap.

    Args:
        degree: the target's degree D.
        leap: its leap complexity L.
    """
    _require_size(d, "sample rates")
    require_positive("sample rates", degree=degree, leap=leap)
    return SampleRates(float(d) ** degree, float(d) ** max(leap - 1, 1), d / math.log(d) ** 2)


def _fast(d: int, rate: float) -> float:
    return 1 + 2 * rate * PHASE_ONE_RATE * (1 + 1 / math.log(d))


def _require_size(d: int, source: str) -> None:
    require(d >= 3, f"d must be at least 3 ({source})", d=d)


def _require_phase(d: int, zeta: float, rate: float) -> None:
    _require_size(d, "Definition C.8")
    require(0 < zeta < 1, "zeta must lie between 0 and 1 (Definition C.8)", zeta=zeta)
    require_positive("Definition C.8", rate=rate)
