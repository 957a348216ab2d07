"""Over-sparse initialisation: one large step that keeps the support, then a readout (Theorems 4 and 16).

The network is f(x) = sum_i u_i relu(w_i . x + b_i) + c with w_i in {0, 1}^n of s ones, every neuron i mirrored by one
with -u_i, so f = 0 initially. One step of size 1 / (2k |C_{k,s}|) with weight decay 1 leaves +-1/(2k) on the
support for good neurons. The readout then needs the parity of k signs as a combination of relus of their sum.

The printed list of biases has k/2 - 1 values. With both signs and a constant these give k - 1 features for the k + 1
values of the sum, and the parity is not among their combinations; with one more value, i = 0, it is.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    k: the size of the support, even.
    s: how many weights are 1, odd and above k.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Annotated

import numpy as np

from elegans.boolean.learning import parity_of_sum
from elegans.calculators.domain import (
    AtMost,
    Binomial,
    Form,
    Number,
    Side,
    coordinates,
    require,
    require_form,
    require_over_sparse,
)
from elegans.calculators.rational import Matrix, Vector, null_space, solve
from elegans.errors import TheoryError
from elegans.studies.pareto_frontiers.theory.neurons import (
    over_sparse_gradient,
    over_sparse_irrelevant,
    over_sparse_relevant,
)

OFFSET = Fraction(3, 4)
"""Where knots lie between two values of the sum by default: a compromise between conditioning and slack."""

PAPER_OFFSET = Fraction(1, 16)
"""The offset of the paper, with which the readout's norm is far larger."""

LARGEST_DUAL = 1000
"""The largest number of vertices of a linear program to enumerate: a few seconds of exact arithmetic."""


