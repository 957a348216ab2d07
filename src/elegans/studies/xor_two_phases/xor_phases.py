"""The XOR in two phases: one run, with every quantity of the theory measured.

Phases are separated by measured marks (``probes.XORMargins``), since the theorem's bounds are vacuous at these sizes.

A second arm freezes the output weights at their initial size, 1, as in Remark 4.3. At the scale that decides the
claims, further arms freeze them at theta, start from a theta that falls with the dimension (in four dimensions) or from
other thetas, or take steps of another size.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.analysis import describe
from elegans.experiments import Experiment, Option, Results, Scale, Tables, parts
from elegans.models import MLP, SphereInit
from elegans.plots.marks import band, curves
from elegans.plots.style import COLOURS, GREY, MEDIUM, panel_legend, panels, title_figure, title_panels
from elegans.probes import Probe
from elegans.studies.xor_two_phases.probes import SignalHeavy, SubspaceShare, XORMargins, XORParts, mean_field_of
from elegans.studies.xor_two_phases.settings import DASHED, LEARNING_RATE, MARKS, THETA, UNPUBLISHED, trial
from elegans.studies.xor_two_phases.theory.clean import xor_clean_margin
from elegans.studies.xor_two_phases.theory.network import xor_sizes
from elegans.studies.xor_two_phases.theory.surrogate import PHASE_ONE_RATE, xor_surrogate_trajectory
from elegans.studies.xor_two_phases.xor_phases_claims import (
    ASKED,
    BOTH,
    CLAIMS,
    FALL,
    FALLING,
    FROZEN,
    FROZEN_SMALL,
    GROWING,
    MARGINS,
    RUNS,
    VARIED,
    WITHIN,
    WITHIN_SIZES,
    balance,
    growth,
    surrogate_error,
    varied_arm,
)
from elegans.sweeps import Sweep
from elegans.tasks import XOR
from elegans.training import SGD, LayerRates, Trial

TIME, TIME_OF_PHASE_ONE = 40, 16
"""The time eta t of every run, and of runs for the end of the first phase, which is near 8."""
PARTS = ("weight_square", "output_square", "noise", "heaviness", "excess", "moved", "drift")
HELD_OUT = ("largest", "tenth", "heavy_share", "heavy_mass", "heavy_signal")
CLUSTERS = (r"$\mu_1$", r"$-\mu_1$", r"$\mu_2$", r"$-\mu_2$")
PLACES = range(1, 5)


def run(
    n: int,
    width: int,
    steps: int,
    every: int,
    theta: float = THETA,
    frozen: float | None = None,
    rate: float = LEARNING_RATE,
    batch_size: int | None = None,
) -> Trial:
    """Return a run of minibatches of n / 0.1 by default; ``frozen`` is the size of frozen output weights."""
    size = batch_size or round(n / THETA)
    base = trial(XOR(n=n), width=width, batch_size=size, steps=steps, every=every, theta=theta, rate=rate)
    if frozen is None:
        return base
    base = base.replace("training.layers", {"output": LayerRates(learning_rate=0.0)})
    return base.replace("model.init", SphereInit(theta, output=frozen))


def arms(n: int, width: int, trials: int, steps: int, every: int) -> Sweep:
    """Return the run and its counterpart whose second layer is frozen."""
    return Sweep.of([run(n, width, steps, every, frozen=frozen) for frozen in (None, 1.0)], trials)


def paper(trials: int) -> Sweep:
    """Return 64 and 256 signs and 256 neurons, which is not a published size, and all arms."""
    few, several, whole = range(min(10, trials)), range(min(RUNS, trials)), range(trials)
    frozen = [(run(64, 256, 400, 5, frozen=size), few) for size in (1.0, THETA)]
    falling = [(run(n, 256, 400, 5, theta=math.log(n) ** -FALL), several) for n in GROWING]
    varied = [
        (run(64, 256, round(TIME / rate), max(1, round(TIME / rate / 80)), theta=theta, rate=rate), whole)
        for rate, theta in VARIED
    ]
    return Sweep(((run(64, 256, 400, 5), whole), *frozen, (run(256, 256, 400, 5), whole), *falling, *varied))


def lemma(sizes: Sequence[int], width: int, trials: int) -> Sweep:
    """Return runs within the hypotheses of Lemma 4.1: theta = log(n)^-2, steps of theta, batches of n / theta^2."""
    cells = []
    for n in sizes:
        theta = math.log(n) ** -FALL
        steps, size = round(TIME_OF_PHASE_ONE / theta), math.ceil(n / theta**2)
        cells.append(run(n, width, steps, max(1, steps // 80), theta=theta, rate=theta, batch_size=size))
    return Sweep.of(cells, trials)


def lemma_alone(experiment: Experiment) -> Experiment:
    """Return only the runs within the hypotheses of Lemma 4.1."""
    sweeps = {"smoke": ((8,), 64, 1), "laptop": ((16, 32), 256, 6), "paper": (WITHIN_SIZES, 256, RUNS)}
    scales = {
        name: Scale(
            partial(lemma, sizes, width),
            trials=trials,
            part="runs within the hypotheses of Lemma 4.1",
        )
        for name, (sizes, width, trials) in sweeps.items()
    }
    return replace(experiment, scales=scales)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return all probes of the XOR, measured whenever success is checked."""
    every = one.stopping.every
    return XORParts(every=every), XORMargins(every=every), SignalHeavy(every=every), SubspaceShare(every=every)


