"""What the experiments share that check statements of theory: shares beside their bounds, and parts by scale."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from elegans.experiments import Results, Tables
from elegans.experiments.checks import check, checks
from elegans.experiments.rules import share_limits

Rows = Iterator[dict[str, Any]]
Part = tuple[Callable[..., Rows], tuple[Any, ...], tuple[Any, ...]]
"""A function that yields checks, with its arguments at the scales smoke and paper."""
LEVEL = 0.01
"""The error rate of each comparison of a share with its bound."""
SHARES = "Rejected where the exact lower limit of the share of failures (1%) exceeds the stated probability."


def rare(claim: str, name: str, failures: int, trials: int, limit: float) -> dict[str, Any]:
    """Return the check that a probability is at most a limit, by the exact lower limit of the observed share."""
    return check(claim, name, share_limits(failures, trials, LEVEL)[0], limit, error_rate=LEVEL)


def computed(parts: Sequence[Part]) -> Callable[[Results], Tables]:
    """Return the analysis that computes the checks of all parts, one row each."""
    return lambda results: checks(row for part, *sizes in parts for row in part(*sizes[results.scale == "paper"]))