def over_sparse_biases(k: Binomial, offset: Number | None = None, form: Form = "corrected") -> Vector:
    """Return the values of the hidden bias.

    The printed list omits i = 0, without which the parity cannot be represented: the best fit is off by about 1.35 at
    some value, and no readout has a hinge loss below 0.77, 0.65, 0.57, 0.51 for k = 4, 6, 8, 10.

    Formula: beta_i = (-k + 2 i + o) / (2k) for i = 0..k/2 - 1; printed: o = 1/16 and i = 1..k/2 - 1.
    Source: Pareto frontiers, appendix B.2.2.

    Args:
        offset: o, between 0 and 1; by default 3/4 in the corrected list and 1/16 in the printed one. Bad neurons stay
            dead with a slack of (1 - o) / (2k).
        form: "corrected" for k/2 values, "printed" for the paper's k/2 - 1.

    Returns:
        The exact biases in increasing order, all below -1/(2k).
    """
    _require_even(k)
    require_form(form)
    chosen = Fraction((OFFSET if form == "corrected" else PAPER_OFFSET) if offset is None else offset)
    require(0 < chosen < 1, "offset must lie between 0 and 1 (biases of Theorem 16)", offset=chosen)
    return tuple((2 * i - k + chosen) / (2 * k) for i in range(int(form == "printed"), k // 2))


def bad_neuron_slack(k: Binomial, offset: Number = OFFSET) -> Fraction:
    """Return how far below 0 a bad neuron's pre-activation stays after the population step, on every input.

    Formula: (1 - o) / (2k).
    Source: Pareto frontiers, proof of Lemma 11, with a general offset.

    Args:
        offset: o, between 0 and 1.

    Returns:
        The exact slack, which bounds the gradient noise that can be tolerated.
    """
    return -(max(over_sparse_biases(k, offset)) + Fraction(1, 2 * k))


def readout_features(k: Side, biases: Sequence[Number]) -> Matrix:
    """Return the ideal hidden features for each value of the support's sum: the matrix V.

    Formula: V(s) = (1, relu(s / 2k + beta_j) for all j, relu(-s / 2k + beta_j) for all j), s = -k, -k + 2, …, k.
    Source: Pareto frontiers, proof of Lemma 11.

    Args:
        biases: the values beta_j, as ``over_sparse_biases`` gives them.

    Returns:
        k + 1 exact rows of 1 + 2 len(biases) features.
    """
    _require_even(k)
    knots = [Fraction(bias) for bias in biases]
    zero = Fraction(0)

    def row(s: int) -> Vector:
        signed = (Fraction(s, 2 * k), Fraction(-s, 2 * k))
        return (Fraction(1), *(max(zero, side + knot) for side in signed for knot in knots))

    return tuple(row(s) for s in range(-k, k + 1, 2))


def over_sparse_readout(k: Annotated[int, AtMost(50)], biases: Sequence[Number] | None = None) -> Vector:
    """Return the output weights nu that represent the parity on the ideal features, exactly.

    Formula: V nu = chi.
    Source: Pareto frontiers, proof of Lemma 11.

    Args:
        biases: the values of the bias; the corrected list with offset 3/4 by default.

    Returns:
        1 + 2 len(biases) exact weights: constant, positive copies, negative copies.
    """
    listed = over_sparse_biases(k) if biases is None else tuple(biases)
    features = readout_features(k, listed)
    found = solve(features, parity_of_sum(k))
    if found is None:
        raise TheoryError(
            f"biases must give k + 1 independent features (Lemma 11): k={k}, biases={[float(bias) for bias in listed]}"
        )
    return found


def readout_norm(readout: Iterable[Number]) -> float:
    """Return the norm of a readout, constant included: the B_k of Theorem 16.

    Formula: B_k = ||nu||_2.
    Source: Pareto frontiers, proof of Lemma 11.

    Args:
        readout: the weights, as ``over_sparse_readout`` gives them.

    Returns:
        The norm. For k = 2, 4, 6, 8: 15, 115, 405, 1081 with offset 3/4 and 181, 1.2e4, 5.6e5, 2.3e7 with 1/16.
    """
    return math.sqrt(sum(Fraction(weight) ** 2 for weight in readout))


def spread_readout(
    k: Annotated[int, AtMost(50)], bias_index: Sequence[int | None], positive: Sequence[bool], offset: Number = OFFSET
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return output weights for a whole network that represent the parity on its ideal features.

    Formula: u_0 = nu_0; u_i = nu_j / |I_j| for good neurons i with bias j, 0 for bad ones.
    Source: Pareto frontiers, proof of Lemma 11.

    Args:
        bias_index: for each of the first r/2 neurons, the place j of its bias if it is good, else None.
        positive: for each of them, whether the step left +1/(2k) on the support, that is u_i C_{k,s} > 0.
        offset: the biases' offset.

    Returns:
        The output bias, the output weights of the first r/2 neurons and the output weights of their mirrored copies.
    """
    biases = over_sparse_biases(k, offset)
    readout = over_sparse_readout(k, biases)
    first, mirrored = np.zeros(len(bias_index)), np.zeros(len(bias_index))
    for j in range(len(biases)):
        group = [place for place, index in enumerate(bias_index) if index == j]
        require(len(group) > 0, "every bias must have a good neuron (Lemma 11)", bias=j)
        up, down = float(readout[1 + j]) / len(group), float(readout[1 + len(biases) + j]) / len(group)
        for place in group:
            first[place], mirrored[place] = (up, down) if positive[place] else (down, up)
    return float(readout[0]), first, mirrored


def smallest_hinge_loss(k: Annotated[int, AtMost(12)], biases: Sequence[Number]) -> Fraction:
    """Return the smallest population hinge loss that any readout of the ideal features has, exactly.

    0 for the corrected list. For the printed one 1, 0.773, 0.646, 0.565, 0.509 for k = 2, 4, 6, 8, 10.

    Formula: min over nu of sum_s C(k, (k - s)/2) 2^-k max(0, 1 - chi(s) V(s) nu), by vertices of the dual
        max { sum a : 0 <= a_s <= P(s), sum_s a_s chi(s) V(s) = 0 }.
    Source: the loss of Pareto frontiers, Theorem 16; linear-programming duality.

    Args:
        biases: the values of the bias.
    """
    features, signs = readout_features(k, biases), parity_of_sum(k)
    chance = [Fraction(math.comb(k, minus), 2**k) for minus in range(k, -1, -1)]
    columns = [[sign * row[j] for sign, row in zip(signs, features, strict=True)] for j in range(len(features[0]))]
    basis = null_space(columns)
    corners = math.comb(k + 1, len(basis)) * 2 ** len(basis)
    require(corners <= LARGEST_DUAL, f"the dual must have at most {LARGEST_DUAL} corners", corners=corners, k=k)
    best = Fraction(0)
    for places in itertools.combinations(range(k + 1), len(basis)):
        corner = [[vector[place] for vector in basis] for place in places]
        for bounds in itertools.product(*((Fraction(0), chance[place]) for place in places)):
            amounts = solve(corner, bounds) if basis else ()
            if amounts is None:
                break
            dual = [sum(a * vector[s] for a, vector in zip(amounts, basis, strict=True)) for s in range(k + 1)]
            if all(0 <= value <= most for value, most in zip(dual, chance, strict=True)):
                best = max(best, Fraction(sum(dual)))
    return best


def over_sparse_rate(k: int, s: Annotated[int, AtMost(300_000)]) -> Fraction:
    """Return the learning rate of the single first-layer step.

    Formula: eta = 1 / (2k |C_{k,s}|), with weight decay 1 on the same weights and 0 on all else.
    Source: Pareto frontiers, Lemma 11.
    """
    return 1 / (2 * k * abs(over_sparse_relevant(k, s)))


def over_sparse_threshold(k: int, s: Annotated[int, AtMost(30_000)]) -> Fraction:
    """Return the truncation of the gradient that keeps the support and nothing else.

    Formula: gamma = (|C_{k,s}| + |c_{k,s}|) / 2; exact where every entry is within (|C| - |c|) / 2 of its mean.
    Source: the middle of the gap of Pareto frontiers, Lemma 8; for the footnote of Theorem 4 on truncation.

    Args:
        s: how many weights are 1, odd and above k; above 2k - 1, or there is no gap.
    """
    require(over_sparse_gap(k, s) > 0, "s must be above 2k - 1 for a gap (Lemma 8)", s=s, k=k)
    return (abs(over_sparse_relevant(k, s)) + abs(over_sparse_irrelevant(k, s))) / 2


def over_sparse_gap(k: int, s: Binomial) -> Fraction:
    """Return by how much a good neuron's correlations on the support exceed the ones on its other inputs.

    Formula: |C_{k,s}| - |c_{k,s}| = |C_{k,s}| (s - 2k + 1) / (s - k).
    Source: follows from Pareto frontiers, Lemma 8.

    Returns:
        The exact gap, positive where s > 2k - 1.
    """
    return abs(over_sparse_relevant(k, s)) - abs(over_sparse_irrelevant(k, s))


def over_sparse_step(
    n: Side, support: Iterable[int], ones: Iterable[int], *, sign: int = 1, truncated: bool = False
) -> Vector:
    """Return a neuron's weights after the population step.

    A good neuron has u sign(C) / (2k) on the support and at most 2/s in absolute value on its other ones, or 0 there
    with truncation; a bad one at most one weight of 1/(2k), so its relu is 0 on all inputs. With the biases
    these are the features psi of Lemma 11, and psi* with truncation. (For the mirrored copy the paper prints
    psi with the irrelevant weights not negated; the bounds hold for either.)

    Formula: w = eta u G(w), G truncated below gamma where asked.
    Source: Pareto frontiers, Lemmas 8, 9 and 11.

    Args:
        n: the number of inputs.
        support: the k coordinates of S, k even.
        ones: the s coordinates with initial weight 1, s odd and above k.
        sign: the output weight u, -1 or 1.
        truncated: whether gradients at most ``over_sparse_threshold`` are set to 0.
    """
    require(sign in (-1, 1), "sign must be -1 or 1", sign=sign)
    relevant, chosen = coordinates("support", support, n), coordinates("ones", ones, n)
    k, s = len(relevant), len(chosen)
    gradient = over_sparse_gradient(n, relevant, chosen)
    least = over_sparse_threshold(k, s) if truncated else Fraction(0)
    rate = over_sparse_rate(k, s)
    return tuple(sign * rate * g if abs(g) > least else Fraction(0) for g in gradient)


def _require_even(k: int) -> None:
    require_over_sparse(k, k + 1 + k % 2, "Theorem 16")