def analyse(results: Results) -> Tables:
    """Return one row per trial and measured step: the measures, the steps of the marks, and the predictions of theory.

    Quantiles over neurons are ``signal_low``, ``signal`` and ``signal_high``, clusters ``margin_1`` to ``margin_4``.
    ``predicted_signal``, ``predicted_opposite`` and ``predicted_rest`` are medians of the trial's initial neurons under
    the surrogate map, until the signal is found; ``predicted_margin`` is the margin of aligned, balanced neurons, from
    where the signal dominates. Elsewhere they are NaN.
    """
    kinds = ("xor-parts", "xor-margins", "signal-heavy", "subspace-share")
    parts, margins, *others = (results.measures[kind].set_index(["trial", "seed", "step"]) for kind in kinds)

    def columns(measures: pd.DataFrame, name: str, names: Sequence[str]) -> pd.DataFrame:
        return pd.DataFrame(np.stack(measures[name].to_list()), measures.index, list(names))

    sizes = ("signal", "opposite", "rest", "output")
    quantiles = [columns(parts, name, (f"{name}_low", name, f"{name}_high")) for name in sizes]
    clusters = [columns(margins, name, [f"{name}_{mu}" for mu in PLACES]) for name in ("margin", "heavy", "slope")]
    numbers = [margins[["loss", "error", "least_share", "dominance", "fit", *HELD_OUT]], parts[[*PARTS]]]
    table = pd.concat([*quantiles, *clusters, *numbers, *others], axis=1).reset_index()
    for name, (quantity, level) in MARKS.items():
        reached = table[table[quantity] >= level].groupby("trial")["step"].min().astype(float)
        table[f"{name}_at"] = table["trial"].map(reached)
    runs = [_predicted(run, results.trial(int(str(index)))) for index, run in table.groupby("trial", sort=False)]
    return {"table": pd.concat(runs, ignore_index=True)}


def _predicted(run: pd.DataFrame, one: Trial) -> pd.DataFrame:
    """Return a run with its arm, and with the predictions of the surrogate map and the clean margin's equation."""
    assert isinstance(one.training, SGD) and isinstance(one.model, MLP) and isinstance(one.model.init, SphereInit)
    key = one.training.learning_rate, one.model.init.radius
    rate, theta = key
    both = varied_arm(*key) if key in VARIED else WITHIN if rate == theta != THETA else FALLING
    both = BOTH if key == (LEARNING_RATE, THETA) else both
    frozen = FROZEN if one.model.init.output == 1.0 else FROZEN_SMALL
    steps, rate = run["step"].to_numpy(int), one.training.learning_rate
    weight, output = mean_field_of(one.model, one.model.initialise(one.key("init"), one.task))
    sizes = xor_sizes(weight, output, one.task.draw(one.key("task")))
    path = xor_surrogate_trajectory([sizes.signal, sizes.opposite, sizes.rest, np.abs(output)], rate, int(steps.max()))
    medians = np.median(path[steps, :3], axis=2)
    medians[steps > run["found_at"].iloc[0]] = np.nan
    start = run["dominates_at"].iloc[0]
    late, margin = steps >= start, np.full(len(run), np.nan)
    mean = run.loc[late, MARGINS].mean(axis=1).to_list()
    margin[late] = [xor_clean_margin(mean[0], float(rate * (step - start))) for step in steps[late]]
    return run.assign(
        arm=frozen if one.training.layers else both,
        **{"task.n": one.task.input_size},
        predicted_signal=medians[:, 0],
        predicted_opposite=medians[:, 1],
        predicted_rest=medians[:, 2],
        predicted_margin=margin,
    )


