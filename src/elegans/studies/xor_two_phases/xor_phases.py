"""The XOR in two phases: one run, with every quantity of the theory measured.

Phases are separated by measured marks (``probes.XORMargins``), since the theorem's bounds are vacuous at these sizes.

A second arm freezes the output weights at their initial size, 1, as in Remark 4.3. At the scale that decides the
claims, further arms freeze them at theta or start from theta = 0.01, and there are two dimensions.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.analysis import describe
from elegans.experiments import Experiment, Results, Scale, Tables
from elegans.models import MLP, SphereInit
from elegans.plots.style import COLOURS, GREY, MEDIUM, panel_legend, panels, title_panels
from elegans.probes import Probe
from elegans.studies.xor_two_phases.probes import SignalHeavy, SubspaceShare, XORMargins, XORParts, mean_field_of
from elegans.studies.xor_two_phases.settings import LEARNING_RATE, THETA, UNPUBLISHED, trial
from elegans.studies.xor_two_phases.theory.clean import xor_clean_margin
from elegans.studies.xor_two_phases.theory.network import xor_sizes
from elegans.studies.xor_two_phases.theory.surrogate import PHASE_ONE_RATE, xor_surrogate_trajectory
from elegans.studies.xor_two_phases.xor_phases_claims import ASKED, BOTH, CLAIMS, FROZEN, FROZEN_SMALL, WEAK
from elegans.sweeps import Sweep
from elegans.tasks import XOR
from elegans.training import SGD, LayerRates, Trial

MARKS = {"found": ("least_share", 0.1), "dominates": ("dominance", 10.0), "fit": ("fit", 1.0)}
"""The marks: the first measured step at which a quantity of ``XORMargins`` reaches a level."""
HELD_OUT = ("largest", "tenth", "heavy_share", "heavy_mass", "heavy_signal")
CLUSTERS = (r"$\mu_1$", r"$-\mu_1$", r"$\mu_2$", r"$-\mu_2$")
DASHED = (0, (4, 3))
PLACES = range(1, 5)


def run(n: int, width: int, steps: int, every: int, theta: float = THETA, frozen: float | None = None) -> Trial:
    """Return a run of minibatches of n / 0.1; ``frozen`` is the size of frozen output weights."""
    base = trial(XOR(n=n), width=width, batch_size=round(n / THETA), steps=steps, every=every, theta=theta)
    if frozen is None:
        return base
    base = base.replace("training.layers", {"output": LayerRates(learning_rate=0.0)})
    return base.replace("model.init", SphereInit(theta, output=frozen))


def arms(n: int, width: int, trials: int, steps: int, every: int) -> Sweep:
    """Return the run and its counterpart whose second layer is frozen."""
    cells = (run(n, width, steps, every, frozen=frozen) for frozen in (None, 1.0))
    return Sweep(tuple((cell, range(trials)) for cell in cells))


def paper(trials: int) -> Sweep:
    """Return 64 and 256 signs and 256 neurons, which is not a published size, and all arms."""
    few = range(min(10, trials))
    return Sweep(
        (
            (run(64, 256, 400, 5), range(trials)),
            (run(64, 256, 400, 5, frozen=1.0), few),
            (run(64, 256, 400, 5, frozen=THETA), few),
            (run(64, 256, 400, 5, theta=0.01), range(trials)),
            (run(256, 256, 400, 5), range(trials)),
            (run(256, 256, 400, 5, theta=0.01), range(trials)),
        )
    )


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
    taken = [results.measures[kind].set_index(["trial", "seed", "step"]) for kind in kinds]
    parts, margins, heavy, share = taken
    arrays = {name: (f"{name}_low", name, f"{name}_high") for name in ("signal", "opposite", "rest", "output")}
    found = [_columns(parts[name], names) for name, names in arrays.items()]
    found += [_columns(margins[name], [f"{name}_{place}" for place in PLACES]) for name in ("margin", "heavy", "slope")]
    found += [margins[["loss", "error", "least_share", "dominance", "fit", *HELD_OUT]]]
    found += [parts[["weight_square", "output_square", "noise", "heaviness", "excess", "moved", "drift"]]]
    found += [heavy, share]
    table = pd.concat(found, axis=1).reset_index()
    for name, (quantity, level) in MARKS.items():
        table[f"{name}_at"] = table["trial"].map(_reached(table, quantity, level))
    rows = [_predicted(run, results.trial(run["trial"].iloc[0])) for _, run in table.groupby("trial", sort=False)]
    return {"table": pd.concat(rows, ignore_index=True)}


def _columns(cells: "pd.Series[Any]", names: Sequence[str]) -> pd.DataFrame:
    """Return the entries of array-valued cells as columns."""
    return pd.DataFrame(np.stack(cells.to_list()), cells.index, list(names))


def _reached(table: pd.DataFrame, name: str, level: float) -> "pd.Series[float]":
    """Return each trial's first measured step at which a quantity reaches a level, if it does."""
    return table[table[name] >= level].groupby("trial")["step"].min().astype(float)


