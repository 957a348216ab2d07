"""One step of a ReLU network that finds a parity's support, and the readout that computes the parity from it.

The network is f(x) = sum_i u_i relu(w_i . x + b_i) with w_i uniform on {-1, 1}^n, u_i on {-1, 1} and b_i on 2k - 1
values, every neuron i mirrored by one with -u_i, so f = 0 initially. One step of size 1 / (k |xi_{k-1}|) with
weight decay 1 leaves 1/(2k) on the support for good neurons. As with over-sparse initialisation of s = n ones, half of
the majority's coefficients xi_d = hat Maj_n(d) are the correlations, and ``sign_network_rate(n, k)`` is the step
(thesis, appendix B.2.1).

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    n: the number of inputs; odd and above k where majority coefficients enter.
    k: the size of the support, even.
    tau: the gradient's largest error, at least 0.
    epsilon: the share of inputs that may be misclassified, between 0 and 1.
    delta: the probability of failure, between 0 and 1.
    form: "corrected" for what the proof needs, "printed" for the thesis'.
    weight: the n weights, each 1 or -1.
    support: the k coordinates of S.
    output: the output weight u, 1 or -1.
"""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Annotated, NamedTuple

from elegans.boolean.fourier import majority_coefficient, majority_size
from elegans.boolean.gaps import require_majority_gap, require_signs, sign_threshold_coefficient
from elegans.boolean.learning import neurons_for_any_good
from elegans.calculators.domain import (
    AtMost,
    Binomial,
    Form,
    Listed,
    Number,
    coordinates,
    require,
    require_form,
    require_positive,
    require_probability,
)
from elegans.calculators.rational import Vector


def unbiased_biases(k: Binomial) -> Vector:
    """Return the values of the hidden bias in the initialisation under which the network starts at 0.

    Formula: -1 + 1/k, -1 + 2/k, …, 1 - 1/k.
    Source: thesis, appendix B.2.1.

    Returns:
        2k - 1 exact values in increasing order.
    """
    require(k >= 1, "k must be at least 1 (unbiased initialisation)", k=k)
    return tuple(Fraction(i - k, k) for i in range(1, 2 * k))


def sign_neuron_gradient(weight: Sequence[int], support: Iterable[int], output: int = 1) -> Vector:
    """Return the population gradient of a hidden neuron of signs in a network that is 0.

    The loss is the hinge or the correlation loss. The gradient does not depend on the bias, |b| < 1; the bias' own
    gradient is 0. The lemma's n >= 2(k + 1)^2 is not needed.

    Formula: g_j = -u xi_{k-1} prod_{l in S - j} w_l / 2 for j in S, -u xi_{k+1} prod_{l in S + j} w_l / 2 elsewhere.
    Source: thesis, Lemma B.3.
    """
    n = len(weight)
    relevant = coordinates("support", support, n)
    require_signs("output", [output])
    require_majority_gap(n, len(relevant), "Lemma B.3")
    return tuple(-output * sign_threshold_coefficient(weight, relevant ^ {j}) for j in range(n))


def feature_step(weight: Sequence[int], support: Iterable[int], output: int = 1) -> Vector:
    """Return a hidden neuron's weights after the single step with the exact gradient; its bias is unchanged.

    A good neuron, whose weights on S all are u sign(xi_{k-1}), gets 1/(2k) on S and (k - 1) / (2k (n - k)) in absolute
    value elsewhere.

    Formula: w' = -eta g, eta = 1 / (k |xi_{k-1}|).
    Source: thesis, Lemma B.4, Claims 1 and 2 with no error.
    """
    relevant = list(support)
    gradient = sign_neuron_gradient(weight, relevant, output)
    rate = sign_network_rate(len(weight), len(relevant))
    return tuple(-rate * entry for entry in gradient)


class FeatureBounds(NamedTuple):
    """How far a good neuron may be from its ideal after the step.

    Args:
        relevant: bound on the distance of its weights on the support from 1/(2k).
        irrelevant: bound on its weights elsewhere.
        bias: bound on the change of its bias.
    """

    relevant: float
    irrelevant: float
    bias: float


