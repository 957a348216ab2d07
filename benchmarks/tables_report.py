"""What the figures of ``benchmarks.tables`` say: means and differences over tables, targets, and the figure."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from benchmarks.measure import short
from benchmarks.record import Target, at_least, at_most
from elegans.plots.marks import estimates
from elegans.plots.style import COLOURS, GREY, SMALL, figure_legend, panels, title_figure, title_panels

OURS, CLASSIC, FOREST, BOOSTING = "elegans", "classic", "forest", "boosting"
RIVALS = (FOREST, BOOSTING)
REST = (CLASSIC, "extra trees", "MLP", "linear", "RealMLP", "TabM")
FEW, MANY = 500, 8000
"""Training rows of the two sizes, the second at most 70% of the table."""
DRAWS = 10_000
MOST = "most rows"
PANELS = {
    "classes-few": ("classes", f"{FEW} rows", "error", "error, percentage points"),
    "classes-most": ("classes", MOST, "error", "error, percentage points"),
    "numbers-most": ("numbers", MOST, "r2", "R²"),
}
"""The kind of targets, size, score and axis of tables by table, and of the figure's panels."""
TARGETS = (
    ("classes", MOST, "error", FOREST, "mean", 0.0),
    ("classes", MOST, "error", FOREST, "upper end", 0.0),
    ("classes", MOST, "error", BOOSTING, "mean", 0.1),
    ("classes", MOST, "error", BOOSTING, "upper end", 0.5),
    ("classes", MOST, "error", CLASSIC, "share below 0", 12 / 14),
    ("classes", MOST, "error", "RealMLP", "mean", 0.2),
    ("classes", f"{FEW} rows", "error", "RealMLP", "mean", 0.2),
    *(("classes", size, "loss", name, "mean", 0.0) for size in (MOST, f"{FEW} rows") for name in (FOREST, BOOSTING)),
    ("numbers", MOST, "r2", FOREST, "mean", 0.0),
    ("numbers", MOST, "r2", BOOSTING, "mean", -0.01),
)
"""The kind of targets, size, score, rival and statistic of our differences over tables, and its limit."""


def sized(figures: pd.DataFrame) -> pd.DataFrame:
    """Return the fits that compare contenders, with their ``size``."""
    compared = figures[figures["kind"].isin(["classes", "numbers"])]
    return compared.assign(size=np.where(compared["rows"] <= FEW, f"{FEW} rows", MOST))


def means(figures: pd.DataFrame, kind: str, size: str, score: str) -> pd.DataFrame:
    """Return means over splits (of seconds: the least), by contender and table, of fits of one kind and size."""
    group = sized(figures).query("kind == @kind and size == @size").groupby(["contender", "table"], sort=False)[score]
    return (group.min() if score == "cpu" else group.mean()).unstack("table")


def summary(figures: pd.DataFrame) -> list[Mapping[str, Any]]:
    """Return one row per size and contender, those that beat ours first: means over tables, and our differences."""
    rows: list[Mapping[str, Any]] = []
    compared = sized(figures)
    for kind, size in compared[["kind", "size"]].drop_duplicates().itertuples(index=False):
        scores = ("error", "loss", "auc") if kind == "classes" else ("r2",)
        each = {unit: means(figures, kind, size, unit) for unit in (*scores, "cpu", "mib")}
        first = each[scores[0]] * (1 if kind == "classes" else -1)
        ranks, block = first.rank(axis=0).mean(axis=1), []
        for name in first.index:
            splits = compared.query("kind == @kind and size == @size and contender == @name")["split"].nunique()
            row: dict[str, Any] = {"": f"{size}, {kind}", "contender": name}
            row |= {"tables": int(first.loc[name].count()), "splits": splits}
            row |= {score: short(each[score].loc[name].mean()) for score in scores}
            row |= {
                f"{OURS} less it, {score}": with_interval(apart_from(compared, kind, size, score, name))
                if name != OURS
                else ""
                for score in scores[:2]
            }
            row |= {"rank": short(ranks[name], 2)}
            row |= {unit: short(each[unit].loc[name].mean(), 2) for unit in ("cpu", "mib")}
            block.append((name == OURS, float((first.loc[name] - first.loc[OURS]).mean()), row))
        rows += [row for *_, row in sorted(block, key=lambda each: each[:2])]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    return [{column: row.get(column, "") for column in columns} for row in rows]


def apart_from(
    figures: pd.DataFrame, kind: str, size: str, score: str, name: str, names: Sequence[str] | None = None
) -> np.ndarray:
    """Return our score less a contender's on each table, the mean over the splits that both have."""
    group = sized(figures).query("kind == @kind and size == @size")
    group = group if names is None else group[group["table"].isin(names)]
    wide = group.pivot_table(index=["table", "split"], columns="contender", values=score).reindex(columns=[OURS, name])
    return (wide[OURS] - wide[name]).dropna().groupby("table").mean().to_numpy(float)


def with_interval(apart: np.ndarray) -> str:
    """Return the mean over tables, and from four tables on its 95% interval over resampled tables."""
    text = short(float(apart.mean())) if len(apart) else ""
    return text if len(apart) < 4 else "{} ({} to {})".format(text, *(short(end) for end in interval(apart)))


