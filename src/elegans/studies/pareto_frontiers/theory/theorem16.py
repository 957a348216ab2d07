"""The lemmas that assemble Theorem 16, as numbers.

They are astronomically large, because B_k^2 enters the sample, the sparsity and the steps: they show the scaling, and
the algorithm itself succeeds at sizes far below them.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    n: the number of inputs.
    k: the size of the support.
    epsilon: the target loss, between 0 and 1/2.
    rate: the learning rate eta of the first layer's step.
    r_prime: about how many good neurons each bias has.
    delta: the probability of failure, between 0 and 1.
    norm: the readout's norm B_k.
    sample: the sample size m.
    feature_norm: the largest norm of the features.
"""

import math
from dataclasses import dataclass

from elegans.boolean.fourier import majority_size
from elegans.calculators.domain import (
    Form,
    Number,
    least_count,
    require,
    require_form,
    require_over_sparse,
    require_positive,
    require_probability,
)
from elegans.studies.pareto_frontiers.theory.luck import good_per_bias, lemma15_width
from elegans.studies.pareto_frontiers.theory.over_sparse import (
    OFFSET,
    PAPER_OFFSET,
    over_sparse_biases,
    over_sparse_readout,
    readout_norm,
)


def lemma10_sample(n: int, width: int, tau: float, delta: float) -> int:
    """Return the sample size at which all first-layer gradients are within tau of their means.

    Formula: m >= 4 ln(4 n r / delta) / tau^2.
    Source: Pareto frontiers, Lemma 10.

    Args:
        width: the number r of neurons.
        tau: the precision.
    """
    require_positive("Lemma 10", n=n, width=width, tau=tau)
    require_probability("delta", delta, "Lemma 10")
    return math.ceil(4 * math.log(4 * n * width / delta) / tau**2)


def lemma11_precision(n: int, k: int, rate: Number) -> float:
    """Return the largest gradient error at which bad neurons stay dead.

    Formula: tau <= 1 / (16 k n eta); stated for offset 1/16, it holds for offsets up to 7/8.
    Source: Pareto frontiers, Lemma 11.
    """
    require_positive("Lemma 11", n=n, k=k, rate=rate)
    return 1 / (16 * k * n * float(rate))


def lemma11_feature_norm(k: int, r_prime: float) -> float:
    """Return a bound on the norm of the hidden features after the step, over all inputs.

    Formula: ||psi||_{inf,2} <= sqrt(8 k r').
    Source: Pareto frontiers, Lemma 11, part 1.

    Args:
        r_prime: about how many good neurons each bias has: see ``good_per_bias``.
    """
    require_positive("Lemma 11", k=k, r_prime=r_prime)
    return math.sqrt(8 * k * r_prime)


def lemma11_loss(k: int, s: int, r_prime: float, norm: float) -> float:
    """Return a bound on the hinge loss of the ideal readout on population features.

    Formula: L_D <= sqrt(4 k r') B_k / sqrt(s).
    Source: Pareto frontiers, Lemma 11, part 2.

    Args:
        s: how many weights of each neuron are 1.
    """
    require_positive("Lemma 11", k=k, s=s, r_prime=r_prime, norm=norm)
    return math.sqrt(4 * k * r_prime / s) * norm


def lemma11_distance(n: int, k: int, r_prime: float, rate: Number, tau: float) -> float:
    """Return a bound on the distance of the sample's features from the population's, over all inputs.

    Formula: ||psi - phi||_{inf,2} <= 4 k r' n eta tau.
    Source: Pareto frontiers, Lemma 11, part 3.

    Args:
        tau: the gradients' precision.
    """
    require_positive("Lemma 11", n=n, k=k, r_prime=r_prime, rate=rate, tau=tau)
    return 4 * k * r_prime * n * float(rate) * tau


def lemma12_bound(norm: float, distance: float) -> float:
    """Return by how much a readout's hinge loss can change when its features change.

    Formula: |L(h_{psi,w}) - L(h_{psi',w})| <= ||w|| ||psi - psi'||_{inf,2}, on population and sample.
    Source: Pareto frontiers, Lemma 12.

    Args:
        norm: the readout's norm.
        distance: the largest distance of the features over all inputs.
    """
    return norm * distance


def lemma13_excess(norm: float, feature_norm: float, distance: float, sample: int, delta: float) -> float:
    """Return by how much population loss may exceed sample loss, for all readouts of bounded norm at once.

    Formula: (2 B ||psi|| + 1) sqrt(2 ln(2 / delta) / m) + 2 B ||psi - psi'||.
    Source: Pareto frontiers, Lemma 13.

    Args:
        norm: the bound B on the readout's norm.
        feature_norm: the largest norm of the features psi.
        distance: the largest distance of the features in use from psi.
    """
    require_positive("Lemma 13", sample=sample)
    require_probability("delta", delta, "Lemma 13")
    chance = (2 * norm * feature_norm + 1) * math.sqrt(2 * math.log(2 / delta) / sample)
    return chance + 2 * norm * distance


def lemma14_sample(norm: float, feature_norm: float, epsilon: float, delta: float) -> int:
    """Return the sample size of the readout's training.

    Formula: m >= (4 sqrt(2) B ||psi|| + 1)^2 ln(2 / delta) / epsilon^2.
    Source: Pareto frontiers, Lemma 14.

    Args:
        norm: the norm B of a readout with loss at most epsilon.
        delta: the probability of failure, between 0 and 1/2.
    """
    _require_lemma14(norm, feature_norm, epsilon)
    require(0 < delta < 0.5, "delta must lie between 0 and 1/2 (Lemma 14)", delta=delta)
    return math.ceil((4 * math.sqrt(2) * norm * feature_norm + 1) ** 2 * math.log(2 / delta) / epsilon**2)


