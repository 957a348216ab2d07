"""Errors of networks and forests on samples of tables, against the size of the sample (figures 3 and 6)."""

from collections.abc import Mapping
from typing import Any, Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from elegans.experiments.base import Experiment, Scale
from elegans.experiments.results import Results, Tables
from elegans.plots.style import GREY, LARGE, MEDIUM, SMALL, panels, quiet, shades, short
from elegans.studies.tabular_benchmark.comparisons import errors, probes, selected
from elegans.studies.tabular_benchmark.contrasts import summaries
from elegans.studies.tabular_benchmark.published import published
from elegans.studies.tabular_benchmark.settings import laptop, paper, part, smoke
from elegans.studies.tabular_benchmark.tabular_frontier_claims import CLAIMS

DEPTH = 2
"""The depth whose widths are drawn."""
COLUMNS = 4
"""Panels per row."""
Stroke = Literal["-", "--"]
GOLD, BLACK = "#B8860B", "black"
LINES: dict[str, Stroke] = {"sparse:2": "-", "dense": "--"}
BEST: dict[str, tuple[str, Stroke]] = {"network": (GOLD, "-"), "network by sgd": (GOLD, "--"), "forest": (BLACK, "-")}
"""How the best model of each kind is drawn."""


def analyse(results: Results) -> Tables:
    """Return the errors of every trial, and the best network, network trained by SGD and forest of each sample."""
    table = errors(results)
    by_sgd = selected(table[table["optimiser"] == "sgd"], "test_error").assign(learner="network by sgd")
    return {"table": table, "best": pd.concat([selected(table, "test_error"), by_sgd], ignore_index=True)}


def plot(tables: Tables) -> Figure:
    """Draw median held-out errors against rows of the sample, one panel per table.

    Coloured lines are networks of two hidden layers trained by SGD, solid with 2 non-zeros per neuron and dashed dense;
    the gold line is the best network of all, the dashed one the best by SGD, the black one the best forest.
    Dotted lines are published errors of a tuned network and a tuned forest on the full data.
    """
    table, best = tables["table"], tables["best"]
    reduced = table.groupby("table", sort=False)["reduced"].first()
    columns = min(COLUMNS, len(reduced))
    rows = -(-len(reduced) // columns)
    figure, axes = panels(rows, columns, height=1.7 + 0.8 / rows, width=1.9 * columns)
    networks = _shown(table)
    widths = sorted(networks["width"].unique())
    colours = dict(zip(widths, shades(len(widths)), strict=True))
    for ax, name in zip(axes.flat, reduced.index, strict=False):
        _panel(ax, networks[networks["table"] == name], best[best["table"] == name], colours)
        if not reduced[name] and (known := published(str(name))) is not None:
            ax.axhline(known.benchmark_network, color=GOLD, linewidth=0.8, linestyle=":")
            ax.axhline(known.benchmark_forest, color=BLACK, linewidth=0.8, linestyle=":")
        ax.set_title(str(name), loc="left", fontsize=MEDIUM)
    for ax in axes.flat[len(reduced) :]:
        ax.set_axis_off()
    axes[0, 0].set_ylabel("held-out error (%)", fontsize=MEDIUM)
    for ax in axes.flat[max(0, len(reduced) - COLUMNS) : len(reduced)]:
        ax.set_xlabel("rows trained on", fontsize=MEDIUM)
    figure.suptitle("Networks and forests on samples of tables", fontsize=LARGE, fontweight="bold")
    _legend(figure, colours)
    return figure


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    """Return the networks whose widths are drawn."""
    chosen = (table["depth"] == DEPTH) & (table["optimiser"] == "sgd") & (table["weight_decay"] == 0)
    return table[chosen & table["init"].isin(list(LINES)) & table["width"].notna()]


def _panel(ax: Axes, networks: pd.DataFrame, best: pd.DataFrame, colours: Mapping[Any, Any]) -> None:
    for (init, width), rows in networks.groupby(["init", "width"], sort=True):
        middle = 100 * rows.groupby("rows")["test_error"].median()
        ax.plot(middle.index, middle, LINES[str(init)], color=colours[width], linewidth=1, marker=".", markersize=3)
    for learner, (colour, line) in BEST.items():
        rows = best[best["learner"] == learner].sort_values("rows")
        ax.plot(rows["rows"], 100 * rows["error"], line, color=colour, linewidth=1.4, marker=".", markersize=4)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda value, _: short(value))
    ax.xaxis.set_minor_formatter(lambda value, _: "")
    quiet(ax)


def _legend(figure: Figure, colours: Mapping[Any, Any]) -> None:
    lines = [Line2D([], [], color=colour, label=f"width {short(width)}") for width, colour in colours.items()]
    lines += [Line2D([], [], color=GREY, linestyle=line, label=f"{init}") for init, line in LINES.items()]
    lines += [
        *(Line2D([], [], color=colour, linestyle=line, label=f"best {name}") for name, (colour, line) in BEST.items()),
        Line2D([], [], color=GREY, linestyle=":", label="published, full data"),
    ]
    figure.legend(handles=lines, loc="outside lower center", ncols=-(-len(lines) // 2), fontsize=SMALL, frameon=False)


def findings(tables: Tables) -> dict[str, Any]:
    """Return the summaries of the published contrasts, and where the best network beats the best forest."""
    table = tables["table"]
    best = selected(table, "validation_error")
    wide = best.pivot_table(index=["table", "rows"], columns="learner", values="error", sort=False).dropna()
    ahead = wide[wide["network"] < wide["forest"]] if len(wide) else wide
    return {
        "claims": summaries(table),
        "network_beats_forest": {
            "selected_by": "validation_error",
            "settings": len(wide),
            "ahead": [f"{name}, {rows} rows" for name, rows in ahead.index],
        },
        "train_error": _fitted(table),
        "seconds": {
            str(name): round(float(value), 1) for name, value in table.groupby("learner")["seconds"].sum().items()
        },
    }


def _fitted(table: pd.DataFrame) -> dict[str, Any]:
    """Return, by optimiser, hidden layers and width, the median error on the sample: how far networks have learned."""
    known = table[(table["learner"] == "network") & table["width"].notna()]
    groups = known.groupby(["optimiser", "depth", "width"])["train_error"].median()
    names = [f"{optimiser}, depth {depth:g}, width {width:g}" for optimiser, depth, width in groups.index]
    return dict(zip(names, groups.round(3).tolist(), strict=True))


EXPERIMENT = Experiment(
    name="tabular-frontier",
    shows="On small tables wide, sparsely initialised networks err less where SGD leaves narrow ones half trained",
    source="figures 3 and 6",
    scales={
        "smoke": Scale(smoke, trials=2),
        "laptop": Scale(laptop, trials=10),
        "part": Scale(part, trials=20, part="1% and 10% of the tables at hand, networks that cost little, 3 forests"),
        "paper": Scale(paper, trials=100),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    partial=True,
    claims=CLAIMS,
)
