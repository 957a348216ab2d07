"""The XOR in two phases: one run with everything measured that the theory speaks of.

The source is a theorem and has no experiment; sizes are ours. Scaled as its theorem scales them: theta and the step
size are 0.1, and minibatches hold n / theta fresh examples. Its constants stand for powers of log n, so that none of
its bounds says anything at these sizes: phases are told apart by measured marks (``elegans.probes.XORMargins``).

A second arm keeps the output weights where they begin, at size 1, as Remark 4.3 does.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import median, median_interval
from elegans.experiments.base import Experiment, Scale
from elegans.models import MLP, SphereInit
from elegans.plots import figure_of
from elegans.probes import Probe
from elegans.stopping import StoppingRule
from elegans.studies.xor_two_phases.plots import xor_phases
from elegans.studies.xor_two_phases.probes import SignalHeavy, SubspaceShare, XORMargins, XORParts, mean_field_of
from elegans.studies.xor_two_phases.theory.clean import xor_clean_margin
from elegans.studies.xor_two_phases.theory.network import xor_sizes
from elegans.studies.xor_two_phases.theory.surrogate import PHASE_ONE_RATE, xor_surrogate_trajectory
from elegans.sweeps import Sweep, grid
from elegans.tasks import XOR, Online
from elegans.training import SGD, LayerRates, Outcome, Trial
from elegans.training.losses import Logistic

THETA = RATE = 0.1
"""The scale of the initialisation and the step size."""
BOTH, FROZEN = "both layers", "second layer stays"
MARKS = {"found": ("least_share", 0.1), "dominates": ("dominance", 10.0), "fit": ("fit", 1.0)}
"""What is marked: the first measured step at which a quantity of ``XORMargins`` reaches a level."""
ASKED = 0.3
"""The smallest margin from which on the balance of the four is looked at."""


def trial(task: XOR, *, width: int, batch_size: int, steps: int, every: int, stop: bool = False) -> Trial:
    """Return a mean-field network from the sphere of radius 0.1 on fresh examples, with the source's loss and steps.

    Args:
        task: what is learned.
        width: the number of neurons.
        batch_size: how many fresh examples a step.
        steps: how many steps.
        every: how many steps lie between two looks at 4000 held-out examples; solved is an error of at most 1%.
        stop: whether training ends where the trial is solved.
    """
    model = MLP(width=width, init=SphereInit(THETA), hidden_bias=False, output_bias=False, scaling="mean-field")
    success = StoppingRule(error=0.01, examples=4000, every=every, stop=stop)
    training = SGD(learning_rate=RATE, batch_size=batch_size, loss=Logistic(scale=2), steps=steps, stopping=success)
    return Trial(task=task, regime=Online(), model=model, training=training)


def arms(n: int, width: int, trials: int, steps: int, every: int) -> Sweep:
    """Return the run and its counterpart whose second layer stays."""
    base = trial(XOR(n=n), width=width, batch_size=round(n / THETA), steps=steps, every=every)
    frozen = base.replace("training.layers", {"output": LayerRates(learning_rate=0.0)})
    frozen = frozen.replace("model.init", SphereInit(THETA, output=1.0))
    return grid(base, {}, seeds=trials) + grid(frozen, {}, seeds=trials)


def smoke(trials: int) -> Sweep:
    """Return 16 signs and 64 neurons."""
    return arms(16, 64, trials, steps=160, every=10)


def laptop(trials: int) -> Sweep:
    """Return 64 signs and 256 neurons."""
    return arms(64, 256, trials, steps=400, every=5)


def paper(trials: int) -> Sweep:
    """Return 512 signs and 2048 neurons: no published size, but the largest that a day pays for."""
    return arms(512, 2048, trials, steps=600, every=5)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return every probe of the XOR, measured whenever success is checked."""
    every = one.stopping.every
    return XORParts(every=every), XORMargins(every=every), SignalHeavy(every=every), SubspaceShare(every=every)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a trial and measured step: what was measured, the steps of the marks, and what theory predicts.

    Arrays are columns each: quantiles over neurons as ``signal_low``, ``signal`` and ``signal_high``, clusters as
    ``margin_1`` to ``margin_4``. ``predicted_signal``, ``predicted_opposite`` and ``predicted_rest`` are the medians
    that the surrogate map makes of the trial's initial neurons, until the signal is found; ``predicted_margin`` is the
    margin of aligned, balanced neurons, from where the signal dominates on. Elsewhere they are NaN.
    """
    return pd.concat([_course(outcome) for outcome in trials["outcome"]], ignore_index=True)


def _course(outcome: Outcome) -> pd.DataFrame:
    parts, margins = outcome.measures["xor-parts"], outcome.measures["xor-margins"]
    heavy, share = outcome.measures["signal-heavy"], outcome.measures["subspace-share"]
    found: dict[str, Any] = {"step": np.array(parts["step"])}
    for name in ("signal", "opposite", "rest", "output"):
        low, middle, high = np.array(parts[name]).T
        found |= {f"{name}_low": low, name: middle, f"{name}_high": high}
    for name in ("margin", "heavy", "slope"):
        found |= {f"{name}_{place}": values for place, values in enumerate(np.array(margins[name]).T, start=1)}
    for name in ("loss", "error", "least_share", "dominance", "fit"):
        found[name] = margins[name]
    for name in ("weight_square", "output_square", "noise", "heaviness", "excess"):
        found[name] = parts[name]
    found |= {name: heavy[name] for name in ("zeta", "asked", "relaxed", "scale", "holds")}
    table = pd.DataFrame(found | {"share": share["share"]})
    marks = {f"{name}_at": _reached(table, *level) for name, level in MARKS.items()}
    arm = FROZEN if _training(outcome.trial).layers else BOTH
    names: dict[str, Any] = {"arm": arm, "task.n": outcome.trial.task.input_size, "seed": outcome.trial.seed}
    return _predicted(table.assign(**names, **marks), outcome.trial)


def _training(one: Trial) -> SGD:
    assert isinstance(one.training, SGD)
    return one.training


def _reached(table: pd.DataFrame, name: str, level: float) -> float:
    """Return the first measured step at which a quantity reaches a level, or NaN."""
    there = table["step"][table[name] >= level]
    return float(there.iloc[0]) if len(there) else np.nan


def _predicted(table: pd.DataFrame, one: Trial) -> pd.DataFrame:
    """Return the table with what the surrogate map and the clean margin's equation predict."""
    steps, rate = table["step"].to_numpy(int), _training(one).learning_rate
    weight, output = mean_field_of(one.model, one.model.initialise(one.key("init"), one.task))
    sizes = xor_sizes(weight, output, one.task.draw(one.key("task")))
    path = xor_surrogate_trajectory([sizes.signal, sizes.opposite, sizes.rest, np.abs(output)], rate, int(steps.max()))
    middle = np.median(path[steps, :3], axis=2)
    middle[steps > table["found_at"].iloc[0]] = np.nan
    start = table["dominates_at"].iloc[0]
    mean = table[[f"margin_{place}" for place in range(1, 5)]].mean(axis=1)
    margin = np.full(len(table), np.nan)
    for place in np.flatnonzero(steps >= start):
        first = float(mean[table["step"] == start].iloc[0])
        margin[place] = xor_clean_margin(first, float(rate * (steps[place] - start)))
    return table.assign(
        predicted_signal=middle[:, 0],
        predicted_opposite=middle[:, 1],
        predicted_rest=middle[:, 2],
        predicted_margin=margin,
    )


