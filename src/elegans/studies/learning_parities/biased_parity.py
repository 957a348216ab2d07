"""Biased parities: what a network learns where no linear predictor can, and what it needs for that.

The paper proves it and has no experiment on this distribution. Theorem 3's sizes are far beyond any machine, and at
feasible sizes its steps are too small; so the first step is exactly the theorem's, followed by Adam on fresh
minibatches, plain descent, or the theorem's own steps. The network is compared with predictors that are linear in fixed
features, trained in the same way, and with the lower bounds for the number and norm of their features.

Choices: hinge loss; minibatches of 256; no weight decay after the first step (the theorem allows any lambda up to k/n);
biases are trained; mirrored neurons; A is the first k coordinates, without loss of generality since all learners treat
coordinates alike.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from elegans.errors import ExperimentError
from elegans.experiments import Experiment, Option, Results, Scale, Tables
from elegans.models import MLP, GatedLinear, GaussianInit, Init, LinearPredictor, Model, RandomFourier, RandomReLU
from elegans.plots.style import COLOURS, GREY, SMALL, panels, title_panels
from elegans.probes import Probe
from elegans.stopping import StoppingRule
from elegans.studies.learning_parities.biased_parity_claims import CLAIMS
from elegans.studies.learning_parities.probes import ComponentLosses, PredictorSize
from elegans.studies.learning_parities.theory.parity import LARGEST_SHARE, biased_fourier_bound, biased_linear_bound
from elegans.studies.learning_parities.training import FirstStep, MirroredSigns, SampledStep, theorem_schedule
from elegans.sweeps import Sweep, grid
from elegans.tasks import BiasedParity, Online
from elegans.training import SGD, Adam, LayerRates, Training, Trial

FROZEN = {"hidden": LayerRates(learning_rate=0.0)}
MEASUREMENTS = 20
"""The number of evaluations per trial."""
PANELS_AT_MOST = 6
NETWORK, PREDICTOR = COLOURS[:2]
"""The colours of networks and of predictors that are linear in fixed features."""
LAST: dict[str, Any] = {"marker": "o", "linestyle": "", "markersize": 3}
BEST: dict[str, Any] = {**LAST, "markersize": 6, "fillstyle": "none", "alpha": 0.6}
THEOREM: dict[str, Any] = {"marker": ">", "linestyle": "", "markersize": 3.5, "color": "black"}
SHARPER: dict[str, Any] = {"marker": "|", "linestyle": "", "markersize": 9, "color": "black"}

Arm = Callable[[BiasedParity, int, int], Trial]
"""Makes a trial of a task, from q (half the network's width) and the number of steps."""


def _settings(steps: int) -> dict[str, Any]:
    """Return what all trainings share; they continue when they are solved."""
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
"""The learners compared on D_A, in words."""
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
"""The ablations of the network, in words."""
PANELS = {"learners": LEARNERS, "ablations": ABLATIONS}
STARTS: dict[str, Arm] = {
    "signs, first step": LEARNERS["network"],
    "Gaussian (Kaiming), first step": _from(SampledStep(start=GaussianInit())),
    "Gaussian (1), first step": _from(SampledStep(start=GaussianInit(std=1.0))),
    "Gaussian (0.01), no first step": _from(GaussianInit(std=0.01)),
    "Gaussian (Kaiming), no first step": _from(GaussianInit()),
    "Gaussian (0.3), no first step": _from(GaussianInit(std=0.3)),
    "Gaussian (1), no first step": _from(GaussianInit(std=1.0)),
}
"""The network's initialisations, in words, with the standard deviation of every parameter; Kaiming's is 0.14 in the
first layer at n = 101."""


def arms(n: int, k: int, q: int, steps: int, chosen: dict[str, Arm]) -> dict[str, Trial]:
    """Return the trials of some arms at one size, by their names."""
    task = BiasedParity(n=n, k=k, support=tuple(range(k)))
    return {name: make(task, q, steps) for name, make in chosen.items()}


def _sweep(parts: list[dict[str, Trial]], trials: int) -> Sweep:
    """Return the trials of all arms; one that appears in two panels is trained only once."""
    unique = {trial.cell: trial for part in parts for trial in part.values()}
    return sum((grid(trial, {}, seeds=trials) for trial in unique.values()), Sweep(()))


def smoke(trials: int) -> Sweep:
    """Return a network and two linear predictors on 49 inputs."""
    chosen = {name: LEARNERS[name] for name in ("network", "linear in the inputs", "random ReLU features")}
    return _sweep([arms(49, 3, 32, 400, chosen)], trials)


def laptop(trials: int) -> Sweep:
    """Return all learners on 101 inputs with k = 3 and 5, and its ablations at k = 5."""
    sizes = [(101, 3, 128, 4000), (101, 5, 128, 4000)]
    return _sweep([*(arms(*size, LEARNERS) for size in sizes), arms(*sizes[1], ABLATIONS)], trials)


def paper(trials: int) -> Sweep:
    """Return all of these with more steps, and k = 5 and 7, where the theorem starts, at larger sizes."""
    sizes = [(101, 3, 128, 10_000), (101, 5, 128, 10_000), (151, 5, 256, 10_000), (301, 7, 512, 10_000)]
    return _sweep([arms(*size, chosen) for size in sizes for chosen in (LEARNERS, ABLATIONS)], trials)


def part(trials: int) -> Sweep:
    """Return all learners at three sizes, and four times as many steps on uniform inputs at the two larger ones."""
    sizes = [(101, 3, 128), (101, 5, 128), (301, 7, 256)]
    uniform = {name: arm for name, arm in ABLATIONS.items() if name.startswith("uniform")}
    learners = [arms(*size, 10_000, LEARNERS) for size in sizes]
    return _sweep([*learners, *(arms(*size, 40_000, uniform) for size in sizes[1:])], trials)


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
    silent = "no sizes are published"
    scales = {name: Scale(partial(_starts, size), trials=trials, part=silent) for name, (size, trials) in sizes.items()}
    return replace(experiment, scales=scales, analyse=partial(analyse, chosen={"starts": STARTS}), claims=())


def _starts(size: tuple[int, int, int, int], trials: int) -> Sweep:
    return _sweep([arms(*size, STARTS)], trials)


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
    trials = {place: results.trial(place) for place in results.trials.index}
    cells = {trial.cell: trial for trial in trials.values()}
    arm = {(panel, cell): _name(trial, own) for panel, own in chosen.items() for cell, trial in cells.items()}
    named = [
        (panel, name, place)
        for panel in chosen
        for place, trial in trials.items()
        if (name := arm[panel, trial.cell]) is not None
    ]
    sizes = {}
    if any(isinstance(cell.model, LinearPredictor) for cell in cells.values()):
        sizes = {place: rows.iloc[-1] for place, rows in results.measures["predictor-size"].groupby("trial")}
    facts = [_facts(trial, sizes.get(place)) for place, trial in trials.items()]
    losses = results.measures["component-losses"].rename(columns=lambda name: name.replace(".", "_"))
    table = pd.DataFrame(named, columns=["panel", "arm", "trial"]).merge(losses, on="trial")
    table = table.join(pd.DataFrame(facts, results.trials.index), on="trial").drop(columns="trial")
    arms_there = table.groupby(["panel", "n", "k"])["arm"].transform("nunique")
    return {"table": table[arms_there > 1].reset_index(drop=True)}


def _name(trial: Trial, chosen: dict[str, Arm]) -> str | None:
    """Return the name of a trial's arm, or None."""
    assert isinstance(trial.task, BiasedParity) and trial.training is not None
    n, k, q = trial.task.n, trial.task.k, _half_width(trial.model)
    made = arms(n, k, q, trial.training.steps, chosen)
    return next((name for name, one in made.items() if one.cell == trial.cell), None)


def _half_width(model: Model) -> int:
    """Return q, which determines a model's sizes; 1 for a predictor without one."""
    width = int(getattr(model, "width", 2))
    return width // 4 if type(model) in (RandomReLU, RandomFourier) else width // 2


def _facts(trial: Trial, size: pd.Series | None) -> dict[str, Any]:
    """Return the facts about a trial: n and k; a predictor's size and bounds; a network's first step."""
    assert isinstance(trial.task, BiasedParity)
    found: dict[str, Any] = {"n": trial.task.n, "k": trial.task.k}
    if size is not None:
        found |= {"features": size["features"], "norm": size["norm"]}
        found |= _bounds(trial.task, int(size["features"]), size["norm"])
    if isinstance(trial.model, MLP) and isinstance(trial.model.init, FirstStep):
        found |= _step(trial)
    return found


def _bounds(task: BiasedParity, features: int, norm: float) -> dict[str, float]:
    """Return both lower bounds; Theorem 2 covers only k <= n / 16."""
    found = {"fourier": biased_fourier_bound(task.n, task.k, features, norm)}
    if LARGEST_SHARE * task.k <= task.n:
        found["theorem2"] = biased_linear_bound(task.k, features, norm)
    return found


def _step(trial: Trial) -> dict[str, float]:
    """Return how the first step changed a trial's neurons."""
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


def plot(tables: Tables) -> Figure:
    """Draw the hinge loss on D_A at the end, one panel for the learners of each size and for the ablations.

    A dot is a trial's loss at the last step and a ring its best; a triangle is Theorem 2's lower bound for the
    predictor's own number and norm of features and a bar the sharper one (negative ones are not drawn); the number is
    the median error on D1. Beyond six panels, the last ablations are left out.
    """
    rows = [part for _, part in tables["table"].groupby(["panel", "n", "k"], sort=False)]
    rows = sorted(rows, key=lambda part: part["panel"].iloc[0] == "ablations")[:PANELS_AT_MOST]
    columns = 1 if len(rows) <= PANELS_AT_MOST // 2 else 2
    most = max(part["arm"].nunique() for part in rows)
    down = -(-len(rows) // columns)
    height = 0.45 + 0.17 * most + 0.8 / down
    figure, drawn = panels(down, columns, sharex=True, height=height, width=5.0 if columns == 1 else 7.0)
    axes = drawn.ravel()
    for ax, part in zip(axes, rows, strict=False):
        _ends(ax, part)
    for ax in axes[len(rows) :]:
        ax.set_axis_off()
    for ax in axes[: len(rows)][-columns:]:
        ax.tick_params(labelbottom=True)
        ax.set_xlabel("hinge loss on the training distribution")
    low, high = (end(ax.dataLim.intervalx[side] for ax in axes[: len(rows)]) for side, end in enumerate((min, max)))
    axes[0].set_xlim(low - 0.04 * high, 1.1 * high)
    named = [part[["panel", "n", "k"]].iloc[0] for part in rows]
    title_panels(axes, [f"{panel.capitalize()}, n = {n}, k = {k}" for panel, n, k in named])
    _key(figure)
    return figure


def _ends(ax: Axes, part: pd.DataFrame) -> None:
    """Draw one line of dots per arm, the first at the top, with its bounds and its error on D1."""
    arms = list(part["arm"].unique())
    for level, arm in enumerate(arms[::-1]):
        trials = part[part["arm"] == arm].groupby("seed")
        last, best = trials.last(), trials["hinge"].min()
        linear = "features" in last and bool(last["features"].notna().any())
        at, colour = np.full(len(last), level), PREDICTOR if linear else NETWORK
        ax.plot(best, at, color=colour, **BEST)
        ax.plot(last["hinge"], at, color=colour, **LAST)
        for name, style in (("theorem2", THEOREM), ("fourier", SHARPER)):
            if name in last and (last[name] > 0).any():
                ax.plot(last[name].where(last[name] > 0), at, **style)
        error = f"{100 * last['error_d1'].median():.0f}%"
        ax.annotate(error, (1.12, level), xycoords=ax.get_yaxis_transform(), fontsize=SMALL, va="center", ha="right")
    ax.annotate("D1 error", (1.12, 1.02), xycoords="axes fraction", fontsize=SMALL, ha="right", va="bottom")
    ax.set_yticks(range(len(arms)), arms[::-1])
    ax.set_ylim(-0.6, len(arms) - 0.4)
    ax.axvline(0.5, color=GREY, linewidth=0.6, linestyle=":", zorder=0)


def _key(figure: Figure) -> None:
    """Draw a key to colours and marks below a figure."""
    names = {"network": {**LAST, "color": NETWORK}, "linear predictor": {**LAST, "color": PREDICTOR}}
    names |= {"last step": {**LAST, "color": GREY}, "best step": {**BEST, "color": GREY}}
    names |= {"Theorem 2's bound": THEOREM, "sharper bound": SHARPER}
    handles = [Line2D([], [], label=name, **style) for name, style in names.items()]
    figure.legend(handles=handles, loc="outside lower center", fontsize=SMALL, frameon=False, ncols=3)


def findings(tables: Tables) -> dict[str, Any]:
    """Return, by panel, size and arm, medians over trials: all columns at the last step, and the best hinge loss."""
    found: dict[str, Any] = {}
    for (panel, n, k, arm), rows in tables["table"].groupby(["panel", "n", "k", "arm"], sort=False):
        trials = rows.groupby("seed")
        last = trials.last()
        measured = last.drop(columns=["panel", "n", "k", "arm", "step"]).dropna(axis="columns", how="all")
        stated = {str(name): _rounded(measured[name]) for name in measured}
        stated["best_hinge"] = _rounded(trials["hinge"].min())
        found.setdefault(f"{panel}, n = {n}, k = {k}", {})[str(arm)] = {"trials": len(last), **stated}
    return found


def _rounded(values: pd.Series) -> float:
    return round(float(values.median()), 4)


EXPERIMENT = Experiment(
    name="biased-parity",
    shows="A two-layer network learns biased parities, on which linear predictors keep a hinge loss of one half",
    source="Theorems 2 and 3 (which the paper does not simulate)",
    scales={
        "smoke": Scale(smoke, trials=1),
        "laptop": Scale(laptop, trials=3),
        "part": Scale(part, trials=10, part="no sizes are published; k = 3, 5 and 7 without ablations"),
        "paper": Scale(paper, trials=10),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=CLAIMS,
    options={"starts": Option("mirrored, or gaussian: initial weights of several sizes, instead of all", with_starts)},
)
