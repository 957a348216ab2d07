"""What the figures of ``benchmarks.tables`` say: means and differences over tables, targets, and the figure."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.measure import short
from benchmarks.record import Target, at_least, at_most

OURS, CLASSIC, FOREST, BOOSTING = "elegans", "classic", "forest", "boosting"
FEW = 500
"""Training rows of the smaller size."""
DRAWS = 10_000


def sized(figures: pd.DataFrame) -> pd.DataFrame:
    """Return the fits that compare contenders, with their ``size``."""
    compared = figures[figures["kind"].isin(["classes", "numbers"])]
    return compared.assign(size=np.where(compared["rows"] <= FEW, f"{FEW} rows", "most rows"))


def means(figures: pd.DataFrame, kind: str, size: str, score: str, names: Sequence[str] | None = None) -> pd.DataFrame:
    """Return a score's means over splits, by contender and table, of fits of one kind and size."""
    group = sized(figures).query("kind == @kind and size == @size")
    group = group if names is None else group[group["table"].isin(names)]
    return group.groupby(["contender", "table"], sort=False)[score].mean().unstack("table")


def summary(figures: pd.DataFrame) -> list[Mapping[str, Any]]:
    """Return one row per size and contender, those that beat ours first: means over tables, and our differences."""
    rows: list[Mapping[str, Any]] = []
    compared = sized(figures)
    for kind, size in compared[["kind", "size"]].drop_duplicates().itertuples(index=False):
        scores = ("error", "loss", "auc") if kind == "classes" else ("r2",)
        each = {unit: means(figures, kind, size, unit) for unit in (*scores, "cpu", "wall", "mib")}
        first = each[scores[0]] * (1 if kind == "classes" else -1)
        ranks, block = first.rank(axis=0).mean(axis=1), []
        for name in first.index:
            splits = compared.query("kind == @kind and size == @size and contender == @name")["split"].nunique()
            row: dict[str, Any] = {"": f"{size}, {kind}", "contender": name}
            row |= {"tables": int(first.loc[name].count()), "splits": splits}
            row |= {score: short(each[score].loc[name].mean()) for score in scores}
            row |= {f"{OURS} less it, {score}": _difference(each[score], name) for score in scores[:2]}
            row |= {"rank": short(ranks[name], 2)}
            row |= {unit: short(each[unit].loc[name].mean(), 2) for unit in ("cpu", "wall", "mib")}
            block.append((name == OURS, float((first.loc[name] - first.loc[OURS]).mean()), row))
        rows += [row for *_, row in sorted(block, key=lambda each: each[:2])]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    return [{column: row.get(column, "") for column in columns} for row in rows]


def _difference(scores: pd.DataFrame, name: str) -> str:
    """Return the mean of our differences over tables, and its 95% interval over resampled tables."""
    apart = (scores.loc[OURS] - scores.loc[name]).dropna().to_numpy(float)
    if name == OURS or len(apart) < 2:
        return ""
    return "{} ({} to {})".format(*(short(value) for value in (apart.mean(), *interval(apart))))


def interval(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Return the 2.5% and 97.5% quantiles of the mean of resampled values."""
    drawn = np.random.default_rng(0).choice(np.asarray(values), (DRAWS, len(values)))
    low, high = np.quantile(drawn.mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def by_table(figures: pd.DataFrame) -> dict[str, list[Mapping[str, Any]]]:
    """Return the errors and R² of each table by contender, of the larger size, tables where ours loses most first."""
    tables = {}
    for kind, score in (("classes", "error"), ("numbers", "r2")):
        scores = means(figures, kind, "most rows", score)
        ahead = (scores.loc[OURS] - scores.loc[BOOSTING]) * (1 if kind == "classes" else -1)
        tables[score] = [
            {"table": name} | {contender: short(value) for contender, value in scores[name].dropna().items()}
            for name in ahead.sort_values(ascending=False).index
        ]
    return tables


def acceptance(figures: pd.DataFrame, names: Sequence[str]) -> list[Target]:
    """Return the targets, of which those of classes are about these tables."""
    targets = []
    for size in ("most rows", f"{FEW} rows"):
        error, loss = (means(figures, "classes", size, score, names) for score in ("error", "loss"))
        apart = {name: (error.loc[OURS] - error.loc[name]).dropna() for name in (FOREST, BOOSTING, CLASSIC)}
        if size == "most rows":
            (_, forest), (_, boosting) = interval(apart[FOREST]), interval(apart[BOOSTING])
            where = f"{len(names)} tables, error: {OURS} less"
            targets += [
                at_most(f"{where} forest", apart[FOREST].mean(), 0, " points"),
                at_most(f"{where} forest, upper end of the 95% interval over tables", forest, 0, " points"),
                at_most(f"{where} boosting", apart[BOOSTING].mean(), 0.1, " points"),
                at_most(f"{where} boosting, upper end", boosting, 0.5, " points"),
                at_least(f"tables of {len(names)} better than classic()", int((apart[CLASSIC] < 0).sum()), 12, ""),
            ]
            if "RealMLP" in error.index:
                peer = (error.loc[OURS] - error.loc["RealMLP"]).dropna()
                targets.append(at_most(f"{len(peer)} tables, error less RealMLP's", peer.mean(), 0.2, " points"))
        for name in (FOREST, BOOSTING):
            lost = float((loss.loc[OURS] - loss.loc[name]).mean())
            targets.append(at_most(f"{size}, log-loss: {OURS} less {name}", lost, 0, ""))
    r2 = means(figures, "numbers", "most rows", "r2")
    for name, least in ((FOREST, 0.0), (BOOSTING, -0.01)):
        targets.append(at_least(f"R²: {OURS} less {name}", float((r2.loc[OURS] - r2.loc[name]).mean()), least, ""))
    speed = figures.query("kind == 'speed'").set_index("table")
    for table, wall, cpu in (("normal-50", 60, 110), ("normal-20", 10, None)):
        what = f"{speed.loc[table, 'rows']} rows of {table.removeprefix('normal-')} columns"
        targets.append(at_most(f"fit of {what}", float(speed.loc[table, "wall"]), wall, " s"))
        if cpu is not None:
            targets.append(at_most(f"fit of {what}", float(speed.loc[table, "cpu"]), cpu, " CPU s"))
            targets.append(at_most("prediction of 10000 rows of them", float(speed.loc[table, "predict"]), 1, " s"))
    return targets