def plot(table: pd.DataFrame) -> Figure:
    """Draw loss, parts, margins, slopes, dominance and the signal-heavy condition, phases marked."""
    return figure_of(xor_phases(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, an arm, the marks, how well phase 1 is predicted, and how margins balance in phase 2."""
    return {str(arm): _stated(rows) for arm, rows in table.groupby("arm", sort=False)}


def _stated(rows: pd.DataFrame) -> dict[str, Any]:
    runs = [run for _, run in rows.groupby("seed")]
    stated = {
        **{name: [run[f"{name}_at"].iloc[0] for run in runs] for name in MARKS},
        "error_below_1_percent": [_reached(run.assign(right=1 - run["error"]), "right", 0.99) for run in runs],
        "loss_at_the_end": [run["loss"].iloc[-1] for run in runs],
        "smallest_margin_at_the_end": [run["fit"].iloc[-1] for run in runs],
        "balance_first": [_balance(run[run["fit"] >= ASKED], 0) for run in runs],
        "balance_last": [_balance(run, -1) for run in runs],
        "noise_left": [run["noise"].iloc[-1] / run["noise"].iloc[0] for run in runs],
        "smallest_relaxed_zeta": [run["relaxed"].min() for run in runs],
        "smallest_zeta_over_asked": [(run["zeta"] / run["asked"]).min() for run in runs],
        "largest_excess": [run["excess"].max() for run in runs],
    }
    if rows["arm"].iloc[0] == BOTH:
        stated |= {
            "surrogate_error_until_found": [_surrogate_error(run) for run in runs],
            "growth_rate": [_growth(run) for run in runs],
            "clean_margin_error": [_clean_error(run) for run in runs],
        }
    found: dict[str, Any] = {name: _middle(np.array(values, float)) for name, values in stated.items()}
    return {"trials": len(runs), **found} | ({"growth_rate_of_theory": PHASE_ONE_RATE} if len(stated) > 10 else {})


def _middle(values: np.ndarray) -> dict[str, Any]:
    """Return the median and its order-statistic interval, what was not reached being infinite."""
    ends = [median(values), *median_interval(values)]
    middle, low, high = (round(float(end), 6) if np.isfinite(end) else None for end in ends)
    return {"median": middle, "interval": [low, high]}


def _balance(run: pd.DataFrame, place: int) -> float:
    """Return the largest margin over the smallest at a place of a run, NaN where there is none."""
    if run.empty:
        return np.nan
    four = run[[f"margin_{cluster}" for cluster in range(1, 5)]].iloc[place]
    return float(four.max() / four.min())


def _surrogate_error(run: pd.DataFrame) -> float:
    """Return the largest relative error of the predicted median signal before the signal is found."""
    before = run[run["step"] < run["found_at"]]
    return float((before["predicted_signal"] / before["signal"] - 1).abs().max())


def _growth(run: pd.DataFrame) -> float:
    """Return d log(s) / d(rate x step) of the median signal while it is below half of the rest."""
    small = run[(run["signal"] < run["rest"] / 2).cummin()]
    if len(small) < 2:
        return np.nan
    return float(np.polyfit(RATE * small["step"], np.log(small["signal"]), 1)[0])


def _clean_error(run: pd.DataFrame) -> float:
    """Return the relative error of the margin that the clean equation predicts, at the end."""
    last = run.iloc[-1]
    mean = np.mean([last[f"margin_{place}"] for place in range(1, 5)])
    return float(abs(last["predicted_margin"] / mean - 1))


EXPERIMENT = Experiment(
    name="xor-phases",
    shows="SGD on the XOR finds the signal directions first, each neuron for itself, and then balances the margins",
    source="theory in sections 4 and 5, no figure",
    scales={
        "smoke": Scale(smoke, trials=1, time="about 5 seconds"),
        "laptop": Scale(laptop, trials=6, time="about a minute on 2 cores"),
        "paper": Scale(paper, trials=20, time="about a day on 2 cores"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
)