def _training(one: Trial) -> SGD:
    assert isinstance(one.training, SGD)
    return one.training


def _predicted(table: pd.DataFrame, one: Trial) -> pd.DataFrame:
    """Return a run with its arm, and with the predictions of the surrogate map and the clean margin's equation."""
    steps, rate = table["step"].to_numpy(int), _training(one).learning_rate
    weight, output = mean_field_of(one.model, one.model.initialise(one.key("init"), one.task))
    sizes = xor_sizes(weight, output, one.task.draw(one.key("task")))
    path = xor_surrogate_trajectory([sizes.signal, sizes.opposite, sizes.rest, np.abs(output)], rate, int(steps.max()))
    middle = np.median(path[steps, :3], axis=2)
    middle[steps > table["found_at"].iloc[0]] = np.nan
    start = table["dominates_at"].iloc[0]
    mean = table[[f"margin_{place}" for place in PLACES]].mean(axis=1)
    margin = np.full(len(table), np.nan)
    for place in np.flatnonzero(steps >= start):
        first = float(mean[table["step"] == start].iloc[0])
        margin[place] = xor_clean_margin(first, float(rate * (steps[place] - start)))
    return table.assign(
        arm=_arm(one),
        **{"task.n": one.task.input_size},
        predicted_signal=middle[:, 0],
        predicted_opposite=middle[:, 1],
        predicted_rest=middle[:, 2],
        predicted_margin=margin,
    )


def _arm(one: Trial) -> str:
    assert isinstance(one.model, MLP) and isinstance(one.model.init, SphereInit)
    if _training(one).layers:
        return FROZEN if one.model.init.output == 1.0 else FROZEN_SMALL
    return BOTH if one.model.init.radius == THETA else WEAK


PANELS = (
    ("Held-out loss and error", "loss (nats), error"),
    ("Parts of neurons", "median norm of a part"),
    ("Margins of the clusters", r"margin $\gamma_\mu$"),
    ("Slopes of the clusters", r"slope $g_\mu$"),
    ("Signal against noise", "margin, squared norm"),
    ("Signal-heavy condition", r"$\zeta$"),
)
"""The panels' titles and axis labels."""
LEAST = 1e-10
"""Smaller values of the last panel are marked at its lower edge."""


