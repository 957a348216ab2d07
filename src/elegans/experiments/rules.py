"""Decision rules that claims share: they turn counts, values and intervals into verdicts with error rates.

A rule that finds too few trials raises ``InsufficientData``, which leaves its claim undecided.
"""

import math
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from elegans.analysis import holm as holm
from elegans.experiments.checks import passed
from elegans.experiments.claims import (
    CORRECTED,
    FAILS,
    HOLDS,
    IN_PART,
    LACKS,
    UNDECIDED,
    VERDICTS,
    InsufficientData,
    Verdict,
    shared,
)

LEVEL = 0.02
"""The error rate of a rule: among 150 claims that are decided by trials, at most three false verdicts are expected."""
ROUNDING = 1e-10
"""The relative deviation that double precision can explain."""
AS_PRINTED, IN_THE_PROOF = "as printed", "as printed in the proof"
"""How the names of checks end that test misprints of a statement, and of its proof."""
SHORT, OPEN = "falls short", "is open"
"""Words for a learning rate at which a claim does not hold, as its limits show, and one at which it is not decided."""
Rows = TypeVar("Rows", bound=Sized)


@shared(1)
def table(tables: Mapping[str, pd.DataFrame], name: str, needs: str, **where: Any) -> pd.DataFrame:
    """Return the rows of a table whose columns have the given values; raise ``InsufficientData`` if there are none.

    Dots in column names are written as two underscores: ``model__width=100``. A list of values admits any of them.
    """
    rows = tables.get(name, pd.DataFrame())
    agree = []
    for key, value in where.items():
        column = key.replace("__", ".")
        if column not in rows:
            missing = f"; the table {name} has no column {column}" if name in tables else ""
            raise InsufficientData(needs + missing)
        agree.append(rows[column].isin(value if isinstance(value, list) else [value]))
    if agree:
        rows = rows[np.logical_and.reduce(agree)]  # once: rows with texts take long to copy
    if rows.empty:
        raise InsufficientData(needs)
    return rows


@shared(1)
def at_least(least: int, rows: Rows, needs: str) -> Rows:
    """Return rows, or anything with a length, if there are enough of them; else raise ``InsufficientData``."""
    if len(rows) < least:
        raise InsufficientData(needs)
    return rows


@shared(1)
def attempt(decide: Callable[..., Verdict], *arguments: Any, **options: Any) -> Verdict:
    """Return a part's verdict, undecided if the tables lack its rows, so that a claim's other parts still count."""
    try:
        return decide(*arguments, **options)
    except InsufficientData as lacking:
        return Verdict(UNDECIDED, f"{LACKS} {lacking}", needs=str(lacking))


@shared(1)
def decided(
    yes: bool, no: bool, because: str, numbers: Mapping[str, Any], error_rate: float, needs: str, *, part: str = ""
) -> Verdict:
    """Return ``holds`` if yes, else ``holds in part`` for a part that is named, else ``fails`` if no.

    Otherwise the verdict is ``undecided``, with what would decide it.
    """
    verdict = HOLDS if yes else IN_PART if part else FAILS if no else UNDECIDED
    return Verdict(verdict, because, numbers, error_rate, {IN_PART: part, UNDECIDED: needs}.get(verdict, ""))


@shared(2)
def by_value(
    what: str, value: float, *, above: float = -math.inf, below: float = math.inf, error_rate: float = 0.0
) -> Verdict:
    """Decide whether a computed number lies between two thresholds, which count as between; NaN decides nothing."""
    because = f"{what} is {value:.4g}; claimed: {_range(above, below)}"
    yes, known = above <= value <= below, not math.isnan(value)
    numbers = {"value": value, "claimed": [above, below]}
    return decided(yes, known and not yes, because, numbers, error_rate, "a finite number")


@shared(1)
def by_interval(
    what: str,
    estimate: float,
    interval: Sequence[float],
    *,
    above: float = -math.inf,
    below: float = math.inf,
    error_rate: float = LEVEL,
    needs: str = "more trials",
) -> Verdict:
    """Decide whether a quantity lies between two thresholds.

    ``holds`` if its interval lies between them, ``fails`` if it lies outside.
    """
    low, high = float(interval[0]), float(interval[1])
    because = f"{what} is {estimate:.4g} ({low:.4g} to {high:.4g}); claimed: {_range(above, below)}"
    numbers = {"estimate": estimate, "interval": [low, high], "claimed": [above, below]}
    return decided(low > above and high < below, high < above or low > below, because, numbers, error_rate, needs)


