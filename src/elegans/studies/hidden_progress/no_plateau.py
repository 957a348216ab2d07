"""Whether there is a plateau at all: wide z^k networks against ReLU networks.

A plateau is measured as the share of the way to a test error of 5% that is over when the error first is 45%. The wider
a z^k network, the more of its neurons correlate with the parity from the first step on, each a little, and the sooner
the error falls; ReLU networks stay at chance until the relevant weights have grown.

Source: thesis, chapter 5 and appendix B.3.8 (figure B.13), which names no learning rate.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import median, median_interval
from elegans.experiments.base import Experiment, Scale
from elegans.plots import figure_of
from elegans.probes import Probe, TestError
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.plot_plateaus import plateaus
from elegans.studies.hidden_progress.settings import configuration
from elegans.studies.hidden_progress.tables import finite
from elegans.sweeps import Sweep, grid
from elegans.training import Trial

LEAVES, ENDS = 0.45, 0.05
"""The errors at which a plateau ends, and at which the task is as good as learned."""
NETWORKS = {"z^k": ("v", 0.03), "relu": ("ii", 0.1)}
"""The thesis' id whose width is varied, and the learning rate."""
CELL = ("network", "model.width", "training.batch_size")


def networks(
    n: int, widths: Sequence[int], relu_widths: Sequence[int], batch_sizes: Sequence[int], trials: int, every: int = 10
) -> Sweep:
    """Return z^3 and ReLU networks on the (n, 3)-parity, by width and batch size; training ends at an error of 2%.

    Args:
        n: the number of signs.
        widths: of z^3 networks.
        relu_widths: of ReLU networks.
        batch_sizes: of both.
        trials: how many trials a cell.
        every: how many steps lie between checks and measurements.
    """
    success = StoppingRule(error=0.02, examples=4096, every=every)
    parts = []
    for (identifier, rate), chosen in zip(NETWORKS.values(), (widths, relu_widths), strict=True):
        base = configuration(identifier, n, 3, learning_rate=rate, steps=50_000).replace("training.stopping", success)
        axes = {"model.width": chosen, "training.batch_size": batch_sizes}
        parts.append(grid(base, axes, seeds=trials).parts)
    return Sweep(tuple(chain.from_iterable(parts)))


def smoke(trials: int) -> Sweep:
    """Return one width of each kind at n = 20."""
    return networks(20, (30,), (30,), (32,), trials)


def laptop(trials: int) -> Sweep:
    """Return z^3 networks of widths 10 to 3000 and ReLU networks of widths 100 and 1000 on (50, 3)."""
    return networks(50, (10, 100, 1000, 3000), (100, 1000), (32, 128, 1024), trials)


def paper(trials: int) -> Sweep:
    """Return widths 10 to 1000 of both kinds, wider z^3 networks, and batches from 1 to 4096 on (50, 3)."""
    widths = (10, 100, 1000)
    return networks(50, (*widths, 10_000), widths, (1, 4, 16, 64, 256, 1024, 4096), trials)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the test error, measured whenever success is checked."""
    return (TestError(every=one.stopping.every, examples=one.stopping.examples),)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a trial and measured step: the test error, when the trial left its plateau, and when it ended.

    ``plateau`` is the ratio of the two, ``halfway`` the error at half of the time to the end: NaN where there is none.
    """
    return pd.concat([_curve(row) for row in trials.to_dict("records")], ignore_index=True)


def _curve(row: dict[Any, Any]) -> pd.DataFrame:
    measured = row["outcome"].measures["test-error"]
    step, error = np.array(measured["step"]), np.array(measured["error"])
    leaves, ends = (_first(step, error, level) for level in (LEAVES, ENDS))
    halfway = float(np.interp(ends / 2, step, error)) if np.isfinite(ends) else np.nan
    kind = "relu" if row["model.activation"] == "relu" else "z^k"
    return pd.DataFrame({"step": step, "error": error}).assign(
        network=kind,
        **{name: row[name] for name in ("task.n", "task.k", "seed", *CELL[1:])},
        leaves=leaves,
        ends=ends,
        plateau=leaves / ends,
        halfway=halfway,
    )


def _first(step: np.ndarray, error: np.ndarray, level: float) -> float:
    below = np.flatnonzero(error <= level)
    return float(step[below[0]]) if len(below) else np.nan


def plot(table: pd.DataFrame) -> Figure:
    """Draw a panel a network and width, with a colour a batch size."""
    return figure_of(plateaus(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return each cell's median plateau share, halfway error and end, with order-statistic intervals."""
    found = {}
    for (network, width, batch_size), rows in table.groupby(list(CELL), sort=False):
        last = rows.groupby("seed").last()
        stated: dict[str, Any] = {"trials": len(last), "ended": int(last["ends"].notna().sum())}
        for name in ("plateau", "halfway", "ends"):
            values = last[name].to_numpy(float)
            stated[name] = finite(median(values))
            stated[f"{name}_interval"] = [finite(end) for end in median_interval(values)]
        found[f"{network}, width {width}, batches of {batch_size}"] = stated
    return found


EXPERIMENT = Experiment(
    name="no-plateau",
    shows="The test error of wide z^k networks falls from the start, where that of ReLU networks stays at chance",
    source="appendix B.3.8, figure B.13",
    scales={
        "smoke": Scale(smoke, trials=3, time="about 15 seconds"),
        "laptop": Scale(laptop, trials=6, time="about a minute on 2 cores with AVX-512"),
        "paper": Scale(paper, trials=25, time="about 5 hours on 2 cores with AVX-512"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
)