def plot(tables: Tables) -> Figure:
    """Draw loss and error, parts of neurons, margins, slopes, dominance, and the signal-heavy condition.

    Parts, margins and slopes are those of the first arm's trial with the smallest seed; in other panels its further
    trials are faint. Vertical lines are that trial's marks: the signal is found, it dominates, the data are fit.
    """
    table = tables["table"]
    figure, axes = panels(2, 3, height=2.4)
    drawn = axes.ravel()
    arm = table[(table["arm"] == table["arm"].iloc[0]) & (table["task.n"] == table["task.n"].iloc[0])]
    runs = [run for _, run in arm.groupby("seed")]
    _losses(drawn[0], runs)
    _parts(drawn[1], runs[0])
    _clusters(drawn[2], runs[0], "margin")
    drawn[2].plot(runs[0]["step"], runs[0]["predicted_margin"], color="black", linewidth=0.8, linestyle=DASHED)
    drawn[2].plot([], [], color="black", linewidth=0.8, linestyle=DASHED, label="clean equation")
    _clusters(drawn[3], runs[0], "slope")
    _dominance(drawn[4], runs)
    _heavy(drawn[5], runs)
    for ax, (_, label) in zip(drawn, PANELS, strict=True):
        ax.set_xlim(0, runs[0]["step"].max())
        _mark(ax, runs[0])
        ax.set_ylabel(label)
        panel_legend(ax)
    for ax in drawn:
        ax.set_xlabel("steps", fontsize=MEDIUM, labelpad=1)
    title_panels(drawn, [title for title, _ in PANELS])
    return figure


def _losses(ax: Axes, runs: Sequence[pd.DataFrame]) -> None:
    for run, style in _faint(runs):
        ax.plot(run["step"], run["loss"], color=COLOURS[0], **style)
        ax.plot(run["step"], run["error"], color=COLOURS[1], **style)
    ax.plot([], [], color=COLOURS[0], label="loss")
    ax.plot([], [], color=COLOURS[1], label="error")
    ax.set_ylim(bottom=0)


def _parts(ax: Axes, run: pd.DataFrame) -> None:
    names = {"signal": r"signal $\|w_{sig}\|$", "opposite": r"opposite $\|w_{opp}\|$", "rest": r"rest $\|w_\perp\|$"}
    for (name, label), colour in zip(names.items(), COLOURS, strict=False):
        ax.fill_between(run["step"], run[f"{name}_low"], run[f"{name}_high"], color=colour, alpha=0.15, linewidth=0)
        ax.plot(run["step"], run[name], color=colour, linewidth=1.2, label=label)
    ax.set_yscale("log")
    sizes = run[["signal", "opposite", "rest"]].to_numpy()
    ax.set_ylim(sizes.min() / 3, sizes.max() * 3)
    for name in names:
        ax.plot(run["step"], run[f"predicted_{name}"], color="black", linewidth=0.8, linestyle=DASHED)
    ax.plot([], [], color="black", linewidth=0.8, linestyle=DASHED, label="surrogate map")


def _clusters(ax: Axes, run: pd.DataFrame, name: str) -> None:
    for place, cluster in enumerate(CLUSTERS):
        ax.plot(run["step"], run[f"{name}_{place + 1}"], color=COLOURS[place], linewidth=1, label=cluster)


def _dominance(ax: Axes, runs: Sequence[pd.DataFrame]) -> None:
    for run, style in _faint(runs):
        least = run[[f"heavy_{place}" for place in PLACES]].min(axis=1)
        ax.plot(run["step"], least.where(least > 0), color=COLOURS[0], **style)
        ax.plot(run["step"], run["noise"], color=COLOURS[2], **style)
    ax.plot([], [], color=COLOURS[0], label="smallest heavy margin")
    ax.plot([], [], color=COLOURS[2], label=r"$E\|w_\perp + w_{opp}\|^2$")
    ax.set_yscale("log")


def _heavy(ax: Axes, runs: Sequence[pd.DataFrame]) -> None:
    lines = {
        "zeta": r"smallest $\zeta$, factor $e^{6H}$",
        "relaxed": r"smallest $\zeta$, factor 1",
        "asked": r"$e^{-10H}$",
    }
    for (name, label), colour in zip(lines.items(), (COLOURS[1], COLOURS[0], "black"), strict=True):
        for run, style in _faint(runs):
            values = run[name].where(np.isfinite(run[name]))
            ax.plot(run["step"], values, color=colour, **style)
            if run is runs[0] and (values < LEAST).any():
                ax.plot(run["step"][values < LEAST].min(), 1.6 * LEAST, "v", color=colour, markersize=3)
        ax.plot([], [], color=colour, label=label)
    ax.set_yscale("log")
    ax.set_ylim(bottom=LEAST)


