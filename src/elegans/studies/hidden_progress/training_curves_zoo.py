"""Training curves of every kind of network: a long plateau, then a cliff (figures 5.1, left, and B.2).

Each panel is one setting of appendix B.4, with its learning rate. Where the appendix contradicts itself, the caption is
followed: the first row of figure B.2 has ReLU networks of width 100. The sinusoid of figure 5.1 is sin(2z), shifted for
k = 3: the published "scaled by 2" may also mean the sinusoid that interpolates the parity with its argument doubled,
which the ``part`` and ``paper`` scales train too, along with the sinusoid without doubling. Minimal networks with one
example per step, the third row of figure B.2, are at (50, 3) there, also at smaller learning rates and from Glorot's
initial scale; at the laptop scale they have 10 signs, on which more of them converge. The full transformer takes
minutes per trial; the laptop scale has one of an eighth of its width, on 20 signs.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.analysis import finite_or_none, median
from elegans.experiments import Experiment, Results, Scale, Tables
from elegans.models import DenseInit, Sinusoid
from elegans.plots.style import COLOURS, SMALL, panels, percent, short, title_figure, title_panels
from elegans.studies.hidden_progress.settings import configuration
from elegans.studies.hidden_progress.training_curves_zoo_claims import CLAIMS, OTHER_RATES, OTHER_SCALE, SHARES
from elegans.sweeps import Sweep
from elegans.training import Trial

LOW = 0.4
"""The error at which a plateau counts as left: chance is 0.5."""
LEAVES, ENDS = 0.45, 0.05
"""The errors at which a plateau ends, and at which the task is practically learned, both for good."""
SOLVED = 0.01
AVERAGED = 1024
"""The smallest number of examples over which minibatch errors are averaged for these times."""
POINTS = 40
"""The largest number of points of a curve."""
DRAWN = "figure 5.1"
CURVES = 10
"""How many trials keep their curves, of each setting that the figure does not draw, but for the transformer's."""
LONGEST = 3
"""The longest axis, in units of the solved trials' median time."""


