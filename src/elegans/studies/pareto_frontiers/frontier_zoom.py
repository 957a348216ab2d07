"""A closer view of the success frontier (figure 2): sample sizes finely spaced around the transition.

The paper names neither (n, k) nor the widths and sizes of its figure: (50, 3) here, eight sizes per octave from the
last size at which nothing is learned to the first at which wide and narrow networks learn, and a coarser grid beyond.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from elegans.experiments import Experiment, Scale, Tables, Verdict, claim, one_table
from elegans.experiments.claims import FAILS, UNDECIDED
from elegans.experiments.rules import LEVEL, by_interval, combine, decided, faster, higher, holm, table
from elegans.studies.pareto_frontiers.plots import half_solved_from, success_and_time, timed_cells
from elegans.studies.pareto_frontiers.rules import (
    HALF_LEVEL,
    STEPS,
    cell,
    counts,
    half_solved,
    limits,
    ratio_of_medians,
    resampled,
    times,
)
from elegans.studies.pareto_frontiers.settings import INITS, WIDTHS, panels, spaced, trial
from elegans.sweeps import Sweep

PRINTED = (10, 100, 1000)
SIZES = (600, 1000, 2000, 3000, 10_000)
"""The widths and sample sizes that decide the claims."""
TRIALS = 30
SETTING = (
    "the protocol of appendix C.1 with 100000 steps at (50, 3); not stated: (n, k), widths and sizes of figures 1 and "
    "2, the loss (hinge here), the value of the non-zeros (1), how often success is checked (every 250 steps)"
)


def finer(steps: int, every: int, sizes: tuple[int, ...], widths: Sequence[int], trials: int) -> Sweep:
    """Return both panels of (50, 3), with every fourth size first: a run cut short covers the range more coarsely."""
    return panels(trial(50, 3, steps, every), (*sizes[::4], *sizes[2::4], *sizes[1::2]), widths, trials)


def decisive(trials: int) -> Sweep:
    """Return the widths and printed sizes that decide the claims, with all steps."""
    return panels(trial(50, 3, STEPS, every=250), SIZES, PRINTED, trials)


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each initialisation and width, the first size at which at least half of the trials were solved."""
    first = half_solved_from(tables["table"], "network")
    return {"half_solved_from": {str(name): int(size) for name, size in first.items()}}


@claim(
    id="pareto/frontier-width-replaces-data",
    statement="With all else fixed, sample sizes and widths that succeed are separated by a frontier from those that "
    "fail: a wider network succeeds from fewer examples, a narrower one with more.",
    source="figure 1 (left), figure 4 (1), section 4.1 (1), figure 2 (center)",
    setting=f"{SETTING}. Sensitivity, from trial runs of eight networks per cell, which are not judged: wide networks "
    "learn from fewer examples with the logistic loss too, and with non-zeros of 0.3 and 3. With the square loss "
    "networks of width 1000 diverge at the published learning rate of 0.1, and learn at 0.03",
    rule="Widths 10, 100, 1000, printed sizes 600 to 10000, 50 trials per cell (at least 30). Per initialisation, "
    "three conditions: the smallest size that half of the trials solve rises with width in under 0.5% of draws of the "
    "rates; its ratio between widths 10 and 1000 is at least 1.5, with a limit above 1; and at 1000 examples (a size "
    "chosen on other seeds) width 1000 succeeds more often (Fisher). Fails if the ratio's upper limit is below 1.1, "
    "or if the size rises with width in nearly all draws. 1% per initialisation, half of it for each comparison that "
    "may refute. Decided at (50, 3) only.",
    revised="The error rate was 2.5% per initialisation and comparison; now the rates are 1% and 0.5%. The verdict is "
    "the same. The claim could hold though the size rose with width in nearly all draws; now it may rise in 0.5% of "
    "them. It rises in none, and the verdict is the same.",
)
def width_replaces_data(tables: Tables) -> Verdict:
    return combine({init: _frontier(tables, init, HALF_LEVEL) for init in INITS})


