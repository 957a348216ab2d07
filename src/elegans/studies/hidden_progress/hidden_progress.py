"""Hidden progress: weights that move towards the support while loss and accuracy stand still (figures 5.3 and B.9).

Each network learns twice: from true labels, and from labels independent of the inputs, with the same weights at first
and the same inputs. What the weights move by in the second case is what chance alone does.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import median, median_interval, wilson
from elegans.analysis.prediction import measured
from elegans.experiments.base import Experiment, Scale
from elegans.plots import figure_of
from elegans.probes import Probe, TestLoss, WeightMovement, WeightTrajectory
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.plot_hidden import hidden_progress
from elegans.studies.hidden_progress.settings import configuration
from elegans.studies.hidden_progress.tables import identified
from elegans.sweeps import Sweep, grid
from elegans.training import Outcome, Trial

PANELS = (
    ("xiv", 1, 0.002, 20_000),
    ("xiv", 4, 0.005, 8000),
    ("xiv", 32, 0.01, 4000),
    ("xiv", 128, 0.01, 4000),
    ("i", 32, 0.1, 8000),
)
"""Configuration, batch size, learning rate and steps of each panel."""
SILENT = 0.5
"""The label noise at which labels say nothing."""
BEYOND = 1.25
"""Curves are drawn up to this multiple of the time to solve."""
POINTS = 50
"""Measurements that are drawn of a curve."""


def panels(n: int, k: int, chosen: Sequence[tuple[str, int, float, int]], trials: int, *, longer: int = 1) -> Sweep:
    """Return each panel's network, with true labels and with silent ones; none stops when it is solved.

    Args:
        n: the number of signs.
        k: the size of the parity.
        chosen: configuration, batch size, learning rate and steps of each panel.
        trials: how many trials a cell.
        longer: how many times the steps.
    """
    parts: list[Any] = []
    for name, batch, rate, steps in chosen:
        one = configuration(name, n, k, batch_size=batch, learning_rate=rate, steps=steps * longer)
        checks = StoppingRule(error=0, examples=2048, every=one.steps // 400, stop=False)
        one = one.replace("training.stopping", checks)
        parts += grid(one, {"task.noise": [0.0, SILENT]}, seeds=trials).parts
    return Sweep(tuple(parts))


def smoke(trials: int) -> Sweep:
    """Return two panels of (20, 3)."""
    return panels(20, 3, (("xiv", 32, 0.01, 2000), ("i", 32, 0.1, 3000)), trials)


def laptop(trials: int) -> Sweep:
    """Return all panels of (30, 3)."""
    return panels(30, 3, PANELS, trials)


def paper(trials: int) -> Sweep:
    """Return all panels of (50, 3)."""
    return panels(50, 3, PANELS, trials, longer=5)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the weights, how far they have moved, held-out loss and error: 200 times."""
    every = one.steps // 200
    return WeightTrajectory(every=every), WeightMovement(every=every), TestLoss(every=every, examples=2048)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a quantity, of three parts.

    ``course``: the first trial's loss, error and movements (``control``: with silent labels) at a ``step``.
    ``weight``: its weights, by ``neuron`` and ``coordinate``, ``relevant`` or not. ``trial``: each trial's ``error``,
    ``loss``, ``relevant``, ``irrelevant``, ``leader``, ``movement`` and ``control`` at half of its time to solve.
    """
    found = []
    for _, rows in identified(trials).groupby(["network", "training.batch_size"], sort=False):
        pairs = _pairs(rows)
        sizes = {"n": rows["task.n"].iloc[0], "k": rows["task.k"].iloc[0]}
        batch = int(rows["training.batch_size"].iloc[0])
        panel = f"{rows['network'].iloc[0]}, {batch} example{'s' * (batch > 1)} a step"
        parts = [_course(*pairs[0]), _weights(pairs[0][0]), *(_at_half(*pair) for pair in pairs)]
        found.append(pd.concat(parts, ignore_index=True).assign(panel=panel, **sizes))
    return pd.concat(found, ignore_index=True)


def _pairs(rows: pd.DataFrame) -> list[tuple[Outcome, Outcome]]:
    """Return each trial with true labels beside the one with silent ones, by seed."""
    true, silent = (
        {one.trial.seed: one for one in rows.loc[rows["task.noise"] == noise, "outcome"]} for noise in (0.0, SILENT)
    )
    return [(true[seed], silent[seed]) for seed in sorted(true) if seed in silent]


def _until(outcome: Outcome) -> float:
    return BEYOND * (outcome.solved_at or outcome.steps)


def _thinned(steps: Sequence[int], until: float) -> np.ndarray:
    """Return the places of at most so many steps as are drawn."""
    count = int(np.searchsorted(steps, until, side="right"))
    return np.unique(np.linspace(0, count - 1, min(count, POINTS)).astype(int))


def _course(outcome: Outcome, control: Outcome) -> pd.DataFrame:
    frames = []
    for name, one, kind, quantity in (
        ("loss", outcome, "test-loss", "hinge"),
        ("error", outcome, "test-loss", "error"),
        ("movement", outcome, "weight-movement", "movement"),
        ("control", control, "weight-movement", "movement"),
    ):
        taken = one.measures[kind]
        kept = _thinned(taken["step"], _until(outcome))
        steps, values = np.take(taken["step"], kept), np.take(taken[quantity], kept)
        frames.append(pd.DataFrame({"step": steps, "quantity": name, "value": values}))
    found = pd.concat(frames, ignore_index=True)
    return found.assign(part="course", seed=outcome.trial.seed, solved_at=_time(outcome))


def _weights(outcome: Outcome) -> pd.DataFrame:
    taken = outcome.measures["weight-trajectory"]
    kept = _thinned(taken["step"], _until(outcome))
    weight = np.asarray(taken["weight"])[kept]
    support = outcome.trial.task.draw(outcome.trial.key("task"))
    place, neuron, coordinate = (each.ravel() for each in np.indices(weight.shape))
    return pd.DataFrame(
        {
            "part": "weight",
            "quantity": "weight",
            "seed": outcome.trial.seed,
            "step": np.take(taken["step"], kept)[place],
            "neuron": neuron,
            "coordinate": coordinate,
            "relevant": np.isin(coordinate, support),
            "value": weight.ravel(),
            "solved_at": _time(outcome),
        }
    )


def _at_half(outcome: Outcome, control: Outcome) -> pd.DataFrame:
    found: dict[str, float] = {}
    half = 0
    if outcome.solved_at is not None:
        half = outcome.solved_at // 2
        names = ("relevant", "irrelevant", "leader", "movement")
        found = {name: measured("weight-movement", name)(outcome, half) for name in names}
        found["control"] = measured("weight-movement", "movement")(control, half)
        found["error"] = measured("test-loss", "error")(outcome, half)
        found["loss"] = measured("test-loss", "hinge")(outcome, half)
    frame = pd.DataFrame({"quantity": list(found), "value": list(found.values())}, index=range(len(found)))
    return frame.assign(part="trial", step=half, seed=outcome.trial.seed, solved_at=_time(outcome))


def _time(outcome: Outcome) -> float:
    return float("nan") if outcome.solved_at is None else float(outcome.solved_at)


def plot(table: pd.DataFrame) -> Figure:
    """Draw a column a panel: loss and error, weights, movements."""
    return figure_of(hidden_progress(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, for each panel, what is seen at half of the time to solve: medians over the solved trials.

    Medians have 95% order-statistic intervals, shares Wilson's. ``leads``: how often the largest mover is relevant;
    ``beyond_control``: how often the movement exceeds that of the same trial with silent labels.
    """
    found: dict[str, Any] = {}
    halves = table[table["part"] == "trial"]
    for panel, rows in halves.groupby("panel", sort=False):
        by_trial = rows.pivot(index="seed", columns="quantity", values="value")
        times = rows.groupby("seed")["solved_at"].first()
        ratio = by_trial["relevant"] / by_trial["irrelevant"]
        named = {name: by_trial[name] for name in ("error", "loss", "relevant", "irrelevant", "movement", "control")}
        found[str(panel)] = {
            "solved": len(by_trial),
            "median_steps": median(times.to_numpy(float)),
            **{name: _median(values) for name, values in named.items()},
            "relevant_over_irrelevant": _median(ratio),
            "movement_over_control": _median(by_trial["movement"] / by_trial["control"]),
            "leads": _share(by_trial["leader"] == 1),
            "beyond_control": _share(by_trial["movement"] > by_trial["control"]),
        }
    return found


def _median(values: pd.Series) -> dict[str, Any]:
    low, high = median_interval(values.to_numpy(float))
    return {"median": round(median(values.to_numpy(float)), 4), "interval": [round(low, 4), round(high, 4)]}


def _share(positive: pd.Series) -> dict[str, Any]:
    low, high = wilson(int(positive.sum()), len(positive))
    return {"count": int(positive.sum()), "of": len(positive), "interval": [round(low, 4), round(high, 4)]}


EXPERIMENT = Experiment(
    name="hidden-progress",
    shows="While loss and accuracy stand still, relevant weights grow: more than chance moves any weight",
    source="figures 5.3 and B.9",
    scales={
        "smoke": Scale(smoke, trials=5, time="about 5 seconds"),
        "laptop": Scale(laptop, trials=20, time="about a minute on 2 cores"),
        "paper": Scale(paper, trials=20, time="about 5 minutes on 2 cores"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
)
