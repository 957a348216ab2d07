"""Under-sparse initialisation: one truncated step that completes a lucky start (Theorems 5 and 21).

The network is f(x) = sum_i u_i relu(w_i . x + b_i) + c; w_i has s < k weights 1 and a small epsilon elsewhere, and
every neuron is mirrored by one with -u_i. One step of truncated gradient descent leaves a good neuron, in the copy for
which the step points the right way, with epsilon / (2k) on the whole support and almost nothing elsewhere: with its
bias it is a relu of the support's sum, with a knot between two of its values. One such neuron for each bias suffices
for the parity. No end-to-end guarantee is known here: the output weights are fitted afterwards.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    k: the size of the support, even.
    s: how many weights are 1, even and below k.
    n: the number of inputs, above k.
    epsilon: the small weights, positive.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Annotated, Literal

from elegans.boolean.learning import parity_of_sum
from elegans.calculators.domain import (
    AtMost,
    Binomial,
    Number,
    Side,
    coordinates,
    require,
    require_form,
    require_positive,
    require_probability,
    require_under_sparse,
)
from elegans.calculators.rational import Matrix, Vector, solve
from elegans.errors import TheoryError
from elegans.studies.pareto_frontiers.theory.frontier import selection_sample
from elegans.studies.pareto_frontiers.theory.neurons import (
    under_sparse_gradient,
    under_sparse_irrelevant,
    under_sparse_relevant,
)

ThresholdForm = Literal["midpoint", "printed"]
"""Where to truncate gradients: in the middle of the gap, or at the irrelevant correlation itself."""


def under_sparse_biases(k: Binomial, epsilon: Number) -> Vector:
    """Return the values of the hidden bias: k of them, each with probability 1/k.

    The proof has k + 1 neurons and a probability of 1 / (k + 1); k and a constant suffice.

    Formula: epsilon (2j - k + 1) / (2k), j = 0..k - 1.
    Source: Pareto frontiers, appendix B.3.

    Returns:
        The exact biases in increasing order, all below epsilon / 2 in absolute value.
    """
    require_under_sparse(k, k, 0, "Theorem 21")
    require_positive("Theorem 21", epsilon=epsilon)
    return tuple(Fraction(epsilon) * (2 * j - k + 1) / (2 * k) for j in range(k))


def under_sparse_gap(n: Binomial, k: int, s: int) -> Fraction:
    """Return by how much a good neuron's correlations on the rest of the support exceed the ones outside it.

    Formula: |xi_rel| - |xi_irr|.
    Source: follows from Pareto frontiers, Lemma 20.

    Returns:
        The exact gap, positive where (n - k) > (k - s - 1) for odd n - s.
    """
    return abs(under_sparse_relevant(n, k, s)) - abs(under_sparse_irrelevant(n, k, s))


def under_sparse_threshold(n: Binomial, k: int, s: int, form: ThresholdForm = "midpoint") -> Fraction:
    """Return the truncation of the gradient that keeps the rest of the support and nothing else.

    Formula: gamma = (|xi_rel| + |xi_irr|) / 2; printed, for the population gradient: |xi_irr|.
    Source: Pareto frontiers, proof of Theorem 21.

    Args:
        form: "midpoint" for samples, "printed" for the population's.
    """
    require_form(form, ("midpoint", "printed"))
    low = abs(under_sparse_irrelevant(n, k, s))
    return low if form == "printed" else (abs(under_sparse_relevant(n, k, s)) + low) / 2


def under_sparse_rate(n: int, k: int, s: int, epsilon: Number) -> Fraction:
    """Return the learning rate of the single first-layer step.

    The paper prints it negative; with both copies of each neuron the sign does not matter.

    Formula: eta = epsilon / (2k |xi_rel|).
    Source: Pareto frontiers, proof of Theorem 21.

    Args:
        n: the number of inputs.
        epsilon: the small weights.
    """
    _require_epsilon(n, s, epsilon)
    return Fraction(epsilon) / (2 * k * abs(under_sparse_relevant(n, k, s)))


def _require_epsilon(n: int, s: int, epsilon: Number) -> None:
    require(epsilon > 0, "epsilon must be positive (Theorem 21)", epsilon=epsilon)
    require(epsilon * (n - s) < 1, "epsilon must be below 1/(n - s) (Theorem 21)", epsilon=epsilon, n=n, s=s)


def under_sparse_decay(k: int, epsilon: Number) -> Fraction:
    """Return the weight decay of the first-layer weights; biases and output weights must have none.

    Formula: lambda = 1 - epsilon / (2k).
    Source: Pareto frontiers, proof of Theorem 21.

    Returns:
        The exact weight decay: the weights keep a fraction 1 - lambda.
    """
    require_under_sparse(k, k, 0, "Theorem 21")
    require_positive("Theorem 21", epsilon=epsilon)
    return 1 - Fraction(epsilon) / (2 * k)


def under_sparse_step(
    n: Side, support: Iterable[int], ones: Iterable[int], epsilon: Number, *, sign: int = 1
) -> Vector:
    """Return a neuron's weights after the truncated population step.

    A good neuron whose output weight has the sign of xi_rel has epsilon/(2k) on the ones,
    epsilon (1 + epsilon)/(2k) on the rest of the support and epsilon^2/(2k) elsewhere. (The paper prints epsilon^2/k
    elsewhere, and epsilon/(2k) on the whole support.) Its copy has -epsilon (1 - epsilon)/(2k) on the rest.

    Formula: w' = (1 - lambda) w + eta u G(w), G truncated at gamma.
    Source: Pareto frontiers, proof of Theorem 21.

    Args:
        support: the k coordinates of S, k even.
        ones: the s coordinates with initial weight 1, s even and below k.
        epsilon: the initial weight of the others, between 0 and 1/(n - s).
        sign: the output weight u, -1 or 1.
    """
    require(sign in (-1, 1), "sign must be -1 or 1", sign=sign)
    relevant, large = coordinates("support", support, n), coordinates("ones", ones, n)
    k, s, small = len(relevant), len(large), Fraction(epsilon)
    gradient = under_sparse_gradient(n, relevant, large)
    rate, least = under_sparse_rate(n, k, s, small), under_sparse_threshold(n, k, s)
    kept = 1 - under_sparse_decay(k, small)
    start = [Fraction(1) if i in large else small for i in range(n)]
    return tuple(
        kept * weight + (sign * rate * g if abs(g) > least else 0) for weight, g in zip(start, gradient, strict=True)
    )


def under_sparse_features(k: Annotated[int, AtMost(100)]) -> Matrix:
    """Return the ideal hidden features, divided by epsilon, for each value of the support's sum.

    Row s = -k is 1 followed by zeros, and each further row has one more non-zero feature: a triangular system.

    Formula: (1, relu((s + 2j - k + 1) / (2k)) for j = k - 1, …, 0), s = -k, -k + 2, …, k.
    Source: Pareto frontiers, proof of Theorem 21.

    Returns:
        k + 1 exact rows of k + 1 features; column 1 + i belongs to the i-th largest bias.
    """
    knots = under_sparse_biases(k, 1)[::-1]
    zero = Fraction(0)
    return tuple((Fraction(1), *(max(zero, Fraction(s, 2 * k) + b) for b in knots)) for s in range(-k, k + 1, 2))


def under_sparse_readout(k: Annotated[int, AtMost(50)]) -> Vector:
    """Return the output weights, times epsilon, that represent the parity on the ideal features exactly.

    Without the constant, all k relus are 0 where every sign of the support is -1: one of the k + 1 levels is lost.

    Formula: the solution of the triangular system of ``under_sparse_features`` for the parity.
    Source: Pareto frontiers, proof of Theorem 21 (subnetwork).

    Returns:
        The constant and the k exact weights, of the largest bias first. Divide the weights (not the constant) by
        epsilon for features of the actual scale. Norms for k = 2, 4, 6, 8: 25.3, 146.6, 405.9, 834.5.
    """
    found = solve(under_sparse_features(k), parity_of_sum(k))
    if found is None:  # triangular with 1/(2k) on the diagonal
        raise TheoryError(f"the triangular system must have a solution (Theorem 21): k={k}")
    return found


def under_sparse_largest_epsilon(n: int, k: Annotated[int, AtMost(60)], s: int) -> Fraction:
    """Return an epsilon below which the subnetwork computes the parity on all inputs, after the population step.

    The weights differ from epsilon/(2k) on the support and 0 elsewhere by at most epsilon^2/(2k), n - s of them. The
    output then differs from the parity by at most epsilon (n - s) ||a||_1 / (2k), which must stay below 1.

    Formula: min(1 / (n - s), 2k / ((n - s) ||a||_1)), a the readout without its constant.
    Source: makes "approximately computes" of Pareto frontiers, Theorem 5, exact; relu is 1-Lipschitz.

    Args:
        n: the number of inputs.

    Returns:
        The exact bound; sufficient, not necessary.
    """
    require_under_sparse(n, k, s, "Theorem 21")
    size = sum((abs(weight) for weight in under_sparse_readout(k)[1:]), Fraction(0))
    return min(Fraction(1), 2 * k / size) / (n - s)


def under_sparse_subnetwork(
    k: Annotated[int, AtMost(50)], epsilon: Number
) -> tuple[Fraction, Sequence[tuple[Fraction, Fraction]]]:
    """Return the readout of the subnetwork at its actual scale: one good neuron of the right copy for each bias.

    Formula: c = a_0, and output weight a_j / epsilon for the neuron with bias b_j.
    Source: Pareto frontiers, proof of Theorem 21.

    Returns:
        The output bias, and for each neuron its bias and its output weight, exact, in increasing order of biases.
    """
    constant, *weights = under_sparse_readout(k)
    scaled = [weight / Fraction(epsilon) for weight in reversed(weights)]
    return constant, tuple(zip(under_sparse_biases(k, epsilon), scaled, strict=True))


def under_sparse_sample(n: Binomial, k: int, s: int, width: int, delta: float) -> int:
    """Return the sample size at which the midpoint threshold keeps exactly the right coordinates.

    It is of order (n - s)^(k - s - 1), the exponent that the paper claims.

    Formula: ceil(16 ln(4 n r / delta) / (|xi_rel| - |xi_irr|)^2).
    Source: Pareto frontiers, Lemma 10 and the proof of Theorem 21.

    Args:
        width: the number r of neurons.
        delta: the probability of failure, between 0 and 1.
    """
    require_probability("delta", delta, "Theorem 21")
    return selection_sample(n, width, under_sparse_gap(n, k, s), delta)


def under_sparse_printed_precision(n: Binomial, k: int, s: int) -> Fraction:
    """Return the gradient precision that the paper requires.

    It is said to be of order (n - s)^(-(k - s - 1)/2), but |xi_irr| is of order (n - s)^(-(k - s + 1)/2): taken
    literally it requires a sample that is larger by a factor of order n^2. ``under_sparse_sample`` has the claimed
    order.

    Formula: tau = |xi_irr| / 2 (printed).
    Source: Pareto frontiers, proof of Theorem 21.
    """
    return abs(under_sparse_irrelevant(n, k, s)) / 2