@shared(2)
def by_median(
    what: str,
    values: Any,
    *,
    above: float = -math.inf,
    below: float = math.inf,
    part_above: float | None = None,
    part_below: float | None = None,
    least: int = 6,
    level: float = LEVEL,
) -> Verdict:
    """Decide where the median over seeds lies, by its one-sided limits, which are order statistics.

    The median lies below the kth smallest of n values with the probability that fewer than k of n fair coins fall
    heads; k is the largest number at which this is at most ``level``, or half of it with two thresholds. With 6 and 7
    seeds at a level of 2% the limits are the smallest and the largest value.

    ``part_above`` and ``part_below`` are weaker thresholds, between which the claim holds in part.
    """
    numbers = np.sort(np.where(np.isnan(np.asarray(values, float)), np.inf, np.asarray(values, float)))
    thresholds = int(np.isfinite(above)) + int(np.isfinite(below))
    tails = np.cumsum([math.comb(len(numbers), heads) for heads in range(len(numbers))]) / 2.0 ** len(numbers)
    rank = int((tails <= level / thresholds).sum())
    if len(numbers) < least or not rank:
        enough = max(least, math.ceil(math.log2(thresholds / level)))
        raise InsufficientData(f"{what} of at least {enough} seeds")
    low, high = float(numbers[rank - 1]), float(numbers[-rank])
    straddles = "more seeds: the limits of their median straddle a threshold"
    verdict = by_interval(
        what,
        float(np.median(numbers)),
        (low, high),
        # a value equal to a threshold satisfies it
        above=float(np.nextafter(above, -np.inf)),
        below=float(np.nextafter(below, np.inf)),
        error_rate=thresholds * float(tails[rank - 1]),
        needs=straddles,
    )
    if verdict.verdict != FAILS or (part_above is None and part_below is None):
        return verdict
    least_value, most_value = above if part_above is None else part_above, below if part_below is None else part_below
    if low >= least_value and high <= most_value:
        return replace(verdict, verdict=IN_PART, needs=f"holds with the threshold {_range(least_value, most_value)}")
    if high < least_value or low > most_value:
        return verdict
    return replace(verdict, verdict=UNDECIDED, needs=straddles)


@shared(2)
def by_share(what: str, successes: int, trials: int, *, above: float = 0.5, level: float = LEVEL) -> Verdict:
    """Decide whether a share of trials exceeds a threshold: exact one-sided limits of Clopper and Pearson.

    The error rate is the larger size of the two binomial tests, which is at most ``level``.
    """
    from scipy.stats import binom

    if trials == 0:
        raise InsufficientData(f"trials of: {what}")
    low, high = share_limits(successes, trials, level)
    because = f"{what}: {successes} of {trials} ({low:.3g} to {high:.3g}); claimed: more than {above:g}"
    numbers = {"successes": successes, "trials": trials, "limits": [low, high], "claimed": above}
    tails = binom.sf(np.arange(-1, trials), trials, above), binom.cdf(np.arange(trials + 1), trials, above)
    size = max(_size(tail, level) for tail in tails)
    return decided(low > above, high < above, because, numbers, size, "more trials")