def feature_bounds(n: int, k: int, tau: Number, form: Form = "corrected") -> FeatureBounds:
    """Return bounds on a good neuron after a step whose gradient is within tau of the population's in every entry.

    Formula: |w_j - 1/(2k)| <= tau / (k |xi_{k-1}|) on S, |w_j| <= (|xi_{k+1}| + 2 tau) / (2k |xi_{k-1}|) elsewhere,
        |b - b_0| <= tau / (k |xi_{k-1}|); printed: tau / |xi_{k-1}| on S, looser than its proof.
    Source: thesis, Lemma B.4, Claims 1 to 3.
    """
    require_majority_gap(n, k, "Lemma B.4")
    require(tau >= 0, "tau must be at least 0 (Lemma B.4)", tau=tau)
    require_form(form)
    unit = float(tau) / majority_size(n, k - 1)
    return FeatureBounds(unit / k if form == "corrected" else unit, ((k - 1) / (n - k) / 2 + unit) / k, unit / k)


def feature_error(n: int, k: int, tau: Number, epsilon: float, form: Form = "corrected") -> float:
    """Return a bound on the error of good hidden features, for all but a share epsilon of inputs.

    Hoeffding's inequality for m sums of n - k terms within +-D needs sqrt(2 (n - k) ln(2m / epsilon)) D; the printed
    root is half of that, as for terms of range D. The corrected readout has one more neuron, m = k + 1.

    Formula: k D_S + D_b + D sqrt(2 (n - k) ln(2 (k + 1) / epsilon)), by ``feature_bounds``;
        printed: k D_S + D_b + D sqrt(n ln(2k / epsilon) / 2).
    Source: thesis, Lemma B.4, Claim 4, before the constants c_1 and c_2 enter.

    Returns:
        The bound on |relu(w . x + b) - relu(sum_S x / 2k + b_0)|.
    """
    require_probability("epsilon", epsilon, "Lemma B.4")
    bounds = feature_bounds(n, k, tau, form)
    spread = 2 * (n - k) * math.log(2 * (k + 1) / epsilon) if form == "corrected" else n * math.log(2 * k / epsilon) / 2
    return k * bounds.relevant + bounds.bias + bounds.irrelevant * math.sqrt(spread)


def feature_precision(n: int, k: int, epsilon: float, form: Form = "corrected") -> float:
    """Return the largest gradient error at which the readout still computes the parity on all but a share of inputs.

    The readout's weights sum to 8k^2 in absolute value, so features must be accurate to 1 / (8k^2). The printed
    value rests on n >= 2^11 k^4 c_2^2 ln(2k / epsilon) / c_1^2 with constants that are not given.

    Formula: the largest tau with ``feature_error`` <= 1 / (8k^2);
        printed: |xi_{k-1}| / (16k sqrt(2n ln(2k / epsilon))).
    Source: thesis, Lemmas B.4 and B.5.

    Args:
        n: the number of inputs, odd, and large enough for the exact gradient: see ``feature_smallest_n``.
    """
    require_majority_gap(n, k, "Lemma B.5")
    require_probability("epsilon", epsilon, "Lemma B.5")
    require_form(form)
    size = majority_size(n, k - 1)
    if form == "printed":
        return size / (16 * k * math.sqrt(2 * n * math.log(2 * k / epsilon)))
    still = feature_error(n, k, 0, epsilon)
    allowed = 1 / (8 * k**2)
    require(still < allowed, "n must be large enough for irrelevant weights to be negligible (Lemma B.5)", n=n, k=k)
    # the error is affine in tau
    return (allowed - still) / (feature_error(n, k, size, epsilon) - still) * size


