"""What section 4.2 and appendix C.3 state about width, sparsity, depth and weight decay on tables, per optimiser.

The source does not name the optimiser: each claim is decided separately for plain SGD and for AdamW.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from elegans.experiments import InsufficientData, Tables, Verdict, claim
from elegans.experiments.claims import UNDECIDED
from elegans.experiments.rules import LEVEL, combine, decided, holm, sign_test, table
from elegans.studies.tabular_benchmark.comparisons import RESAMPLES
from elegans.studies.tabular_benchmark.contrasts import CONTRASTS, Contrast, differences, settings_of
from elegans.tabular.datasets import benchmark_task

WIDTH, SPARSE, FOUR, TWO_LAYERS, THREE_LAYERS, DECAY = CONTRASTS[:6]
TABLES, TRIALS = 12, 10
"""The numbers of tables, whole or in part, and of trials below which nothing is decided."""
HALF_LEVEL = LEVEL / 2
NEEDS = f"errors on {TABLES} tables of the benchmark, {TRIALS} trials per setting"
PARTS = {1.0: "all rows", 0.1: "10%", 0.01: "1%"}
Pairs = pd.DataFrame
SETTING = (
    "16 tables, fractions 1 to 0.0001, widths 100 to 30000, depths 1 to 3, 100 epochs, learning rate 0.001; silent: "
    "the optimiser, the loss (logistic here), which layers are sparse (the first); ours: the tables at hand, smaller "
    "widths"
)
APART = " For SGD and AdamW separately, at least 12 tables and 10 trials; in part if for one only. Thresholds are ours."


def benchmark(tables: Tables, trials: int = TRIALS) -> pd.DataFrame:
    """Return the errors on the benchmark's tables, which must be as many as the rules need, with enough trials."""
    rows = table(tables, "table", NEEDS)
    rows = rows[[benchmark_task(name) is not None for name in rows["table"]]]
    if rows["table"].nunique() < TABLES or rows["seed"].nunique() < trials:
        raise InsufficientData(NEEDS if trials == TRIALS else f"{trials} trials per setting on {TABLES} tables")
    return rows


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


def by_tables(pairs: Pairs) -> pd.Series:
    """Return each table's mean difference over settings and trials, in percentage points."""
    return pairs.groupby("table")["difference"].mean()


def wider(pairs: Pairs) -> Verdict:
    """Decide whether wider networks have smaller errors on nearly all tables, and larger ones hardly ever."""
    pairs = pairs[pairs["depth"].isin([2, 3]) & (pairs["init"] == "sparse:2")]
    means, each = by_tables(pairs), settings_of(pairs)
    better, p = int((means < 0).sum()), sign_test(int((means < 0).sum()), len(means))
    worse = float((each["verdict"] == "worse").mean())
    because = f"{better} of {len(means)} tables err less (p = {p:.2g}); {worse:.0%} of {len(each)} settings err more"
    numbers = {"tables_better": better, "tables": len(means), "p": p, "settings_worse": worse, "settings": len(each)}
    return decided(p <= HALF_LEVEL and worse <= 0.05, 2 * better <= len(means), because, numbers, HALF_LEVEL, "tables")


def sometimes(pairs: Pairs) -> Verdict:
    """Decide whether on three tables sparse networks err less at two widths of one sample size (Holm over settings)."""
    by = [str(name) for name in pairs if name not in ("seed", "difference")]
    groups = pairs.groupby(by, dropna=False)["difference"]
    each = groups.agg(less=lambda values: (values < 0).sum(), trials="size").reset_index()
    each["p"] = holm([sign_test(*counts) for counts in each[["less", "trials"]].to_numpy(int).tolist()])
    good = each[each["p"] <= HALF_LEVEL]
    sizes = good.groupby(["table", "rows"])["width"].nunique()
    names = sorted(set(sizes[sizes >= 2].index.get_level_values("table")))
    where = ", ".join(names) or "none"
    because = f"{len(good)} of {len(each)} settings are better, at two widths of a size on: {where}"
    numbers = {"settings": len(each), "better": len(good), "tables": names}
    return decided(len(names) >= 3, good.empty, because, numbers, HALF_LEVEL, "more trials or tables")


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
        parts[name] = decided(yes <= HALF_LEVEL, no <= HALF_LEVEL, because, numbers, HALF_LEVEL, "more tables")
    return combine(parts)


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


def little(pairs: Pairs) -> Verdict:
    """Decide whether on nearly all tables the mean difference lies within one percentage point."""
    trials = pairs.groupby(["table", "seed"])["difference"].mean()
    summed = trials.groupby(level="table").agg(["mean", "std", "size"])
    reach = 2.0 * summed["std"] / np.sqrt(summed["size"])
    inside = int(((summed["mean"] + reach < 1) & (summed["mean"] - reach > -1)).sum())
    outside = int(((summed["mean"] - reach > 1) | (summed["mean"] + reach < -1)).sum())
    largest = float(summed["mean"].abs().max())
    because = f"{inside} of {len(summed)} tables lie within one point, {outside} outside; largest mean {largest:.2f}"
    numbers = {"inside": inside, "outside": outside, "tables": len(summed), "largest": largest}
    return decided(16 * inside >= 13 * len(summed) and not outside, outside > 0, because, numbers, HALF_LEVEL, "trials")


