"""What the verdicts rest on as one table: each deciding number with its interval and threshold, and error rates."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from elegans.experiments.evidence import EARLIER, Evidence, collected, verdict_of
from elegans.experiments.fresh import compared
from elegans.experiments.registry import ClaimEntry, claims
from elegans.experiments.words import LACKS, UNDECIDED

if TYPE_CHECKING:
    import pandas as pd

NORMAL = 1.959964
"""The half-width of a 95% interval of a normal estimate, in standard errors."""
APART = 1000
"""Runs whose first seeds differ by at least this number share no seed, since no cell has more trials."""
COLUMNS = ("claim", "study", "scale", "verdict", "part", "estimate", "low", "high", "above", "below", "distance")


def effects(of: Iterable[ClaimEntry] | None = None) -> "pd.DataFrame":
    """Return one row per deciding number of each claim that has evidence.

    Columns: ``claim``, ``study``, ``scale`` and ``verdict``; ``part`` of the claim, empty if it has one number;
    ``estimate`` with its interval from ``low`` to ``high``, NaN where it is exact; the claimed range, from ``above``
    to ``below``, NaN where it is open; and the ``distance`` of the estimate to the nearer end of that range in standard
    errors, positive within it. A standard error is taken from the interval as if it had 95%, so distances of rules
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


def expected_errors(of: Iterable[ClaimEntry] | None = None, *, stated: bool = False) -> dict[str, tuple[int, float]]:
    """Return by study how many decided claims rest on trials or samples, and how many false verdicts to expect at most.

    A claim counts with the error rate that its rule states, once for every run that could have decided it otherwise.
    Where a run on other seeds came to the same decided verdict, both must have erred: their error rates are multiplied.

    Args:
        of: the claims; all by default.
        stated: whether to sum the rates that rules state instead, whatever other runs there were.
    """
    sums: dict[str, tuple[int, float]] = {}
    again = {each.claim: float(each.fresh["error_rate"]) for each in compared() if each.agrees}
    for claim in claims().values() if of is None else of:
        kept = verdict_of(claim.id)
        if kept and kept[1]["verdict"] != UNDECIDED and kept[1]["error_rate"] > 0:
            rate = float(kept[1]["error_rate"])
            if not stated:
                looks, confirmed = looks_at(claim.id)
                rate *= looks * math.prod(confirmed) * again.get(claim.id, 1.0)
            count, errors = sums.get(claim.study, (0, 0.0))
            sums[claim.study] = count + 1, errors + rate
    return sums


def looks_at(claim: str) -> tuple[int, list[float]]:
    """Return how often a claim with evidence was judged, and the error rates of other runs that confirm its verdict.

    Looks are the run that speaks for it, others of its scale, and earlier ones. A run that came to the same decided
    verdict on seeds that no counted run shares confirms it, and is no further look. Runs that lacked what the rule
    needs are neither.
    """
    kept = verdict_of(claim)
    if kept is None:
        return 0, []
    spoke, verdict = kept
    others = [evidence for evidence in collected() if evidence.rank == spoke.rank and evidence != spoke]
    looks, confirmed, starts = 1, [], [_first_seed(spoke)]
    for other in (*others, *collected(EARLIER)):
        judged = other.verdicts.get(claim)
        if not judged or not judged["numbers"] or LACKS in judged["because"]:
            continue
        start = _first_seed(other)
        apart = all(abs(start - one) >= APART for one in starts)
        if apart and judged["verdict"] == verdict["verdict"] != UNDECIDED:
            confirmed.append(max(float(judged["error_rate"]), float(verdict["error_rate"])))
            starts.append(start)
        else:
            looks += 1
    return looks, confirmed


def _first_seed(evidence: Evidence) -> int:
    return int(evidence.content["record"]["first_seed"])


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
