"""Rules on paired differences of errors, which decide the claims on tables separately for each optimiser.

The source does not name the optimiser: each claim is decided for plain SGD and for AdamW.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from elegans.experiments import InsufficientData, Tables, Verdict
from elegans.experiments.claims import UNDECIDED, shared
from elegans.experiments.rules import LEVEL, combine, decided, holm, sign_test, table
from elegans.studies.tabular_benchmark.comparisons import RESAMPLES
from elegans.studies.tabular_benchmark.contrasts import Contrast, differences, settings_of
from elegans.tabular.datasets import benchmark_task

TABLES, TRIALS = 12, 10
"""The numbers of tables, whole or in part, and of trials below which nothing is decided."""
HALF_LEVEL = LEVEL / 2
NEEDS = f"errors on {TABLES} tables of the benchmark, {TRIALS} trials per setting"
Pairs = pd.DataFrame


@shared(1)
def benchmark(tables: Tables, trials: int = TRIALS) -> pd.DataFrame:
    """Return the errors on the benchmark's tables, which must be as many as the rules need, with enough trials."""
    rows = table(tables, "table", NEEDS)
    rows = rows[[benchmark_task(name) is not None for name in rows["table"]]]
    if rows["table"].nunique() < TABLES or rows["seed"].nunique() < trials:
        raise InsufficientData(NEEDS if trials == TRIALS else f"{trials} trials per setting on {TABLES} tables")
    return rows


@shared(1)
def per_optimiser(
    tables: Tables, judge: Callable[[Pairs], Verdict], *contrasts: Contrast, trials: int = TRIALS
) -> Verdict:
    """Combine the verdicts on the paired differences of some contrasts under SGD and under AdamW."""
    rows = benchmark(tables, trials)
    pairs = pd.concat([differences(rows, contrast) for contrast in contrasts], ignore_index=True)
    parts = {str(name): rows for name, rows in pairs.groupby("optimiser") if rows["table"].nunique() >= TABLES}
    if set(parts) != {"sgd", "adamw"}:
        raise InsufficientData(NEEDS + ", by SGD and by AdamW")
    return combine({name: judge(rows) for name, rows in parts.items()}, LEVEL)


@shared(1)
def by_tables(pairs: Pairs) -> pd.Series:
    """Return each table's mean difference over settings and trials, in percentage points."""
    return pairs.groupby("table")["difference"].mean()


@shared(2)
def wider(pairs: Pairs) -> Verdict:
    """Decide whether wider networks have smaller errors on nearly all tables, and larger ones hardly ever."""
    pairs = pairs[pairs["depth"].isin([2, 3]) & (pairs["init"] == "sparse:2")]
    means, each = by_tables(pairs), settings_of(pairs)
    better, level = int((means < 0).sum()), HALF_LEVEL / 2
    p, p_worse = sign_test(better, len(means)), sign_test(int((means > 0).sum()), len(means))
    worse, surely = float((each["verdict"] == "worse").mean()), float(_signs(pairs, 1)["better"].mean())
    because = (
        f"{better} of {len(means)} tables err less (p = {p:.2g}); {worse:.0%} of {len(each)} settings err more, "
        f"{surely:.0%} after Holm's adjustment"
    )
    numbers = {"tables_better": better, "tables": len(means), "p": p, "p_worse": p_worse, "settings_worse": worse}
    numbers |= {"settings_surely_worse": surely, "settings": len(each)}
    yes, no = p <= level and worse <= 0.05, p_worse <= level or surely > 0.1
    return decided(yes, no, because, numbers, HALF_LEVEL, "the other tables of the benchmark (the scale paper)")


def _signs(pairs: Pairs, way: int) -> pd.DataFrame:
    """Return one row per setting: whether its differences have mostly the sign of ``way`` (sign tests, Holm)."""
    by = [str(name) for name in pairs if name not in ("seed", "difference")]
    groups = pairs.assign(difference=way * pairs["difference"]).groupby(by, dropna=False)["difference"]
    each = groups.agg(less=lambda values: (values > 0).sum(), trials="size", mean="mean", std="std").reset_index()
    p = holm([sign_test(*counts) for counts in each[["less", "trials"]].to_numpy(int).tolist()])
    return each.assign(better=np.array(p) <= HALF_LEVEL / 2)


