"""What figures 1 and 2 and section 4.1 state about width, data, time and initialisation, decided at (50, 3)."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from elegans.experiments.claims import FAILS, HOLDS, IN_PART, UNDECIDED, Claim, Verdict, claim
from elegans.experiments.rules import LEVEL, by_interval, combine, faster, higher, holm, table
from elegans.studies.pareto_frontiers.rules import (
    STEPS,
    cell,
    counts,
    half_solved,
    limits,
    ratio_of_medians,
    resampled,
    times,
)

INITS = ("dense", "sparse:2")
WIDTHS = (10, 100, 1000)
SIZES = (600, 1000, 2000, 3000, 10_000)
TRIALS = 30
HALF_LEVEL = LEVEL / 2
SETTING = (
    "the protocol of appendix C.1 with 100000 steps at (50, 3); silent: (n, k), widths and sizes of figures 1 and 2, "
    "the loss (hinge here), the value of the non-zeros (1), how often success is checked (every 250 steps)"
)

Tables = Mapping[str, pd.DataFrame]


def width_replaces_data(tables: Tables, inits: tuple[str, ...] = INITS) -> Verdict:
    """Decide whether the smallest sample that half of the trials solve falls as networks widen."""
    return combine({init: _frontier(tables, init) for init in inits})


def _frontier(tables: Tables, init: str) -> Verdict:
    found = np.array([[counts(cell(tables, init, width, size, trials=TRIALS)) for size in SIZES] for width in WIDTHS])
    solved, trials = found[..., 0], found[..., 1]
    edges, drawn = half_solved(solved / trials, SIZES), half_solved(resampled(solved, trials), SIZES)
    with np.errstate(invalid="ignore"):
        rises = float((np.diff(drawn, axis=1) > 0).any(axis=1).mean())
        low, high = limits(np.nan_to_num(drawn[:, 0] / drawn[:, -1], nan=1.0, posinf=np.inf), HALF_LEVEL)
    known = {f"width {width}": float(edge) for width, edge in zip(WIDTHS, edges, strict=True)}
    at_edge = [counts(cell(tables, init, width, SIZES[1], trials=TRIALS)) for width in (WIDTHS[-1], WIDTHS[0])]
    p = higher(at_edge[0], at_edge[1])
    ratio = edges[0] / edges[-1]
    numbers = {"half_solved_from": known, "interval_of_ratio": [low, high], "p_at_1000_examples": p, "rises": rises}
    because = (
        f"half solved from {', '.join(f'{edge:g} ({name})' for name, edge in known.items())} examples; at 1000 "
        f"examples width 1000 solves {at_edge[0][0]} and width 10 {at_edge[1][0]} of {at_edge[0][1]} (p = {p:.2g})"
    )
    if rises < 1 - HALF_LEVEL and ratio >= 1.5 and low > 1 and p <= HALF_LEVEL:
        return Verdict(HOLDS, because, numbers, HALF_LEVEL)
    if high < 1.1 or rises >= 1 - HALF_LEVEL:
        return Verdict(FAILS, because, numbers, HALF_LEVEL)
    return Verdict(UNDECIDED, because, numbers, HALF_LEVEL, "more trials, or a finer grid of sizes")


def width_saves_steps(tables: Tables, inits: tuple[str, ...] = INITS) -> Verdict:
    """Decide whether each tenfold increase in width shortens the time to solve."""
    names, p_values, slower = [], [], []
    ratios: dict[str, list[float]] = {}
    for init in inits:
        for size in (2000, 10_000, None):
            for narrow, wide in ((10, 100), (100, 1000)):
                first, second = (times(cell(tables, init, width, size, trials=TRIALS)) for width in (wide, narrow))
                names.append(f"{init}, {size or 'online'}, {narrow} to {wide}")
                p_values.append(faster(first, second, STEPS))
                ratios[names[-1]] = list(ratio_of_medians(second, first, HALF_LEVEL / 6))
                slower.append(ratios[names[-1]][0] <= 1 / 1.2 and ratios[names[-1]][2] < 1)
    quicker = [p <= HALF_LEVEL for p in holm(p_values)]
    because = f"{sum(quicker)} of {len(names)} tenfold widths are faster, {sum(slower)} slower by a fifth or more"
    numbers = {
        name: {"ratio_of_medians": ratio, "p": p} for (name, ratio), p in zip(ratios.items(), p_values, strict=True)
    }
    if any(slower):
        worse = ", ".join(name for name, bad in zip(names, slower, strict=True) if bad)
        verdict = IN_PART if any(quicker) else FAILS
        return Verdict(verdict, f"{because}: {worse}", numbers, LEVEL, f"all but {worse}")
    if 3 * sum(quicker) >= 2 * len(names):
        return Verdict(HOLDS, because, numbers, LEVEL)
    return Verdict(UNDECIDED, because, numbers, LEVEL, "more trials")


def edge_costs_time(tables: Tables, inits: tuple[str, ...] = INITS) -> Verdict:
    """Decide whether training at the edge takes more than twice as many steps as with three times the data."""
    parts = {}
    for init in inits:
        few, many = (times(cell(tables, init, 1000, size, trials=TRIALS)) for size in (1000, 3000))
        ratio, low, high = ratio_of_medians(few, many, HALF_LEVEL)
        what = "the ratio of median times at 1000 and at 3000 examples, width 1000,"
        verdict = by_interval(what, ratio, (low, high), above=2.0, error_rate=HALF_LEVEL)
        if verdict.verdict == FAILS and high >= 1.2:
            needs = "more steps at the edge, by a factor below 2"
            verdict = Verdict(IN_PART, verdict.because, verdict.numbers, HALF_LEVEL, needs)
        parts[init] = verdict
    return combine(parts)


@claim(
    id="pareto/sparse-saves-steps",
    statement="Wide sparse networks converge in fewer steps than dense ones.",
    source="section 4.1 (3), figure 2 (right, upper against lower)",
    setting=SETTING,
    rule=(
        "Width 1000 at 1000, 3000, 10000 examples and online: log-rank tests, Holm. Holds if sparse networks are "
        "faster in all four at 2.5%, fails if they are slower in one at 2.5%."
    ),
)
def sparse_saves_steps(tables: Tables) -> Verdict:
    """Decide whether wide sparse networks are solved in fewer steps than dense ones."""
    sizes = (1000, 3000, 10_000, None)
    pairs = [[times(cell(tables, init, 1000, size, trials=TRIALS)) for init in INITS] for size in sizes]
    quicker = holm([faster(sparse, dense, STEPS) for dense, sparse in pairs])
    slower = holm([faster(dense, sparse, STEPS) for dense, sparse in pairs])
    medians = {str(size or "online"): [np.median(one) for one in pair] for size, pair in zip(sizes, pairs, strict=True)}
    because = "median steps of dense and sparse networks: " + "; ".join(
        f"{size}: {dense:g} and {sparse:g}" for size, (dense, sparse) in medians.items()
    )
    numbers = {"medians": medians, "p_faster": quicker, "p_slower": slower}
    if max(quicker) <= HALF_LEVEL:
        return Verdict(HOLDS, because, numbers, LEVEL)
    if min(slower) <= HALF_LEVEL:
        return Verdict(FAILS, because, numbers, LEVEL)
    return Verdict(UNDECIDED, because, numbers, LEVEL, "more trials")


@claim(
    id="pareto/dense-frontier-is-alike",
    statement="The common dense initialisation gives success frontiers that are qualitatively the same.",
    source="sections 3.2.1 and 4.1",
    setting=SETTING + "; what is qualitatively the same",
    rule=(
        "frontier-width-replaces-data, width-saves-steps and edge-trades-data-for-time with the dense "
        "initialisation alone; holds if all three do. That success is lost and regained as the sample grows is "
        "decided apart, by success-lost-and-regained."
    ),
)
def alike(tables: Tables) -> Verdict:
    """Decide the frontier's three claims for the dense initialisation alone."""
    table(tables, "table", "dense networks", model__init="dense")
    return combine(
        {
            "width replaces data": width_replaces_data(tables, ("dense",)),
            "width saves steps": width_saves_steps(tables, ("dense",)),
            "the edge costs time": edge_costs_time(tables, ("dense",)),
        },
        LEVEL,
    )