def interval(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Return the 2.5% and 97.5% quantiles of the mean of resampled values."""
    drawn = np.random.default_rng(0).choice(np.asarray(values), (DRAWS, len(values)))
    low, high = np.quantile(drawn.mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def by_table(figures: pd.DataFrame) -> dict[str, list[Mapping[str, Any]]]:
    """Return errors and R² of each table by contender, the tables where boosting leads first."""
    tables: dict[str, list[Mapping[str, Any]]] = {}
    for panel, (kind, size, score, _) in PANELS.items():
        scores = means(figures, kind, size, score).reindex([OURS, BOOSTING, FOREST, *REST]).dropna(how="all")
        scores = scores.loc[:, scores.reindex([OURS, BOOSTING]).notna().all()]
        ahead = scores.reindex([BOOSTING]).to_numpy(float) - scores.reindex([OURS]).to_numpy(float)
        order = np.argsort(ahead.ravel() * (1 if kind == "classes" else -1))
        tables[panel] = [
            {"table": str(scores.columns[place])}
            | {str(name): short(value) for name, value in scores.iloc[:, place].dropna().items()}
            for place in order
        ]
    return tables


def acceptance(figures: pd.DataFrame, names: Sequence[str]) -> list[Target]:
    """Return the targets of what has been measured, of which those of classes are about these tables."""
    targets: list[Target] = []
    for kind, size, score, name, statistic, limit in TARGETS:
        apart = apart_from(figures, kind, size, score, name, names if kind == "classes" else None)
        if len(apart) > 1:
            measured = {"mean": apart.mean(), "upper end": interval(apart)[1], "share below 0": (apart < 0).mean()}
            what = f"{score}, {size}, {len(apart)} tables: {OURS} less {name}, {statistic}"
            check = at_least if score == "r2" or statistic == "share below 0" else at_most
            unit = " points" if score == "error" and check is at_most else ""
            targets.append(check(what, float(measured[statistic]), limit, unit))
    return targets + _speeds(figures[figures["kind"] == "speed"].set_index("table"))


def _speeds(figures: pd.DataFrame) -> list[Target]:
    wide, narrow = "normal-50", "normal-20"
    targets = []
    for table, unit, limit in ((wide, "wall", 60), (wide, "cpu", 110), (narrow, "wall", 10), (wide, "predict", 1)):
        if table in figures.index:
            rows, columns = figures["rows"][table], table.removeprefix("normal-")
            what = "prediction of 10000" if unit == "predict" else f"fit of {rows}"
            seconds = " CPU s" if unit == "cpu" else " s"
            targets.append(at_most(f"{what} rows of {columns} columns", float(figures[unit][table]), limit, seconds))
    return targets


def draw(figures: pd.DataFrame) -> Figure:
    """Draw our differences to forest and boosting by table with intervals over splits, and the times of fits."""
    figure, axes = panels(2, 2, height=3.0)
    compared, sentences = sized(figures), []
    for ax, (kind, size, score, label) in zip(axes.flat, PANELS.values(), strict=False):
        group = compared[(compared["kind"] == kind) & (compared["size"] == size)]
        wide = group.pivot_table(index=["table", "split"], columns="contender", values=score)
        apart = {name: (wide[OURS] - wide[name]).dropna().groupby("table") for name in RIVALS if name in wide}
        ahead_by = apart[BOOSTING].mean() if BOOSTING in apart else pd.Series(dtype=float)
        order = list(ahead_by.sort_values(ascending=kind != "classes").index)
        for number, (name, values) in enumerate(apart.items()):
            middle, reach = values.mean().reindex(order), values.agg(_reach).reindex(order)
            places = np.arange(len(order)) + 0.18 * (1 - 2 * number)
            style: dict[str, Any] = {"markersize": 3, "across": True, "label": f"{OURS} less {name}"}
            estimates(ax, places, middle, middle - reach, middle + reach, COLOURS[number], **style)
        if kind == "classes" and len(apart) == len(RIVALS):
            lost = {name: float(values.mean().mean()) for name, values in apart.items()}
            ahead = [
                f"{abs(mean):.2f} points {'less' if mean < 0 else 'more'} than {name}" for name, mean in lost.items()
            ]
            sentences.append(f"{' and '.join(ahead)} at {size.replace('most', f'up to {MANY}')}")
        ax.axvline(0, color=GREY, linewidth=0.7, zorder=0)
        ax.set_yticks(np.arange(len(order)), order, fontsize=SMALL)
        ax.set_xlabel(label)
    times = compared[compared["rows"] > FEW].groupby(["contender", "table"])["cpu"].min()
    contenders = list(times.groupby("contender").median().sort_values(ascending=False).index)
    for place, name in enumerate(contenders):
        colour = COLOURS[2 if name == OURS else 5]
        axes.flat[3].plot(times[name], np.full(len(times[name]), place), "o", color=colour, markersize=2.5)
    axes.flat[3].set_yticks(np.arange(len(contenders)), contenders, fontsize=SMALL)
    axes.flat[3].set(xscale="log", xlabel="CPU seconds of a fit")
    titles = (f"classes, {FEW} training rows", f"classes, up to {MANY} rows", f"numbers, up to {MANY} rows")
    title_panels(axes, [*titles, "time, a point a table"])
    task = "Classifiers and regressors at their defaults on the same rows; intervals: 95% over splits"
    title_figure(figure, f"On average, the networks err {'; '.join(sentences)}", task)
    figure_legend(figure, *axes.flat[:3])
    return figure


def _reach(values: pd.Series) -> float:
    """Return half the width of the 95% t interval of a mean over splits, or 0 for one split."""
    from scipy.stats import t

    count = len(values)
    return 0.0 if count < 2 else float(t.isf(0.025, count - 1) * values.std() / np.sqrt(count))
