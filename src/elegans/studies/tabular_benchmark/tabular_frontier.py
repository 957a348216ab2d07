"""Errors of networks and forests on samples of tables, against the size of the sample (figures 3 and 6)."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.experiments import Experiment, Results, Scale, Tables
from elegans.plots.marks import estimates
from elegans.plots.style import COLOURS, GREY, SMALL, figure_legend, panels, title_panels
from elegans.studies.tabular_benchmark.comparisons import PROBES, errors, interval, selected
from elegans.studies.tabular_benchmark.contrasts import CONTRASTS, differences, summaries
from elegans.studies.tabular_benchmark.settings import laptop, paper, part, smoke
from elegans.studies.tabular_benchmark.tabular_frontier_claims import CLAIMS

SHOWN = {
    "2T: wider is better": "A wider network",
    "3T: sparse:2 is better than dense": "2 non-zeros instead of all",
    "sparse:2 is better than sparse:4": "2 non-zeros instead of 4",
    "depth 2 is better than 1": "Two hidden layers, not one",
    "weight decay 0.01 changes little": "Weight decay 0.01, not 0",
    "adamw is better than sgd": "AdamW instead of SGD",
}
"""The contrasts that are drawn, and the meaning of their second value."""
OPTIMISERS = {"sgd": ("SGD", COLOURS[0]), "adamw": ("AdamW", COLOURS[1])}


def analyse(results: Results) -> Tables:
    """Return the errors of every trial, and each sample's best network, best network trained by SGD and best forest."""
    table = errors(results)
    by_sgd = selected(table[table["optimiser"] == "sgd"], "test_error").assign(learner="network by sgd")
    return {"table": table, "best": pd.concat([selected(table, "test_error"), by_sgd], ignore_index=True)}


def plot(tables: Tables) -> Figure:
    """Draw paired differences of errors between two values of a setting: one panel per contrast, one line per table.

    Each seed's sample gives the mean over all pairs of networks that differ in nothing else; marks are medians over
    seeds with 95% bootstrap intervals. To the left of the line the second value is better. Tables with an asterisk are
    parts of the benchmark's.
    """
    table = tables["table"]
    reduced = table.groupby("table", sort=False)["reduced"].first()[::-1]
    drawn = ((contrast.name, differences(table, contrast)) for contrast in CONTRASTS if contrast.name in SHOWN)
    parts = {name: pairs for name, pairs in drawn if len(pairs)}
    columns = min(3, len(parts))
    figure, axes = panels(-(-len(parts) // columns), columns, height=0.14 * len(reduced) + 1.0, sharey=True)
    for ax, pairs in zip(axes.flat, parts.values(), strict=False):
        if "optimiser" not in pairs:
            _marks(ax, pairs, list(reduced.index), "black")
            continue
        for shift, (name, (_, colour)) in zip((0.17, -0.17), OPTIMISERS.items(), strict=True):
            _marks(ax, pairs[pairs["optimiser"] == name], list(reduced.index), colour, shift)
    for ax in axes.flat[: len(parts)]:
        ax.axvline(0, color=GREY, linewidth=0.7, zorder=0)
        ax.set_xlabel("difference of errors (points)")
    for ax in axes.flat[len(parts) :]:
        ax.set_axis_off()
    axes[0, 0].set_ylim(-0.6, len(reduced) - 0.4)
    labels = [f"{name}*" if part else str(name) for name, part in reduced.items()]
    for ax in axes[:, 0]:
        ax.set_yticks(range(len(labels)), labels, fontsize=SMALL)
    for label, colour in OPTIMISERS.values():
        axes[0, 0].plot([], [], "o", color=colour, markersize=3, label=label)
    title_panels(axes.ravel()[: len(parts)], [SHOWN[name] for name in parts])
    figure_legend(figure, axes[0, 0])
    return figure


def _marks(ax: Axes, pairs: pd.DataFrame, names: Sequence[str], colour: str, shift: float = 0) -> None:
    """Draw a mark with its interval per table."""
    for name, rows in pairs.groupby("table", sort=False):
        errors = interval(rows.groupby("seed")["difference"].mean().to_numpy(float))
        place, middle = names.index(str(name)) + shift, errors["difference"]
        estimates(ax, place, middle, errors["low"], errors["high"], colour, across=True, markersize=2.5, capsize=0)


def findings(tables: Tables) -> dict[str, Any]:
    """Return the summaries of the published contrasts, and where the best network beats the best forest.

    ``train_error`` is the median error on the sample by optimiser, hidden layers and width: how well networks fit it.
    """
    table = tables["table"]
    best = selected(table, "validation_error")
    wide = best.pivot_table(index=["table", "rows"], columns="learner", values="error", sort=False).dropna()
    ahead = wide[wide["network"] < wide["forest"]] if len(wide) else wide
    known = table[(table["learner"] == "network") & table["width"].notna()]
    groups = known.groupby(["optimiser", "depth", "width"])["train_error"]
    return {
        "claims": summaries(table),
        "network_beats_forest": {
            "selected_by": "validation_error",
            "settings": len(wide),
            "ahead": [f"{name}, {rows} rows" for name, rows in ahead.index],
        },
        "train_error": {
            f"{optimiser}, depth {depth:g}, width {width:g}": round(float(errors.median()), 3)
            for (optimiser, depth, width), errors in groups
        },
        "seconds": table.groupby("learner")["seconds"].sum().round(1).to_dict(),
    }


EXPERIMENT = Experiment(
    name="tabular-frontier",
    shows="On small tables wide, sparsely initialised networks have smaller errors where SGD leaves narrow ones half "
    "trained",
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
    probes=PROBES,
    partial=True,
    claims=CLAIMS,
)
