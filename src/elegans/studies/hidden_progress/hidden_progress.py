"""Hidden progress: weights that move towards the support while loss and accuracy stay flat (figures 5.3 and B.9).

Each network is trained twice, on true labels and on labels independent of the inputs, with the same initial weights and
inputs. The second run shows how far weights move by chance alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.analysis import median, proportion, rank_correlation
from elegans.analysis.prediction import last_measured
from elegans.experiments import Experiment, Results, Scale, Tables, summary_by
from elegans.plots.style import (
    COLOURS,
    GREY,
    figure_legend,
    panels,
    percent,
    shades,
    short,
    title_figure,
    title_panels,
)
from elegans.probes import HeldOutLoss, Probe, WeightMovement, WeightTrajectory
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.hidden_progress_claims import CLAIMS
from elegans.studies.hidden_progress.settings import configuration
from elegans.studies.hidden_progress.tables import identified, middle
from elegans.sweeps import Sweep
from elegans.training import Trial

RATE = "training.learning_rate"
PANELS = (
    ("xiv", 1, 0.002, 20_000),
    ("xiv", 4, 0.005, 8000),
    ("xiv", 32, 0.01, 4000),
    ("xiv", 128, 0.01, 4000),
    ("i", 32, 0.1, 8000),
)
"""Configuration, batch size, learning rate and steps of each panel."""
LENGTH = 32
"""The largest number of steps of a neuron, in units of one over its learning rate; half of them need 8 or fewer."""
PUBLISHED = (
    *(("xiv", 1, rate, round(LENGTH / rate)) for rate in (1e-3, 3e-5, 3e-4, 3e-3)),
    *(("xiv", 4, rate, round(LENGTH / rate)) for rate in (1e-3, 1e-4, 1e-2)),
    *(("xiv", 32, rate, round(LENGTH / rate)) for rate in (1e-3, 3e-4, 3e-3, 1e-2, 3e-2)),
    *(("xiv", 128, rate, round(LENGTH / rate)) for rate in (1e-2, 1e-3, 3e-3, 3e-2, 1e-1)),
    *(("i", 32, rate, steps) for rate, steps in ((0.5, 4800), (0.003, 400_000), (0.01, 120_000), (0.03, 60_000))),
    *(("i", 32, rate, steps) for rate, steps in ((0.1, 24_000), (1.0, 2400))),
)
"""The same on 50 signs, over the learning rates that a reader would try; curves are drawn at a panel's first.