def _frontier(tables: Tables, init: str, level: float) -> Verdict:
    cells = [[counts(cell(tables, init, width, size, trials=TRIALS)) for size in SIZES] for width in PRINTED]
    solved, trials = np.moveaxis(np.array(cells), -1, 0)
    edges, drawn = half_solved(solved / trials, SIZES), half_solved(resampled(solved, trials), SIZES)
    with np.errstate(invalid="ignore"):
        rises = float((np.diff(drawn, axis=1) > 0).any(axis=1).mean())
        low, high = limits(np.nan_to_num(drawn[:, 0] / drawn[:, -1], nan=1.0, posinf=np.inf), level / 2)
    known = {f"width {width}": float(edge) for width, edge in zip(PRINTED, edges, strict=True)}
    wide, narrow = cells[-1][1], cells[0][1]
    p = higher(wide, narrow)
    numbers = {"half_solved_from": known, "interval_of_ratio": [low, high], "p_at_1000_examples": p, "rises": rises}
    because = (
        f"half solved from {', '.join(f'{edge:g} ({name})' for name, edge in known.items())} examples; at 1000 "
        f"examples width 1000 solves {wide[0]} and width 10 {narrow[0]} of {wide[1]} (p = {p:.2g})"
    )
    yes = rises <= level / 2 and bool(edges[0] / edges[-1] >= 1.5) and low > 1 and p <= level / 2
    no = high < 1.1 or rises >= 1 - level / 2
    return decided(yes, no, because, numbers, level, "more trials, or a finer grid of sizes")


@claim(
    id="pareto/width-saves-steps",
    statement="A larger width lowers the number of serial steps to convergence.",
    source="section 4.1 (2), figure 2 (right)",
    setting=SETTING
    + ". The rule's two thirds are weaker than the source's \"exclusively positive effects\"; widths above "
    "1000 are not judged (the source goes to 100000)",
    rule="Widths 10 to 100 and 100 to 1000 at 2000 and 10000 examples and online, both initialisations: log-rank "
    "tests (unsolved trials censored at 100000 steps), Holm over the 12. Holds if no tenfold width is slower by a "
    "factor of 1.2 with its interval on that side, and at least two thirds are faster; in part if some are slower and "
    "others faster; fails if some are slower and none faster. 1% over the tests, 1% over the intervals.",
    revised="The error rate was 2.5% for each; now it is 1%. The verdict is the same.",
)
def width_saves_steps(tables: Tables) -> Verdict:
    return _saves_steps(tables, INITS, LEVEL)


def _saves_steps(tables: Tables, inits: Sequence[str], level: float) -> Verdict:
    numbers: dict[str, dict[str, Any]] = {}
    comparisons = list(product(inits, (2000, 10_000, None), ((10, 100), (100, 1000))))
    for init, size, (narrow, wide) in comparisons:
        fast, slow = (times(cell(tables, init, width, size, trials=TRIALS)) for width in (wide, narrow))
        ratio = list(ratio_of_medians(slow, fast, level / 2 / len(comparisons)))
        numbers[f"{init}, {size or 'online'}, {narrow} to {wide}"] = {
            "ratio_of_medians": ratio,
            "p": faster(fast, slow, STEPS),
        }
    quicker = sum(p <= level / 2 for p in holm([compared["p"] for compared in numbers.values()]))
    ratios = {name: compared["ratio_of_medians"] for name, compared in numbers.items()}
    slower = [name for name, ratio in ratios.items() if ratio[0] <= 1 / 1.2 and ratio[2] < 1]
    because = f"{quicker} of {len(numbers)} tenfold widths are faster, {len(slower)} slower by a fifth or more"
    because += f": {', '.join(slower)}" if slower else ""
    part = f"all but {', '.join(slower)}" if slower and quicker else ""
    mostly = not slower and 3 * quicker >= 2 * len(numbers)
    return decided(mostly, bool(slower), because, numbers, level, "more trials", part=part)


@claim(
    id="pareto/edge-trades-data-for-time",
    statement="Where the sample is barely large enough, training takes many more steps; more examples save steps.",
    source="section 4.1 (4), figure 2 (right)",
    setting=SETTING,
    rule="Width 1000: the ratio of the median time at 1000 examples, the smallest printed size that 80% of trials "
    "solve on other seeds, to the median time at 3000. Holds if its lower bootstrap limit exceeds 2 for both "
    "initialisations, and fails if its upper limit lies below 1.2 (our choice); 1% each.",
    revised="The error rate was 2.5% for each limit, and the claim held in part for a ratio between 1.2 and 2 even if "
    "its lower limit did not exceed 1.2. The verdict is the same. Later such a ratio, between two thresholds of ours, "
    "no longer counted as in part, with the same verdict.",
)
def edge_costs_time(tables: Tables) -> Verdict:
    return combine({init: _edge(tables, init, HALF_LEVEL) for init in INITS})


