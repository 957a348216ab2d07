"""Decision rules of this study's claims: how many runs show something, pairs of runs, and gaps between losses."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from elegans.experiments import InsufficientData, Tables, Verdict
from elegans.experiments.claims import FAILS, HOLDS, IN_PART, UNDECIDED, shared
from elegans.experiments.rules import LEVEL, at_least, by_checks, decided, sign_test, table

COMPUTATIONS = "induction/computations"
"""The name under which tables of checks compare two independent computations of the same thing."""
CLOSED, BESIDE, HALF = 0.85, 2.0, 0.5
"""Near the best: at least 0.85 of the gap closed and at most twice the best loss; in part, half of the gap."""
STILL_FALLING = 0.02
"""A loss that falls by more than this share over the last tenth of a training has not converged."""


@shared(2)
def exactly(tables: Tables, *, claim: str, part: str = "the parts that are satisfied", corrected: str = "") -> Verdict:
    """Decide a theoretical statement by its checks, provided that independent computations agree."""
    agreed = table(tables, "checks", "two independent computations", claim=COMPUTATIONS)
    if not agreed["satisfied"].astype(bool).all():
        raise InsufficientData("two computations that agree")
    return by_checks(tables, claim=claim, part=part, corrected=corrected)


@shared(1)
def enough(runs: int, level: float) -> int:
    """Return of how many runs more than half must show something: one half passes with at most this probability."""
    return next((count for count in range(runs + 1) if sign_test(count, runs) <= level), runs + 1)


@shared(2)
def most(what: str, shown: Any, *, runs: int = 13, level: float = LEVEL) -> Verdict:
    """Decide whether a typical run, more than half of them, shows something; it fails where it is the reverse.

    Args:
        what: what runs show.
        shown: by run, whether it shows it.
        runs: how many; of more runs the first by order are used.
        level: the probability with which a share of one half passes at most: 11 of 13 and 16 of 20 at 2%, 12 and 17
            at 0.5%.
    """
    least = enough(runs, level)
    count = _count(what, shown, runs)
    because = f"{what}: {count} of {runs} runs; claimed of a typical run (at least {least})"
    numbers = {"shown": count, "runs": runs}
    needs = f"{2 * runs} seeds, of which {enough(2 * runs, level)} decide"
    return decided(count >= least, count <= runs - least, because, numbers, sign_test(least, runs), needs)


def _count(what: str, shown: Any, runs: int) -> int:
    return int(np.asarray(at_least(runs, shown, f"{what} of {runs} seeds per cell"), bool)[:runs].sum())


@shared(2)
def by_ratios(what: str, ratios: Any, *, above: float = 1.0, level: float = LEVEL) -> Verdict:
    """Decide whether the median ratio of paired runs exceeds a threshold of at least 1, by 13 pairs of equal seed.

    So many ratios must exceed the threshold as a median at it has with at most the probability ``level``: 11 at 2%; in
    part if as many only exceed 1, and it fails if as many do not. Ratios may be infinite; they are NaN where neither
    run got there, which counts as 1, and more of these than may miss leave the claim undecided.
    """
    values = np.asarray(at_least(13, ratios, f"13 pairs of: {what}"), float)[:13]
    least = enough(13, level)
    unknown = int(np.isnan(values).sum()) > 13 - least
    values = np.sort(np.where(np.isnan(values), 1.0, values))
    favour, low, middle, high = int((values > 1).sum()), *(float(values[place]) for place in (13 - least, 6, least - 1))
    because = f"{what}: a median ratio of {middle:.3g} ({low:.3g} to {high:.3g}), {favour} of 13 above 1"
    because += f"; claimed: more than {above:g}"
    numbers = {"median": middle, "interval": [low, high], "above_one": favour, "pairs": 13, "claimed": above}
    return decided(
        low > above,
        favour <= 13 - least and not unknown,
        because,
        numbers,
        sign_test(least, 13),
        "longer trainings: neither run of some pairs got there" if unknown else "26 pairs",
        part="the sign, not the size" if low > 1 else "",
    )


@shared(1)
def gap_closed(loss: Any, simpler: Any, best: Any) -> np.ndarray:
    """Return the share of the gap between a simpler predictor's loss and the best one's that a loss has closed."""
    return np.asarray((np.asarray(simpler) - np.asarray(loss)) / (np.asarray(simpler) - np.asarray(best)))


@shared(2)
def near_best(what: str, ends: pd.DataFrame, *, runs: int = 13, level: float = LEVEL) -> Verdict:
    """Decide whether typical runs end near the best loss: 85% of the gap closed and at most twice that loss.

    In part if they close half of the gap; undecided while most losses are still falling.

    Args:
        what: whose losses.
        ends: one row per run: ``loss``, ``simpler`` and ``best`` (the two lines) and ``falling``, the share by which
            the loss fell over the last tenth of the training.
        runs: how many.
        level: the error rate; runs near the best loss have closed half of the gap, so both questions share it.
    """
    ends = ends.head(runs)
    closed = gap_closed(ends["loss"], ends["simpler"], ends["best"])
    ratio = ends["loss"] / ends["best"]
    because = f"gap closed {np.median(closed):.3g}, {np.median(ratio):.3g} times the best loss"
    near = most(f"{what}, near the best loss", (closed >= CLOSED) & (ratio <= BESIDE), runs=runs, level=level)
    verdict = near.but(because=because, gap_closed=_spread(closed), over_best=_spread(ratio))
    if verdict.verdict == HOLDS:
        return verdict
    if float((ends["falling"] > STILL_FALLING).mean()) > 0.5:
        return verdict.but(UNDECIDED, needs="longer trainings: losses still fall")
    half = most(what, closed >= HALF, runs=runs, level=level)
    if half.verdict == HOLDS:
        return verdict.but(IN_PART, needs="half of the gap")
    return verdict.but(half.verdict, needs=half.needs) if verdict.verdict == FAILS else verdict


def _spread(values: Any) -> list[float]:
    return [float(np.min(values)), float(np.median(values)), float(np.max(values))]


@shared(1)
def ends_of(
    runs: Sequence[pd.DataFrame], loss: str = "loss", simpler: str = "line.unigram", best: str = "line.bigram"
) -> pd.DataFrame:
    """Return for each run what ``near_best`` needs.

    Args:
        runs: in order of steps.
        loss: the column of the loss.
        simpler: the column of the simpler predictor's loss.
        best: the column of the best one's.
    """
    rows = []
    for run in runs:
        last, tenth = run.iloc[-1], run[run["step"] <= 0.9 * run["step"].max()].iloc[-1]
        lines = {"simpler": last[simpler], "best": last[best]}
        rows.append({"loss": last[loss], **lines, "falling": 1 - last[loss] / tenth[loss]})
    return pd.DataFrame(rows)


@shared(1)
def first_at(run: pd.DataFrame, holds: Any) -> float:
    """Return the first step of a run at which something holds, infinite if it never does."""
    steps = run.loc[np.asarray(holds, bool), "step"]
    return float(steps.min()) if len(steps) else math.inf


@shared(1)
def runs_of(
    tables: Mapping[str, pd.DataFrame],
    needs: str,
    *,
    trials: int,
    least_checks: int = 0,
    least_steps: int = 0,
    **where: Any,
) -> list[pd.DataFrame]:
    """Return the first runs of one cell of ``curves``, by seed, each in order of steps.

    Args:
        tables: with ``curves``.
        needs: what is missing if there are too few runs.
        trials: the number of runs.
        least_checks: how often each must have been measured, and
        least_steps: how long it must last.
        where: values of columns that make the cell.
    """
    rows = table(tables, "curves", needs, **where)
    runs = at_least(trials, [run.sort_values("step") for _, run in rows.groupby("seed")], needs)[:trials]
    if min(map(len, runs)) < least_checks or min(run["step"].max() for run in runs) < least_steps:
        raise InsufficientData(needs)
    return runs


@shared(1)
def in_order(what: str, larger: pd.DataFrame, smaller: pd.DataFrame, *, level: float = LEVEL) -> Verdict:
    """Decide pair by pair whether measured means exceed others, with probability ``level`` of any error over all pairs.

    A difference's standard error is taken as the sum of both, an upper bound under any dependence.

    Args:
        what: what is compared, and which should be larger.
        larger: one row per pair, with ``measured`` and ``error``, the standard error of a mean of at least 1000 runs.
        smaller: the same, in the same order.
        level: that probability.
    """
    difference = larger["measured"].to_numpy(float) - smaller["measured"].to_numpy(float)
    reach = norm.isf(level / len(difference)) * (larger["error"].to_numpy(float) + smaller["error"].to_numpy(float))
    above, below = int((difference > reach).sum()), int((difference < -reach).sum())
    least = int(np.argmin(difference - reach))
    numbers = {
        "above": above,
        "below": below,
        "pairs": len(difference),
        "least_difference": [float(difference[least]), float(reach[least])],
    }
    because = f"{what}: so beyond sampling error for {above} of {len(difference)} pairs, the reverse for {below}"
    part = "the pairs that are in order" if above and below else ""
    return decided(above == len(difference), below > 0, because, numbers, level, "more sequences", part=part)