CLAIMS = (
    Claim(
        id="pareto/frontier-width-replaces-data",
        statement=(
            "With all else fixed, sample sizes and widths that succeed are separated by a frontier: a wider network "
            "succeeds from fewer examples, a narrower one with more."
        ),
        source="figure 1 (left), figure 4 (1), section 4.1 (1), figure 2 (center)",
        setting=SETTING,
        rule=(
            "Widths 10, 100, 1000, printed sizes 600 to 10000, 50 trials per cell (at least 30). Per initialisation: "
            "the smallest size that half of the trials solve never rises with width (beyond draws of the rates), "
            "its ratio between widths 10 and 1000 is at least 1.5 with a limit above 1, and at 1000 examples (a size "
            "chosen on other seeds) width 1000 solves more often (Fisher). Fails if the ratio's upper limit is below "
            "1.1. 2.5% per initialisation. Decided at (50, 3) only."
        ),
        decide=width_replaces_data,
    ),
    Claim(
        id="pareto/width-saves-steps",
        statement="A larger width lowers the number of serial steps to convergence.",
        source="section 4.1 (2), figure 2 (right)",
        setting=SETTING,
        rule=(
            "Widths 10 to 100 and 100 to 1000 at 2000 and 10000 examples and online, both initialisations: log-rank "
            "tests (unsolved trials censored at 100000 steps), Holm over the 12. Holds if none is slower by a factor "
            "of 1.2 with its interval on that side, and at least two thirds are faster at 2.5%; in part if some are "
            "slower and others faster; fails if some are slower and none faster."
        ),
        decide=width_saves_steps,
    ),
    Claim(
        id="pareto/edge-trades-data-for-time",
        statement=(
            "Where the sample is barely large enough, training takes many more steps; more examples save steps."
        ),
        source="section 4.1 (4), figure 2 (right)",
        setting=SETTING,
        rule=(
            "Width 1000: the ratio of median times at 1000 examples, the smallest printed size that 80% of trials "
            "solve on other seeds, and at 3000. Holds if its lower bootstrap limit exceeds 2 for both initialisations, "
            "in part between 1.2 and 2, fails if its upper limit lies below 1.2; 2.5% each."
        ),
        decide=edge_costs_time,
    ),
    sparse_saves_steps,
    alike,
)