SIZES = {"signal": r"signal $\|w_{sig}\|$", "opposite": r"opposite $\|w_{opp}\|$", "rest": r"rest $\|w_\perp\|$"}
ZETAS = {"zeta": r"smallest $\zeta$, factor $e^{6H}$", "relaxed": r"smallest $\zeta$, factor 1", "asked": r"$e^{-10H}$"}
THEORY: dict[str, Any] = {"color": "black", "linewidth": 0.8, "linestyle": DASHED}
PANELS = (
    ("The error vanishes before the loss", "held-out loss (nats), error"),
    ("Single neurons grow as predicted", "median norm of a part"),
    ("The clusters' margins balance", r"margin $\gamma_\mu$"),
    ("Their slopes fall together", r"slope $g_\mu$"),
    ("The signal outgrows the noise", "margin, squared norm"),
    ("No run is signal-heavy", r"$\zeta$"),
)
"""The panels' titles and axis labels."""
EVENTS = {"found": ("signal found", ":"), "dominates": ("it dominates", "--"), "fit": ("data fit", "-")}
"""The labels and lines of the marks."""
LEAST = 1e-10
"""Smaller values of the last panel are marked at its lower edge."""


def plot(tables: Tables) -> Figure:
    """Draw loss and error, parts of neurons, margins, slopes, dominance, and the signal-heavy condition.

    Parts, margins and slopes are from the first arm's trial with the smallest seed; in other panels its further
    trials are faint. Vertical lines are that trial's marks: the signal is found, it dominates, the data are fit.
    """
    table = tables["table"]
    figure, axes = panels(2, 3, height=2.4)
    losses, parts, margins, slopes, dominance, heavy = drawn = axes.ravel()
    runs = table[(table["arm"] == table["arm"].iloc[0]) & (table["task.n"] == table["task.n"].iloc[0])]
    least = runs[[f"heavy_{mu}" for mu in PLACES]].min(axis=1)
    runs = runs.assign(least_heavy=least.where(least > 0)).replace(np.inf, np.nan)
    first = runs[runs["seed"] == runs["seed"].min()]
    _courses(losses, runs, {"loss": "loss", "error": "error"})
    for (name, label), colour in zip(SIZES.items(), COLOURS, strict=False):
        band(parts, first["step"], first[name], first[f"{name}_low"], first[f"{name}_high"], colour, label=label)
        theory = "surrogate map" if name == "rest" else None
        parts.plot(first["step"], first[f"predicted_{name}"], label=theory, zorder=3, **THEORY)
    sizes = first[list(SIZES)].to_numpy()
    parts.set(yscale="log", ylim=(sizes.min() / 3, sizes.max() * 3))
    for ax, name in ((margins, "margin"), (slopes, "slope")):
        for mu, label, colour in zip(PLACES, CLUSTERS, COLOURS, strict=False):
            ax.plot(first["step"], first[f"{name}_{mu}"], color=colour, linewidth=1, label=label)
    margins.plot(first["step"], first["predicted_margin"], label="clean equation", **THEORY)
    noise = {"least_heavy": "smallest heavy margin", "noise": r"$E\|w_\perp + w_{opp}\|^2$"}
    _courses(dominance, runs, noise, (COLOURS[0], COLOURS[2]))
    _courses(heavy, runs, ZETAS, (COLOURS[1], COLOURS[0], "black"))
    for name, colour in zip(ZETAS, (COLOURS[1], COLOURS[0], "black"), strict=True):
        heavy.plot(first.loc[first[name] < LEAST, "step"].min(), 1.6 * LEAST, "v", color=colour, markersize=3)
    losses.set_ylim(bottom=0)
    dominance.set_yscale("log")
    heavy.set(yscale="log", ylim=(LEAST, None))
    for ax, (_, label) in zip(drawn, PANELS, strict=True):
        for name, (event, style) in EVENTS.items():
            named = {"label": event} if ax is losses else {}
            ax.axvline(first[f"{name}_at"].iloc[0], color=GREY, linewidth=0.7, linestyle=style, **named)
        ax.set(xlim=(0, first["step"].max()), ylabel=label)
        ax.set_xlabel("steps", fontsize=MEDIUM, labelpad=1)
        panel_legend(ax)
    title_panels(drawn, [title for title, _ in PANELS])
    title_figure(
        figure,
        "SGD first finds the signal, neuron by neuron; then the margins grow and balance",
        f"XOR of two of {first['task.n'].iloc[0]} signs, ReLU network; thick: one run, with bands from the 10th to the "
        f"90th percentile of its neurons; faint: {runs['seed'].nunique() - 1} further runs",
    )
    return figure