The source has none for these panels. It trains the network of figure 5.1 at a rate of 0.5, and otherwise tries the
powers of 10 from 0.001 to 1.
"""
TIMES = {
    ("xiv", 32, 1e-3): 4,
    ("xiv", 32, 3e-3): 2,
    ("xiv", 32, 1e-2): 2,
    ("xiv", 1, 3e-3): 9,
    ("xiv", 4, 1e-2): 4,
    ("i", 32, 0.1): 3,
    ("i", 32, 0.5): 8,
    ("i", 32, 1.0): 4,
}
"""Panels and rates with more trials, since shares are near the limit or many networks are not solved."""
FINER = {("xiv", 1, 3e-3): 4, ("xiv", 1, 1e-3): 4, ("xiv", 4, 1e-2): 4, ("xiv", 32, 3e-2): 4, ("xiv", 128, 0.1): 4}
"""Panels and rates that are evaluated more often, since many neurons overtake and leave chance within a check."""
SILENT = 0.5
"""The label noise at which labels carry no information."""
CHECKS = 400
"""How often each network is evaluated; the probes measure half as often."""
LEAVES = 0.45
"""The error at which a plateau ends."""
POINTS = 50
"""The number of measurements drawn per curve."""
LINES = {
    "loss": (GREY, "held-out loss"),
    "error": (COLOURS[0], "held-out error"),
    "movement": (COLOURS[1], "largest change of a weight"),
    "control": ("black", "largest change of the control"),
}
QUANTITIES = {
    "loss": ("test-loss", "hinge"),
    "error": ("test-loss", "error"),
    "movement": ("weight-movement", "movement"),
    "control": ("weight-movement", "movement"),
}
"""The measure and its quantity that each line shows."""
COLUMNS, DOTS = 3, 900
"""How many columns are drawn at most, and about how many irrelevant weights of each network."""
COARSE = 8
"""Weights of controls are measured less often by this factor, since only their movement at one moment is needed."""
CLEAR = 0.9
"""The share of pairs at which the largest change counts as clearly larger, as in the claim."""


def networks(
    n: int,
    k: int,
    chosen: Sequence[tuple[str, int, float, int]],
    trials: int,
    *,
    times: Mapping[tuple[str, int, float], int] | None = None,
) -> Sweep:
    """Return each panel's network, with true labels and with random ones.

    Training ends when a network is solved; controls train for three quarters of the steps, the last moment at which
    they are compared.

    Args:
        n: the number of signs.
        k: the size of the parity.
        chosen: configuration, batch size, learning rate and steps of each panel.
        trials: per cell.
        times: factors for the number of trials of a configuration, batch size and learning rate, where not 1.
    """
    sweep, repeats = Sweep(()), times or {}
    for name, batch, rate, steps in chosen:
        base = configuration(name, n, k, batch_size=batch, learning_rate=rate, steps=steps)
        every = max(1, steps // (CHECKS * FINER.get((name, batch, rate), 1)))
        base = base.replace("training.stopping", StoppingRule(error=0, examples=2048, every=every))
        control = base.replace("task.noise", SILENT).replace("training.steps", 3 * steps // 4)
        rule = StoppingRule(error=0, examples=64, every=every, stop=False)
        control = control.replace("training.stopping", rule)
        sweep += Sweep.of([base, control], trials * repeats.get((name, batch, rate), 1))
    return sweep


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return probes of the weights, how far they have moved, held-out loss and error, at every other check."""
    every = 2 * one.stopping.every
    if one.columns()["task.noise"] == SILENT:
        return WeightTrajectory(every=COARSE * every), WeightMovement(every=every)
    return WeightTrajectory(every=every), WeightMovement(every=every), HeldOutLoss(every=every, examples=2048)


def analyse(results: Results) -> Tables:
    """Return three tables, whose ``panel`` is a network and its batch size.

    ``curves``: the first trial's loss, error and movements (``control``: with random labels), at the panel's first
    learning rate. ``weights``: its weights, by ``neuron`` and ``coordinate``, ``relevant`` or not. ``halves``: one row
    per solved trial, with what was measured last at half of its time to solve; ``control`` is the movement of the same
    trial with random labels at that step. It has ``movement_late`` and ``control_late``, both at three quarters, and
    what ``_course`` returns.
    """
    trials = identified(results.trials)
    batch = trials["training.batch_size"]
    examples = np.where(batch > 1, " examples per step", " example per step")
    trials["panel"] = trials["network"] + ", " + batch.astype(str) + examples
    silent = trials["task.noise"] == SILENT
    names = ["panel", RATE, "seed"]
    control = trials[silent].rename_axis("control").reset_index()[[*names, "control"]]
    pairs = trials[~silent].rename_axis("trial").reset_index().merge(control, on=names)
    shown = pairs.drop_duplicates("panel")
    curves, weights = [], []
    for pair in shown.to_dict("records"):
        columns = {name: pair[name] for name in ("panel", "task.n", "task.k", "seed", "solved_at")}
        for name, (kind, quantity) in QUANTITIES.items():
            line = _shown(results.measures[kind], pair, "control" if name == "control" else "trial")
            values = {"quantity": name, "step": line["step"], "value": line[quantity]}
            curves.append(pd.DataFrame({**columns, **values}))
        weights.append(pd.DataFrame({**columns, **_weights(results, pair)}))
    return {"curves": pd.concat(curves), "weights": pd.concat(weights), "halves": _halves(results, pairs)}


def _shown(measured: pd.DataFrame, pair: dict[Any, Any], trial: str) -> pd.DataFrame:
    """Return the measurements of a trial that the figure shows."""
    until = pair["solved_at"] if np.isfinite(pair["solved_at"]) else pair["training.steps"]
    own: pd.DataFrame = measured[(measured["trial"] == pair[trial]) & (measured["step"] <= until)]
    return own.iloc[np.unique(np.linspace(0, len(own) - 1, min(len(own), POINTS)).astype(int))]


