"""Is hidden progress progress? How well each measure, taken while a network learns, tells how long it still needs.

The thesis calls progress measure what predicts the remaining time, and shows curves. Here every measure is a predictor
whose rank correlation with the remaining time is estimated over many trials, beside loss, accuracy, the initial
weights, and a clock: at half of the time to solve, which nobody can know before the end, and at fixed steps among the
trials that are not solved yet, which is a prediction.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import median
from elegans.analysis.prediction import HALF, Predictor, clock, initially, measured, predictions
from elegans.experiments.base import Experiment, Scale
from elegans.models import Sinusoid
from elegans.plots import figure_of
from elegans.probes import FourierGap, Probe, RelevantWeights, TestLoss, WeightMovement
from elegans.studies.hidden_progress.plot_prediction import prediction_dots
from elegans.studies.hidden_progress.settings import configuration
from elegans.studies.hidden_progress.tables import SEED, identified
from elegans.sweeps import Sweep, grid
from elegans.training import Trial

GAP, LEAST = measured("fourier-gap", "relaxed"), measured("relevant-weights", "minimum")
PREDICTORS: dict[str, tuple[Predictor, str]] = {
    "steps taken": (clock, "time"),
    "held-out loss": (measured("test-loss", "hinge"), "outputs"),
    "held-out error": (measured("test-loss", "error"), "outputs"),
    "movement": (measured("weight-movement", "movement"), "weights"),
    "movement of irrelevant weights": (measured("weight-movement", "irrelevant"), "support"),
    "movement of relevant weights": (measured("weight-movement", "relevant"), "support"),
    "least relevant weight": (LEAST, "support"),
    "mean relevant weight": (measured("relevant-weights", "mean"), "support"),
    "margin of the best neuron": (measured("relevant-weights", "margin"), "support"),
    "Fourier gap": (GAP, "support"),
    "least relevant weight, initially": (initially(LEAST), "support"),
    "mean relevant weight, initially": (initially(measured("relevant-weights", "mean")), "support"),
    "Fourier gap, initially": (initially(GAP), "support"),
}
"""By name: the predictor, and what it looks at: the ``time``, the network's ``outputs``, all ``weights``, or also the
``support``, which a learner does not know."""

EVERY = {"xv": 10, "xiv": 20, "i": 40}
"""Steps between measurements: about 50 of them before half of the trials are solved."""
SHARES = (0.25, 0.5, 0.75)
"""The fixed steps, as shares of the median time to solve."""


def cells(n: int, k: int, trials: int, steps: int) -> Sweep:
    """Return a sinusoidal neuron, a PolyNet and a ReLU network of width 10, 32 examples a step.

    Args:
        n: the number of signs.
        k: the size of the parity.
        trials: how many trials a cell.
        steps: after how many steps a trial is given up.
    """
    parts = [grid(configuration(name, n, k, steps=steps), {}, seeds=trials).parts for name in ("xiv", "xv", "i")]
    return Sweep(tuple(part for cell in parts for part in cell))


def smoke(trials: int) -> Sweep:
    """Return (15, 3)."""
    return cells(15, 3, trials, 4000)


def laptop(trials: int) -> Sweep:
    """Return (30, 3)."""
    return cells(30, 3, trials, 20_000)


def paper(trials: int) -> Sweep:
    """Return (50, 3), up to the thesis' 10^5 steps."""
    return cells(50, 3, trials, 100_000)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the measures of a cell; gaps are exact for sinusoids and estimated for others, more rarely."""
    activation = getattr(one.model, "activation", None)
    every = EVERY["xv" if activation is None else "xiv" if isinstance(activation, Sinusoid) else "i"]
    gap = FourierGap(every=2 * every, estimator="closed form")
    if not isinstance(activation, Sinusoid):
        gap = FourierGap(every=10 * every, examples=4096)
    return TestLoss(every=every, examples=2048), WeightMovement(every=every), RelevantWeights(every=every), gap


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a network, moment and predictor: the rank correlation with the remaining time, with its interval.

    The columns are those of ``elegans.analysis.predictions``, and ``network``, ``median_steps`` (the network's median
    time to solve), ``share`` (the fixed step as a share of it) and ``knows`` (what the predictor looks at).
    """
    found = []
    for network, rows in identified(trials).groupby("network", sort=False):
        middle = median(rows["solved_at"].to_numpy(float, na_value=np.nan))
        every = rows["outcome"].iloc[0].measures["weight-movement"]["step"][1]
        steps = {share: max(every, round(share * middle / every) * every) for share in SHARES if np.isfinite(middle)}
        generator = np.random.default_rng(SEED)
        named = {name: predictor for name, (predictor, _) in PREDICTORS.items()}
        table = predictions(rows["outcome"], named, steps=steps.values(), generator=generator)
        share = table["step"].map({float(step): share for share, step in steps.items()})
        knows = [PREDICTORS[name][1] for name in table["predictor"]]
        found.append(table.assign(network=network, median_steps=middle, share=share, knows=knows))
    return pd.concat(found, ignore_index=True)


def plot(table: pd.DataFrame) -> Figure:
    """Draw the correlations as dots with intervals."""
    return figure_of(prediction_dots(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, for each network and moment, each predictor's rank correlation and its 95% bootstrap interval."""
    found: dict[str, Any] = {}
    for (network, when, step), rows in table.groupby(["network", "when", "step"], sort=False, dropna=False):
        moment = when if when == HALF else f"step {step:.0f}"
        first = rows.iloc[0]
        found.setdefault(str(network), {"median_steps": float(first["median_steps"])})[moment] = {
            "trials": int(first["trials"]),
            "censored": int(first["censored"]),
            "predictors": {
                row["predictor"]: [_rounded(row[name]) for name in ("correlation", "low", "high")]
                for row in rows.to_dict("records")
            },
        }
    return found


def _rounded(value: float) -> float | None:
    return round(float(value), 3) if np.isfinite(value) else None


EXPERIMENT = Experiment(
    name="progress-prediction",
    shows="How well each measure of hidden progress, against loss and accuracy, tells how long a trial still needs",
    source="section 5.3 (progress measures); the numbers are new",
    scales={
        "smoke": Scale(smoke, trials=20, time="about 10 seconds"),
        "laptop": Scale(laptop, trials=1000, time="about 3 minutes on 2 cores"),
        "paper": Scale(paper, trials=1000, time="about 10 minutes on 2 cores"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
)
