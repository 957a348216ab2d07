"""Biased parities: what a network learns where no linear predictor can, and what that takes.

The paper proves it and has no experiment on this distribution. Theorem 3's sizes are far beyond any machine and its
steps too small at those that are not; so the first step is the theorem's, exactly, and what follows is Adam on fresh
minibatches, plain descent, or the theorem's own steps. What the network is compared with is linear in features that
stay, trained alike; the lower bounds stand beside each with the number and norm of its own features.

Choices: hinge loss; minibatches of 256; no decay after the first step (the theorem allows any lambda up to k/n); biases
learn; mirrored neurons; A the first k coordinates, which is no restriction since all learners treat coordinates alike.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments.base import Experiment, Scale
from elegans.models import MLP, GatedLinear, GaussianInit, Init, LinearPredictor, Model, RandomFourier, RandomReLU
from elegans.plots import figure_of
from elegans.probes import Probe
from elegans.stopping import StoppingRule
from elegans.studies.learning_parities.plot_predictors import predictors
from elegans.studies.learning_parities.probes import ComponentLosses, PredictorSize
from elegans.studies.learning_parities.theory.parity import LARGEST_SHARE, biased_fourier_bound, biased_linear_bound
from elegans.studies.learning_parities.training import FirstStep, MirroredSigns, theorem_schedule
from elegans.sweeps import Sweep, grid
from elegans.tasks import BiasedParity, Online
from elegans.training import SGD, Adam, LayerRates, Training, Trial

FROZEN = {"hidden": LayerRates(learning_rate=0.0)}
MEASUREMENTS = 20
"""How often a trial is looked at."""

Arm = Callable[[BiasedParity, int, int], Trial]
"""Makes a trial of a task, from q (half the network's width) and the number of steps."""


def _settings(steps: int) -> dict[str, Any]:
    """Return what all trainings share; they go on when they are solved."""
    success = StoppingRule(error=0.01, every=steps // MEASUREMENTS, stop=False)
    return {"steps": steps, "batch_size": 256, "stopping": success}


def _adam(steps: int, **fields: Any) -> Training:
    return Adam(learning_rate=0.01, loss="hinge", **_settings(steps), **fields)


def _trial(task: BiasedParity, model: Model, training: Training) -> Trial:
    return Trial(task=task, regime=Online(), model=model, training=training)


def _network(task: BiasedParity, q: int, init: Init, training: Training) -> Trial:
    return _trial(task, MLP(width=2 * q, init=init, activation="relu6", output_bias=False), training)


def _first_step(**fields: Any) -> Arm:
    return lambda task, q, steps: _network(task, q, FirstStep(), _adam(steps, **fields))


def _from(init: Init, **fields: Any) -> Arm:
    return lambda task, q, steps: _network(task, q, init, _adam(steps, **fields))


def _predictor(make: Callable[[int], Model]) -> Arm:
    return lambda task, q, steps: _trial(task, make(q), _adam(steps))


LEARNERS: dict[str, Arm] = {
    "network": _first_step(),
    "network, plain descent": lambda task, q, steps: _network(
        task, q, FirstStep(), SGD(learning_rate=0.1, loss="hinge", **_settings(steps))
    ),
    "network, Theorem 3's steps": lambda task, q, steps: _network(
        task, q, FirstStep(), theorem_schedule(task, 2 * q, **_settings(steps))
    ),
    "linear in the inputs": _predictor(lambda q: LinearPredictor()),
    "random ReLU features": _predictor(lambda q: RandomReLU(width=4 * q, init=GaussianInit())),
    "random Fourier features": _predictor(lambda q: RandomFourier(width=4 * q)),
    "frozen gates (NTK)": _predictor(lambda q: GatedLinear(width=2 * q, init=GaussianInit())),
}
"""What is compared on D_A, in words."""
ABLATIONS: dict[str, Arm] = {
    "mixture, first step": LEARNERS["network"],
    "uniform inputs, their first step": lambda task, q, steps: _network(
        task.replace("mix", 0.0), q, FirstStep(), _adam(steps)
    ),
    "Gaussian start, no first step": _from(GaussianInit()),
    "signs, no first step": _from(MirroredSigns()),
    "signs, frozen first layer": _from(MirroredSigns(), layers=FROZEN),
    "first step, then second layer only": _first_step(layers=FROZEN),
    "antipodal neurons": _from(FirstStep(form="antipodal", examples=2**16)),
}
"""What is taken away from the network, in words."""


def arms(n: int, k: int, q: int, steps: int, chosen: dict[str, Arm]) -> dict[str, Trial]:
    """Return the trials of some arms at one size, by their names."""
    task = BiasedParity(n=n, k=k, support=tuple(range(k)))
    return {name: make(task, q, steps) for name, make in chosen.items()}


def _sweep(parts: list[dict[str, Trial]], trials: int) -> Sweep:
    """Return the trials of all arms; one that two panels show is trained once."""
    unique = {trial.cell: trial for part in parts for trial in part.values()}
    sweeps = [grid(trial, {}, seeds=trials) for trial in unique.values()]
    return sum(sweeps[1:], start=sweeps[0])


def smoke(trials: int) -> Sweep:
    """Return a network and two linear predictors on 49 inputs."""
    chosen = {name: LEARNERS[name] for name in ("network", "linear in the inputs", "random ReLU features")}
    return _sweep([arms(49, 3, 32, 400, chosen)], trials)


def laptop(trials: int) -> Sweep:
    """Return all learners on 101 inputs with k = 3 and 5, and what is taken away from the network at k = 5."""
    sizes = [(101, 3, 128, 4000), (101, 5, 128, 4000)]
    return _sweep([*(arms(*size, LEARNERS) for size in sizes), arms(*sizes[1], ABLATIONS)], trials)


def paper(trials: int) -> Sweep:
    """Return all of it with more steps, and k = 5 and 7, where the theorem begins, at larger sizes."""
    sizes = [(101, 3, 128, 10_000), (101, 5, 128, 10_000), (151, 5, 256, 10_000), (301, 7, 512, 10_000)]
    return _sweep([arms(*size, chosen) for size in sizes for chosen in (LEARNERS, ABLATIONS)], trials)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the losses on both parts of the mixture, and the size of a linear predictor."""
    assert one.training is not None
    every = one.training.stopping.every
    losses = ComponentLosses(every=every, examples=20_000)
    return (losses, PredictorSize(every=every)) if isinstance(one.model, LinearPredictor) else (losses,)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a panel, arm, trial and measured step: losses and errors, and for predictors N, B and the bounds.

    ``theorem2`` and ``fourier`` are lower bounds on the hinge loss on D_A at the predictor's own final N and B. Where
    the first step was taken, ``good``, ``slope_low``, ``slope_high`` and ``leak`` say what it made of the neurons.
    """
    outcomes = list(trials["outcome"])
    found = []
    for panel, chosen in (("learners", LEARNERS), ("ablations", ABLATIONS)):
        for outcome in outcomes:
            name = _name(outcome.trial, chosen)
            if name is not None:
                found.append(_course(outcome).assign(panel=panel, arm=name))
    table = pd.concat(found, ignore_index=True)
    sizes = table.groupby(["panel", "n", "k"])["arm"].transform("nunique")
    return table[sizes > 1].reset_index(drop=True)


def _name(trial: Trial, chosen: dict[str, Arm]) -> str | None:
    """Return which arm a trial is, or None."""
    assert isinstance(trial.task, BiasedParity) and trial.training is not None
    n, k, q = trial.task.n, trial.task.k, _half_width(trial.model)
    made = arms(n, k, q, trial.training.steps, chosen)
    return next((name for name, one in made.items() if one.cell == trial.cell), None)


def _half_width(model: Model) -> int:
    """Return q, from which a model's sizes follow; 1 for a predictor that has none."""
    width = int(getattr(model, "width", 2))
    return width // 4 if isinstance(model, RandomReLU | RandomFourier) else width // 2


def _course(outcome: Any) -> pd.DataFrame:
    """Return a row a measured step of one trial."""
    trial = outcome.trial
    measured = {name.replace(".", "_"): value for name, value in outcome.measures["component-losses"].items()}
    found = pd.DataFrame(measured).assign(n=trial.task.n, k=trial.task.k, seed=trial.seed)
    if isinstance(trial.model, LinearPredictor):
        features, norm = (
            outcome.measures["predictor-size"]["features"][-1],
            outcome.measures["predictor-size"]["norm"][-1],
        )
        found = found.assign(features=features, norm=norm, **_bounds(trial.task, int(features), norm))
    elif isinstance(trial.model, MLP) and isinstance(trial.model.init, FirstStep):
        found = found.assign(**_step(trial))
    return found


def _bounds(task: BiasedParity, features: int, norm: float) -> dict[str, float]:
    """Return both lower bounds; Theorem 2 speaks of k <= n / 16 alone."""
    found = {"fourier": biased_fourier_bound(task.n, task.k, features, norm)}
    if LARGEST_SHARE * task.k <= task.n:
        found["theorem2"] = biased_linear_bound(task.k, features, norm)
    return found


def _step(trial: Trial) -> dict[str, float]:
    """Return what the first step made of a trial's neurons."""
    assert isinstance(trial.model, MLP) and isinstance(trial.model.init, FirstStep)
    assert isinstance(trial.task, BiasedParity)
    report = trial.model.init.report(trial.key("init"), trial.model.width, trial.task)
    slopes = report.slope[report.good]
    return {
        "good": report.fraction_good,
        "slope_low": float(slopes.min(initial=np.inf)),
        "slope_high": float(slopes.max(initial=-np.inf)),
        "leak": report.leak,
    }


def plot(table: pd.DataFrame) -> Figure:
    """Draw a row of panels for the learners of each size and for the ablations."""
    return figure_of(predictors(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, by panel, size and arm, medians over trials: last and best hinge loss, errors, N, B and both bounds."""
    found: dict[str, Any] = {}
    for (panel, n, k, arm), rows in table.groupby(["panel", "n", "k", "arm"], sort=False):
        trials = rows.groupby("seed")
        last = trials.last()
        stated = {name: _rounded(last[name]) for name in STATED if name in last and last[name].notna().any()}
        stated["best_hinge"] = _rounded(trials["hinge"].min())
        found.setdefault(f"{panel}, n = {n}, k = {k}", {})[str(arm)] = {"trials": len(last), **stated}
    return found


STATED = (
    "hinge",
    "hinge_d1",
    "hinge_d2",
    "error",
    "error_d1",
    "error_d2",
    "features",
    "norm",
    "theorem2",
    "fourier",
    "good",
    "slope_low",
    "slope_high",
    "leak",
)
"""What ``findings`` says of the last step."""


def _rounded(values: pd.Series) -> float:
    return round(float(values.median()), 4)


EXPERIMENT = Experiment(
    name="biased-parity",
    shows="A two-layer network learns biased parities, on which linear predictors keep a hinge loss of one half",
    source="Theorems 2 and 3 (which the paper does not simulate)",
    scales={
        "smoke": Scale(smoke, trials=1, time="about 15 seconds"),
        "laptop": Scale(laptop, trials=3, time="about 8 minutes of processor time"),
        "paper": Scale(paper, trials=10, time="hours on 2 cores"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
)