def _faint(runs: Sequence[pd.DataFrame]) -> list[tuple[pd.DataFrame, dict[str, Any]]]:
    """Return runs and their styles: the first is emphasised, on top of the others."""
    strong: dict[str, Any] = {"linewidth": 1.2, "zorder": 3}
    return [(run, {"linewidth": 0.6, "alpha": 0.35} if place else strong) for place, run in enumerate(runs)]


def _mark(ax: Axes, run: pd.DataFrame) -> None:
    """Draw the steps at which the signal is found, dominates, and the data are fit."""
    for name in MARKS:
        step = float(run[f"{name}_at"].iloc[0])
        if np.isfinite(step):
            ax.axvline(step, color=GREY, linewidth=0.7, linestyle=":")


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each arm, the marks, how well phase 1 is predicted, and how margins balance in phase 2."""
    table = tables["table"]
    several = table["task.n"].nunique() > 1
    return {
        f"{arm}, n = {n}" if several else str(arm): _stated(rows)
        for (arm, n), rows in table.groupby(["arm", "task.n"], sort=False)
    }


def _stated(rows: pd.DataFrame) -> dict[str, Any]:
    runs = [run for _, run in rows.groupby("seed")]
    stated = {
        **{name: [run[f"{name}_at"].iloc[0] for run in runs] for name in MARKS},
        "error_below_1_percent": [run.loc[run["error"] <= 0.01, "step"].min() for run in runs],
        "loss_at_the_end": [run["loss"].iloc[-1] for run in runs],
        "smallest_margin_at_the_end": [run["fit"].iloc[-1] for run in runs],
        "balance_first": [_balance(run[run["fit"] >= ASKED], 0) for run in runs],
        "balance_last": [_balance(run, -1) for run in runs],
        "noise_left": [run["noise"].iloc[-1] / run["noise"].iloc[0] for run in runs],
        "smallest_relaxed_zeta": [run["relaxed"].min() for run in runs],
        "smallest_zeta_over_asked": [(run["zeta"] / run["asked"]).min() for run in runs],
        "largest_excess": [run["excess"].max() for run in runs],
    }
    if rows["arm"].iloc[0] in (BOTH, WEAK):
        stated |= {
            "surrogate_error_until_found": [_surrogate_error(run) for run in runs],
            "growth_rate": [_growth(run) for run in runs],
            "clean_margin_error": [_clean_error(run) for run in runs],
        }
    found: dict[str, Any] = {name: describe(values, 6) for name, values in stated.items()}
    return {"trials": len(runs), **found} | ({"growth_rate_of_theory": PHASE_ONE_RATE} if len(stated) > 10 else {})


def _balance(run: pd.DataFrame, place: int) -> float:
    """Return the largest margin over the smallest at a point of a run, NaN where there is none."""
    if run.empty:
        return np.nan
    four = run[[f"margin_{cluster}" for cluster in PLACES]].iloc[place]
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
    return float(np.polyfit(LEARNING_RATE * small["step"], np.log(small["signal"]), 1)[0])


def _clean_error(run: pd.DataFrame) -> float:
    """Return the relative error of the margin that the clean equation predicts, at the end."""
    last = run.iloc[-1]
    mean = np.mean([last[f"margin_{place}"] for place in PLACES])
    return float(abs(last["predicted_margin"] / mean - 1))


EXPERIMENT = Experiment(
    name="xor-phases",
    shows="SGD on the XOR first finds the signal directions, neuron by neuron, and then balances the margins",
    source="theory in sections 4 and 5, no figure",
    scales={
        "smoke": Scale(lambda trials: arms(16, 64, trials, steps=160, every=10), trials=1),
        "laptop": Scale(lambda trials: arms(64, 256, trials, steps=400, every=5), trials=6),
        "paper": Scale(paper, trials=29, part=UNPUBLISHED),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=CLAIMS,
)
