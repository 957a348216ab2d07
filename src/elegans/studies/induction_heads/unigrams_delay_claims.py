"""The claims of ``unigrams-delay``."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from elegans.experiments.claims import FAILS, HOLDS, IN_PART, UNDECIDED, Verdict, claim
from elegans.experiments.rules import combine
from elegans.studies.induction_heads.rules import by_ratios, runs_of

NEEDS = "13 seeds of four symbols and 100 tokens, 3000 steps: doubly stochastic, 64 + 64, 32 + 32 and flat rows"
DOUBLY, FLAT = "64 doubly stochastic", "flat rows"
STILL = 0.1
"""A loss is on a plateau while it changes by less than this share."""


SETTING = (
    "four symbols, transformer of the main setting, learning rate 1e-3, 100 tokens; evaluated on flat rows; "
    "silent: tokens, learning rate, batches, steps, size of the effect"
)


def _arm(tables: Mapping[str, pd.DataFrame], arm: str) -> list[pd.DataFrame]:
    runs = runs_of(tables, NEEDS, trials=13, k=4, arm=arm)
    return runs if min(run["step"].max() for run in runs) >= 3000 else runs_of({}, NEEDS, trials=13)


def _crossings(tables: Mapping[str, pd.DataFrame], arm: str) -> np.ndarray:
    """Return the doubly stochastic sequences (for flat rows, all) up to the crossing; infinite without one."""
    found = []
    for run in _arm(tables, arm):
        at = run[run["step"] == run["crossed_at"]]
        found.append(float(at["doubly"].iloc[0]) if len(at) else np.inf)
    return np.array(found)


def _ratios(later: np.ndarray, earlier: np.ndarray) -> np.ndarray:
    """Return ratios of times, NaN where neither crossing was reached."""
    with np.errstate(invalid="ignore"):
        return np.asarray(later / earlier)


@claim(
    id="induction/unigram-free-chains-learn-faster",
    statement="Trained on doubly stochastic chains, transformers reach the solution much sooner, also when "
    "evaluated on flat rows.",
    source="sections 8.1, 8.3.1 and 8.3.2, figure 8.4a",
    setting=SETTING,
    rule="13 pairs of equal seed: sequences until the loss on flat rows is first below 0.15; flat rows over "
    "doubly stochastic exceeds 1 in 10 of 13 pairs and its 97.8% interval 1.5 (ours; in part: 1). Error rate 4.6%",
)
def faster_without(tables: Mapping[str, pd.DataFrame]) -> Verdict:
    """Decide whether flat rows need more than 1.5 times the sequences of doubly stochastic chains."""
    ratios = _ratios(_crossings(tables, FLAT), _crossings(tables, DOUBLY))
    return by_ratios("sequences on flat rows over those on doubly stochastic chains", ratios, above=1.5)


@claim(
    id="induction/free-unigram-samples-slow-learning",
    statement="Adding sequences that only unigrams explain, while the number of doubly stochastic ones stays the "
    "same, delays the solution.",
    source="section 8.3.2, figure 8.4a",
    setting=SETTING + "; silent: whether added sequences enlarge the batch (64 + 64) or replace half of it (32 + "
    "32): both are judged",
    rule="13 pairs of equal seed for each way: doubly stochastic sequences until the loss on flat rows is first "
    "below 0.15, over those without the others, exceed 1 in 10 of 13 pairs and their 97.8% interval 1.25 (ours); "
    "no crossing within 3000 steps counts as later. Error rate 4.6% each",
)
def added_delay(tables: Mapping[str, pd.DataFrame]) -> Verdict:
    """Decide whether added sequences delay the crossing, for both ways of batching."""
    alone = _crossings(tables, DOUBLY)
    parts = {}
    for name, arm in (("64 + 64", "64 + 64 unigram"), ("32 + 32", "32 + 32 unigram")):
        ratios = _ratios(_crossings(tables, arm), alone)
        parts[name] = by_ratios("doubly stochastic sequences, over those without the others,", ratios, above=1.25)
    return combine(parts)


def longest_plateau(run: pd.DataFrame) -> float:
    """Return the longest time before the crossing, in sequences, in which the loss changes by less than a tenth."""
    before = run[run["step"] <= run["crossed_at"].fillna(np.inf)]
    losses, at = before["loss"].to_numpy(), before["doubly"].to_numpy(float)
    longest = 0.0
    for start in range(len(losses)):
        high, low = np.maximum.accumulate(losses[start:]), np.minimum.accumulate(losses[start:])
        still = np.flatnonzero(high - low < STILL * losses[start])
        longest = max(longest, float(at[start + still[-1]] - at[start]))
    return longest


@claim(
    id="induction/no-long-plateau-without-unigrams",
    statement=(
        "Without a unigram signal the transformer does not stay long in the intermediate stage; training proceeds "
        "smoothly."
    ),
    source="section 8.3.2, figure 8.4a",
    setting=SETTING + "; silent: what is long, and on which distribution",
    rule="13 pairs of equal seed: the longest time before the crossing in which the loss on flat rows changes by "
    "less than 10%, as a share of the time to the crossing: holds if its 97.8% interval is below 25% (ours); in "
    "part if it is longer, but at least 1.5 times shorter in sequences than on flat rows. Error rates 2.2% and "
    "4.6%",
)
def no_plateau(tables: Mapping[str, pd.DataFrame]) -> Verdict:
    """Decide whether doubly stochastic chains have no long plateau, or at least a shorter one than flat rows."""
    alone, flat = (np.array([longest_plateau(run) for run in _arm(tables, arm)]) for arm in (DOUBLY, FLAT))
    shares = np.sort(alone / _crossings(tables, DOUBLY))
    low, middle, high = (float(shares[place]) for place in (2, 6, 10))
    shorter = by_ratios("the plateau on flat rows over that on doubly stochastic chains", flat / alone, above=1.5)
    because = f"the longest plateau is {middle:.3g} ({low:.3g} to {high:.3g}) of the time to the crossing"
    because = f"{because}; {shorter.because}"
    numbers = {"share": middle, "interval": [low, high], "shorter": shorter.numbers}
    if high < 0.25:
        return Verdict(HOLDS, because, numbers, 0.022)
    if low <= 0.25:
        return Verdict(UNDECIDED, because, numbers, 0.022, "more seeds")
    if shorter.verdict == HOLDS:
        return Verdict(IN_PART, because, numbers, 0.046, "a shorter plateau than on flat rows")
    return Verdict(FAILS if shorter.verdict == FAILS else UNDECIDED, because, numbers, 0.046, "more pairs")


CLAIMS = (
    faster_without,
    added_delay,
    no_plateau,
)
