"""Above and below the threshold of conjunctions: training accuracy reaches 100% either way, held-out not.

Of each replicate, a support with a sample, the start with the highest held-out accuracy is shown.
"""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import share, spread
from elegans.experiments.base import Experiment, Scale
from elegans.experiments.results import Results, Tables
from elegans.plots.style import COLOURS, MEDIUM, SMALL, panels, quiet
from elegans.probes import Probe, TestError, TrainError
from elegans.studies.variable_creation.settings import conjunction
from elegans.sweeps import Sweep
from elegans.training import Trial
from elegans.training.states import FINISHED

SOLVED = 0.99
"""The held-out accuracy above which a network has found the conjunction: another is right on 0.8 at the most."""


def replicates(n: int, sizes: tuple[int, ...], starts: int, steps: int, every: int, trials: int) -> Sweep:
    """Return all starts of each replicate, each trained to the end."""
    cells = [conjunction(n, size, steps=steps, every=every, stop=False) for size in sizes]
    return Sweep(tuple((cell.replace("restart", start), range(trials)) for cell in cells for start in range(starts)))


def smoke(trials: int) -> Sweep:
    """Return few steps with 20 bits."""
    return replicates(20, (60, 10), 2, 100, 20, trials)


def laptop(trials: int) -> Sweep:
    """Return the published sizes, with three starts and half of the steps."""
    return replicates(300, (200, 50), 3, 500, 20, trials)


def paper(trials: int) -> Sweep:
    """Return the published curves."""
    return replicates(300, (200, 50), 5, 1000, 10, trials)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return held-out and training error, measured whenever success is checked."""
    return TestError(every=one.stopping.every), TrainError(every=one.stopping.every)


def analyse(results: Results) -> Tables:
    """Return one row per evaluation of the best start of each replicate.

    Columns: ``n``, ``m``, ``seed``, ``start``, ``step``, ``held_out`` and ``training``, the accuracies, and, the same
    in all rows of a replicate, ``best``, the highest held-out accuracy, and ``loss``, the mean minibatch loss of the
    last steps.
    """
    names = {"task.n": "n", "regime.size": "m", "seed": "seed", "restart": "start"}
    ended = results.trials[results.trials["state"].isin(FINISHED)]
    runs = ended[list(names)].rename(columns=names).astype(int)
    held_out, training = (results.measures[f"{kind}-error"].set_index(["trial", "step"]) for kind in ("test", "train"))
    runs["loss"] = results.measures["curve"].groupby("trial")["loss"].last()
    runs["best"] = 1 - held_out.groupby("trial")["error"].min()
    best = runs.loc[runs.groupby(["n", "m", "seed"], sort=False)["best"].idxmax()]
    accuracies = pd.DataFrame({"held_out": 1 - held_out["error"], "training": 1 - training["error"]})
    return {"table": best.join(accuracies.reset_index("step"), how="inner").reset_index(drop=True)}


def plot(tables: Tables) -> Figure:
    """Draw held-out and training accuracy against steps, one curve per replicate, one colour per sample size."""
    table = tables["table"]
    figure, axes = panels(1, 2, height=2.6, width=7.2)
    titles = {"held_out": "accuracy on held-out examples", "training": "accuracy on the sample"}
    for ax, (name, title) in zip(axes[0], titles.items(), strict=True):
        for (size, rows), colour in zip(table.groupby("m", sort=False), COLOURS, strict=False):
            for _, run in rows.groupby("seed"):
                ax.plot(run["step"], run[name], color=colour, linewidth=0.8, alpha=0.6)
            count = rows["seed"].nunique()
            ax.plot([], [], color=colour, label=f"m = {size}, {count} replicates")
        quiet(ax)
        ax.set_ylim(0.45, 1.02)
        ax.set_xlim(0, table["step"].max())
        ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
        ax.set_xlabel("steps", fontsize=MEDIUM)
        ax.set_title(f"{title}, T = {table['n'].iloc[0]}", loc="left", fontsize=MEDIUM)
    axes[0, 1].legend(fontsize=SMALL, frameon=False, loc="lower right")
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each number of examples, how many replicates generalise, and how their accuracies are distributed.

    ``held_out`` and ``loss`` are those at the end, ``best`` the highest held-out accuracies.
    """
    found = {}
    for size, rows in tables["table"].groupby("m", sort=False):
        last = rows.groupby("seed").last()
        found[str(size)] = {
            "replicates": len(last),
            "generalise": share(last["best"] > SOLVED),
            "all_of_the_sample_right": share(rows.groupby("seed")["training"].max() == 1),
            "all_of_the_sample_right_at_the_end": share(last["training"] == 1),
            **{name: spread(last[name]) for name in ("best", "held_out", "loss")},
        }
    return found


EXPERIMENT = Experiment(
    name="and-curves",
    shows="With 200 examples of 300 bits transformers find the conjunction, with 50 they fit the sample alone",
    source="figure 4.3 (left) and appendix A.3.1",
    scales={
        "smoke": Scale(smoke, trials=2),
        "laptop": Scale(laptop, trials=10),
        "paper": Scale(paper, trials=40),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    partial=True,
)
