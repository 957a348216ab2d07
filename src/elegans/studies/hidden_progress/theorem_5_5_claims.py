"""The claims of ``theorem-5.5``."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from elegans.experiments import InsufficientData, Tables, Verdict, claim
from elegans.experiments.claims import FAILS, UNDECIDED
from elegans.experiments.rules import LEVEL, at_least, attempt, by_interval, by_share, combine, table
from elegans.studies.hidden_progress.rules import enough

EPSILON, LOSSES = 0.1, 30
"""The target loss, and the number of trials per size that it is averaged over."""
SIZES = ((31, 2), (63, 2), (63, 4))
"""The reachable sizes (n, k) at which the theorem is tried."""
SMALLER = (31, 4)
"""A size that does not decide: for k = 4 it has too many irrelevant weights."""
EMERGE = ((15, 2), (31, 2), (63, 2), (15, 4), (31, 4))
ALMOST_ALL = 0.95
SUPPORTS = enough(ALMOST_ALL, LEVEL / len(EMERGE))
"""The number of trials per size that, without a failure, show that fewer than 5% fail."""
PAIRS, FOURS = (15, 31, 63, 127, 255), (63, 127, 255)
STEPS, RATES = 25, (0.1, 0.3, 1.0, 3.0)
"""The sizes at k = 2 and at k = 4, the trials and the learning rates of the steps that the readout takes."""
FREE = 0.25
"""The power of n up to which a number of steps counts as independent of n (our choice)."""
RESAMPLES = 1000


@claim(
    id="progress/theorem-5.5",
    statement="The algorithm of Theorem 5.5 works far below the sizes that the theorem covers: for even k and odd n, a "
    "ReLU network of width r of about k 2^k log(k/epsilon) takes one step on about n^k log(n/epsilon) examples and "
    "O(k^3 r n^2/epsilon^2) steps of its readout, and the smallest hinge loss along the way is at most epsilon in "
    "expectation.",
    source="Theorem 5.5, main text and full statement; Informal Theorem 5.2",
    setting="n >= 2^11 k^4 log(128 k^3 n/epsilon) and at least 10^10 steps, which is beyond reach; output weights "
    "must be reset to 0; the main text has k^3 r^2 n/epsilon^2 steps; not stated: c_1 and c_2",
    rule="At sizes within reach, not the theorem's own: the printed width, a first batch of n^k ln(n/epsilon), "
    "epsilon = 0.1, and at most 20,000 readout steps at the learning rate 0.1 (the theorem's rate is for 10^10 "
    "steps). For (31, 2), (63, 2) and (63, 4), the mean over 30 seeds of the smallest held-out hinge loss has a "
    "one-sided t limit of at most 0.1; joint level 2%. A larger loss decides nothing, as the theorem is about larger "
    "n.",
    revised="The claim held in part if only the cells of k = 2 had been run; now an unfinished run leaves it "
    "undecided. A larger loss at these small sizes would have refuted it; no size has one, and the verdict is the "
    "same.",
)
def loss_reached(tables: Tables) -> Verdict:
    parts = {(n, k): attempt(_loss, tables, n, k) for n, k in SIZES}
    smaller = attempt(_loss, tables, *SMALLER)
    whole = combine({f"({n}, {k})": part for (n, k), part in parts.items()})
    numbers: dict[str, Any] = {f"{SMALLER}, for information": smaller.numbers}
    return whole.but(**numbers)


def _loss(tables: Tables, n: int, k: int) -> Verdict:
    needs = f"{LOSSES} trials of ({n}, {k}) at the printed width and batch"
    values = _runs(tables, needs, LOSSES, part="printed", n=n, k=k)["least_hinge"].to_numpy(float)
    level = LEVEL / len(SIZES)
    reach = student.ppf(1 - level, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    mean = float(values.mean())
    ends = mean - reach, mean + reach
    loss = by_interval("the mean smallest loss", mean, ends, below=EPSILON, error_rate=level)
    return loss.but(UNDECIDED, needs="larger n") if loss.verdict == FAILS else loss


@claim(
    id="progress/one-step-emergence",
    statement="With a batch of about n^k log(n/epsilon) the correct indices emerge in a single step of SGD.",
    source="footnote to the paragraph after Theorem 5.5; section 5.4.1",
    setting="weights of signs, ReLU, hinge loss; not stated: the constant and how indices are read off",
    rule="After one step on n^k ln(n) examples, the k inputs of largest summed |w| are the support in more than 95% "
    "of the seeds (our choice), for (15, 2), (31, 2), (63, 2), (15, 4) and (31, 4). Exact limits at 2% over the five: "
    "108 of 108 suffice. Holds in part for the cells named. A quarter of the batch is reported for information.",
    revised="The limits had an error rate of 5% in each cell, for which 59 of 59 suffice; all five cells have that. "
    "At 2% over the five, each needs 108 of 108. The claim held, was then undecided, and now holds by 108 first steps "
    "of each size.",
)
def support_found(tables: Tables) -> Verdict:
    parts, smaller = {}, {}
    for n, k in EMERGE:
        needs = f"{SUPPORTS} first steps of ({n}, {k}), if all find it"
        rows = _runs(tables, needs, 1, part="one step", n=n, k=k)
        whole, less = (rows[rows["batch"] == size] for size in (rows["batch"].max(), rows["batch"].min()))
        supports = int(whole["ranked"].sum())
        share = by_share("supports found", supports, len(whole), above=ALMOST_ALL, level=LEVEL / len(EMERGE))
        parts[f"({n}, {k})"] = replace(share, needs=needs) if share.verdict == UNDECIDED else share
        smaller[f"({n}, {k})"] = float(less["ranked"].mean())
    numbers: dict[str, Any] = {"share at a quarter of the batch": smaller}
    return combine(parts).but(**numbers)


@claim(
    id="progress/readout-steps-free-of-n",
    statement="After a first step on a batch of n^O(k), here an exact one, the number of iterations does not depend on "
    "n.",
    source="Informal Theorem 5.2",
    setting="the printed counts disagree: Theorem 5.5 has k^3 r^2 n/epsilon^2, its full statement k^3 r "
    "n^2/epsilon^2; both grow with n",
    rule="Steps of the readout to a held-out hinge loss of 0.1 after an exact first step, for k = 2 and n = 15 to "
    "255, and k = 4 and n = 63 to 255, at the best of the learning rates 0.1, 0.3, 1 and 3 for each n, with 25 seeds. "
    "The slope of the log median on log n is below 0.25 (our choice; fewer steps at larger n contradict no bound), by "
    "bootstrap limits at 1% for each k. That the number is 2^O(k) poly(1/epsilon) is not judged.",
    revised="The rule judged only k = 2, for which the claim held and still would, though the statement concerns "
    "every even k. Without k = 4 it was undecided. --parts readouts then ran readouts at both k on new seeds, and the "
    "claim holds.",
)
def steps_free(tables: Tables) -> Verdict:
    return combine({f"k = {k}": _steps_free(tables, k, sizes) for k, sizes in ((2, PAIRS), (4, FOURS))})


def _steps_free(tables: Tables, k: int, sizes: Sequence[int]) -> Verdict:
    times, best = [], []
    for n in sizes:
        needs = f"{STEPS} readouts of ({n}, {k}) at {len(RATES)} learning rates"
        rows = _runs(tables, needs, STEPS, part="readout", n=n, k=k)
        cells = {rate: rows.loc[rows["learning_rate"] == rate, "reached"].to_numpy(float) for rate in RATES}
        medians = {rate: np.median(np.nan_to_num(own, nan=np.inf)) for rate, own in cells.items() if len(own) >= STEPS}
        if len(medians) < len(RATES) or not np.isfinite(min(medians.values())):
            raise InsufficientData(f"{needs} that reach the loss")
        best.append(min(medians, key=lambda rate: medians[rate]))
        times.append(np.nan_to_num(cells[best[-1]], nan=rows["steps"].max()))
    generator = np.random.default_rng(0)
    drawn = [np.median(generator.choice(own, (RESAMPLES, len(own))), axis=1) for own in times]
    slopes = np.polyfit(np.log(sizes), np.log(drawn), 1)[0]
    middles = [float(np.median(own)) for own in times]
    slope = float(np.polyfit(np.log(sizes), np.log(middles), 1)[0])
    ends = np.quantile(slopes, [LEVEL / 2, 1 - LEVEL / 2])
    power = by_interval("the power of n", slope, ends.tolist(), below=FREE, error_rate=LEVEL / 2)
    return power.but(steps=dict(zip(sizes, middles, strict=True)), rates=best)


def _runs(tables: Tables, needs: str, least: int, **where: Any) -> pd.DataFrame:
    return at_least(least, table(tables, "runs", needs, **where), needs)


CLAIMS = (loss_reached, support_found, steps_free)
