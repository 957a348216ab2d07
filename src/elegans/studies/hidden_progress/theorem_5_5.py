"""The algorithm of Theorem 5.5: one large step of a network of sign neurons, then its readout.

It is run at sizes far below those that the theorem asks for (n of at least 2^11 k^4), which cannot be run.

Source: thesis, chapter 5 and appendix B.2.1.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.analysis import finite, median, median_interval
from elegans.experiments.base import Experiment, Scale
from elegans.experiments.results import Results, Tables
from elegans.models import MLP
from elegans.plots.style import COLOURS, GREY, LARGE, MEDIUM, SMALL, panels, percent, quiet
from elegans.probes import Probe
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.settings import AT_END, powers, repeated
from elegans.studies.hidden_progress.training import SignNetwork, SignNetworkInit
from elegans.sweeps import Sweep
from elegans.tasks import Online, Sample, SparseParity
from elegans.training import FeatureSelection, FreshDescent, Trial

WIDTHS = {2: 64, 4: 256}
"""Neurons by k: the order of what the theorem asks for, 46 and 564 at a loss of 1/4."""
RATE = 0.1
"""The readout's learning rate where it is not the theorem's, which is made for 10^10 steps and more."""
CELL = ["task.n", "task.k", "batch", "rate"]
MEASURED = ["hinge", "good", "on_support", "off_support"]


def trial(n: int, k: int, batch: int | None, steps: int, rate: float | None = RATE) -> Trial:
    """Return the algorithm of Theorem 5.5 on the (n, k)-parity.

    Args:
        n: the number of signs, odd.
        k: the size of the parity, even.
        batch: the number of examples of the first step, or None for its exact gradient.
        steps: the number of steps in all.
        rate: the readout's learning rate, or None for the theorem's.
    """
    return Trial(
        task=SparseParity(n=n, k=k),
        regime=Online() if batch is None else Sample(batch),
        model=MLP(width=WIDTHS[k], init=SignNetworkInit()),
        training=SignNetwork(
            gradient="population" if batch is None else "sample",
            readout=FreshDescent(learning_rate=rate),
            steps=steps,
            stopping=StoppingRule(error=0, examples=4000, every=AT_END, stop=False),
        ),
    )


def features(
    pairs: Sequence[int], fours: Sequence[int], batches: dict[tuple[int, int], list[int]], steps: int, trials: int
) -> Sweep:
    """Return exact first gradients for k = 2 (also with the theorem's learning rate) and 4, and batches by (n, k)."""
    exact = [trial(n, k, None, steps) for k, sizes in ((2, pairs), (4, fours)) for n in sizes]
    printed = [trial(n, 2, None, steps, rate=None) for n in pairs]
    sampled = [trial(n, k, batch, steps) for (n, k), sizes in batches.items() for batch in sizes]
    return repeated([*exact, *printed, *sampled], trials)


def smoke(trials: int) -> Sweep:
    """Return (15, 2) with exact gradients and with a first batch of 10000."""
    return repeated([trial(15, 2, batch, 1001) for batch in (None, 10_000)], trials)


def laptop(trials: int) -> Sweep:
    """Return exact gradients up to n = 63, and first batches of up to a million."""
    batches = {(15, 2): powers(2, 4), (31, 2): powers(2, 5), (21, 4): powers(4, 6), (31, 4): powers(5, 6)}
    return features((15, 31, 63), (15, 21, 31, 63), batches, 2001, trials)


def paper(trials: int) -> Sweep:
    """Return exact gradients up to n = 255, and first batches of up to a hundred million."""
    batches = {(15, 2): powers(2, 5), (31, 2): powers(2, 6), (63, 2): powers(2, 6)}
    batches |= {(21, 4): powers(4, 7), (31, 4): powers(5, 8), (63, 4): powers(6, 8)}
    return features((15, 31, 63, 127, 255), (15, 21, 31, 63, 127, 255), batches, 20_001, trials)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the neurons' features after the step, and the hinge loss, at the end."""
    return (FeatureSelection(every=AT_END, examples=4000),)


def analyse(results: Results) -> Tables:
    """Return one row per cell: median error, hinge loss and weights, errors with their order-statistic intervals.

    ``batch`` is that of the first step, NaN for an exact gradient; ``rate`` is ``given`` or ``theorem``; ``good``
    counts pairs of neurons with one sign on all of the support.
    """
    trials = results.trials
    measured = results.measures["feature-selection"].groupby("trial")[MEASURED].last()
    batch = trials.get("regime.size", pd.Series(np.nan, trials.index)).astype(float)
    rows = (
        trials[["task.n", "task.k", "test_error"]]
        .join(measured)
        .assign(
            batch=batch.where(trials["training.gradient"] == "sample"),
            rate=np.where(trials["training.readout.learning_rate"].isna(), "theorem", "given"),
        )
    )
    found = []
    for key, group in rows.groupby(CELL, sort=False, dropna=False):
        errors = group["test_error"].to_numpy(float)
        low, high = median_interval(errors)
        stated = {"trials": len(group), "error": median(errors), "error_low": low, "error_high": high}
        found.append({**dict(zip(CELL, key, strict=True)), **stated, **group[MEASURED].median()})
    return {"table": pd.DataFrame(found)}


def plot(tables: Tables) -> Figure:
    """Draw the error after the first step and the readout: against the first batch, and against n with none."""
    table = tables["table"]
    figure, drawn = panels(1, 2, height=2.7, width=5.1)
    left, right = drawn[0]
    given = table[table["rate"] == "given"]
    for place, ((n, k), rows) in enumerate(given.dropna(subset=["batch"]).groupby(["task.n", "task.k"], sort=False)):
        _with_intervals(left, rows.sort_values("batch"), "batch", COLOURS[place], f"({n}, {k})")
    exact = table[table["batch"].isna()]
    for place, ((rate, k), rows) in enumerate(exact.groupby(["rate", "task.k"], sort=False)):
        label = f"k = {k}" + (", theorem's rate" if rate == "theorem" else "")
        _with_intervals(right, rows.sort_values("task.n"), "task.n", COLOURS[place], label)
    left.set_xlabel("examples of the first step", fontsize=MEDIUM)
    left.set_ylabel("error on held-out examples", fontsize=MEDIUM)
    right.set_xlabel("n, with the exact first gradient", fontsize=MEDIUM)
    for ax in (left, right):
        quiet(ax)
        ax.set(xscale="log", ylim=(-0.015, 0.55))
        percent(ax)
        ax.legend(fontsize=SMALL, frameon=False, loc=(0.2, 0.66))
    sizes = sorted(exact["task.n"].unique())
    right.set_xticks(sizes, [f"{size}" for size in sizes])
    right.minorticks_off()
    title = "Theorem 5.5: one step of a sign network, then its readout"
    figure.suptitle(title, fontsize=LARGE, fontweight="bold")
    figure.supxlabel("Medians with 95% order-statistic intervals.", fontsize=SMALL, color=GREY)
    return figure


def _with_intervals(ax: Axes, rows: pd.DataFrame, x: str, colour: str, label: str) -> None:
    ends = [rows["error"] - rows["error_low"], np.minimum(rows["error_high"], 1) - rows["error"]]
    ax.errorbar(
        rows[x], rows["error"], yerr=ends, color=colour, marker="o", markersize=3, linewidth=1, capsize=2, label=label
    )


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each cell: the median error with its interval, the hinge loss, and what the step left."""
    found = {}
    for row in tables["table"].to_dict("records"):
        first = "exact gradient" if np.isnan(row["batch"]) else f"first batch {row['batch']:.0f}"
        name = f"({row['task.n']}, {row['task.k']}), {first}" + (", theorem's rate" if row["rate"] == "theorem" else "")
        found[name] = {
            "trials": row["trials"],
            "error": finite(row["error"], 4),
            "interval": [finite(row["error_low"], 4), finite(row["error_high"], 4)],
            **{quantity: round(row[quantity], 4) for quantity in MEASURED},
        }
    return found


EXPERIMENT = Experiment(
    name="theorem-5.5",
    shows="One step of a sign network finds the support where the first batch is large, then the readout fits",
    source="Theorem 5.5",
    scales={
        "smoke": Scale(smoke, trials=2),
        "laptop": Scale(laptop, trials=6),
        "paper": Scale(paper, trials=25),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
)