@dataclass(frozen=True)
class Panel:
    """One setting whose training curves are shown.

    Args:
        name: the network, in a few words.
        identifier: the configuration, by the thesis' id.
        batch_size: the number of examples per step.
        learning_rate: the learning rate.
        n: the number of signs.
        k: the size of the parity.
        scale: what the argument of a sinusoid is multiplied by.
        width: of a transformer, with heads of size 8 that make up the width; None for the configuration's own.
        steps: the largest number of steps.
        checks: how many checks in a row must find no mistake; training continues for that long past the first.
        times: by what factor it has more trials than the scale's default.
        glorot: whether initial weights have Glorot's scale.
    """

    name: str
    identifier: str
    batch_size: int
    learning_rate: float
    n: int = 50
    k: int = 3
    scale: float = 1.0
    width: int | None = None
    steps: int = 100_000
    checks: int = 1
    times: int = 1
    glorot: bool = False

    @property
    def trial(self) -> Trial:
        """The trial of this setting."""
        given: Any = {"batch_size": self.batch_size, "learning_rate": self.learning_rate, "steps": self.steps}
        init = DenseInit(convention="glorot") if self.glorot else "dense"
        trial = configuration(self.identifier, self.n, self.k, init=init, **given)
        if self.scale != 1:
            trial = trial.replace("model.activation", Sinusoid(self.k, scale=self.scale))
        if self.width is not None:
            trial = trial.replace("model.width", self.width).replace("model.heads", self.width // 8)
        return trial.replace("training.stopping.consecutive", self.checks)

    @property
    def title(self) -> str:
        """The setting in two lines."""
        return f"({self.identifier}) {self.name}\n({self.n}, {self.k}) B={self.batch_size} η={self.learning_rate:g}"


AFTER = 8
"""Checks without a mistake after which small batches stop where the end of the plateau matters: their error is averaged
over 1024 examples, which fewer checks after the cliff would not provide."""
FIGURES: dict[str, tuple[Panel, ...]] = {
    "figure 5.1": (
        Panel("ReLU, width 10", "i", 32, 0.5, checks=AFTER),
        Panel("ReLU, width 10", "i", 1024, 0.05, checks=AFTER),
        Panel("ReLU, width 100", "ii", 1, 0.05),
        Panel("cubic, width 10", "iv", 32, 0.05, checks=AFTER),
        Panel("3-zigzag + readout", "vii", 32, 0.2, checks=AFTER),
        Panel("sinusoid + readout", "x", 32, 0.05, scale=4 / math.pi, checks=AFTER),
        Panel("transformer", "*iii", 32, 5e-4),
        Panel("PolyNet", "xv", 32, 0.07, checks=AFTER),
    ),
    "figure B.2": (
        *(
            Panel("ReLU, width 100", "ii", 32, 0.1, n, k)
            for n, k in ((30, 3), (60, 3), (90, 3), (30, 4), (30, 5), (30, 6))
        ),
        *(
            Panel("PolyNet", "xv", batch, rate)
            for batch, rate in ((1, 0.005), (4, 0.01), (16, 0.1), (64, 0.1), (256, 0.1), (1024, 0.1))
        ),
        Panel("ReLU, width 3", "*i", 1, 0.1),
        Panel("cubic, width 3", "*ii", 1, 0.01),
        Panel("3-zigzag + readout", "vii", 1, 0.1),
        Panel("polynomial + readout", "viii", 1, 0.1),
        Panel("3-zigzag neuron", "xi", 1, 0.1),
        Panel("polynomial neuron", "xii", 1, 0.1),
        Panel("ReLU, width 1000", "iii", 1, 0.1),
        Panel("ReLU, width 1000", "iii", 1024, 0.1),
        Panel("cubic, width 1000", "vi", 1, 0.001),
        Panel("cubic, width 1000", "vi", 1024, 0.01),
        Panel("transformer", "*iii", 32, 3e-4),
        Panel("transformer", "*iii", 1024, 3e-4),
    ),
}
"""The settings by figure, in reading order."""
MINIMAL = ("*i", "*ii", "vii", "viii", "xi", "xii")
"""The configurations of the third row of figure B.2."""
THIRD_ROW = tuple(
    replace(panel, times=4) for panel in FIGURES["figure B.2"] if panel.identifier in MINIMAL and panel.batch_size == 1
)
SMALLER: dict[str, tuple[Panel, ...]] = {
    OTHER_RATES: tuple(
        replace(panel, learning_rate=round(panel.learning_rate * share, 6)) for share in SHARES for panel in THIRD_ROW
    ),
    OTHER_SCALE: tuple(
        replace(panel, name=f"{panel.name}, Glorot", learning_rate=round(panel.learning_rate / 10, 6), glorot=True)
        for panel in THIRD_ROW
    ),
}
"""The third row at smaller learning rates than the printed ones, and from another initial scale."""
SINUSOIDS = (
    Panel("sinusoid, sin 2z", "x", 32, 0.05, scale=4 / math.pi, checks=AFTER, times=4),
    Panel("sinusoid, interpolating", "x", 32, 0.05, checks=AFTER, times=4),
    Panel("sinusoid, doubled", "x", 32, 0.05, scale=2.0, checks=AFTER, times=4),
)
"""Three readings of the doubled sinusoid; the first is used in figure 5.1."""


def small(panel: Panel) -> Panel:
    """Return the same network, or a much narrower transformer, on a smaller parity with fewer steps."""
    width = 32 if panel.identifier == "*iii" else None
    return replace(panel, n=10, k=min(panel.k, 3), width=width, steps=2000)


def reduced(panel: Panel) -> Panel:
    """Return the same setting, or a narrower transformer or a minimal network on fewer signs."""
    if panel.identifier in MINIMAL and panel.batch_size == 1:
        return replace(panel, n=10)
    return replace(panel, n=20, width=128, steps=2000) if panel.identifier == "*iii" else panel


def panels_of(scale: str) -> dict[str, tuple[Panel, ...]]:
    """Return the settings of each figure at a scale.

    ``smoke`` has a few of them, made small, ``laptop`` all, the slowest reduced. ``paper`` has the readings of the
    doubled sinusoid, minimal networks at other rates, four times as many trials in figure 5.1, whose plateaus are
    judged, and many of PolyNets, whose tails of times are compared; ``part`` lacks the transformers.
    """
    if scale == "smoke":
        chosen = {"figure 5.1": (0, 7), "figure B.2": (0, 12, 16)}
        return {name: tuple(small(FIGURES[name][place]) for place in places) for name, places in chosen.items()}
    if scale == "laptop":
        return {name: tuple(map(reduced, panels)) for name, panels in FIGURES.items()}
    published, rows = FIGURES.values()
    times = {"xv": 60, **dict.fromkeys(MINIMAL, 4)}
    drawn = [panel if panel.identifier == "*iii" else replace(panel, times=4) for panel in published]
    figures = {
        "figure 5.1": (*(panel for panel in drawn if panel.identifier != "x"), *SINUSOIDS),
        "figure B.2": tuple(replace(panel, times=times.get(panel.identifier, 1)) for panel in rows),
        **SMALLER,
    }
    if scale == "paper":
        return figures
    return {name: tuple(panel for panel in panels if panel.identifier != "*iii") for name, panels in figures.items()}


def sweep(scale: str, trials: int) -> Sweep:
    """Return the trials of every setting of a scale; the transformers, which take longest, come last."""
    panels = sorted(chain(*panels_of(scale).values()), key=lambda panel: panel.identifier == "*iii")
    return sum((Sweep.of([panel.trial], trials * panel.times) for panel in panels), Sweep(()))


@lru_cache
def _places() -> dict[str, tuple[int, str, Panel]]:
    """Return the position, the figure and the setting of each cell of every scale."""
    cells: dict[str, tuple[int, str, Panel]] = {}
    for scale in ("smoke", "laptop", "paper"):
        shown = [(name, panel) for name, panels in panels_of(scale).items() for panel in panels]
        cells |= {panel.trial.cell: (place, name, panel) for place, (name, panel) in enumerate(shown)}
    return cells


def analyse(results: Results) -> Tables:
    """Return one row per trial and point of its curve: minibatch loss and error, averaged since the point before.

    ``solved_at`` (NaN where unsolved) and ``plateau``, the share of that time until the error is below 0.4 for good,
    are the same in all rows of a trial, and so are ``leaves``, ``ends`` and ``learns``: when the error, averaged over
    1024 examples at least, is below 45%, 5% and 1% for good (NaN where it is not). Of settings that
    the figure does not draw, ``CURVES`` trials have all points, and the others only the last one; the transformer's
    trials have all points, which a claim reads.
    """
    curves = dict(list(results.measures["curve"].groupby("trial")))
    shown = {trial: _places()[results.trial(trial).cell] for trial in results.trials.index}
    ordered = sorted(shown.items(), key=lambda item: item[1][0])
    tables = [_curve(figure, panel, results.trials.loc[trial], curves[trial]) for trial, (_, figure, panel) in ordered]
    return {"table": _thinned(pd.concat(tables, ignore_index=True))}


def _thinned(table: pd.DataFrame) -> pd.DataFrame:
    setting = ["figure", "panel"]
    place = table.groupby(setting, sort=False)["seed"].rank("dense")
    last = ~table.duplicated([*setting, "seed"], keep="last")
    read = (table["figure"] == DRAWN) | (table["configuration"] == "*iii")
    return table[read | (place <= CURVES) | last].reset_index(drop=True)


def _curve(figure: str, panel: Panel, trial: pd.Series, curve: pd.DataFrame) -> pd.DataFrame:
    step, loss, error = _even(curve)
    high = step[error >= LOW]
    names = ("task.n", "task.k", "training.batch_size", "training.learning_rate", "seed", "solved_at")
    return pd.DataFrame({"step": step, "loss": loss, "error": error}).assign(
        figure=figure,
        panel=panel.title,
        configuration=panel.identifier,
        **{name: trial[name] for name in names},
        plateau=(high[-1] if len(high) else 0.0) / trial["solved_at"],
        **_times(curve, int(trial["training.batch_size"])),
    )


def _times(curve: pd.DataFrame, batch_size: int) -> dict[str, float]:
    """Return when the averaged error falls below 45%, 5% and 1% for good: NaN where it does not."""
    step = curve["step"].to_numpy(float)
    spans = np.diff(step, prepend=0)
    window = max(1, math.ceil(AVERAGED / (batch_size * spans[0])))
    error = curve["error"].rolling(window, min_periods=1).mean().to_numpy()
    levels = {"leaves": LEAVES, "ends": ENDS, "learns": SOLVED}
    below = {name: int(np.flatnonzero(error > level).max(initial=-1)) + 1 for name, level in levels.items()}
    return {name: step[first] if first < len(step) else math.nan for name, first in below.items()}


def _even(curve: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return evenly spaced steps, and loss and error averaged between each and the one before."""
    known = np.array([0, *curve["step"]], float)
    step = np.linspace(0, known[-1], min(POINTS, len(curve)) + 1)
    spans = np.diff(known)
    sums = [np.interp(step, known, [0, *np.cumsum(spans * curve[name])]) for name in ("loss", "error")]
    loss, error = (np.diff(total) / np.diff(step) for total in sums)
    return step[1:], loss, error


def plot(tables: Tables) -> Figure:
    """Draw the minibatch error of every network against steps, one panel for each kind of network of figure 5.1.

    The network with the median time to solve is emphasised, the others are faint. Curves end where solved, or long
    after most networks have solved the task. Of the settings of one kind only the first is drawn, of at most six kinds;
    the others, and the networks of figure B.2, are in the table.
    """
    shown = tables["table"][tables["table"]["figure"] == DRAWN]
    kinds = shown.groupby("configuration", sort=False)["panel"].first().iloc[:6]
    panels_shown = list(shown[shown["panel"].isin(kinds)].groupby("panel", sort=False))
    columns = min(3, len(panels_shown))
    down = -(-len(panels_shown) // columns)
    figure, drawn = panels(down, columns, height=1.75 + 0.3 / down, width=7.0 if columns > 2 else 5.0, sharey=True)
    titles, trials = [], []
    for ax, (title, rows) in zip(drawn.flat, panels_shown, strict=False):
        _draw(ax, rows)
        ax.set_xlabel("steps")
        network = str(title).partition(") ")[2].partition("\n")[0]
        titles.append(f"{network}, B = {rows['training.batch_size'].iloc[0]}")
        trials.append(rows["seed"].nunique())
    for ax in drawn.flat[len(panels_shown) :]:
        ax.set_axis_off()
    for ax in drawn[:, 0]:
        ax.set_ylabel("error")
    title_panels(drawn, titles)
    n, k = shown[["task.n", "task.k"]].iloc[0]
    title_figure(
        figure,
        "Errors stay near chance for most of the training, then fall",
        f"({n}, {k}) parity, B examples per step; {min(trials)} to {max(trials)} trials per panel, the trial of median "
        "time in bold; errors on fresh minibatches, averaged between checks",
    )
    return figure


def _draw(ax: Axes, curves: pd.DataFrame) -> None:
    times = curves.groupby("seed")["solved_at"].first().sort_values(na_position="last")
    solved = times.dropna()
    emphasised = times.index[len(solved) // 2]
    for seed, curve in curves.groupby("seed"):
        strong = seed == emphasised
        style: dict[str, Any] = {"linewidth": 1.2, "zorder": 3} if strong else {"linewidth": 0.6, "alpha": 0.35}
        ax.plot([0, *curve["step"]], [0.5, *curve["error"]], color=COLOURS[0], **style)
    ax.set_ylim(-0.02, 0.62)
    longest = curves["step"].max()
    ax.set_xlim(0, 1.04 * min(longest, LONGEST * solved.median() if len(solved) else longest))
    ax.set_yticks([0, 0.25, 0.5])
    percent(ax)
    ax.xaxis.set_major_formatter(lambda value, _: short(value))
    ax.locator_params(axis="x", nbins=3)
    ax.tick_params(labelsize=SMALL - 0.5)


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each setting, how many trials were solved, the median time, and how much of it was plateau."""
    figures: dict[str, dict[str, Any]] = {}
    for (figure, panel), rows in tables["table"].groupby(["figure", "panel"], sort=False):
        last = rows.groupby("seed").last()
        solved = last[last["solved_at"].notna()]
        figures.setdefault(str(figure), {})[str(panel).replace("\n", ", ")] = {
            "solved": len(solved),
            "trials": len(last),
            "median_steps": finite_or_none(median(last["solved_at"].to_numpy()), 4),
            "plateau": finite_or_none(solved["plateau"].median(), 4) if len(solved) else None,
        }
    return figures


EXPERIMENT = Experiment(
    name="training-curves-zoo",
    shows="Every kind of network learns sparse parities after a plateau on which nothing seems to happen",
    source="figures 5.1 (left) and B.2",
    scales={
        "smoke": Scale(lambda trials: sweep("smoke", trials), trials=2),
        "laptop": Scale(lambda trials: sweep("laptop", trials), trials=5),
        "part": Scale(lambda trials: sweep("part", trials), trials=30, part="all settings but the transformer's"),
        "paper": Scale(lambda trials: sweep("paper", trials), trials=30),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    claims=CLAIMS,
)
