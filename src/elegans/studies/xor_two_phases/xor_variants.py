"""Beside the XOR: other bases, Gaussian inputs, other parities, other functions of a few directions.

The source proves the two phases for signs in any orthonormal basis and two directions, and discusses the rest. Here the
same network on the same number of fresh examples meets each. A ReLU network without biases is a linear function plus
an even one, so that it cannot represent a parity of three signs at any width; with hidden biases it can.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import median, median_interval
from elegans.experiments.base import Experiment, Scale
from elegans.plots import figure_of
from elegans.probes import Probe, TestError
from elegans.studies.xor_two_phases.plots import xor_features
from elegans.studies.xor_two_phases.probes import SubspaceShare
from elegans.studies.xor_two_phases.xor_phases import THETA, trial
from elegans.sweeps import Sweep, grid
from elegans.tasks import XOR
from elegans.training import Trial

VARIANTS: dict[str, tuple[dict[str, Any], bool]] = {
    "XOR": ({}, False),
    "XOR in a random basis": ({"basis": "random"}, False),
    "XOR of Gaussian inputs": ({"inputs": "gaussian"}, False),
    "not all of 3 equal": ({"link": "truth-table:-++++++-"}, False),
    "parity of 3, no biases": ({"link": "signed-parity:3"}, False),
    "parity of 3, biases": ({"link": "signed-parity:3"}, True),
    "staircase of 3, biases": ({"link": "truth-table:+--++-+-"}, True),
}
"""By name: what the task has of its own, and whether neurons have biases.

The staircase is x1 maj(1, x2, x2 x3) = (x1 + x1 x2 + x1 x2 x3 - x1 x3) / 2: each term has one direction more.
"""


def variants(n: int, width: int, trials: int, steps: int, every: int) -> Sweep:
    """Return every variant; none stops when it is solved."""
    cells = []
    for fields, biased in VARIANTS.values():
        one = trial(XOR(n=n, **fields), width=width, batch_size=round(n / THETA), steps=steps, every=every)
        cells.append(one.replace("model.hidden_bias", biased))
    parts = [grid(cell, {}, seeds=trials) for cell in cells]
    return Sweep(tuple(part for sweep in parts for part in sweep.parts))


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
    success = one.stopping
    return TestError(every=success.every, examples=success.examples), SubspaceShare(every=success.every)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a variant and measured step: medians over trials of ``error`` and ``share``, with their range.

    ``solved_at`` and its interval, the same in all rows of a variant: the median first check at which at most 1% of
    held-out examples are wrong, unsolved trials being infinite.
    """
    names = trials["outcome"].map(lambda outcome: _variant(outcome.trial))
    return pd.concat([_course(name, own) for name, own in trials.groupby(names, sort=False)], ignore_index=True)


def _variant(one: Trial) -> str:
    for name, (fields, biased) in VARIANTS.items():
        task = XOR(n=one.task.input_size, **fields)
        if one.task == task and one.model.columns()["hidden_bias"] == biased:
            return name
    raise AssertionError(f"a trial must be of a variant: {one.to_json()}")


def _course(name: Any, own: pd.DataFrame) -> pd.DataFrame:
    measures = [outcome.measures for outcome in own["outcome"]]
    times = own["solved_at"].to_numpy(float, na_value=np.nan)
    low, high = median_interval(times)
    table = pd.DataFrame({"variant": name, "step": measures[0]["test-error"]["step"]})
    for column, kind in (("error", "test-error"), ("share", "subspace-share")):
        values = np.array([taken[kind][column] for taken in measures])
        table[column] = np.median(values, axis=0)
        table[f"{column}_low"], table[f"{column}_high"] = values.min(axis=0), values.max(axis=0)
    solved = {"trials": len(own), "solved": int(np.isfinite(times).sum())}
    return table.assign(solved_at=median(times), solved_low=low, solved_high=high, **solved)


def plot(table: pd.DataFrame) -> Figure:
    """Draw error and features against steps."""
    return figure_of(xor_features(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return each variant's time to an error of 1%, and its error and features at the end."""
    found = {}
    for variant, rows in table.groupby("variant", sort=False):
        last = rows.iloc[-1]
        found[str(variant)] = {
            "solved": f"{last['solved']} of {last['trials']}",
            "solved_at": _finite(last["solved_at"]),
            "interval": [_finite(last["solved_low"]), _finite(last["solved_high"])],
            "error_at_the_end": [_finite(last[name]) for name in ("error_low", "error", "error_high")],
            "share_at_the_end": [_finite(last[name]) for name in ("share_low", "share", "share_high")],
        }
    return found


def _finite(number: float) -> float | None:
    return round(float(number), 4) if np.isfinite(number) else None


EXPERIMENT = Experiment(
    name="xor-variants",
    shows="What two-phase learning of the XOR becomes in other bases, on Gaussian inputs and with other labels",
    source="section 6, no figure",
    scales={
        "smoke": Scale(smoke, trials=1, time="about 10 seconds"),
        "laptop": Scale(laptop, trials=6, time="about a minute on 2 cores"),
        "paper": Scale(paper, trials=20, time="about a day on 2 cores"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
)