@claim(
    id="pareto/tabular-beats-forests-sometimes",
    statement="In some settings, not all, the best network errs less than the tuned forest.",
    source="abstract, section 4.2 (2T), figure 3, table 2",
    setting=SETTING + "; 108 to 120 networks and 90 forests, selected and reported on the same rows",
    rule="Whole tables, at least 6; models selected on validation rows, compared by seed on test rows: a part of the "
    "pool (all, 10%, 1%) holds if on some table the network errs less (sign test, Holm over tables, 5% over the "
    "parts), fails if on none its median is smaller.",
)
def beats_forests(tables: Tables) -> Verdict:
    rows = benchmark(tables)
    rows = rows[~rows["reduced"].astype(bool)]
    parts = {}
    for fraction, name in PARTS.items():
        groups = rows[rows["fraction"] == fraction].groupby("table")
        pairs = {str(table): _best_less_forest(cells) for table, cells in groups}
        pairs = {table: differences for table, differences in pairs.items() if len(differences) >= TRIALS}
        if len(pairs) < 6:
            parts[name] = Verdict(UNDECIDED, f"{len(pairs)} whole tables", needs="6 whole tables with forests")
            continue
        p = holm([sign_test(int((values < 0).sum()), len(values)) for values in pairs.values()])
        level = LEVEL / len(PARTS)
        ahead = [table for table, each in zip(pairs, p, strict=True) if each <= level]
        signs = [table for table, values in pairs.items() if np.median(values) < 0]
        because = f"significantly less on {', '.join(ahead) or 'none'}; in the median on {len(signs)} of {len(pairs)}"
        numbers = {"ahead": ahead, "median_ahead": signs, "tables": len(pairs)}
        parts[name] = decided(bool(ahead), not signs, because, numbers, level, "more trials and wider networks")
    return combine(parts, LEVEL)


def _best_less_forest(rows: pd.DataFrame) -> np.ndarray:
    """Return the paired differences of the selected network and the selected forest, by seed."""
    chosen = []
    for learner in ("network", "forest"):
        models = rows[rows["learner"] == learner]
        if models.empty:
            return np.empty(0)
        best = models.groupby("model")["validation_error"].median().idxmin()
        chosen.append(models[models["model"] == best].set_index("seed")["test_error"])
    return np.asarray((chosen[0] - chosen[1]).dropna(), float)


@claim(
    id="pareto/tabular-width",
    statement="Wider networks have smaller errors, nearly without exception, on tables and on reduced parts of them.",
    source="section 4.2 (2T), figures 3 and 6, appendix C.3 (2T)",
    setting=SETTING,
    rule="Neighbouring widths, depths 2 and 3, two-sparse: mean paired differences are negative on significantly "
    "more than half of the tables (sign test, 2.5%), and at most 5% of settings have intervals above 0; fails if "
    f"half of the tables or more are not negative.{APART}",
)
def width(tables: Tables) -> Verdict:
    return per_optimiser(tables, wider, WIDTH)


@claim(
    id="pareto/tabular-sparse",
    statement="Two-sparse first layers sometimes improve the error on tables.",
    source="section 4.2 (3T), figures 3 and 6, appendix C.3",
    setting=SETTING,
    rule="At least 20 trials. Sign tests per setting, Holm over all settings of an optimiser (2.5%): holds if on at "
    f"least three tables sparse networks err less at two widths of one sample size; fails if in no setting.{APART}",
)
def sparse(tables: Tables) -> Verdict:
    return per_optimiser(tables, sometimes, SPARSE, trials=2 * TRIALS)


@claim(
    id="pareto/tabular-sparse-most-when-small",
    statement="The gain from sparse initialisation is largest on tables reduced by orders of magnitude.",
    source="section 4.2 (3T), appendix C.3 (3T)",
    setting=SETTING,
    rule="Mean gain per table at 1% of the pool and below, less that at 10%, and less that at larger samples: sign "
    f"tests over tables, 2.5% each way; holds if both are positive, in part if one is.{APART}",
)
def sparse_when_small(tables: Tables) -> Verdict:
    return per_optimiser(tables, most_when_small, SPARSE)


@claim(
    id="pareto/tabular-four-worse-than-two",
    statement="Four non-zeros are almost always worse than two.",
    source="appendix C.3 (hyperparameters)",
    setting=SETTING,
    rule="The share of settings in which two non-zeros have the smaller median error, bootstrap over tables: holds "
    f"if its lower limit exceeds 75%, fails if the upper one lies below 60% (2.5% each).{APART}",
)
def four_worse(tables: Tables) -> Verdict:
    return per_optimiser(tables, nearly_always, FOUR)


@claim(
    id="pareto/tabular-one-layer-worse",
    statement="Networks with one hidden layer are almost always worse than deeper ones of the same width.",
    source="appendix C.3 (hyperparameters)",
    setting=SETTING,
    rule="The share of settings in which two or three layers have the smaller median error, bootstrap over tables: "
    f"holds if its lower limit exceeds 75%, fails if the upper one lies below 60% (2.5% each).{APART}",
)
def one_layer_worse(tables: Tables) -> Verdict:
    return per_optimiser(tables, nearly_always, TWO_LAYERS, THREE_LAYERS)


@claim(
    id="pareto/tabular-decay-does-little",
    statement="Weight decay of 0.01 in place of 0 has a minimal effect on tables.",
    source="appendix C.3 (hyperparameters)",
    setting=SETTING,
    rule="Two standard errors about each table's mean difference lie within one percentage point on 13 of 16 tables "
    "(or that share), on none outside; fails if on one outside. Under SGD, learning rate times weight decay times "
    f"steps is far below 1 unless samples are large, so the claim could hardly fail.{APART}",
)
def decay_little(tables: Tables) -> Verdict:
    return per_optimiser(tables, little, DECAY)


CLAIMS = (width, sparse, sparse_when_small, four_worse, one_layer_worse, decay_little, beats_forests)
