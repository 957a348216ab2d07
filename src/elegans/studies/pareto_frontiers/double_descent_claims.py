"""What section 4.1 and appendix C.1 state about success and time as the sample grows at fixed width."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from elegans.experiments.claims import HOLDS, IN_PART, UNDECIDED, Verdict, claim
from elegans.experiments.rules import LEVEL, by_interval, combine, decided, higher
from elegans.studies.pareto_frontiers.rules import cell, counts, limits, ratio_of_medians, resampled, times

FEW, MANY = 10_000, 100_000
"""The sample sizes between which success is lost at (100, 3), chosen by us on other seeds."""
TRIALS = 40
HALF_LEVEL = LEVEL / 2
SETTING = (
    "the protocol of appendix C.1 with 100000 steps; named: n = 200, k = 3; silent: widths, sizes of the dip, rates; "
    "ours: (100, 3), 10000 and 100000 examples and online"
)

Tables = Mapping[str, pd.DataFrame]


@claim(
    id="pareto/success-lost-and-regained",
    statement=(
        "At fixed width, as the sample grows, success is reached, lost, and reached again at still larger samples, "
        "online training included."
    ),
    source="section 4.1 (4), figure 4 (4), appendix C.1 (4)",
    setting=SETTING,
    rule=(
        "Width 100, 50 trials per cell: Fisher's tests at 2.5% that success is rarer at 100000 examples than at "
        "10000, and than online. Holds if both are significant for both initialisations; in part if for one, or "
        "if success is lost and not regained; else undecided, since another row may have it."
    ),
)
def lost_and_regained(tables: Tables) -> Verdict:
    """Decide for both initialisations at width 100 whether success is lost with more data and regained online."""
    words: list[str] = []
    numbers: dict[str, object] = {}
    regained: list[str] = []
    lost: list[str] = []
    for init in ("dense", "sparse:2"):
        few, many, online = (counts(cell(tables, init, 100, size, n=100, trials=TRIALS)) for size in (FEW, MANY, None))
        fall, rise = higher(few, many), higher(online, many)
        words.append(f"{init}: {few[0]}, {many[0]} and {online[0]} of {few[1]} (p = {fall:.2g} and {rise:.2g})")
        numbers[init] = {"solved": [few, many, online], "p_lost": fall, "p_regained": rise}
        if fall <= HALF_LEVEL:
            (regained if rise <= HALF_LEVEL else lost).append(init)
    because = f"solved at {FEW} and {MANY} examples and online: {'; '.join(words)}"
    if len(regained) == 2:
        return Verdict(HOLDS, because, numbers, LEVEL)
    if regained or lost:
        needs = f"lost and regained: {', '.join(regained) or 'none'}; lost only: {', '.join(lost) or 'none'}"
        return Verdict(IN_PART, because, numbers, LEVEL, needs)
    return Verdict(UNDECIDED, because, numbers, LEVEL, "other rows: n = 150 and 200, widths 10 and 300")


@claim(
    id="pareto/times-worsen-with-data",
    statement="Convergence times, too, can rise with more data.",
    source="figure 2 (right), section 4.1 (4)",
    setting=SETTING,
    rule=(
        "(100, 3), dense, width 300, and (50, 3), sparse, width 30, chosen on other seeds: the ratio of median "
        "times at 100000 and 10000 examples. Each holds if its lower bootstrap limit exceeds 1.2, fails if the "
        "upper one lies below; 2.5% each."
    ),
)
def times_worsen(tables: Tables) -> Verdict:
    """Decide whether the median time rises by a fifth, in two cells where nearly all trials are solved."""
    parts = {}
    for name, init, width, n in (("(100, 3), dense", "dense", 300, 100), ("(50, 3), sparse", "sparse:2", 30, 50)):
        few, many = (times(cell(tables, init, width, size, n=n, trials=TRIALS)) for size in (FEW, MANY))
        ratio, low, high = ratio_of_medians(many, few, HALF_LEVEL)
        what = f"the median time at {MANY} examples by that at {FEW}, width {width},"
        parts[name] = by_interval(what, ratio, (low, high), above=1.2, error_rate=HALF_LEVEL)
    return combine(parts)


@claim(
    id="pareto/dip-disappears-with-width",
    statement="The performance drop at larger samples disappears in wider networks.",
    source="figure 2, caption",
    setting=SETTING,
    rule=(
        "(100, 3), dense, 10000 to 100000 examples. Success: the drop is smaller at width 1000 than at 100 and "
        "below 10% there (draws of the rates, 2.5%). Times: the ratio of medians at width 3000 lies below 1.2 "
        "(bootstrap, 2.5%). In part if only one holds."
    ),
)
def dip_disappears(tables: Tables) -> Verdict:
    """Decide whether drops of success and of speed at the larger sample vanish in wide dense networks."""
    drops = {width: _drop(tables, "dense", width, n=100, trials=TRIALS) for width in (100, 1000)}
    low, high = limits(drops[100] - drops[1000], HALF_LEVEL)
    least, most = limits(drops[1000], HALF_LEVEL)
    because = (
        f"success drops by {drops[100].mean():.0%} at width 100 and by {drops[1000].mean():.0%} at width 1000 "
        f"({least:.0%} to {most:.0%}); difference {low:.0%} to {high:.0%}"
    )
    numbers = {"difference_of_drops": [low, high], "drop_at_1000": [least, most]}
    few, many = (times(cell(tables, "dense", 3000, size, n=100, trials=TRIALS)) for size in (FEW, MANY))
    ratio, slow, slowest = ratio_of_medians(many, few, HALF_LEVEL)
    what = f"the median time at {MANY} examples by that at {FEW}, width 3000,"
    return combine(
        {
            "success": decided(low > 0 and most < 0.1, high < 0 or least > 0.1, because, numbers, HALF_LEVEL, "trials"),
            "times": by_interval(what, ratio, (slow, slowest), below=1.2, error_rate=HALF_LEVEL),
        }
    )


@claim(
    id="pareto/sparse-weakens-dip",
    statement=(
        "Sparse initialisation reduces the non-monotonicity in the sample size, but not entirely; (200, 3) still "
        "shows it."
    ),
    source="appendix C.1 (4)",
    setting="n = 200, k = 3; silent: widths and sizes; ours: widths 100 and 300, 30000 and 300000 examples",
    rule=(
        "At least 150 trials per cell (elegans run double-descent --scale paper --seeds 180): per width the drop "
        "of success of sparse networks is smaller than that of dense ones, and above 0 (draws of the rates, "
        "1.25% per direction and line). Holds if all do, in part if some."
    ),
)
def sparse_weakens_dip(tables: Tables) -> Verdict:
    """Decide at (200, 3) whether success drops less for sparse networks, and whether it drops at all."""
    parts = {}
    sizes = (3 * FEW, 3 * MANY)
    for width in (100, 300):
        dense, sparse = (_drop(tables, init, width, n=200, trials=150, sizes=sizes) for init in ("dense", "sparse:2"))
        low, high = limits(dense - sparse, HALF_LEVEL / 2)
        what = f"the drop of success of dense less that of sparse networks, width {width},"
        parts[f"smaller, width {width}"] = by_interval(what, float((dense - sparse).mean()), (low, high), above=0.0)
        low, high = limits(sparse, HALF_LEVEL / 2)
        what = f"the drop of success of sparse networks, width {width},"
        parts[f"there, width {width}"] = by_interval(what, float(sparse.mean()), (low, high), above=0.0)
    return combine(parts, LEVEL)


def _drop(
    tables: Tables, init: str, width: int, *, n: int, trials: int, sizes: tuple[int, int] = (FEW, MANY)
) -> np.ndarray:
    """Return by how much success falls from the smaller to the larger sample, resampled."""
    found = np.array([counts(cell(tables, init, width, size, n=n, trials=trials)) for size in sizes])
    drawn = resampled(found[:, 0], found[:, 1], seed=2 * width + (init == "dense"))
    drop: np.ndarray = drawn[:, 0] - drawn[:, 1]
    return drop


CLAIMS = (
    lost_and_regained,
    times_worsen,
    dip_disappears,
    sparse_weakens_dip,
)
