"""Biased parities: what a network learns and a linear predictor cannot, and what the network needs for it.

The paper proves it and has no experiment on this distribution. Theorem 3's sizes are far beyond any machine, and at
feasible sizes its steps are too small; so the first step is exactly the theorem's, followed by Adam on fresh
minibatches, plain descent, or the theorem's own steps. The network is compared with predictors that are linear in fixed
features, trained in the same way, and with the lower bounds for the number and norm of their features.

Choices: hinge loss; minibatches of 256; no weight decay after the first step (the theorem allows any lambda up to k/n);
biases are trained; mirrored neurons; A is the first k coordinates, without loss of generality since all learners treat
coordinates alike.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.experiments import Experiment, Option, Results, Scale, Tables
from elegans.models import MLP, GatedLinear, GaussianInit, Init, LinearPredictor, Model, RandomFourier, RandomReLU
from elegans.plots.style import COLOURS, GREY, figure_legend, panels, title_panels
from elegans.probes import Probe
from elegans.stopping import StoppingRule
from elegans.studies.learning_parities.biased_parity_claims import CLAIMS, HARD, LONGER
from elegans.studies.learning_parities.probes import ComponentLosses, PredictorSize
from elegans.studies.learning_parities.theory.parity import LARGEST_SHARE, biased_fourier_bound, biased_linear_bound
from elegans.studies.learning_parities.training import FirstStep, MirroredSigns, SampledStep, theorem_schedule
from elegans.sweeps import Sweep
from elegans.tasks import BiasedParity, Online
from elegans.training import SGD, Adam, LayerRates, Training, Trial

FROZEN = {"hidden": LayerRates(learning_rate=0.0)}
MEASUREMENTS = 20
"""The number of evaluations per trial."""
BOUND: dict[str, Any] = {
    "marker": "|", "linestyle": "", "markersize": 8, "color": "black", "label": "lower bound for the predictor's size"
}  # fmt: skip
Arm = Callable[[BiasedParity, int, int], Trial]
"""Makes a trial of a task, from q (half the network's width) and the number of steps."""


def _settings(steps: int) -> dict[str, Any]:
    """Return what all trainings share; they continue when they are solved."""
    success = StoppingRule(error=0.01, every=steps // MEASUREMENTS, stop=False)
    return {"steps": steps, "batch_size": 256, "stopping": success}


def _trained(task: BiasedParity, q: int, init: Init, training: Training) -> Trial:
    model = MLP(width=2 * q, init=init, activation="relu6", output_bias=False)
    return Trial(task=task, regime=Online(), model=model, training=training)


def _network(init: Init, **fields: Any) -> Arm:
    adam = partial(Adam, learning_rate=0.01, loss="hinge", **fields)
    return lambda task, q, steps: _trained(task, q, init, adam(**_settings(steps)))


def _predictor(make: Callable[[int], Model]) -> Arm:
    adam = partial(Adam, learning_rate=0.01, loss="hinge")
    return lambda task, q, steps: Trial(task=task, regime=Online(), model=make(q), training=adam(**_settings(steps)))


LEARNERS: dict[str, Arm] = {
    "network": _network(FirstStep()),
    "network, plain descent": lambda task, q, steps: _trained(
        task, q, FirstStep(), SGD(learning_rate=0.1, loss="hinge", **_settings(steps))
    ),
    "network, Theorem 3's steps": lambda task, q, steps: _trained(
        task, q, FirstStep(), theorem_schedule(task, 2 * q, **_settings(steps))
    ),
    "linear in the inputs": _predictor(lambda q: LinearPredictor()),
    "random ReLU features": _predictor(lambda q: RandomReLU(width=4 * q, init=GaussianInit())),
    "random Fourier features": _predictor(lambda q: RandomFourier(width=4 * q)),
    "frozen gates (NTK)": _predictor(lambda q: GatedLinear(width=2 * q, init=GaussianInit())),
}
"""The learners compared on D_A, in words."""
UNIFORM: dict[str, Arm] = {
    "uniform inputs, their first step": lambda task, q, steps: LEARNERS["network"](task.replace("mix", 0.0), q, steps)
}
SAME = "mixture, first step"
"""The ablations' name for the learners' network."""
ABLATIONS: dict[str, Arm] = {
    SAME: LEARNERS["network"],
    **UNIFORM,
    "Gaussian start, no first step": _network(GaussianInit()),
    "signs, no first step": _network(MirroredSigns()),
    "signs, frozen first layer": _network(MirroredSigns(), layers=FROZEN),
    "first step, then second layer only": _network(FirstStep(), layers=FROZEN),
    "antipodal neurons": _network(FirstStep(form="antipodal", examples=2**16)),
}
"""The ablations of the network, in words."""
FEW = {name: LEARNERS[name] for name in ("network", "linear in the inputs", "random ReLU features")}
FEWER = ((101, 3, 128), (101, 5, 128))
"""The smaller sizes: n, k and q."""
LARGE = (*FEWER, (151, 5, 256), (301, 7, 512))
PANELS = {"learners": LEARNERS, "ablations": ABLATIONS}
STARTS: dict[str, Arm] = {
    "signs, first step": LEARNERS["network"],
    "Gaussian (Kaiming), first step": _network(SampledStep(start=GaussianInit())),
    "Gaussian (1), first step": _network(SampledStep(start=GaussianInit(std=1.0))),
    "Gaussian (0.01), no first step": _network(GaussianInit(std=0.01)),
    "Gaussian (Kaiming), no first step": _network(GaussianInit()),
    "Gaussian (0.3), no first step": _network(GaussianInit(std=0.3)),
    "Gaussian (1), no first step": _network(GaussianInit(std=1.0)),
}
"""The network's initialisations, in words, with the standard deviation of every parameter; Kaiming's is 0.14 in the
first layer at n = 101."""


def arms(n: int, k: int, q: int, steps: int, chosen: Mapping[str, Arm]) -> dict[str, Trial]:
    """Return the trials of some arms at one size, by their names."""
    task = BiasedParity(n=n, k=k, support=tuple(range(k)))
    return {name: make(task, q, steps) for name, make in chosen.items()}


def sweep(parts: Sequence[tuple[int, int, int, int, dict[str, Arm]]], trials: int) -> Sweep:
    """Return the trials of arms at some sizes; one that appears in two panels is trained only once."""
    unique = {trial.cell: trial for part in parts for trial in arms(*part).values()}
    return Sweep.of(unique.values(), trials)


def with_starts(experiment: Experiment, value: Any) -> Experiment:
    """Return the experiment with Gaussian initial weights, with and without a first step, instead of all arms.

    Raises:
        ExperimentError: the value is neither ``mirrored`` nor ``gaussian``.
    """
    if value not in ("mirrored", "gaussian"):
        raise ExperimentError(f"starts must be mirrored or gaussian: starts={value!r}")
    if value == "mirrored":
        return experiment
    sizes = {
        "smoke": ((49, 3, 32, 400), 1),
        "laptop": ((101, 5, 128, 4000), 5),
        "part": ((101, 5, 128, 10_000), 10),
        "paper": ((301, 7, 512, 10_000), 10),
    }
    scales = {
        name: Scale(partial(sweep, [(*size, STARTS)]), trials=trials, part="no sizes are published")
        for name, (size, trials) in sizes.items()
    }
    return replace(experiment, scales=scales, analyse=partial(analyse, chosen={"starts": STARTS}), claims=())


def with_inputs(experiment: Experiment, value: Any) -> Experiment:
    """Return the experiment with the mixture and with uniform inputs alone, at n = 16 k + 1, instead of all arms.

    Raises:
        ExperimentError: the value is neither ``mixture`` nor ``uniform``.
    """
    if value not in ("mixture", "uniform"):
        raise ExperimentError(f"inputs must be mixture or uniform: inputs={value!r}")
    if value == "mixture":
        return experiment
    mixture = {SAME: ABLATIONS[SAME]}
    whole = [
        (n, k, 64, steps * longer, arms)
        for (n, k), steps in HARD.items()
        for arms, longer in ((mixture, 1), (UNIFORM, LONGER))
    ]
    few = [(49, 3, 32, 400, {**mixture, **UNIFORM})]
    sweeps = {"smoke": (few, 1), "laptop": (whole[:2], 5), "part": (whole, 16), "paper": (whole, 16)}
    scales = {
        name: Scale(
            partial(sweep, parts), trials=trials, part="no sizes are published; uniform inputs at k = 3, 5 and 7"
        )
        for name, (parts, trials) in sweeps.items()
    }
    return replace(experiment, scales=scales)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return probes of the losses on both parts of the mixture, and of the size of a linear predictor."""
    assert one.training is not None
    every = one.training.stopping.every
    losses = ComponentLosses(every=every, examples=20_000)
    return (losses, PredictorSize(every=every)) if isinstance(one.model, LinearPredictor) else (losses,)


def analyse(results: Results, chosen: Mapping[str, dict[str, Arm]] = PANELS) -> Tables:
    """Return one row per panel, arm, trial and step: losses and errors, and for linear predictors N, B and the bounds.

    ``theorem2`` and ``fourier`` are lower bounds on the hinge loss on D_A at the predictor's own final N and B. Where
    the first step was taken, ``good``, ``slope_low``, ``slope_high`` and ``leak`` describe the neurons after it.
    """
    trials = {index: results.trial(index) for index in results.trials.index}
    cells = {trial.cell: trial for trial in trials.values()}
    names = {(panel, cell): _name(trial, named) for panel, named in chosen.items() for cell, trial in cells.items()}
    rows = [(panel, names[panel, trial.cell], index) for panel in chosen for index, trial in trials.items()]
    sizes = {}
    if any(isinstance(cell.model, LinearPredictor) for cell in cells.values()):
        sizes = {index: rows.iloc[-1] for index, rows in results.measures["predictor-size"].groupby("trial")}
    facts = pd.DataFrame([_facts(trial, sizes.get(index)) for index, trial in trials.items()], results.trials.index)
    losses = results.measures["component-losses"].rename(columns=lambda name: name.replace(".", "_"))
    table = pd.DataFrame(rows, columns=["panel", "arm", "trial"]).dropna().merge(losses, on="trial")
    table = table.join(facts, on="trial").drop(columns="trial")
    several = table.groupby(["panel", "n", "k"])["arm"].transform("nunique") > 1
    return {"table": table[several].reset_index(drop=True)}


def _name(trial: Trial, chosen: dict[str, Arm]) -> str | None:
    """Return the name of a trial's arm, or None."""
    assert isinstance(trial.task, BiasedParity) and trial.training is not None
    width = int(getattr(trial.model, "width", 2))
    q = width // (4 if type(trial.model) in (RandomReLU, RandomFourier) else 2)
    made = arms(trial.task.n, trial.task.k, q, trial.training.steps, chosen)
    return next((name for name, arm in made.items() if arm.cell == trial.cell), None)


def _facts(trial: Trial, size: pd.Series | None) -> dict[str, Any]:
    """Return the facts about a trial: n and k; a predictor's size and bounds; how the first step changed a network."""
    task, model = trial.task, trial.model
    assert isinstance(task, BiasedParity)
    facts: dict[str, Any] = {"n": task.n, "k": task.k}
    if size is not None:
        count, norm = int(size["features"]), size["norm"]
        facts |= {"features": size["features"], "norm": norm}
        facts["fourier"] = biased_fourier_bound(task.n, task.k, count, norm)
        if LARGEST_SHARE * task.k <= task.n:
            facts["theorem2"] = biased_linear_bound(task.k, count, norm)
    if isinstance(model, MLP) and isinstance(model.init, FirstStep):
        report = model.init.report(trial.key("init"), model.width, task)
        slopes = report.slope[report.good]
        ends = {"slope_low": float(slopes.min(initial=np.inf)), "slope_high": float(slopes.max(initial=-np.inf))}
        facts |= {"good": report.fraction_good, **ends, "leak": report.leak}
    return facts


def plot(tables: Tables) -> Figure:
    """Draw the hinge loss on D_A and the error on D1 at the last step, one row per arm, one colour per size.

    A dot is a trial. Bars are the sharper of the lower bounds on the loss for the predictor's own number and norm of
    features, where they are positive. The ablations' network is the learners', which is drawn once.
    """
    rows = tables["table"].sort_values("step").groupby(["n", "k", "panel", "arm", "seed"], sort=False).last()
    last = rows.reset_index()
    arms = [arm for arm in dict.fromkeys(tables["table"]["arm"]) if arm != SAME or "network" not in set(last["arm"])]
    figure, ((left, right),) = panels(1, 2, height=1.1 + 0.3 * len(arms), sharey=True)
    sizes = list(last.groupby(["n", "k"]))
    for order, (((n, k), trials), colour) in enumerate(zip(sizes, COLOURS, strict=False)):
        shown = trials[trials["arm"].isin(arms)].drop_duplicates(["arm", "seed"])
        at = np.array([arms.index(arm) for arm in shown["arm"]]) + 0.24 * (order - (len(sizes) - 1) / 2)
        for ax, column in ((left, "hinge"), (right, "error_d1")):
            ax.plot(shown[column], at, "o", color=colour, markersize=2.6, alpha=0.6, label=f"({n}, {k})")
        if "fourier" in shown and (shown["fourier"] > 0).any():
            left.plot(shown["fourier"].where(shown["fourier"] > 0), at, **BOUND)
    for ax, label in ((left, "hinge loss on the training distribution"), (right, "error on uniform inputs")):
        ax.axvline(0.5, color=GREY, linewidth=0.6, linestyle=":", zorder=0)
        ax.set(xlabel=label, ylim=(len(arms) - 0.4, -0.6))
        ax.set_yticks(range(len(arms)), arms)
    right.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
    seeds = last["seed"].nunique()
    setting = f"Biased parities (n, k), after training; one dot for each of {seeds} trials; dotted: one half"
    title_panels((left, right), _titles(last), setting)
    figure_legend(figure, right, left, columns=5)
    return figure


def _titles(last: pd.DataFrame) -> tuple[str, str]:
    """Return what the trials of the network and of the linear predictors show of the loss and of the error on D1."""
    network = last[last["arm"] == "network"]
    linear = last[last["features"].notna()] if "features" in last else last[:0]
    compared = len(network) > 0 and len(linear) > 0
    apart = compared and network["hinge"].max() < 0.05 and linear["hinge"].min() > 0.4
    wrong = compared and network["error_d1"].max() < 0.05 and linear["error_d1"].min() > 0.25
    loss = "Linear predictors keep a loss of one half" if apart else "Hinge loss"
    return loss, "Linear predictors fail on uniform inputs" if wrong else "Error on uniform inputs"


def findings(tables: Tables) -> dict[str, Any]:
    """Return, by panel, size and arm, medians over trials: all columns at the last step, and the best hinge loss."""
    stated: dict[str, Any] = {}
    for (panel, n, k, arm), rows in tables["table"].groupby(["panel", "n", "k", "arm"], sort=False):
        trials = rows.groupby("seed")
        last = trials.last().assign(best_hinge=trials["hinge"].min())
        measured = last.drop(columns=["panel", "n", "k", "arm", "step"]).dropna(axis="columns", how="all")
        medians = {str(name): round(float(value), 4) for name, value in measured.median().items()}
        stated.setdefault(f"{panel}, n = {n}, k = {k}", {})[str(arm)] = {"trials": len(last), **medians}
    return stated


EXPERIMENT = Experiment(
    name="biased-parity",
    shows="A two-layer network learns biased parities, on which linear predictors keep a hinge loss of one half",
    source="Theorems 2 and 3 (which the paper does not simulate)",
    scales={
        "smoke": Scale(lambda trials: sweep([(49, 3, 32, 400, FEW)], trials), trials=1),
        "laptop": Scale(
            lambda trials: sweep([*((*size, 4000, LEARNERS) for size in FEWER), (*FEWER[1], 4000, ABLATIONS)], trials),
            trials=3,
        ),
        # uniform inputs get four times as many steps
        "part": Scale(
            lambda trials: sweep(
                [
                    *((*size, 10_000, LEARNERS) for size in (*FEWER, (301, 7, 256))),
                    *((*size, 40_000, UNIFORM) for size in (FEWER[1], (301, 7, 256))),
                ],
                trials,
            ),
            trials=10,
            part="no sizes are published; k = 3, 5 and 7 without ablations",
        ),
        # with k = 5 and 7, where the theorem starts, at larger sizes
        "paper": Scale(
            lambda trials: sweep([(*size, 10_000, arms) for size in LARGE for arms in (LEARNERS, ABLATIONS)], trials),
            trials=10,
        ),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=CLAIMS,
    options={
        "starts": Option("mirrored, or gaussian: initial weights of several sizes, instead of all", with_starts),
        "inputs": Option("mixture, or uniform: only the mixture and uniform inputs, at n = 16 k + 1", with_inputs),
    },
)
