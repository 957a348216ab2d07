"""Parities with label noise: how the time to solve grows as labels carry less (appendix B.3.6, figure B.12).

A label is flipped with probability p, which shrinks every correlation by 1 - 2p; the text has flips with probability
1/2 - eps beside a correlation of eps, and a caption that calls 49% of flips 0.01 where 1 - 2p is 0.02. Evaluation is on
clean labels. With a constant learning rate the iterates need not come to rest, so 99% on held-out examples counts.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments.base import Experiment, Scale
from elegans.plots import figure_of
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.plot_power_laws import power_laws
from elegans.studies.hidden_progress.settings import configuration
from elegans.studies.hidden_progress.tables import finite, fits, timed
from elegans.sweeps import Sweep, grid

SUCCESS = StoppingRule(error=0.01, examples=8192, every=10)
LINE = ("problem", "training.batch_size")
KEYS = (*LINE, "task.n", "task.k", "task.noise", "inverse_signal")


def noisy(
    problems: Sequence[tuple[int, int]],
    batches: Sequence[int],
    flips: Sequence[float],
    trials: int,
    steps: int = 100_000,
) -> Sweep:
    """Return ReLU networks of width 100 on noisy parities, little noise first.

    Args:
        problems: the (n, k) of each parity.
        batches: the batch sizes.
        flips: the probabilities p of a flip.
        trials: how many trials a cell.
        steps: after how many steps a trial is given up.
    """
    parts: list[Any] = []
    for flip in sorted(flips):
        for n, k in problems:
            base = configuration("ii", n, k, learning_rate=0.1, steps=steps)
            axes = {"task.noise": [flip], "training.batch_size": batches, "training.stopping": [SUCCESS]}
            parts += grid(base, axes, seeds=trials).parts
    return Sweep(tuple(parts))


def smoke(trials: int) -> Sweep:
    """Return three amounts of noise at (15, 3)."""
    return noisy(((15, 3),), (32, 128), (0.0, 0.2, 0.3), trials, steps=5000)


def laptop(trials: int) -> Sweep:
    """Return four problems with up to 45% of labels flipped."""
    return noisy(((30, 2), (20, 3), (30, 3), (30, 4)), (32, 128), (0.0, 0.1, 0.2, 0.3, 0.4, 0.45), trials)


def paper(trials: int) -> Sweep:
    """Return (50, 3) with up to 49% of labels flipped."""
    return noisy(((50, 3),), (32, 128, 1024), (0.0, 0.1, 0.2, 0.3, 0.4, 0.45, 0.47, 0.49), trials, steps=10**6)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a problem, batch size and amount of noise: times, and the power law of 1 / (1 - 2p) of its line."""
    signal = 1 - 2 * trials["task.noise"]
    words = "n = " + trials["task.n"].astype(str) + ", k = " + trials["task.k"].astype(str)
    trials = trials.assign(inverse_signal=1 / signal, problem=words)
    made = fits(trials, LINE, "inverse_signal")
    return timed(trials, KEYS).merge(made, on=list(LINE), how="left")


def plot(table: pd.DataFrame) -> Figure:
    """Draw a panel a problem, a line a batch size."""
    label = "1 / (1 - 2p), p the share of labels flipped"
    axes = power_laws(table, x="inverse_signal", curve="training.batch_size", panel="problem", label=label)
    return figure_of(axes)


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, for each problem and batch size, the exponent of 1 / (1 - 2p) with its interval, and times by noise."""
    found: dict[str, Any] = {}
    for (problem, batch), rows in table.groupby(list(LINE), sort=False):
        line = rows.iloc[0]
        found[f"{problem}, batches of {batch}"] = {
            "exponent": finite(line["exponent"]),
            "interval": [finite(line["exponent_low"]), finite(line["exponent_high"])],
            "times": {f"p = {row['task.noise']:g}": _stated(row) for _, row in rows.iterrows()},
        }
    return found


def _stated(row: pd.Series) -> dict[str, Any]:
    return {
        "solved": int(row["solved"]),
        "trials": int(row["trials"]),
        "median_steps": finite(row["median_steps"]),
        "interval": [finite(row["median_low"]), finite(row["median_high"])],
    }


EXPERIMENT = Experiment(
    name="noisy-parity",
    shows="Parities are learned from noisy labels too, in a time that is about inverse to the correlation left",
    source="appendix B.3.6 and figure B.12",
    scales={
        "smoke": Scale(smoke, trials=5, time="about 3 seconds"),
        "laptop": Scale(laptop, trials=25, time="about half a minute on 2 cores with AVX-512"),
        "paper": Scale(paper, trials=5, time="about an hour on 2 cores with AVX-512"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
)
