"""What the verdicts rest on as one table: each deciding number with its interval and threshold, and error rates."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from elegans.experiments.evidence import EARLIER, collected, verdict_of
from elegans.experiments.fresh import compared
from elegans.experiments.registry import ClaimEntry, claims
from elegans.experiments.words import LACKS, UNDECIDED

if TYPE_CHECKING:
    import pandas as pd

NORMAL = 1.959964
"""The half-width of a 95% interval of a normal estimate, in standard errors."""
COLUMNS = ("claim", "study", "scale", "verdict", "part", "estimate", "low", "high", "above", "below", "distance")


def effects(of: Iterable[ClaimEntry] | None = None) -> "pd.DataFrame":
    """Return one row per deciding number of each claim that has evidence.

    Columns: ``claim``, ``study``, ``scale`` and ``verdict``; ``part`` of the claim, empty if it has one number;
    ``estimate`` with its interval from ``low`` to ``high``, NaN where it is exact; the claimed range, from ``above``
    to ``below``, NaN where it is open; and the ``distance`` of the estimate to the nearer end of that range in standard
    errors, positive within it. A standard error is taken from the interval as if it had 95%, so that distances of rules
    with other levels are approximate.

    Args:
        of: the claims; all by default.
    """
    import pandas as pd

    rows = []
    for claim in claims().values() if of is None else of:
        if kept := verdict_of(claim.id):
            evidence, verdict = kept
            told = (claim.id, claim.study, evidence.extent, verdict["verdict"])
            rows += [(*told, part, *numbers) for part, numbers in _numbers(verdict["numbers"])]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(dict.fromkeys(COLUMNS[5:], float))


def expected_errors(
    of: Iterable[ClaimEntry] | None = None, *, confirmed: bool = True, repeated: bool = False
) -> dict[str, tuple[int, float]]:
    """Return by study how many decided claims rest on trials or samples, and how many false verdicts to expect at most.

    The latter is the sum of the error rates that their rules state. Where fresh seeds gave the same verdict, two
    independent runs must have erred, so that the product of their error rates counts. Verdicts that fresh seeds did not
    confirm are kept at their own rate, not withdrawn, so that only the sum without products bounds the whole procedure.

    Args:
        of: the claims; all by default.
        confirmed: whether products count where fresh seeds agree.
        repeated: whether a rate counts once for every run that a claim was judged on.
    """
    sums: dict[str, tuple[int, float]] = {}
    again = {each.claim: float(each.fresh["error_rate"]) for each in compared() if confirmed and each.agrees}
    runs = looks() if repeated else {}
    for claim in claims().values() if of is None else of:
        kept = verdict_of(claim.id)
        if kept and kept[1]["verdict"] != UNDECIDED and kept[1]["error_rate"] > 0:
            count, errors = sums.get(claim.study, (0, 0.0))
            rate = float(kept[1]["error_rate"]) * again.get(claim.id, 1.0) * runs.get(claim.id, 1)
            sums[claim.study] = count + 1, errors + rate
    return sums


def looks() -> Counter[str]:
    """Return on how many runs each claim has been judged: the one that speaks for it, others of its scale, and earlier.

    Runs that lacked what the rule needs do not count.
    """
    runs: Counter[str] = Counter()
    for claim in claims():
        if kept := verdict_of(claim):
            others = (evidence for evidence in collected() if evidence.rank == kept[0].rank and evidence != kept[0])
            found = (piece.verdicts.get(claim) for piece in (*others, *collected(EARLIER)))
            runs[claim] = 1 + sum(bool(one and one["numbers"] and LACKS not in one["because"]) for one in found)
    return runs


def _numbers(numbers: Mapping[str, Any], part: str = "") -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yield the part, and estimate, interval, claimed range and distance, of what rules keep in a verdict's numbers."""
    keys = numbers.keys()
    if {"estimate", "interval", "claimed"} <= keys:
        yield part, _row(numbers["estimate"], numbers["interval"], numbers["claimed"])
    elif {"successes", "trials", "limits", "claimed"} <= keys:
        claimed = numbers["claimed"]
        share = numbers["successes"] / numbers["trials"]
        yield part, _row(share, numbers["limits"], claimed if isinstance(claimed, list) else [claimed, None])
    elif {"value", "claimed"} <= keys:
        yield part, _row(numbers["value"], (None, None), numbers["claimed"])
    elif {"worst", "limit"} <= keys:
        yield part, _row(numbers["worst"], (None, None), (None, numbers["limit"]))
    else:
        for name, inner in numbers.items():
            if isinstance(inner, Mapping):
                yield from _numbers(inner, f"{part}: {name}" if part else name)


def _row(estimate: Any, interval: Any, claimed: Any) -> tuple[float, ...]:
    value, low, high, above, below = (
        math.nan if number is None else float(number) for number in (estimate, *interval, *claimed)
    )
    error = (high - low) / (2 * NORMAL)
    ends = [end for end in (value - above, below - value) if not math.isnan(end)]
    return value, low, high, above, below, min(ends) / error if ends and error > 0 else math.nan
