"""Beside the XOR: other bases, Gaussian inputs, other parities, other functions of a few directions.

The source proves the two phases for signs in any orthonormal basis and two directions, and discusses the rest. Here the
same network on the same number of fresh examples meets each. A ReLU network without biases is a linear function plus
an even one, so that it cannot represent a parity of three signs at any width; with hidden biases it can.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import finite, median, median_interval
from elegans.experiments.base import Experiment, Scale
from elegans.experiments.results import Results, Tables
from elegans.plots.style import COLOURS, MEDIUM, SMALL, panels, quiet
from elegans.probes import Probe, TestError
from elegans.studies.xor_two_phases.probes import SubspaceShare
from elegans.studies.xor_two_phases.settings import THETA, trial
from elegans.sweeps import Sweep
from elegans.tasks import XOR
from elegans.training import Trial

DASHED = (0, (4, 3))
VARIANTS: dict[str, tuple[dict[str, Any], bool]] = {
    "XOR": ({}, False),
    "XOR in a random basis": ({"basis": "random"}, False),
    "XOR of Gaussian inputs": ({"inputs": "gaussian"}, False),
    "not all of 3 equal": ({"k": 3, "function": "table:01111110"}, False),
    "parity of 3, no biases": ({"k": 3}, False),
    "parity of 3, biases": ({"k": 3}, True),
    "staircase of 3, biases": ({"k": 3, "function": "table:10011010"}, True),
}
"""By name: what the task adds, and whether neurons have biases.

The staircase is x1 maj(1, x2, x2 x3) = (x1 + x1 x2 + x1 x2 x3 - x1 x3) / 2: each term adds one direction.
"""


def variants(n: int, width: int, trials: int, steps: int, every: int) -> Sweep:
    """Return every variant; none stops when it is solved."""
    cells = []
    for fields, biased in VARIANTS.values():
        one = trial(XOR(n=n, **fields), width=width, batch_size=round(n / THETA), steps=steps, every=every)
        cells.append(one.replace("model.hidden_bias", biased))
    return Sweep(tuple((cell, range(trials)) for cell in cells))


def smoke(trials: int) -> Sweep:
    """Return 12 dimensions."""
    return variants(12, 64, trials, steps=200, every=20)


def laptop(trials: int) -> Sweep:
    """Return 32 dimensions."""
    return variants(32, 128, trials, steps=800, every=20)


def paper(trials: int) -> Sweep:
    """Return 128 dimensions: no published size."""
    return variants(128, 512, trials, steps=4000, every=50)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return error and features, measured whenever success is checked."""
    rule = one.stopping
    return TestError(every=rule.every, examples=rule.examples), SubspaceShare(every=rule.every)


def analyse(results: Results) -> Tables:
    """Return one row per variant and measured step: medians over trials of ``error`` and ``share``, with their range.

    ``solved_at`` and its interval, the same in all rows of a variant: the median first check at which at most 1% of
    held-out examples are wrong, unsolved trials being infinite.
    """
    trials = results.trials.assign(variant=[_variant(results.trial(place)) for place in results.trials.index.tolist()])
    kinds = ("test-error", "subspace-share")
    taken = pd.concat([results.measures[kind].set_index(["trial", "step"]) for kind in kinds], axis=1)
    taken = taken[["error", "share"]].reset_index().join(trials["variant"], on="trial")
    found = taken.groupby(["variant", "step"], sort=False)[["error", "share"]].agg(["median", "min", "max"])
    found.columns = pd.Index(["error", "error_low", "error_high", "share", "share_low", "share_high"])
    times = pd.DataFrame({name: _times(own) for name, own in trials.groupby("variant", sort=False)}).T
    return {"table": found.reset_index().join(times, on="variant").astype({"trials": int, "solved": int})}


def _times(own: pd.DataFrame) -> dict[str, float]:
    times = own["solved_at"].to_numpy(float, na_value=np.nan)
    low, high = median_interval(times)
    solved = int(np.isfinite(times).sum())
    return {"solved_at": median(times), "solved_low": low, "solved_high": high, "trials": len(own), "solved": solved}


def _variant(one: Trial) -> str:
    for name, (fields, biased) in VARIANTS.items():
        task = XOR(n=one.task.input_size, **fields)
        if one.task == task and one.model.columns()["hidden_bias"] == biased:
            return name
    raise AssertionError(f"a trial must be of a variant: {one.to_json()}")


def plot(tables: Tables) -> Figure:
    """Draw error and features against steps, one curve per variant: medians over trials, bands their whole range."""
    table = tables["table"]
    figure, axes = panels(1, 2, height=2.9, width=7.2)
    drawn = axes[0]
    titles = {"error": "held-out error", "share": "share of the first layer in the relevant subspace"}
    for ax, (name, title) in zip(drawn, titles.items(), strict=True):
        for place, (variant, rows) in enumerate(table.groupby("variant", sort=False)):
            colour = (*COLOURS, "black")[place % 7]
            low, high = rows[f"{name}_low"], rows[f"{name}_high"]
            ax.fill_between(rows["step"], low, high, color=colour, alpha=0.13, linewidth=0)
            style: dict[str, Any] = {"linewidth": 1.2, "linestyle": DASHED if place % 2 else "-"}
            ax.plot(rows["step"], rows[name], color=colour, label=str(variant), **style)
        quiet(ax)
        ax.set_ylim(-0.02, 0.8 if name == "error" else 1.02)
        ax.set_xlim(0, table["step"].max())
        ax.set_xlabel("steps", fontsize=MEDIUM)
        ax.set_title(title, loc="left", fontsize=MEDIUM)
    named = drawn[0].get_legend_handles_labels()
    figure.legend(*named, loc="outside lower center", ncols=4, fontsize=SMALL, frameon=False)
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return each variant's time to an error of 1%, and its error and features at the end."""
    found = {}
    for variant, rows in tables["table"].groupby("variant", sort=False):
        last = rows.iloc[-1]
        found[str(variant)] = {
            "solved": f"{last['solved']} of {last['trials']}",
            "solved_at": finite(last["solved_at"], 4),
            "interval": [finite(last["solved_low"], 4), finite(last["solved_high"], 4)],
            "error_at_the_end": [finite(last[name], 4) for name in ("error_low", "error", "error_high")],
            "share_at_the_end": [finite(last[name], 4) for name in ("share_low", "share", "share_high")],
        }
    return found


EXPERIMENT = Experiment(
    name="xor-variants",
    shows="What two-phase learning of the XOR becomes in other bases, on Gaussian inputs and with other labels",
    source="section 6, no figure",
    scales={
        "smoke": Scale(smoke, trials=1),
        "laptop": Scale(laptop, trials=6),
        "paper": Scale(paper, trials=20),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
)