def feature_smallest_n(k: int, epsilon: float, form: Form = "corrected") -> int:
    """Return the smallest input size at which the readout computes the parity on all but a share of inputs.

    Formula: the smallest odd n with ``feature_error`` < 1 / (8k^2) at tau = 0;
        printed: 2^11 k^4 ln(2k / epsilon), with c_2 / c_1 = 1.
    Source: thesis, Lemma B.5.

    Returns:
        An odd number.
    """
    require_majority_gap(k + 1 + k % 2, k, "Lemma B.5")
    require_probability("epsilon", epsilon, "Lemma B.5")
    require_form(form)
    if form == "printed":
        return 2 * (math.ceil(2**11 * k**4 * math.log(2 * k / epsilon)) // 2) + 1
    # (k - 1) / (2k (n - k)) sqrt(2 (n - k) L) < 1 / (8k^2)
    least = 32 * k**2 * (k - 1) ** 2 * math.log(2 * (k + 1) / epsilon)
    n = k + math.floor(least) + 1
    return n + 1 - n % 2


def feature_batch(n: int, width: int, tau: float, delta: float) -> int:
    """Return the batch size at which all first gradients, including gradients of biases, are within tau of their means.

    Formula: B = ceil((2 / tau^2) ln(4 n r / delta)).
    Source: thesis, Lemma B.5 (Hoeffding and a union over r (n + 1) entries).

    Args:
        width: the number r of neurons.
        tau: the gradients' largest error, above 0.
    """
    require_positive("Lemma B.5", n=n, width=width, tau=tau)
    require_probability("delta", delta, "Lemma B.5")
    return math.ceil(2 / tau**2 * math.log(4 * n * width / delta))


def feature_width(k: Listed, delta: float, form: Form = "corrected") -> int:
    """Return the width at which every bias of the readout has a good neuron with probability at least 1 - delta.

    A pair of mirrored neurons has a good one where its weights agree on S, with probability 2^(1 - k), and has a given
    one of the 2k - 1 biases with probability 1 / (2k - 1). The printed width takes the product as 1 / (k 2^(k - 1)),
    almost twice too large, and k biases where ``parity_readout`` has k + 1. (For k = 2 two biases suffice, 0 and 1/2:
    the mirrored copies of good neurons, with -1/(2k) on S, stand in for the third.)

    Formula: the smallest even r with B (1 - 2^(1 - k) / (2k - 1))^(r / 2) <= delta for B = k + 1 biases;
        printed: k 2^k ln(k / delta).
    Source: thesis, Lemma B.5.

    Returns:
        An even number of neurons.
    """
    require(k >= 2 and k % 2 == 0, "k must be even (Lemma B.5)", k=k)
    require_probability("delta", delta, "Lemma B.5")
    require_form(form)
    if form == "printed":
        return 2 * math.ceil((k << (k - 1)) * math.log(k / delta))
    biases = k + 1 if k > 2 else 2
    return 2 * neurons_for_any_good(Fraction(1, (2 * k - 1) << (k - 1)), delta / biases)


class ParityReadout(NamedTuple):
    """Hidden neurons with weights 1/(2k) on the support.

    Args:
        biases: their biases.
        weights: their output weights.
    """

    biases: Vector
    weights: Vector

    def output(self, k: int) -> Vector:
        """Return the neurons' total output for each value -k, -k + 2, …, k of the support's sum."""
        return tuple(
            sum((u * max(Fraction(s, 2 * k) + b, Fraction(0)) for b, u in zip(*self, strict=True)), Fraction(0))
            for s in range(-k, k + 1, 2)
        )


def parity_readout(k: Annotated[int, AtMost(50_000)], form: Form = "corrected") -> ParityReadout:
    """Return k + 1 ReLU neurons of the support's sum that compute twice its parity, exactly.

    The printed k neurons have the opposite sign, and miss the value at all ones: they give -2 chi, but 6 where all
        signs are 1. The weights keep the bounds that the proof uses: at most 8k each, 8k sqrt(k) in norm, 8k^2 in all.
        For k = 2 the last bias, 1, is not in ``unbiased_biases``: there the biases 0, 1/2, 1/2 suffice, with weights 16
        and -6 for neurons with 1/(2k) on the support and 2 for a mirrored one with -1/(2k).

    Formula: b_i = -1/2 + (i + 1) / k, u_i = 8k (-1)^i for i = 0..k - 2, u_{k-1} = -6k, u_k = 2k;
        printed: i = 1..k, u_i = 8k (-1)^(i + 1) for i <= k - 2, u_{k-1} = 6k, u_k = -2k.
    Source: thesis, Claim 5 in the proof of Lemma B.4; corrected form derived here.
    """
    require(k >= 2 and k % 2 == 0, "k must be even (Claim 5)", k=k)
    require_form(form)
    first, sign = (0, 1) if form == "corrected" else (1, -1)
    biases = tuple(Fraction(i + 1, k) - Fraction(1, 2) for i in range(first, k + 1))
    inner = [8 * k * sign * (-1) ** i for i in range(first, k - 1)]
    return ParityReadout(biases, tuple(map(Fraction, [*inner, -6 * k * sign, 2 * k * sign])))


def feature_loss(n: int, k: int, epsilon: float) -> float:
    """Return the hinge loss of the readout of good features when a share epsilon of inputs may be misclassified.

    Formula: 16 epsilon k^2 n, as |f| <= 8k^2 (n + 1) everywhere.
    Source: thesis, Lemma B.4.
    """
    require_positive("Lemma B.4", n=n, k=k, epsilon=epsilon)
    return 16 * epsilon * k**2 * n


def sign_network_rate(n: Annotated[int, AtMost(300_000)], k: int) -> Fraction:
    """Return the learning rate of the single step on the hidden weights.

    Formula: eta = 1 / (k |hat Maj_n(k - 1)|).
    Source: thesis, Theorem 5.5.
    """
    require_majority_gap(n, k, "Theorem 5.5")
    return 1 / (k * abs(majority_coefficient(n, k - 1)))
