"""Quanta discovered from gradients: clusters of examples compared with the true subtasks while a network learns."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments import Experiment, Results, Scale, Tables
from elegans.analysis import describe
from elegans.experiments.claims import InsufficientData, Verdict, claim
from elegans.experiments.rules import by_median, by_pairs, combine, table
from elegans.plots.style import COLOURS, GREY, figure_legend, panels, title_panels
from elegans.studies.neural_scaling.settings import laptop, paper, probes, smoke
from elegans.tasks import MultitaskParity

AFFINITIES = {
    "angular": "angle between gradients (as published)",
    "labelled": "the same, compared with subtask and label",
    "unsigned": "size of the cosine",
    "whole": "size of the cosine, with control weights",
    "active": "active neurons",
    "inputs": "data bits",
}


def analyse(results: Results) -> Tables:
    """Return one row per network and measured step: adjusted Rand indices by affinity, and the share learned."""
    taken = results.measures["gradient-clusters"]
    task = results.sweep.parts[0][0].task
    assert isinstance(task, MultitaskParity)
    return {"table": taken[["seed", "step", *AFFINITIES, "learned"]].assign(tasks=task.tasks)}


def plot(tables: Tables) -> Figure:
    """Draw adjusted Rand indices against steps, and at the end of training by affinity."""
    rows = tables["table"]
    figure, ((left, right),) = panels(1, 2, height=2.6)
    colours = dict(zip(AFFINITIES, (*COLOURS[:5], GREY), strict=True))
    last = rows[rows["step"] == rows["step"].max()]
    for place, (name, label) in enumerate(AFFINITIES.items()):
        mean = rows.groupby("step")[name].mean()
        left.plot(mean.index, mean, "o-", color=colours[name], markersize=3, linewidth=1.2, label=label)
        right.plot([place] * len(last), last[name], "o", color=colours[name], markersize=3, alpha=0.6)
    learned = rows.groupby("step")["learned"].mean()
    left.plot(
        learned.index, learned, color="black", linewidth=1, linestyle=":", label="subtasks that are learned (share)"
    )
    left.set_xlabel("steps")
    left.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k")
    right.set_xticks(range(len(AFFINITIES)), list(AFFINITIES))
    for ax in (left, right):
        ax.set_ylabel("adjusted Rand index")
        ax.set_ylim(-0.05, 1.05)
    title_panels((left, right), ("Clusters become subtasks as these are learned", "At the end, one dot per network"))
    figure_legend(figure, left, columns=3)
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return the adjusted Rand indices by affinity before training and at its end."""
    rows = tables["table"]
    ends = {"before": rows["step"].min(), "at the end": rows["step"].max()}
    return {
        when: {
            name: describe(rows.loc[rows["step"] == step, name].to_numpy(float)) for name in (*AFFINITIES, "learned")
        }
        for when, step in ends.items()
    }


NEEDS = "6 networks on at least 100 subtasks: elegans run quanta-discovery --scale laptop"


@claim(
    id="quanta/discovered-from-gradients",
    statement="Spectral clustering of examples by the angles between their gradients discovers the quanta.",
    source="section 5, whose language models have no known subtasks",
    setting="100 subtasks on 32 bits, 200 neurons, 40,000 steps; 40 examples of each of the first 10",
    rule="Adjusted Rand index of as many clusters as subtasks, by gradients without weights of control bits, at "
    "the end of training: median of at least 6 networks above 0.5 (ours), by their range; and, as a second part, "
    "above the index of clusters by data bits alone, by the sign test.",
)
def discovered(tables: Mapping[str, pd.DataFrame]) -> Verdict:
    """Decide by the index at the end of training, by itself and against the data bits."""
    rows = table(tables, "table", NEEDS)
    last = rows[rows["step"] == rows["step"].max()]
    if last["tasks"].min() < 100 or len(last) < 6:
        raise InsufficientData(NEEDS)
    return combine(
        {
            "the subtasks": by_median("the adjusted Rand index", last["angular"], above=0.5),
            "more than inputs": by_pairs("gradients above data bits", last["angular"] - last["inputs"]),
        }
    )


CLAIMS = (discovered,)

EXPERIMENT = Experiment(
    name="quanta-discovery",
    shows="Clusters of examples by their gradients approach the subtasks as these are learned, most without signs",
    source="section 5",
    scales={
        "smoke": Scale(smoke, trials=1),
        "laptop": Scale(laptop, trials=6),
        "paper": Scale(paper, trials=6),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=CLAIMS,
)