@shared(1)
def share_limits(successes: int, trials: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the two exact one-sided limits of a share, each with the error rate ``level``.

    Source: Clopper and Pearson, "The use of confidence or fiducial limits" (1934).
    """
    from scipy.stats import beta

    low = float(beta.ppf(level, successes, trials - successes + 1)) if successes else 0.0
    high = float(beta.ppf(1 - level, successes + 1, trials - successes)) if successes < trials else 1.0
    return low, high


@shared(2)
def by_pairs(what: str, differences: Any, *, level: float = LEVEL) -> Verdict:
    """Decide by the sign test whether paired differences are mostly positive; zero differences count against both."""
    values = np.asarray(differences, float)
    if not len(values):
        raise InsufficientData(f"pairs of: {what}")
    positive, negative = int((values > 0).sum()), int((values < 0).sum())
    yes, no = sign_test(positive, len(values)), sign_test(negative, len(values))
    because = f"{what}: {positive} of {len(values)} pairs in favour (p = {yes:.2g}), {negative} against"
    numbers = {"in_favour": positive, "against": negative, "pairs": len(values), "p": yes, "median": np.median(values)}
    size = _size(_sign_tests(len(values)), level)
    return decided(yes <= level, no <= level, because, numbers, size, "more pairs")


@shared(1)
def _size(tails: Any, level: float) -> float:
    """Return the size of an exact test: the largest of its statistic's tail probabilities that is at most ``level``."""
    return max((float(tail) for tail in tails if tail <= level), default=0.0)


@shared(1)
def sign_test(successes: int, trials: int) -> float:
    """Return the probability of at least this many successes if each trial succeeds with probability one half."""
    return sum(math.comb(trials, count) for count in range(successes, trials + 1)) / 2.0**trials


@shared(1)
def _sign_tests(trials: int) -> list[float]:
    """Return ``sign_test`` of each number of successes, of all trials first."""
    return [ways / 2.0**trials for ways in accumulate(math.comb(trials, count) for count in range(trials, -1, -1))]


@shared(1)
def higher(first: tuple[int, int], second: tuple[int, int]) -> float:
    """Return Fisher's one-sided p that the first of two success rates is higher; each is (successes, trials)."""
    from scipy.stats import fisher_exact

    rows = [[hits, trials - hits] for hits, trials in (first, second)]
    return float(fisher_exact(rows, alternative="greater")[1])


@shared(1)
def faster(first: Any, second: Any, censored_at: float = math.inf) -> float:
    """Return the one-sided log-rank p that times of the first sample are shorter; NaN and infinity are censored.

    Source: Mantel, "Evaluation of survival data and two new rank order statistics arising in its consideration" (1966).
    """
    from scipy.stats import CensoredData, logrank

    samples = []
    for values in (first, second):
        times = np.asarray(values, float)
        solved = np.isfinite(times) & (times <= censored_at)
        end = censored_at if np.isfinite(censored_at) else float(np.max(times[solved], initial=1.0))
        samples.append(CensoredData(uncensored=times[solved], right=np.full(int((~solved).sum()), end)))
    return float(logrank(samples[0], samples[1], alternative="greater").pvalue)


@shared(2)
def by_checks(
    tables: Mapping[str, pd.DataFrame],
    *,
    claim: str,
    name: str = "checks",
    part: str = "the parts that are satisfied",
    corrected: str = "",
) -> Verdict:
    """Decide a statement of theory by its rows of a table of checks (see ``checks.check``).

    ``holds`` if every row is satisfied, ``fails`` if none is, else ``holds in part``. Rows whose names end in ``as
    printed`` test misprints: if only these are violated, the statement ``holds with correction``, where its corrected
    form is given. Rows that end in ``as printed in the proof`` are no part of the statement and decide nothing.
    """
    rows = table(tables, name, "the computations of this statement", claim=claim)
    aside = rows["check"].str.endswith(IN_THE_PROOF)
    violated = rows[~rows["satisfied"].astype(bool)]
    because = passed(rows, list(rows["check"]))
    compared = rows.set_index("check")[["worst", "limit", "cases"]].to_dict("index")
    numbers = {str(name): values for name, values in compared.items()}
    error = float(min(1.0, rows["error_rate"].sum()))
    rows, violated = rows[~aside], violated[~violated["check"].str.endswith(IN_THE_PROOF)]
    if violated.empty:
        return Verdict(HOLDS, because, numbers, error)
    if len(violated) == len(rows):
        return Verdict(FAILS, because, numbers, error)
    if corrected and violated["check"].str.endswith(AS_PRINTED).all():
        return Verdict(CORRECTED, because, numbers, error, corrected)
    return Verdict(IN_PART, because, numbers, error, part)


@shared(2)
def checked(
    claim: str, part: str = "the parts that are satisfied", *, corrected: str = ""
) -> Callable[[Mapping[str, pd.DataFrame]], Verdict]:
    """Return the rule ``by_checks`` of one claim."""
    return partial(by_checks, claim=claim, part=part, corrected=corrected)


@shared(2)
def by_theorem(
    tables: Mapping[str, pd.DataFrame], *, claim: str, corrected: str = "", part: str = "", name: str = "checks"
) -> Verdict:
    """Decide a theorem by its rows of a table of checks; no row may be violated.

    If only rows are violated whose names end in ``as printed``, the theorem ``holds with correction``, or ``in part``
    where a part is given.
    """
    rows = table(tables, name, "the computations of this statement", claim=claim)
    verdict = by_checks(tables, claim=claim, name=name, part=part or "no part", corrected="" if part else corrected)
    sound = rows.loc[~rows["check"].str.contains(AS_PRINTED), "satisfied"].astype(bool).all()
    return verdict if sound else replace(verdict, verdict=FAILS, needs="")


@shared(2)
def theorem(
    claim: str, corrected: str = "the corrected form", *, part: str = ""
) -> Callable[[Mapping[str, pd.DataFrame]], Verdict]:
    """Return the rule ``by_theorem`` of one claim."""
    return partial(by_theorem, claim=claim, corrected=corrected, part=part)


@shared(2)
def combine(parts: Mapping[str, Verdict], error_rate: float | None = None) -> Verdict:
    """Combine the verdicts of a claim's parts.

    All hold: ``holds``, or ``holds with correction`` if some do; all fail: ``fails``; some hold or hold in part:
    ``holds in part``, for the named parts, if nothing is undecided or something fails; else ``undecided``. The error
    rates are added up unless one is given.
    """
    names = {kind: [name for name, part in parts.items() if part.verdict == kind] for kind in VERDICTS}
    because = "; ".join(f"{name}: {part.verdict} ({part.because})" for name, part in parts.items())
    numbers = {name: {"verdict": part.verdict, **part.numbers} for name, part in parts.items()}
    error = min(1.0, sum(part.error_rate for part in parts.values())) if error_rate is None else error_rate
    for kind in (HOLDS, FAILS):
        if len(names[kind]) == len(parts):
            return Verdict(kind, because, numbers, error)
    true = [*names[HOLDS], *names[CORRECTED]]
    if len(true) == len(parts):
        corrections = "; ".join(f"{name}: {parts[name].needs}" for name in names[CORRECTED])
        return Verdict(CORRECTED, because, numbers, error, corrections)
    if (true or names[IN_PART]) and (names[FAILS] or not names[UNDECIDED]):
        partly = f"in part for {'; '.join(names[IN_PART])}" if names[IN_PART] else ""
        words = [f"for {'; '.join(true)}", partly] if true else [partly]
        return Verdict(IN_PART, because, numbers, error, f"holds {'; '.join(filter(None, words))}")
    needs = "; ".join(f"{name}: {parts[name].needs}" for name in names[UNDECIDED])
    return Verdict(UNDECIDED, because, numbers, error, needs or "one of its parts to hold")


@shared(2)
def by_rates(cells: Mapping[tuple[str, float], Mapping[str, Verdict]]) -> Verdict:
    """Combine verdicts at several learning rates, which the source does not state, and say where the verdict changes.

    At a rate the claim *holds* if all parts hold, *fails* if one fails, and *falls short* if the limits of one lie
    below the threshold that it claims; otherwise the rate *is open*. Over all rates it holds or fails if it does at
    each of them, and holds in part if it holds at some and fails at others; rates between them may be open or fall
    short, which decides nothing.

    Args:
        cells: by setting and learning rate, the verdicts of the parts by name, "" for a single one.
    """
    rates: dict[str, dict[str, list[float]]] = {}
    for (setting, rate), parts in cells.items():
        rates.setdefault(setting, {}).setdefault(_at_rate(parts), []).append(rate)
    flat = {
        f"{setting}, rate {rate:g}" + (f": {name}" if name else ""): part
        for (setting, rate), parts in cells.items()
        for name, part in parts.items()
    }
    lines = [
        f"{setting}: "
        + ", ".join(f"{word} at {_listed(found[word])}" for word in (HOLDS, OPEN, SHORT, FAILS) if word in found)
        for setting, found in rates.items()
    ]
    words = {word for found in rates.values() for word in found}
    verdict = IN_PART if {HOLDS, FAILS} <= words else UNDECIDED
    if words in ({HOLDS}, {FAILS}):
        (verdict,) = words
    whole = combine(flat)
    needs = "; ".join(lines) if verdict in (IN_PART, UNDECIDED) else ""
    return Verdict(verdict, whole.because, whole.numbers, whole.error_rate, needs)


def _at_rate(parts: Mapping[str, Verdict]) -> str:
    """Return whether a claim holds, fails, falls short or is open at one learning rate."""
    verdicts = {part.verdict for part in parts.values()}
    if verdicts == {HOLDS} or FAILS in verdicts:
        return HOLDS if verdicts == {HOLDS} else FAILS
    return SHORT if any(map(_short, parts.values())) else OPEN


def _short(part: Verdict) -> bool:
    limits = part.numbers.get("limits", part.numbers.get("interval"))
    return limits is not None and limits[1] < np.min(part.numbers["claimed"])


def _listed(rates: Sequence[float]) -> str:
    return ", ".join(f"{rate:g}" for rate in sorted(rates))


@shared(1)
def in_order(parts: Mapping[str, Verdict]) -> Verdict:
    """Combine parts as ``combine`` does, tested in their order until one is undecided: those after it are not tested.

    Each part may use the whole level: a later one counts only where the earlier ones are decided, and these are rarely
    decided where their verdicts are likely to be false.
    """
    tested, stopped = {}, ""
    for name, part in parts.items():
        reason = f"not tested, since it comes after {stopped}, which is undecided"
        later = replace(part, verdict=UNDECIDED, because=reason, needs=f"a decision on {stopped}")
        tested[name] = later if stopped else part
        stopped = stopped or (name if part.verdict == UNDECIDED else "")
    return combine(tested, error_rate=max(part.error_rate for part in parts.values()))


def _range(above: float, below: float) -> str:
    if np.isinf(below):
        return f"at least {above:g}"
    return f"at most {below:g}" if np.isinf(above) else f"{above:g} to {below:g}"
