"""What the experiments share that check statements of theory: shares beside their bounds, and parts by scale."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from elegans.experiments import Results, Tables
from elegans.experiments.checks import check, checks
from elegans.experiments.rules import LEVEL, share_limits

Rows = Iterator[dict[str, Any]]
Part = tuple[Callable[..., Rows], tuple[Any, ...], tuple[Any, ...]]
"""A function that yields checks, with its arguments at the scales smoke and paper; the first seed follows them."""
SHARES = (
    "Rejected where the exact lower limit of a share of failures (2% over the claim's comparisons) exceeds the stated "
    "probability."
)


def rare(claim: str, name: str, failures: int, trials: int, limit: float, comparisons: int = 1) -> dict[str, Any]:
    """Return the check that a probability is at most a limit, by the exact lower limit of the observed share.

    The comparisons of a claim share its error rate.
    """
    level = LEVEL / comparisons
    return check(claim, name, share_limits(failures, trials, level)[0], limit, error_rate=level)


def computed(parts: Sequence[Part]) -> Callable[[Results], Tables]:
    """Return the analysis that computes the checks of all parts, one row each, with draws from the run's first seed."""
    return lambda results: checks(
        row for part, *sizes in parts for row in part(*sizes[results.scale == "paper"], results.first_seed)
    )


def exact(part: Callable[..., Rows]) -> Callable[..., Rows]:
    """Return the function of a part that draws nothing, which leaves out the first seed."""
    return lambda *sizes_and_seed: part(*sizes_and_seed[:-1])
