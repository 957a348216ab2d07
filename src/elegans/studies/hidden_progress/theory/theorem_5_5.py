"""Theorem 5.5: two-layer ReLU networks learn sparse parities by one large step and a trained readout, as numbers.

They are far beyond simulation, since n must exceed about 32 k^4 and the batch n^k; the algorithm itself succeeds at
sizes far below them. They show the scaling, and what each part of the proof contributes.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from elegans.boolean.fourier import majority_size
from elegans.boolean.gaps import require_majority_gap
from elegans.boolean.learning import convex_sgd_rate
from elegans.calculators.domain import Extended, Form, Listed, binomial, require, require_form, require_positive
from elegans.studies.hidden_progress.theory.sign_network import (
    feature_batch,
    feature_loss,
    feature_precision,
    feature_smallest_n,
    feature_width,
)


def convex_sgd_excess(norm: float, gradient: float, steps: int) -> float:
    """Return by how much the mean value over all steps may exceed the comparator's, in expectation.

    Formula: M rho / sqrt(T).
    Source: thesis, Theorem B.6.

    Args:
        norm: the bound M on the comparator's norm.
        gradient: the bound rho on stochastic gradients' norms.
        steps: the number T of steps.
    """
    require_positive("Theorem B.6", norm=norm, gradient=gradient, steps=steps)
    return norm * gradient / math.sqrt(steps)


@dataclass(frozen=True)
class Theorem55:
    """The parameters that the proof of Theorem 5.5 puts together, for one choice of n, k and epsilon.

    Args:
        width: the number r of neurons, mirrored copies counted.
        batch: the batch size B of the first step.
        steps: the number T of steps, the first included.
        smallest_n: the input size from which on the theorem holds.
        satisfied: whether n is at least that.
        tau: the precision that the first gradients need; 0 where n is too small for any.
        feature_rate: the learning rate of the first step, which trains only the hidden layer, with weight decay 1 on
            its weights.
        readout_rate: the learning rate of all later steps, which train only the output weights, without weight decay.
        readout_excess: what training the readout adds to the loss.
        loss: the expected smallest loss over the steps, summed over the parts.
    """

    width: int
    batch: Extended
    steps: int
    smallest_n: int
    satisfied: bool
    tau: float
    feature_rate: float
    readout_rate: float
    readout_excess: float
    loss: float


def theorem55_parameters(n: int, k: int, epsilon: float, form: Form = "corrected") -> Theorem55:
    """Return the parameters under which the proof of Theorem 5.5 bounds the expected loss by epsilon.

    The printed steps fall short by a factor of 8: the readout's excess is then epsilon / sqrt(2), not epsilon / 4, and
    the parts add up to more than epsilon. The printed batch lacks a square of xi_{k-1} and rests on a bound whose power
    is misprinted. "For all weights" in the first step must exclude the output weights, which are 0 after it (a learning
    rate of 0 and a weight decay of 1).

    Formula: epsilon' = epsilon / (64 k^2 n), delta' = epsilon / 8, r = ``feature_width``, tau = ``feature_precision``,
        B = ceil((2 / tau^2) ln(4 n r / delta')), T - 1 = ceil(2^12 k^3 r n^2 / epsilon^2),
        eta_0 = 1 / (k |xi_{k-1}|), eta = 4 k^1.5 / (n sqrt(r (T - 1))); printed: r = k 2^k ln(8k / epsilon),
        T = 2^9 k^3 r n^2 / epsilon^2, B = 2^8 k^(7/6) n C(n, k - 1) ln(128 k^3 n / epsilon) ln(32 n r / epsilon),
        n >= 2^11 k^4 ln(128 k^3 n / epsilon), with the constants c_1 and c_2, which are not given, set to 1.
    Source: thesis, Theorem 5.5 (full statement) and its proof.

    Args:
        n: the number of inputs, odd and above k.
        k: the size of the support, even.
        epsilon: the target loss, between 0 and 1/2.
        form: "corrected" for what the proof needs, "printed" for the thesis' parameters.

    Returns:
        The parameters; an infinite batch where n is too small for any.
    """
    require_majority_gap(n, k, "Theorem 5.5")
    require(0 < epsilon < 0.5, "epsilon must lie between 0 and 1/2 (Theorem 5.5)", epsilon=epsilon)
    require_form(form)
    share, delta = epsilon / (64 * k**2 * n), epsilon / 8
    width = feature_width(k, delta, form)
    # epsilon' depends on n: whether n is large enough is asked at this n
    smallest = feature_smallest_n(k, share, form)
    tau = feature_precision(n, k, share, form) if form == "printed" or n >= smallest else 0.0
    later = math.ceil((2**12 if form == "corrected" else 2**9) * k**3 * width * n**2 / epsilon**2)
    steps = later + 1 if form == "corrected" else later
    norm, gradient = 8 * k**1.5, 2 * math.sqrt(width) * n
    excess = convex_sgd_excess(norm, gradient, steps - 1)
    return Theorem55(
        width=width,
        batch=_batch(n, k, epsilon, width, tau, form),
        steps=steps,
        smallest_n=smallest,
        satisfied=n >= smallest,
        tau=tau,
        feature_rate=1 / (k * majority_size(n, k - 1)),
        readout_rate=convex_sgd_rate(norm, gradient, steps - 1),
        readout_excess=excess,
        loss=feature_loss(n, k, share) + excess + 2 * delta,
    )


def _batch(n: int, k: int, epsilon: float, width: int, tau: float, form: Form) -> float:
    if form == "printed":
        logs = math.log(128 * k**3 * n / epsilon) * math.log(32 * n * width / epsilon)
        return math.ceil(2**8 * float(k ** (7 / 6)) * n * binomial(n, k - 1) * logs)
    return feature_batch(n, width, tau, epsilon / 8) if tau else math.inf


class Theorem55Orders(NamedTuple):
    """The orders in the main text's statement of Theorem 5.5, all constants 1.

    Args:
        smallest_n: the number of inputs from which on the theorem holds.
        width: the number r of neurons.
        batch: the batch size B of the first step.
        steps: the number T of steps.
    """

    smallest_n: float
    width: float
    batch: float
    steps: float


def theorem55_orders(n: Listed, k: int, epsilon: float, form: Form = "corrected") -> Theorem55Orders:
    """Return the orders of magnitude that the main text's statement gives: how the theorem scales.

    The main text has r^2 n in the number of steps where the appendix, and the proof, have r n^2.

    Formula: n = k^4 ln(n k / epsilon), r = 2^k k ln(k / epsilon), B = n^k ln(n / epsilon), T = k^3 r n^2 / epsilon^2;
        printed: T = k^3 r^2 n / epsilon^2.
    Source: thesis, Theorem 5.5 (main text).

    Args:
        n: the number of inputs.
        k: the size of the support.
        epsilon: the target loss, between 0 and 1.
        form: "corrected" for the proof's number of steps, "printed" for the main text's.
    """
    require(1 <= k <= n, "k must lie in 1..n (Theorem 5.5)", k=k, n=n)
    require(0 < epsilon < 1, "epsilon must lie between 0 and 1 (Theorem 5.5)", epsilon=epsilon)
    require_form(form)
    width = 2**k * k * math.log(k / epsilon)
    return Theorem55Orders(
        smallest_n=k**4 * math.log(n * k / epsilon),
        width=width,
        batch=float(n) ** k * math.log(n / epsilon),
        steps=k**3 * (width * n**2 if form == "corrected" else width**2 * n) / epsilon**2,
    )