def _edge(tables: Tables, init: str, level: float) -> Verdict:
    few, many = (times(cell(tables, init, 1000, size, trials=TRIALS)) for size in (1000, 3000))
    ratio, low, high = ratio_of_medians(few, many, level)
    what = "the ratio of median times at 1000 and at 3000 examples, width 1000,"
    verdict = by_interval(what, ratio, (low, high), above=2.0, error_rate=level)
    between = verdict.verdict == FAILS and high >= 1.2
    return verdict.but(UNDECIDED, needs="a ratio that is not between 1.2 and 2") if between else verdict


@claim(
    id="pareto/sparse-saves-steps",
    statement="Wide sparse networks converge in fewer steps than dense ones.",
    source="section 4.1 (3), figure 2 (right, upper against lower)",
    setting=SETTING,
    rule="Width 1000 at 1000, 3000, 10000 examples and online: log-rank tests, Holm. Holds if sparse networks are "
    "faster in all four, fails if they are slower in one; 1% each way.",
    revised="The error rate was 2.5% in each direction; now it is 1%. The verdict is the same.",
)
def sparse_saves_steps(tables: Tables) -> Verdict:
    sizes = (1000, 3000, 10_000, None)
    pairs = [[times(cell(tables, init, 1000, size, trials=TRIALS)) for init in INITS] for size in sizes]
    quicker = holm([faster(sparse, dense, STEPS) for dense, sparse in pairs])
    slower = holm([faster(dense, sparse, STEPS) for dense, sparse in pairs])
    medians = {str(size or "online"): [np.median(one) for one in pair] for size, pair in zip(sizes, pairs, strict=True)}
    because = "median steps of dense and sparse networks: " + "; ".join(
        f"{size}: {dense:g} and {sparse:g}" for size, (dense, sparse) in medians.items()
    )
    numbers = {"medians": medians, "p_faster": quicker, "p_slower": slower}
    return decided(max(quicker) <= HALF_LEVEL, min(slower) <= HALF_LEVEL, because, numbers, LEVEL, "more trials")


@claim(
    id="pareto/dense-frontier-is-alike",
    statement="The common dense initialisation gives success frontiers that are qualitatively similar.",
    source="section 3.2.1",
    setting=SETTING
    + "; what is qualitatively similar. At large n the source itself finds that dense networks no longer "
    "succeed (figure 4 (3))",
    rule="frontier-width-replaces-data, width-saves-steps and edge-trades-data-for-time, for the dense initialisation "
    "alone. Holds if all three do, at a third of 2% each. Whether success is lost and regained as the sample grows is "
    "a separate claim, success-lost-and-regained.",
    revised="The error rates of the three parts added up to twice the stated rate. The verdict is the same.",
)
def alike(tables: Tables) -> Verdict:
    table(tables, "table", "dense networks", model__init="dense")
    parts = {
        "width replaces data": _frontier(tables, "dense", LEVEL / 3),
        "width saves steps": _saves_steps(tables, ["dense"], LEVEL / 3),
        "the edge costs time": _edge(tables, "dense", LEVEL / 3),
    }
    return combine(parts)


EXPERIMENT = Experiment(
    name="frontier-zoom",
    shows="Success and time around the transition: as networks widen, they succeed from fewer examples",
    source="figure 2",
    scales={
        "smoke": Scale(
            lambda trials: panels(trial(n=30, k=3, steps=1600), spaced(300, 1200, 2), (30, 300), trials), trials=4
        ),
        "laptop": Scale(
            lambda trials: finer(
                20_000, 200, (*spaced(400, 2400, 8), 3000, 4000, 6000, 10_000, 20_000, 40_000), WIDTHS[1:5], trials
            ),
            trials=20,
        ),
        "part": Scale(decisive, trials=50, part="widths 10, 100 and 1000 at five printed sample sizes and online"),
        # the cells that decide the claims come first
        "paper": Scale(
            lambda trials: (
                decisive(trials)
                + finer(STEPS, 250, (*spaced(200, 3200, 8), *spaced(4000, 10**6, 1)), WIDTHS[1:7], trials)
            ),
            trials=50,
        ),
    },
    analyse=one_table(timed_cells),
    plot=lambda tables: success_and_time(tables["table"], curve="model.width", panel="model.init"),
    findings=findings,
    claims=[width_replaces_data, width_saves_steps, edge_costs_time, sparse_saves_steps, alike],
)