def _weights(results: Results, pair: dict[Any, Any]) -> dict[str, np.ndarray]:
    taken, trial = _shown(results.measures["weight-trajectory"], pair, "trial"), results.trial(pair["trial"])
    weight = np.stack(taken["weight"].tolist())
    place, neuron, coordinate = (each.ravel() for each in np.indices(weight.shape))
    return {
        "step": taken["step"].to_numpy()[place],
        "neuron": neuron,
        "coordinate": coordinate,
        "relevant": np.isin(coordinate, trial.task.draw(trial.key("task"))),
        "value": weight.ravel(),
    }


def _halves(results: Results, pairs: pd.DataFrame) -> pd.DataFrame:
    solved = pairs.dropna(subset="solved_at")
    half, late = (solved["solved_at"].astype(float) * share // 1 for share in (0.5, 0.75))

    def last(kind: str, trial: str = "trial", at: pd.Series = half) -> pd.DataFrame:
        steps = at.set_axis(solved[trial])
        return last_measured(results.measures[kind], steps).set_axis(solved.index)

    held_out, control = last("test-loss"), last("weight-movement", "control")
    moved = last("weight-movement")[["relevant", "irrelevant", "leader", "movement"]]
    found = solved[["panel", "task.n", "task.k", "training.batch_size", RATE, "seed", "solved_at"]].assign(
        step=half,
        error=held_out["error"],
        loss=held_out["hinge"],
        control=control["movement"],
        movement_late=last("weight-movement", at=late)["movement"],
        control_late=last("weight-movement", "control", late)["movement"],
    )
    weights = dict(list(results.measures["weight-trajectory"].groupby("trial")))
    errors = dict(list(results.measures["test-loss"].groupby("trial")))
    courses = [
        _course(results.trial(trial), weights[trial], weights[silent], errors[trial], at)
        for trial, silent, at in zip(solved["trial"], solved["control"], solved["solved_at"].astype(float), strict=True)
    ]
    return found.join(moved).join(pd.DataFrame(courses, index=solved.index))


def _course(
    one: Trial, weights: pd.DataFrame, silent: pd.DataFrame, errors: pd.DataFrame, solved_at: float
) -> dict[str, float]:
    """Return when a trial's weights moved and when its error fell.

    ``correlation``: Spearman's, of the mean change on the support with the step, until the error is first below 45%.
    ``mean_ratio``: the mean change on the support over that elsewhere at half of the time to solve; ``control_ratio``:
    the same with random labels. ``overtaking``: the first step at which some neuron's smallest relevant weight exceeds
    all its irrelevant ones in absolute value; ``weak_overtaking``: its largest relevant one. ``departure``: when the
    error is below 45% for good. ``staircase``: of the neurons that overtake, the last over the first time; ``level``:
    the largest share of the time to solve during which the error stays within 2% of a value between 5% and 45%.
    """
    step, error = errors["step"].to_numpy(), errors["error"].to_numpy()
    relevant = np.isin(np.arange(one.task.input_size), one.task.draw(one.key("task")))
    value = np.stack(weights["weight"].tolist())
    size, moved = np.abs(value), np.abs(value - value[0])
    half = np.searchsorted(step, solved_at // 2, side="right") - 1
    then = np.searchsorted(silent["step"].to_numpy(), solved_at // 2, side="right") - 1
    noise = np.abs(silent["weight"].iloc[then] - silent["weight"].iloc[0])
    below, margin = error < LEAVES, size[..., relevant].min(axis=-1) - size[..., ~relevant].max(axis=-1)
    weak = (size[..., relevant].max(axis=-1) > size[..., ~relevant].max(axis=-1)).any(axis=1)
    plateau = slice(1, max(2, int(below.argmax()))) if below.any() else slice(1, None)
    ahead = (margin > 0) & (step <= solved_at)[:, None]
    times = step[ahead.argmax(axis=0)][ahead.any(axis=0)]
    return {
        "correlation": float(rank_correlation(moved[plateau][..., relevant].mean(axis=(1, 2)), step[plateau])),
        "mean_ratio": float(moved[half][:, relevant].mean() / moved[half][:, ~relevant].mean()),
        "control_ratio": float(noise[:, relevant].mean() / noise[:, ~relevant].mean()),
        "overtaking": float(times.min()) if len(times) else np.inf,
        "weak_overtaking": float(step[weak.argmax()]) if weak.any() else np.inf,
        "departure": float(step[len(below) - below[::-1].argmin()]) if not below.all() and below[-1] else np.inf,
        "staircase": float(times.max() / max(times.min(), step[1])) if len(times) else np.nan,
        "level": _longest_level(step, error, solved_at) / solved_at,
    }


def _longest_level(step: np.ndarray, error: np.ndarray, until: float) -> float:
    """Return the largest number of steps during which the error stays within 2% of one value between 5% and 45%."""
    longest = 0.0
    for first in np.flatnonzero((error > 0.05) & (error < LEAVES) & (step <= until)):
        away = np.flatnonzero(np.abs(error[first:] - error[first]) > 0.02)
        end = first + (away[0] if len(away) else len(error) - first) - 1
        longest = max(longest, float(min(step[end], until) - step[first]))
    return longest


def plot(tables: Tables) -> Figure:
    """Draw one column per network: loss, error and the largest change of a weight, above first-layer weights.

    The control's largest change is drawn too. Relevant weights are coloured, by neuron where there are several, and
    drawn over the grey irrelevant ones. A dotted line marks the step at which the network solved its task. Where
    learning rates were varied, the last column shows what they change, beside the third and the last network.
    """
    curves, halves = list(tables["curves"].groupby("panel", sort=False)), tables["halves"]
    varied = halves.groupby("panel")[RATE].nunique().max() > 1
    if len(curves) > COLUMNS:
        curves = [curves[2], curves[-1]] if varied else [curves[0], curves[3], curves[-1]]
    columns = len(curves) + bool(varied)
    figure, drawn = panels(2, columns, height=2.1, width=7.0 if columns > 1 else 5.0, sharex="col")
    for (above, below), (panel, rows) in zip(drawn.T, curves, strict=False):
        for name, (colour, label) in LINES.items():
            line = rows[rows["quantity"] == name]
            above.plot(line["step"], line["value"], color=colour, linewidth=1.1, label=label)
        above.set_ylim(bottom=0)
        _coordinates(below, tables["weights"][tables["weights"]["panel"] == panel])
        below.set_xlabel("steps")
        for ax in (above, below):
            if np.isfinite(solved_at := float(rows["solved_at"].iloc[0])):
                ax.axvline(solved_at, color=GREY, linewidth=0.8, linestyle=":")
            ax.xaxis.set_major_formatter(lambda value, _: short(value))
            ax.locator_params(axis="x", nbins=4)
            ax.set_xlim(left=0)
    drawn[0, 0].set_ylabel("loss, error, change")
    drawn[1, 0].set_ylabel("weights")
    above = [str(panel).partition(") ")[2].rpartition(", ")[0] for panel, _ in curves]
    below = ["Its first-layer weights"] * len(curves)
    (n, k), batches = halves[["task.n", "task.k"]].iloc[0], {str(panel).rpartition(", ")[2] for panel, _ in curves}
    task = f"({n}, {k}) parity, single networks with {' or '.join(sorted(batches))}; dotted: the task is solved"
    if varied:
        _rates(drawn[0, -1], drawn[1, -1], halves)
        above, below = (
            [*above, "Small rates, large batches\nmake the change clear"],
            [*below, "Relevant weights lead"],
        )
        task += (
            "; c, f: all networks, halfway to the solution, against controls trained on labels of pure noise; "
            "intervals: Wilson 95% (c), 95% of the median (f); dotted in c: the claim's limit"
        )
    title_panels(drawn, above + below)
    figure_legend(figure, drawn[0, 0], drawn[1, 0], drawn[0, -1], columns=4)
    title_figure(figure, "Relevant weights grow while loss and error stay flat", task)
    return figure


def _rates(share: Axes, ratio: Axes, halves: pd.DataFrame) -> None:
    """Draw the share of pairs with the larger change and the ratio of movements, against rate over batch size."""
    colours, aside = iter(shades(halves["panel"].nunique())), iter(np.geomspace(0.85, 1.18, halves["panel"].nunique()))
    for panel, rows in halves.groupby("panel", sort=False):
        ends = dict(list(rows.groupby(RATE)))
        x = np.array(list(ends)) / rows["training.batch_size"].iloc[0] * next(aside)
        name, _, batch = str(panel).partition(") ")[2].rpartition(", ")
        style: dict[str, Any] = {"color": next(colours), "markersize": 3.5, "linewidth": 0.8, "capsize": 0}
        style |= {"fmt": "s--"} if "ReLU" in name else {"fmt": "o-"}
        counts = [proportion(trials["movement"] > trials["control"]) for trials in ends.values()]
        shares = [found | {"share": found["count"] / found["of"]} for found in counts]
        middles = [middle(trials["mean_ratio"]) for trials in ends.values()]
        label = "ReLU network" if "ReLU" in name else f"neuron, {batch.partition(' ')[0]} per step"
        for ax, measured, key in ((share, shares, "share"), (ratio, middles, "median")):
            y, interval = (np.array([found[what] for found in measured], float) for what in (key, "interval"))
            ax.errorbar(x, y, np.abs(interval.T - y), label=label, **style)
            ax.set_xscale("log")
    share.axhline(CLEAR, color=GREY, linewidth=0.8, linestyle=":")
    share.set_ylabel("networks above control")
    share.set_ylim(0.4, 1.02)
    percent(share)
    ratio.set_ylabel("relevant / irrelevant change")
    ratio.set_xlabel("learning rate / batch size")
    ratio.set_ylim(bottom=0)


def _coordinates(ax: Axes, rows: pd.DataFrame) -> None:
    relevant, others = rows[rows["relevant"]], rows[~rows["relevant"]]
    some = others.iloc[:: 1 + len(others) // DOTS]
    ax.plot(
        some["step"], some["value"], "o", color="0.75", markersize=1.8, markeredgewidth=0, label="irrelevant weights"
    )
    for neuron, (_, values) in enumerate(relevant.groupby("neuron"), 1):
        colour = COLOURS[neuron % len(COLOURS)]
        label = "relevant weights (one colour per neuron)" if neuron == 1 else ""
        ax.plot(values["step"], values["value"], "o", color=colour, markersize=3, markeredgewidth=0, label=label)


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each panel and learning rate, the measures at half of the time to solve: medians over solved trials.

    Medians have 95% order-statistic intervals, shares Wilson's. ``leads``: how often the largest mover is relevant;
    ``beyond_control``: how often the movement exceeds the movement in the same trial with random labels.
    """
    medians = ("error", "loss", "relevant", "irrelevant", "movement", "control")
    return summary_by(
        tables["halves"].set_index("seed"),
        ["panel", RATE],
        "{}, learning rate {:g}",
        solved=len,
        median_steps=lambda rows: median(rows["solved_at"].to_numpy(float)),
        **{name: lambda rows, name=name: middle(rows[name]) for name in medians},
        relevant_over_irrelevant=lambda rows: middle(rows["relevant"] / rows["irrelevant"]),
        movement_over_control=lambda rows: middle(rows["movement"] / rows["control"]),
        leads=lambda rows: proportion(rows["leader"] == 1),
        beyond_control=lambda rows: proportion(rows["movement"] > rows["control"]),
    )


EXPERIMENT = Experiment(
    name="hidden-progress",
    shows="While loss and accuracy stay flat, relevant weights grow, and further than chance moves any weight",
    source="figures 5.3 and B.9",
    scales={
        "smoke": Scale(
            lambda trials: networks(20, 3, (("xiv", 32, 0.01, 2000), ("i", 32, 0.1, 3000)), trials), trials=5
        ),
        "laptop": Scale(lambda trials: networks(30, 3, PANELS, trials), trials=20),
        "paper": Scale(
            lambda trials: networks(50, 3, PUBLISHED, trials, times=TIMES),
            trials=200,
            part="the sinusoid without its doubled argument",
        ),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=CLAIMS,
)