def _courses(ax: Axes, runs: pd.DataFrame, labels: dict[str, str], colours: Sequence[str] = COLOURS) -> None:
    """Draw columns of runs: emphasised for the smallest seed, on top of the others."""
    first = runs["seed"] == runs["seed"].min()
    for (name, label), colour in zip(labels.items(), colours, strict=False):
        curves(ax, runs[~first], "step", name, colour, linewidth=0.6, alpha=0.35)
        curves(ax, runs[first], "step", name, colour, linewidth=1.2, alpha=1, zorder=3, label=label)


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each arm, the marks, how well phase 1 is predicted, and how margins balance in phase 2."""
    table = tables["table"]
    name = "{}, n = {}" if table["task.n"].nunique() > 1 else "{}"
    return {name.format(*key): _stated(rows) for key, rows in table.groupby(["arm", "task.n"], sort=False)}


def _stated(rows: pd.DataFrame) -> dict[str, Any]:
    runs = [run for _, run in rows.groupby("seed")]
    ratios = [balance(run[run["fit"] >= ASKED]) for run in runs]
    stated: dict[str, list[float]] = {
        **{name: [run[f"{name}_at"].iloc[0] for run in runs] for name in MARKS},
        "error_below_1_percent": [run.loc[run["error"] <= 0.01, "step"].min() for run in runs],
        "loss_at_the_end": [run["loss"].iloc[-1] for run in runs],
        "smallest_margin_at_the_end": [run["fit"].iloc[-1] for run in runs],
        "balance_first": [ratio.head(1).min() for ratio in ratios],
        "balance_last": [balance(run).iloc[-1] for run in runs],
        "noise_left": [run["noise"].iloc[-1] / run["noise"].iloc[0] for run in runs],
        "smallest_relaxed_zeta": [run["relaxed"].min() for run in runs],
        "smallest_zeta_over_asked": [(run["zeta"] / run["asked"]).min() for run in runs],
        "largest_excess": [run["excess"].max() for run in runs],
    }
    if rows["arm"].iloc[0] in (BOTH, FALLING, WITHIN):
        small = [run[(run["signal"] < run["rest"] / 2).cummin()] for run in runs]
        margins = [run["predicted_margin"] / run[MARGINS].mean(axis=1) for run in runs]
        stated |= {
            "surrogate_error_until_found": [surrogate_error(run[run["step"] < run["found_at"]]) for run in runs],
            "growth_rate": [growth(run, "signal") if len(run) > 1 else np.nan for run in small],
            "clean_margin_error": [abs(margin.iloc[-1] - 1) for margin in margins],
        }
    described = {name: describe(values, 6) for name, values in stated.items()}
    return {"trials": len(runs), **described, "growth_rate_of_theory": PHASE_ONE_RATE}


EXPERIMENT = Experiment(
    name="xor-phases",
    shows="SGD on the XOR first finds the signal directions, neuron by neuron, and then balances the margins",
    source="theory in sections 4 and 5, no figure",
    scales={
        "smoke": Scale(lambda trials: arms(16, 64, trials, steps=160, every=10), trials=1),
        "laptop": Scale(lambda trials: arms(64, 256, trials, steps=400, every=5), trials=6),
        "paper": Scale(paper, trials=76, part=UNPUBLISHED),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=CLAIMS,
    options={"parts": Option("all, or lemma: only runs within the hypotheses of Lemma 4.1", parts(lemma=lemma_alone))},
)
