"""Errors of the best network and the best random forest on 16 tables, beside the published ones (table 2)."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.experiments.base import Experiment, Scale
from elegans.experiments.results import Results, Tables
from elegans.plots.style import COLOURS, LARGE, MEDIUM, SMALL, panels, quiet
from elegans.studies.tabular_benchmark.comparisons import errors, probes, selected
from elegans.studies.tabular_benchmark.published import LABELS, published
from elegans.studies.tabular_benchmark.settings import laptop, paper, smoke
from elegans.tabular.datasets import benchmark_task

BY = ("table", "reduced", "part", "rows", "fraction", "learner")
"""What makes a row: a model is selected for each."""
SELECTED = ("model", "error", "low", "high")


def analyse(results: Results) -> Tables:
    """Return one row per table, part and learner: the models selected by both rules, beside the published error.

    Returns:
        ``number`` of the benchmark's task, missing for other tables; ``table``; ``reduced``, whether it is a part of
        the benchmark's; ``part``: ``full``, ``10%``, ``1%``, or the number of rows where the scale allows no more;
        ``rows`` and ``fraction`` of the sample; ``learner``; ``models``, how many there are to select from; ``trials``;
        ``model``, ``error``, ``low`` and ``high`` of the one with the smallest median test error, as published;
        ``honest_model`` and so on of the one with the smallest median error on the validation rows; ``published``, the
        error of the same learner, on the full data where the part is a number of rows. Errors in percent.
    """
    each = errors(results)
    largest = each.groupby("table")["rows"].transform("max")
    parts = [_part(*row) for row in zip(each["fraction"], each["rows"], each["rows"] == largest, strict=True)]
    each = each.assign(part=parts)
    each = each[each["part"] != ""]
    found, honest = (selected(each, rule, BY) for rule in ("test_error", "validation_error"))
    renamed = {name: f"honest_{name}" for name in SELECTED}
    found = found.merge(honest[[*BY, *SELECTED]].rename(columns=renamed), on=list(BY))
    numbers = [str(name) for name in found if str(name).rpartition("_")[2] in ("error", "low", "high")]
    found[numbers] = (100 * found[numbers]).round(2)
    tasks = [benchmark_task(name) for name in found["table"]]
    found.insert(0, "number", pd.Series([task.number if task else None for task in tasks], dtype="Int64"))
    found["published"] = [_published(*row) for row in zip(found["table"], found["learner"], found["part"], strict=True)]
    by, rising = ["number", "table", "rows"], [True, True, False]
    return {"table": found.sort_values(by, kind="stable", ascending=rising, ignore_index=True)}


def _part(fraction: float, rows: int, is_largest: bool) -> str:
    """Return the column of the published table that a sample belongs to, or nothing."""
    return LABELS.get(fraction) or (f"{rows} rows" if is_largest else "")


def _published(name: str, learner: str, part: str) -> float | None:
    known = published(name)
    if known is None:
        return None
    fraction = next((fraction for fraction, label in LABELS.items() if label == part), 1.0)
    return (known.network if learner == "network" else known.forest)[fraction]


def plot(tables: Tables) -> Figure:
    """Draw the selected errors beside the published ones: one panel per part of the training pool, one line per table.

    Filled marks are errors as published ones are selected, with 95% bootstrap intervals; crosses are the honestly
    selected; open marks the published. Tables that are parts of the benchmark's are marked with an asterisk.
    """
    table = tables["table"]
    names = list(dict.fromkeys(table["table"]))[::-1]
    chosen = {"largest sample": table["part"].str.endswith("rows") | (table["part"] == "full")}
    chosen |= {f"{label} of the pool": table["part"] == label for label in ("10%", "1%")}
    parts = {title: table[rows] for title, rows in chosen.items() if rows.any()}
    size = {"height": 0.26 * len(names) + 1.5, "width": 2.2 * len(parts) + 1.2}
    figure, (axes,) = panels(1, len(parts), **size, sharey=True)
    for ax, (title, part) in zip(axes, parts.items(), strict=True):
        for learner, colour, shift in (("network", COLOURS[0], 0.17), ("forest", COLOURS[1], -0.17)):
            rows = part[part["learner"] == learner]
            _marks(ax, rows, np.array([names.index(name) for name in rows["table"]]) + shift, colour, learner)
        ax.set_title(title, loc="left", fontsize=MEDIUM)
        ax.set_xlabel("test error (%)", fontsize=MEDIUM)
        quiet(ax)
    reduced = set(table.loc[table["reduced"], "table"])
    axes[0].set_yticks(range(len(names)), [f"{name}*" if name in reduced else name for name in names], fontsize=SMALL)
    figure.suptitle("Best network and best forest", fontsize=LARGE, fontweight="bold")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=SMALL, frameon=False)
    return figure


def _marks(ax: Axes, rows: pd.DataFrame, place: np.ndarray, colour: str, learner: str) -> None:
    error = rows["error"].to_numpy(float)
    span = np.abs(rows[["low", "high"]].to_numpy(float).T - error)
    ax.errorbar(error, place, xerr=span, fmt="o", color=colour, markersize=3, linewidth=0.8, label=learner)
    ax.plot(rows["honest_error"], place, "x", color=colour, markersize=4, label=f"{learner}, honestly selected")
    known = rows["published"].to_numpy(float)
    ax.plot(known, place, "o", color=colour, markersize=4, fillstyle="none", label=f"{learner}, published")


def findings(tables: Tables) -> dict[str, Any]:
    """Return the table, how far the two rules differ, and how far ours are from what was published on whole tables.

    ``optimism`` is the median of the honestly selected error less the error that was itself selected by.
    """
    table = tables["table"]
    gap = table["honest_error"] - table["error"]
    whole = table[~table["reduced"] & table["part"].isin(list(LABELS.values())) & table["published"].notna()]
    from_published = whole["error"] - whole["published"]
    stated = table.drop(
        columns=["reduced", "fraction", "models", "trials", "honest_model", "honest_low", "honest_high"]
    )
    return {
        "optimism": {
            str(learner): round(float(values.median()), 2) for learner, values in gap.groupby(table["learner"])
        },
        "ours_less_published": {
            f"{learner}, {part}": {"tables": len(values), "median": round(float(values.median()), 2)}
            for (learner, part), values in from_published.groupby([whole["learner"], whole["part"]])
        },
        "rows": stated.astype(object).where(stated.notna(), None).to_dict("records"),
    }


FRACTIONS = tuple(LABELS)
EXPERIMENT = Experiment(
    name="tabular-table",
    shows="The best network beside the best random forest on each table, selected as published and honestly",
    source="table 2",
    scales={
        "smoke": Scale(partial(smoke, fractions=(1, 0.1)), trials=2),
        "laptop": Scale(
            partial(laptop, fractions=FRACTIONS),
            trials=10,
        ),
        "paper": Scale(partial(paper, fractions=FRACTIONS), trials=100),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    partial=True,
)
