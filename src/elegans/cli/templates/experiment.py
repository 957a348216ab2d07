"""How many more examples does it take to learn a majority from noisy inputs?"""

from typing import Any

import elegans as el
from elegans.experiments import Results, Scale, Tables, Verdict, claim, rules
from elegans.plots import marks, style


class MyFirstTask(el.Task):
    """The label is the majority of three of n signs; the network sees all n, each with noise added to it."""

    n: int = 12  # a field is validated, is part of a trial's identity, and can be swept as "task.n"
    noise: float = 0.0

    @property
    def input_size(self) -> int:
        return self.n

    def draw(self, key: el.random.Key) -> Any:  # once per trial: which three signs count
        return el.random.subsets(key, rows=1, n=self.n, size=3)[0]

    def examples(self, hidden: Any, key: el.random.Key, index: Any) -> tuple[Any, Any]:
        signs = el.random.rademacher(key, index, self.n)
        noise = el.random.rademacher(key.fold(1), index, self.n)  # a second draw needs a key of its own
        return signs + self.noise * noise, 2.0 * (signs[:, hidden].sum(axis=1) > 0) - 1


class MyFirstProbe(el.Probe):
    """The share of a network's squared hidden weights that lies on the three signs, measured while it learns."""

    def measure(self, snapshot: el.Snapshot) -> dict[str, float]:
        squares = snapshot.weights["hidden.weight"] ** 2  # shape (width, n)
        return {"share": float(squares[:, snapshot.hidden].sum() / squares.sum())}


def grid(sizes: list[int]) -> el.Sweep:
    """Return the grid: every noise with every number of examples."""
    training = el.SGD(learning_rate=0.1, steps=1000)
    trial = el.Trial(task=MyFirstTask(), regime=el.Sample(50), model=el.MLP(width=32), training=training)
    return el.grid(trial, {"task.noise": [0.0, 0.4], "regime.size": sizes})


def analyse(results: Results) -> Tables:
    """Return the table behind the figure and the claim: one row per noise and size, with success rate and share."""
    names = ["task.noise", "regime.size"]
    last = results.measures["my-first-probe"].groupby("trial")["share"].last()
    shares = results.trials.assign(share=last).groupby(names, as_index=False)["share"].mean()
    return {"cells": el.analysis.summarise_cells(results.trials, by=names).merge(shares)}


def plot(tables: Tables) -> Any:
    """Draw the success rate with its 95% interval, and the share, against the number of examples."""
    figure, (axes,) = style.panels(1, 2, height=2.6)
    for (noise, cells), colour in zip(tables["cells"].groupby("task.noise"), style.COLOURS, strict=False):
        sizes, label = cells["regime.size"], f"noise {noise:g}"
        marks.band(axes[0], sizes, cells["rate"], cells["low"], cells["high"], colour, marker="o", label=label)
        axes[1].plot(sizes, cells["share"], color=colour, marker="o")
    for ax, label in zip(axes, ("success rate", "share of weights"), strict=True):
        ax.set(xlabel="examples", ylabel=label)
        style.logarithmic(ax, "x")
    axes[0].legend()
    return figure


@claim(
    id="my-first/200-examples",
    statement="Most networks learn the task from 200 noisy examples.",
    source="a question of my own",
    rule="More than half of the networks solve the task: exact limits of the success rate that err by at most 2%.",
)
def enough(tables: Any) -> Verdict:
    """Decide the claim from the table; if it lacks these rows, the claim stays undecided."""
    cells = rules.table(tables, "cells", "trials with 200 noisy examples", task__noise=0.4, regime__size=200)
    solved, trials = int(cells["solved"].sum()), int(cells["trials"].sum())
    return rules.by_share("networks that solve the task", solved, trials, above=0.5)


EXPERIMENT = el.Experiment(
    name="my-first",
    shows="Noise on the inputs costs examples",
    source="a question of my own",
    scales={
        "smoke": Scale(grid([50, 200]), trials=6),  # trials per cell
        "laptop": Scale(grid([20, 50, 100, 200, 500]), trials=20),
    },
    analyse=analyse,
    plot=plot,
    probes=[MyFirstProbe(every=100)],
    claims=[enough],
)
