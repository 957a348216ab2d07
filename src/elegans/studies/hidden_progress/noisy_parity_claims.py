"""The claims on noisy labels (appendix B.3.6, figure B.12)."""

import math
from collections.abc import Mapping

import numpy as np

from elegans.experiments import InsufficientData, Tables, Verdict, claim
from elegans.experiments.rules import at_least, by_interval, combine, decided, share_limits, table

NOISE = (0.0, 0.2, 0.4, 0.45)
LEARNED = 0.45
"""The error below which a trial has learned something."""
TRIALS = 14
RESAMPLES = 1000

SETTING = "ReLU of width 100, rate 0.1, (50, 3), 5 seeds, accuracy on clean examples; silent: B, p, length"


@claim(
    id="progress/noise-49-percent",
    statement="Networks learn (50, 3) from labels of which 49% are flipped.",
    source="appendix B.3.6; figure B.12 and its caption",
    setting=SETTING,
    rule="At p = 0.49 and the best batch size of those run, over half of 14 trials or more (exact limits, 5% over "
    "the batch sizes) have over 55% accuracy within 10^6 steps and at least one 99% (ours); in part if none has.",
)
def learns_from_49_percent(tables: Tables) -> Verdict:
    """Decide whether (50, 3) is learned with 49% of labels flipped, at the best batch size."""
    needs = "14 trials at (50, 3) with 49% of labels flipped and batches of 128 or 1024, 10^6 steps"
    rows = table(tables, "times", needs, task__n=50, task__k=3, task__noise=0.49)
    counts = {}
    for batch in sorted(set(rows["training.batch_size"])):
        own = rows[rows["training.batch_size"] == batch]
        if len(own) >= TRIALS:
            solved = int(own["solved_at"].notna().sum())
            learned = int((own["solved_at"].notna() | (own["test_error"] <= LEARNED)).sum())
            counts[int(batch)] = learned, solved, len(own)
    if not counts:
        raise InsufficientData(needs)
    best = max(counts, key=lambda batch: counts[batch])
    learned, solved, trials = counts[best]
    low, high = share_limits(learned, trials, 0.05 / len(counts))
    because = f"at B = {best}, {learned} of {trials} learned and {solved} reached 99% ({low:.2g} to {high:.2g} learn)"
    numbers = {"by_batch": counts, "limits": [low, high]}
    part = "55% accuracy; none reached 99% within 10^6 steps" if low > 0.5 else ""
    return decided(low > 0.5 and solved > 0, high < 0.5, because, numbers, 0.05, "more trials", part=part)


@claim(
    id="progress/noise-slows-and-unsettles",
    statement="With noisy labels and a constant rate, iterates need not reach 100%; times grow strongly at small "
    "batches and high noise.",
    source="appendix B.3.6; figure B.12, caption",
    setting=SETTING,
    rule="(a) At p = 0.4 or 0.45 and B = 32 a trial that learned is without a mistake at no check of 2 10^5 steps; "
    "(b) log t(B = 32, p) / t(B = 1024, p), of median times to 99%, grows with p: 90% bootstrap interval of the "
    "slope above 0, 14 trials at p = 0, 0.2, 0.4, 0.45.",
)
def slows_and_unsettles(tables: Tables) -> Verdict:
    """Decide whether noise keeps iterates below 100%, and slows small batches more than large ones."""
    needs = "14 trials at (50, 3) per amount of noise and batch size: the part scale"
    rows = table(tables, "times", needs, task__n=50, task__k=3)
    perfect = rows[(rows["training.stopping.error"] == 0) & (rows["training.batch_size"] == 32)]
    at_least(TRIALS, perfect, needs)
    stuck = perfect["solved_at"].isna() & (perfect["test_error"] <= LEARNED)
    because = f"{int(stuck.sum())} of {len(perfect)} trials learned and were never without a mistake in 2 10^5 steps"
    parts = {"unsettled": decided(bool(stuck.any()), not stuck.any(), because, {"stuck": int(stuck.sum())}, 0.0, "")}
    times = {}
    for batch in (32, 1024):
        for noise in NOISE:
            cell = rows[(rows["training.batch_size"] == batch) & (rows["task.noise"] == noise)]
            solved_at = cell[cell["training.stopping.error"] > 0]["solved_at"].dropna().to_numpy(float)
            times[batch, noise] = at_least(math.ceil(0.9 * TRIALS), solved_at, needs)
    generator = np.random.default_rng(0)
    drawn = {key: np.median(generator.choice(own, (RESAMPLES, len(own))), axis=1) for key, own in times.items()}
    known = {key: np.median(own) for key, own in times.items()}
    low, high = np.quantile(_slope(drawn), [0.05, 0.95])
    what = "the slope in p of log t(B = 32) / t(B = 1024)"
    parts["small batches"] = by_interval(what, float(_slope(known)), (low, high), above=0)
    return combine(parts)


def _slope(times: Mapping[tuple[int, float], np.ndarray]) -> np.ndarray:
    ratio = np.array([np.log(times[32, noise] / times[1024, noise]) for noise in NOISE])
    slope: np.ndarray = np.polyfit(NOISE, ratio, 1)[0]
    return slope


CLAIMS = (learns_from_49_percent, slows_and_unsettles)