@shared(2)
def sometimes(pairs: Pairs) -> Verdict:
    """Decide whether on three tables sparse networks err less at two widths of one sample size (Holm over settings)."""
    from scipy.stats import t

    each = _signs(pairs, -1)
    good = each[each["better"]]
    reach = t.isf(HALF_LEVEL / 2, each["trials"] - 1) * each["std"] / np.sqrt(each["trials"])
    most = float((each["mean"] + reach).max())
    sizes = good.groupby(["table", "rows"])["width"].nunique()
    names = sorted(set(sizes[sizes >= 2].index.get_level_values("table")))
    where = ", ".join(names) or "none"
    because = (
        f"{len(good)} of {len(each)} settings are better, at two widths of a size on: {where}; the largest gain is "
    )
    because += f"below {most:.2g} points"
    numbers = {"settings": len(each), "better": len(good), "tables": names, "largest_gain_below": most}
    return decided(len(names) >= 3, most < 1, because, numbers, HALF_LEVEL, "four times as many trials")


@shared(2)
def most_when_small(pairs: Pairs) -> Verdict:
    """Decide over tables whether sparse networks gain more at 1% and below than at 10%, and than at larger sizes."""
    share = pairs["fraction"]
    gains = [-by_tables(pairs[chosen]) for chosen in (share <= 0.0105, share == 0.1, share > 0.15)]
    parts = {}
    for name, other in zip(("than at 10%", "than at the largest size"), gains[1:], strict=True):
        more = (gains[0] - other).dropna()
        if len(more) < TABLES:
            parts[name] = Verdict(UNDECIDED, "too few tables have both sizes", needs="larger samples")
            continue
        positive = int((more > 0).sum())
        yes, no = sign_test(positive, len(more)), sign_test(len(more) - positive, len(more))
        mean = float(more.mean())
        because = f"more {name} on {positive} of {len(more)} tables (p = {yes:.2g}), {mean:+.2f} points on average"
        numbers = {"positive": positive, "tables": len(more), "p": yes, "mean": mean}
        level = HALF_LEVEL / 2
        parts[name] = decided(yes <= level, no <= level, because, numbers, level, "more tables")
    return combine(parts)


@shared(1)
def nearly_always(pairs: Pairs) -> Verdict:
    """Decide whether the second of two values has the smaller median error in more than 75% of settings, or below 60%.

    The interval is by the bootstrap over tables.
    """
    each = settings_of(pairs)
    better = (each["difference"] < 0).groupby(each["table"]).agg(["sum", "size"]).to_numpy()
    drawn = better[np.random.default_rng(0).integers(len(better), size=(RESAMPLES, len(better)))].sum(axis=1)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [HALF_LEVEL, 1 - HALF_LEVEL])
    share = better[:, 0].sum() / better[:, 1].sum()
    because = f"so in {share:.0%} ({low:.0%} to {high:.0%}) of {len(each)} settings; claimed: nearly all (ours: 75%)"
    numbers = {"share": share, "interval": [low, high], "settings": len(each)}
    return decided(bool(low > 0.75), bool(high < 0.6), because, numbers, HALF_LEVEL, "more tables or settings")


@shared(2)
def little(pairs: Pairs) -> Verdict:
    """Decide whether on nearly all tables the mean difference lies within one percentage point."""
    from scipy.stats import t

    trials = pairs.groupby(["table", "seed"])["difference"].mean()
    summed = trials.groupby(level="table").agg(["mean", "std", "size"])
    reach = t.isf(HALF_LEVEL / len(summed), summed["size"] - 1) * summed["std"] / np.sqrt(summed["size"])
    inside = int(((summed["mean"] + reach < 1) & (summed["mean"] - reach > -1)).sum())
    outside = int(((summed["mean"] - reach > 1) | (summed["mean"] + reach < -1)).sum())
    largest = float(summed["mean"].abs().max())
    because = f"{inside} of {len(summed)} tables lie within one point, {outside} outside; largest mean {largest:.2f}"
    numbers = {"inside": inside, "outside": outside, "tables": len(summed), "largest": largest}
    return decided(16 * inside >= 13 * len(summed) and not outside, outside > 0, because, numbers, HALF_LEVEL, "trials")
