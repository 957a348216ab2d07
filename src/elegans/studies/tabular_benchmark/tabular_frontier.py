"""Errors of networks and forests on samples of tables, against the size of the sample (figures 3 and 6)."""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments.base import Experiment, Scale
from elegans.plots import figure_of
from elegans.studies.tabular_benchmark.comparisons import claims, errors, probes, selected
from elegans.studies.tabular_benchmark.plots import tabular_frontier
from elegans.studies.tabular_benchmark.published import published
from elegans.studies.tabular_benchmark.settings import laptop, paper, smoke


def plot(table: pd.DataFrame) -> Figure:
    """Draw a panel a table; dotted lines are published errors on all of the data."""
    lines = {name: published(str(name)) for name in table.loc[~table["reduced"], "table"].unique()}
    full = {name: (row.benchmark_network, row.benchmark_forest) for name, row in lines.items() if row is not None}
    by_sgd = selected(table[table["optimiser"] == "sgd"], "test_error").assign(learner="network by sgd")
    best = pd.concat([selected(table, "test_error"), by_sgd])
    return figure_of(tabular_frontier(table, best, full))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return what the trials say of the published claims, and where the best network beats the best forest."""
    best = selected(table, "validation_error", by=("table", "rows", "fraction", "learner"))
    wide = best.pivot_table(index=["table", "rows"], columns="learner", values="error", sort=False).dropna()
    ahead = wide[wide["network"] < wide["forest"]] if len(wide) else wide
    return {
        "claims": claims(table),
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
        "smoke": Scale(smoke, trials=2, time="about 15 seconds"),
        "laptop": Scale(
            laptop, trials=10, time="about 50 minutes on 2 cores with AVX-512, 14 tables of 2000 to 90000 rows"
        ),
        "paper": Scale(paper, trials=100, time="months on 2 cores; needs the 16 tables"),
    },
    analysis=errors,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
    partial=True,
)
