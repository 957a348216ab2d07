"""Searches other than gradient descent, and their costs: the extremes of the frontier.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    n: the number of inputs.
    k: the size of the support, from 1 to n.
    delta: the probability that the sample leaves two parities consistent, between 0 and 1.
    width: how many parities r are tried at each step.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from elegans.calculators.domain import binomial, require, require_parity, require_positive
from elegans.studies.pareto_frontiers.theory.frontier import p_ambiguous_bound, statistical_limit


@dataclass(frozen=True)
class SearchCost:
    """The cost of a search over parities, and its probability of success.

    Args:
        queries: how many parities are tried in all.
        width: how many at once.
        steps: in how many steps.
        sample: the sample size that singles out the right parity among all that are tried.
        success: the probability that the right parity is tried, exactly.
        ambiguous: a bound on the probability that a wrong parity fits the sample as well.
    """

    queries: int
    width: int
    steps: int
    sample: int
    success: Fraction
    ambiguous: Fraction


def exhaustive_search(n: int, k: int, delta: float = 0.01) -> SearchCost:
    """Return the cost of trying every parity on one sample.

    Formula: width 1, T = C(n, k), m = O(log C(n, k)); right with probability at least 1 - (C(n, k) - 1) 2^-m.
    Source: Pareto frontiers, section 3.2 (warm-up).
    """
    return parallel_search(n, k, 1, delta)


def parallel_search(n: int, k: int, width: int, delta: float = 0.01) -> SearchCost:
    """Return the cost of trying every parity, many at a time.

    Formula: T = ceil(C(n, k) / r), sample as for exhaustive search.
    Source: Pareto frontiers, section 3.2 (warm-up).
    """
    require_parity(n, k, "parallel search")
    require_positive("parallel search", width=width)
    total, sample = binomial(n, k), statistical_limit(n, k, delta)
    return SearchCost(total, width, -(-total // width), sample, Fraction(1), p_ambiguous_bound(n, k, sample))


def random_subset_search(n: int, k: int, width: int, steps: int, delta: float = 0.01) -> SearchCost:
    """Return the cost of trying some distinct random parities: luck instead of compute.

    Formula: success exactly min(1, r T / C(n, k)).
    Source: Pareto frontiers, section 3.2 (warm-up).

    Args:
        steps: the number T of steps.
        delta: the probability that a wrong one of those tried fits the sample, between 0 and 1.

    Returns:
        The cost; its sample is large enough to verify the parities that are tried.
    """
    require_parity(n, k, "random subset search")
    require_positive("random subset search", width=width, steps=steps)
    require(0 < delta < 1, "delta must lie between 0 and 1 (random subset search)", delta=delta)
    total = binomial(n, k)
    tried = min(total, width * steps)
    sample = max(0, math.ceil(math.log2(tried / delta)))
    wrong = min(Fraction(1), Fraction(tried, 2**sample))
    return SearchCost(tried, width, steps, sample, Fraction(tried, total), wrong)