def lemma14_steps(norm: float, feature_norm: float, epsilon: float, form: Form = "corrected") -> int:
    """Return the number of steps of the readout's training.

    The proof needs 100 B^2 (||psi|| + epsilon/B)^2 (1 + ln T) / (epsilon T) <= epsilon; the printed condition lacks the
    factor B^2 (and the 1 added to the logarithm).

    Formula: T / (1 + ln T) >= (100 / epsilon^2) (B ||psi|| + 1)^2;
        printed: T / ln T >= (100 / epsilon^2) (||psi|| + 1/B)^2.
    Source: Pareto frontiers, Lemma 14.

    Args:
        norm: the norm B of a readout with loss at most epsilon.
        form: "corrected" for what the proof needs, "printed" for the paper's.

    Returns:
        The smallest such number above 2.
    """
    _require_lemma14(norm, feature_norm, epsilon)
    require_form(form)
    scale, extra = (norm, 1) if form == "corrected" else (1.0, 0)
    needed = 100 / epsilon**2 * (scale * (feature_norm + 1 / norm)) ** 2
    return least_count(lambda steps: steps >= needed * (extra + math.log(steps)), 2)


def lemma14_loss(epsilon: float, form: Form = "corrected") -> float:
    """Return the population loss that the readout's training reaches.

    The printed 7 is too small: the sample loss of at most 4 epsilon, the excess of Lemma 13 for norm sqrt(8) B, which
    is sqrt(2) epsilon from the sample and 4 sqrt(2) epsilon from the features, add up to 11.07 epsilon.

    Formula: (4 + 5 sqrt(2)) epsilon; printed: 7 epsilon.
    Source: Pareto frontiers, Lemma 14.

    Args:
        form: "corrected" for what the proof gives, "printed" for the paper's.
    """
    _require_lemma14(1.0, 1.0, epsilon)
    require_form(form)
    return (4 + 5 * math.sqrt(2) if form == "corrected" else 7) * epsilon


def _require_lemma14(norm: float, feature_norm: float, epsilon: float) -> None:
    require_positive("Lemma 14", norm=norm, feature_norm=feature_norm)
    require(0 < epsilon < 0.5, "epsilon must lie between 0 and 1/2 (Lemma 14)", epsilon=epsilon)


@dataclass(frozen=True)
class Theorem16:
    """The parameters that the proof of Theorem 16 puts together, for one choice of n, k, s, epsilon and delta.

    Args:
        width: the number r of neurons, mirrored copies counted.
        tau: the precision that the gradients need.
        steps: the number T of steps of the readout.
        smallest_s: the sparsity from which on the theorem's loss is reached.
        satisfied: whether s is at least that.
        loss: the population loss that is then guaranteed.
        failure: a bound on the probability of failure, summed over the parts.
    """

    width: int
    r_prime: float
    rate: float
    norm: float
    tau: float
    sample: int
    steps: int
    smallest_s: float
    satisfied: bool
    loss: float
    failure: float


def theorem16_parameters(
    n: int, k: int, s: int, epsilon: float, delta: float, *, offset: Number | None = None, form: Form = "corrected"
) -> Theorem16:
    """Return the parameters that the proof of Theorem 16 requires.

    Formula: r = ceil(20 k (2n/s)^k ln(2k/delta)); tau = min(epsilon / (4 B_k k r' n eta), 1 / (16 eta k n)) (for an
        offset o above 7/8 the 1/16 is (1 - o)/2); m and T by Lemmas 10 and 14; s >= 4 k r' B_k^2 / epsilon^2.
        Corrected: r' is the exact expectation, and T has the factor B_k^2; printed: r' = (r/2k)(s/2n)^k.
    Source: Pareto frontiers, Theorem 16 and its proof.

    Args:
        k: the size of the support, even.
        s: how many weights of each neuron are 1, odd and above 4k.
        delta: the probability of failure of each of the parts, between 0 and 1/2.
        offset: the biases' offset; 3/4 by default, 1/16 in the printed form.
        form: "corrected" or "printed". Both take B_k from the corrected list of biases: with the printed list there
            is no such readout.
    """
    require_over_sparse(k, s, "Theorem 16", n)
    require(s > 4 * k, "s must be above 4k (Theorem 16)", s=s, k=k)
    require(0 < epsilon < 0.5, "epsilon must lie between 0 and 1/2 (Theorem 16)", epsilon=epsilon)
    require(0 < delta < 0.5, "delta must lie between 0 and 1/2 (Theorem 16)", delta=delta)
    require_form(form)
    knot = float((OFFSET if form == "corrected" else PAPER_OFFSET) if offset is None else offset)
    norm = readout_norm(over_sparse_readout(k, over_sparse_biases(k, knot)))
    width, rate = lemma15_width(n, k, s, delta), 1 / (k * majority_size(s, k - 1))
    r_prime = good_per_bias(n, k, s, width, form=form)
    dead = lemma11_precision(n, k, rate) * min(1, 8 * (1 - knot))
    tau = min(epsilon / (4 * norm * k * r_prime * n * rate), dead)
    features = lemma11_feature_norm(k, r_prime)
    smallest = 4 * k * r_prime * norm**2 / epsilon**2
    return Theorem16(
        width=width,
        r_prime=r_prime,
        rate=rate,
        norm=norm,
        tau=tau,
        sample=max(lemma10_sample(n, width, tau, delta), lemma14_sample(norm, features, epsilon, delta)),
        steps=lemma14_steps(norm, features, epsilon, form),
        smallest_s=smallest,
        satisfied=s >= smallest,
        loss=lemma14_loss(epsilon, form),
        failure=min(1.0, 4 * delta),
    )
