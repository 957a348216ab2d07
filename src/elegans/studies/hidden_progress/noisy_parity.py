"""Parities with label noise: how the time to solve grows as labels say less (appendix B.3.6, figure B.12).

A label is flipped with probability p, which shrinks every correlation by 1 - 2p; the text pairs a flip probability of
1/2 - eps with a correlation of eps, and a caption calls 49% of flips 0.01 where 1 - 2p is 0.02. Evaluation is on clean
labels. With a constant learning rate the iterates need not converge, so 99% accuracy on held-out examples counts.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import finite_or_none
from elegans.experiments import Experiment, Results, Scale, Tables
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.noisy_parity_claims import CLAIMS
from elegans.studies.hidden_progress.plots import power_laws
from elegans.studies.hidden_progress.settings import configuration
from elegans.studies.hidden_progress.tables import fits, stated, timed
from elegans.sweeps import Sweep, grid

SOLVED = StoppingRule(error=0.01, examples=8192, every=10)
PERFECT = StoppingRule(error=0, examples=8192, every=10)
LINE = ("problem", "training.batch_size")
KEYS = (*LINE, "task.n", "task.k", "task.noise", "inverse_signal")
TIMES = ("task.n", "task.k", "training.batch_size", "task.noise", "training.stopping.error", "training.steps", "seed")


def noisy(
    problems: Sequence[tuple[int, int]],
    batches: Sequence[int],
    flips: Sequence[float],
    trials: int,
    steps: int = 100_000,
    stopping: StoppingRule = SOLVED,
) -> Sweep:
    """Return ReLU networks of width 100 on noisy parities, little noise first.

    Args:
        problems: the (n, k) of each parity.
        batches: the batch sizes.
        flips: the probabilities p of a flip.
        trials: per cell.
        steps: the largest number of steps.
        stopping: what counts as solved.
    """
    parts: list[Any] = []
    for flip in sorted(flips):
        for n, k in problems:
            base = configuration("ii", n, k, learning_rate=0.1, steps=steps)
            axes = {"task.noise": [flip], "training.batch_size": batches, "training.stopping": [stopping]}
            parts += grid(base, axes, seeds=trials).parts
    return Sweep(tuple(parts))


def part(trials: int) -> Sweep:
    """Return (50, 3) with 49% of labels flipped, less noise at two batch sizes, and trials that stop at zero error."""
    return (
        noisy(((50, 3),), (32, 1024), (0.0, 0.2, 0.4, 0.45), trials)
        + noisy(((50, 3),), (32,), (0.4, 0.45), trials, steps=200_000, stopping=PERFECT)
        + noisy(((50, 3),), (128, 1024), (0.49,), trials, steps=10**6)
    )


def analyse(results: Results) -> Tables:
    """Return ``table`` and ``times``.

    ``table`` has one row per problem, batch size and amount of noise: times to 99% accuracy, and the line's power law
    of 1 / (1 - 2p). ``times`` has one row per trial, including those that end without a mistake.
    """
    trials = results.trials
    solved = trials[trials["training.stopping.error"] == SOLVED.error]
    return {"table": summarise(solved), "times": trials[[*TIMES, "solved_at", "test_error"]]}


def summarise(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row per problem, batch size and amount of noise: times, and the line's power law of 1 / (1 - 2p)."""
    words = "n = " + trials["task.n"].astype(str) + ", k = " + trials["task.k"].astype(str)
    trials = trials.assign(inverse_signal=1 / (1 - 2 * trials["task.noise"]), problem=words)
    return timed(trials, KEYS).merge(fits(trials, LINE, "inverse_signal"), on=list(LINE), how="left")


def plot(tables: Tables) -> Figure:
    """Draw one panel per problem, one line per batch size."""
    label = "1 / (1 - 2p), p the share of labels flipped"
    return power_laws(tables["table"], x="inverse_signal", label=label, curve="training.batch_size", panel="problem")


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each problem and batch size, the exponent of 1 / (1 - 2p) with its interval, and times by noise."""
    found: dict[str, Any] = {}
    for (problem, batch), rows in tables["table"].groupby(list(LINE), sort=False):
        line = rows.iloc[0]
        found[f"{problem}, batches of {batch}"] = {
            "exponent": finite_or_none(line["exponent"], 4),
            "interval": [finite_or_none(line["exponent_low"], 4), finite_or_none(line["exponent_high"], 4)],
            "times": {f"p = {row['task.noise']:g}": stated(row) for row in rows.to_dict("records")},
        }
    return found


EXPERIMENT = Experiment(
    name="noisy-parity",
    shows="Parities are learned from noisy labels too, in a time roughly inverse to the remaining correlation",
    source="appendix B.3.6 and figure B.12",
    scales={
        "smoke": Scale(lambda trials: noisy(((15, 3),), (32, 128), (0.0, 0.2, 0.3), trials, steps=5000), trials=5),
        "laptop": Scale(
            lambda trials: noisy(
                ((30, 2), (20, 3), (30, 3), (30, 4)), (32, 128), (0.0, 0.1, 0.2, 0.3, 0.4, 0.45), trials
            ),
            trials=25,
        ),
        "part": Scale(part, trials=14, part="batches of 32, 128 and 1024, and five amounts of noise"),
        "paper": Scale(
            lambda trials: noisy(
                ((50, 3),), (32, 128, 1024), (0.0, 0.1, 0.2, 0.3, 0.4, 0.45, 0.47, 0.49), trials, steps=10**6
            ),
            trials=14,
        ),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    claims=CLAIMS,
)
