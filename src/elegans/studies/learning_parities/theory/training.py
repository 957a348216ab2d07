"""Biased parities: what gradient descent on a two-layer network achieves (Theorems 3 and 13, Lemmas 14 to 16).

The network is g(x) = sum_{i <= 2q} u_i relu6(w_i . x + b_i). Its first step has size 1 and weight decay 1/2, which
erases the old weights; later ones have size eta and weight decay lambda on w and u. The constants of the theorem are
unspecified: they are arguments here, 1 by default. With constants of 1 every size is far beyond reach (k^16 = 3.3e13
for k = 7): these are calculators, not settings.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    k: the size of A.
    n: the number of inputs.
    q: half the number of neurons.
    steps: the number T of steps.
    form: "corrected" or "printed".
    step: the step t.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from elegans.calculators.domain import Form, require, require_form, require_positive, require_probability
from elegans.studies.learning_parities.theory.window import CAP


def biased_loss_bound(
    k: int, q: float, n: float, steps: float, constants: tuple[float, float, float, float] = (1, 1, 1, 1)
) -> float:
    """Return Theorem 3's bound on the best iterate's loss on D_A, and so on its error.

    Formula: c1 k^10 / q + c2 k^8 / sqrt(q) + c3 q k / sqrt(n) + c4 k^2 sqrt(q) / T.
    Source: Daniely and Malach (2020), Theorem 3.

    Args:
        constants: c1 to c4.
    """
    require_positive("Theorem 3", k=k, q=q, n=n, steps=steps)
    terms = (k**10 / q, k**8 / math.sqrt(q), q * k / math.sqrt(n), k**2 * math.sqrt(q) / steps)
    return sum(constant * term for constant, term in zip(constants, terms, strict=True))


def biased_explicit_bound(
    k: int,
    q: float,
    n: float,
    steps: float,
    *,
    readout: float = 1,
    drift: float = 1,
    form: Form = "corrected",
) -> float:
    """Return Theorem 3's bound in the final form of its proof.

    The proof bounds the gradient of the 2q output weights by 6 sqrt(2q); carried through, this gives the last two
    coefficients as 12 and 72, printed as 6 sqrt(2) and 36.

    Formula: B^2 k^10 / (2q) + 6 B' k^8 / q + B' k^6 / sqrt(q) + B^2 k^8 / (2 sqrt(q)) + 12 q k / sqrt(n)
        + 72 k^2 sqrt(q) / T; printed: 6 sqrt(2) and 36 in the last two.
    Source: Daniely and Malach (2020), proof of Theorem 3.

    Args:
        readout: the universal constant B of Lemma 12.
        drift: the universal constant B' of the drift of the features.
    """
    require_positive("Theorem 3", k=k, q=q, n=n, steps=steps)
    require_form(form)
    start, noise = (12.0, 72.0) if form == "corrected" else (6 * math.sqrt(2), 36.0)
    fixed = readout**2 * (k**10 / (2 * q) + k**8 / (2 * math.sqrt(q)))
    moved = drift * (6 * k**8 / q + k**6 / math.sqrt(q))
    return fixed + moved + start * q * k / math.sqrt(n) + noise * k**2 * math.sqrt(q) / steps


class BiasedSizes(NamedTuple):
    """The sizes that Corollary 4 requires.

    Args:
        n: the smallest number of inputs.
    """

    q: float
    steps: float
    n: float


def biased_sizes(
    k: int,
    epsilon: float,
    delta: float,
    *,
    constants: tuple[float, float, float] = (1, 1, 1),
    form: Form = "corrected",
) -> BiasedSizes:
    """Return sizes for which Theorem 3's bound is of order epsilon.

    As printed, q grows as 1/epsilon, and the term k^8 / sqrt(q) is of order sqrt(epsilon).

    Formula: with Lg = ln(k / delta): q = k^16 Lg / eps^2, T = k^10 sqrt(Lg) / eps^2, n = k^34 Lg^2 / eps^6;
        printed: q = k^16 Lg / eps, T = k^10 Lg / eps^2, n = k^34 Lg / eps^4.
    Source: Daniely and Malach (2020), Corollary 4; the corrected exponents derived here.

    Args:
        epsilon: the target loss, between 0 and 1/2.
        delta: the probability of failure, between 0 and 1/2.
        constants: the factors of q, T and n.
    """
    require_positive("Corollary 4", k=k)
    for name, value in {"epsilon": epsilon, "delta": delta}.items():
        require(0 < value < 0.5, f"{name} must lie between 0 and 1/2 (Corollary 4)", **{name: value})
    require_form(form)
    log = math.log(k / delta)
    if form == "printed":
        sizes = (k**16 * log / epsilon, k**10 * log / epsilon**2, k**34 * log / epsilon**4)
    else:
        sizes = (k**16 * log / epsilon**2, k**10 * math.sqrt(log) / epsilon**2, k**34 * log**2 / epsilon**6)
    return BiasedSizes(*(constant * size for constant, size in zip(constants, sizes, strict=True)))


def online_descent_bound(
    comparator_loss: Any, comparator_norm: float, gradient_norm: Any, rate: float, start_norm: float
) -> float:
    """Return the bound on the mean loss of online gradient descent against any fixed comparator.

    Formula: mean f_t(theta_t) <= mean f_t(theta*) + ||theta*||^2 / (2 eta T) + ||theta_1|| mean ||grad_t||
        + eta mean ||grad_t||^2.
    Source: Daniely and Malach (2020), Theorem 13; Shalev-Shwartz, "Online Learning and Online Convex Optimization"
        (2012).

    Args:
        comparator_loss: f_t(theta*), shape (T,).
        comparator_norm: ||theta*||.
        gradient_norm: ||grad f_t(theta_t)||, shape (T,).
        rate: the step size eta.
        start_norm: ||theta_1||.
    """
    require_positive("Theorem 13", rate=rate)
    losses, norms = np.asarray(comparator_loss, float), np.asarray(gradient_norm, float)
    distance = comparator_norm**2 / (2 * rate * len(losses))
    return float(losses.mean() + distance + start_norm * norms.mean() + rate * (norms**2).mean())


def biased_output_bound(n: int, k: int) -> float:
    """Return a bound on every output weight after the first step.

    Formula: |u_i^(1)| <= k / sqrt(n).
    Source: Daniely and Malach (2020), Lemma 14.
    """
    require_positive("Lemma 14", n=n, k=k)
    return k / math.sqrt(n)


class BiasedDrift(NamedTuple):
    """Bounds on how far one neuron is from its state after the first step.

    Args:
        output: on |u^(t)|.
        weight: on ||w^(t) - w^(1)||.
        bias: on |b^(t) - b^(1)|.
    """

    output: float
    weight: float
    bias: float


def biased_drift(n: int, k: int, rate: float, step: int, decay: float = 0, form: Form = "corrected") -> BiasedDrift:
    """Return Lemma 15's bounds on how far a neuron moves after the first step.

    The printed bound on the weights lacks a plus sign and has an extra factor t: with weight decay 0 it omits the term
    in k / sqrt(n), and a run with small steps exceeds it. The corrected one, which Lemma 16 uses, holds for n >= (1 +
    sqrt(k))^2, where ||w^(1)|| <= n / (2k) (derived here).

    Formula: |u| <= 6 eta t + k / sqrt(n); ||w - w^(1)|| <= 6 eta^2 t^2 + eta t k / sqrt(n) + eta t lambda n / k;
        |b - b^(1)| the same without lambda; printed for w: 6 eta^2 t^2 + (eta t k / sqrt(n)) (2 eta t^2 lambda n / k).
    Source: Daniely and Malach (2020), Lemma 15.

    Args:
        rate: the step size eta of steps 2, 3, …, at most 1/2.
        decay: the weight decay lambda of those steps, at most 1/2.
    """
    for name, value in {"rate": rate, "decay": decay}.items():
        require(0 <= value <= 0.5, f"{name} must lie in 0..1/2 (Lemma 15)", **{name: value})
    require(n >= (1 + math.sqrt(k)) ** 2, "n must be at least (1 + sqrt(k))^2 (Lemma 15)", n=n, k=k)
    require_form(form)
    start = biased_output_bound(n, k)
    quadratic, linear = CAP * (rate * step) ** 2, rate * step * start
    weight = quadratic + linear + rate * step * decay * n / k
    if form == "printed":
        weight = quadratic + linear * 2 * rate * step**2 * decay * n / k
    return BiasedDrift(CAP * rate * step + start, weight, quadratic + linear)


def biased_loss_drift(
    n: int, k: int, rate: float, step: int, *, readout_norm: float, readout_size: int, decay: float = 0
) -> float:
    """Return a bound on how much the drift of the hidden layer changes the loss of a fixed readout, at any input.

    Formula: |l(g_{u*}^(t)) - l(g_{u*}^(1))| <= 2 ||u*||_2 sqrt(||u*||_0) (6 eta^2 t^2 + eta t k / sqrt(n)
        + eta t lambda n / k).
    Source: Daniely and Malach (2020), Lemma 16.

    Args:
        rate: the step size eta of steps 2, 3, ….
        readout_norm: ||u*||_2.
        readout_size: ||u*||_0, the number of nonzero weights.
        decay: the weight decay lambda of those steps.
    """
    moved = biased_drift(n, k, rate, step, decay).weight
    return 2 * readout_norm * math.sqrt(readout_size) * moved


class BiasedReadoutBounds(NamedTuple):
    """What Lemma 12 guarantees for a separating readout.

    Args:
        width: the smallest q.
        norm: on ||u*||_2.
        size: ||u*||_0.
    """

    width: float
    norm: float
    size: float


def biased_readout_bounds(
    k: int, q: float, delta: float, constants: tuple[float, float, float] = (1, 1, 1)
) -> BiasedReadoutBounds:
    """Return Lemma 12's requirement on the width and its guarantees for the separating readout.

    Formula: q >= C k^7 ln((k + 1) / delta); ||u*||_2 <= B k^5 / sqrt(q); ||u*||_0 = B~ q / k^(5/2).
    Source: Daniely and Malach (2020), Lemma 12.

    Args:
        delta: the probability of failure.
        constants: C, B and B~.
    """
    require_positive("Lemma 12", k=k, q=q)
    require_probability("delta", delta, "Lemma 12")
    width, norm, size = constants
    return BiasedReadoutBounds(width * k**7 * math.log((k + 1) / delta), norm * k**5 / math.sqrt(q), size * q / k**2.5)
