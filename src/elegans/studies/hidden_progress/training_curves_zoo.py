"""Training curves of every kind of network: a long plateau, and then a cliff (figures 5.1, left, and B.2).

Each panel is one setting of appendix B.4, with its learning rate. Where the appendix contradicts itself the caption is
followed: the first row of figure B.2 has ReLU networks of width 100. The sinusoid of figure 5.1 is sin(2z), shifted for
k = 3: the published "scaled by 2" may also mean the sinusoid that interpolates the parity with its argument doubled,
which mostly stays at chance at this learning rate. For the third row of figure B.2, minimal networks with one example a
step, no (n, k) is given; here it is (10, 3), because at 50 signs none of them comes to rest. The full transformer takes
minutes a trial; the laptop scale has one of an eighth of its width, on 20 signs.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import median
from elegans.experiments.base import Experiment, Scale
from elegans.models import Sinusoid
from elegans.plots import figure_of
from elegans.studies.hidden_progress.plot_course import courses
from elegans.studies.hidden_progress.settings import configuration
from elegans.studies.hidden_progress.tables import finite
from elegans.sweeps import Sweep, grid
from elegans.training import Curve, Trial

LOW = 0.4
"""The error at which a plateau counts as left: chance is 0.5."""
POINTS = 40
"""How many points a curve has at the most."""


@dataclass(frozen=True)
class Panel:
    """One setting whose training curves are shown.

    Args:
        name: the network, in few words.
        identifier: the configuration, by the thesis' id.
        batch_size: how many examples a step.
        learning_rate: the learning rate.
        n: the number of signs.
        k: the size of the parity.
        scale: what the argument of a sinusoid is multiplied by.
        width: of a transformer, with heads of size 8 that make up the width; None for what the configuration has.
        steps: after how many steps a trial is given up.
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

    @property
    def trial(self) -> Trial:
        """The trial of this setting."""
        made = configuration(
            self.identifier,
            self.n,
            self.k,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            steps=self.steps,
        )
        if self.scale != 1:
            made = made.replace("model.activation", Sinusoid(self.k, scale=self.scale))
        if self.width is not None:
            made = made.replace("model.width", self.width).replace("model.heads", self.width // 8)
        return made

    @property
    def title(self) -> str:
        """The setting in two lines."""
        return f"({self.identifier}) {self.name}\n({self.n}, {self.k}) B={self.batch_size} η={self.learning_rate:g}"


FIGURES: dict[str, tuple[Panel, ...]] = {
    "figure 5.1": (
        Panel("ReLU, width 10", "i", 32, 0.5),
        Panel("ReLU, width 10", "i", 1024, 0.05),
        Panel("ReLU, width 100", "ii", 1, 0.05),
        Panel("cubic, width 10", "iv", 32, 0.05),
        Panel("3-zigzag + readout", "vii", 32, 0.2),
        Panel("sinusoid + readout", "x", 32, 0.05, scale=4 / math.pi),
        Panel("transformer", "*iii", 32, 5e-4),
        Panel("PolyNet", "xv", 32, 0.07),
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
        Panel("ReLU, width 3", "*i", 1, 0.1, n=10),
        Panel("cubic, width 3", "*ii", 1, 0.01, n=10),
        Panel("3-zigzag + readout", "vii", 1, 0.1, n=10),
        Panel("polynomial + readout", "viii", 1, 0.1, n=10),
        Panel("3-zigzag neuron", "xi", 1, 0.1, n=10),
        Panel("polynomial neuron", "xii", 1, 0.1, n=10),
        Panel("ReLU, width 1000", "iii", 1, 0.1),
        Panel("ReLU, width 1000", "iii", 1024, 0.1),
        Panel("cubic, width 1000", "vi", 1, 0.001),
        Panel("cubic, width 1000", "vi", 1024, 0.01),
        Panel("transformer", "*iii", 32, 3e-4),
        Panel("transformer", "*iii", 1024, 3e-4),
    ),
}
"""The settings by figure, in reading order."""


def small(panel: Panel) -> Panel:
    """Return the same network on a smaller parity with fewer steps; the transformer much narrower."""
    width = 32 if panel.identifier == "*iii" else None
    return replace(panel, n=10, k=min(panel.k, 3), width=width, steps=2000)


def reduced(panel: Panel) -> Panel:
    """Return the same setting; the transformer with an eighth of its width, on fewer signs."""
    return replace(panel, n=20, width=128, steps=2000) if panel.identifier == "*iii" else panel


def smoke_panels() -> dict[str, tuple[Panel, ...]]:
    """Return a few settings of each figure, made small."""
    chosen = {"figure 5.1": (0, 7), "figure B.2": (0, 12, 16)}
    return {name: tuple(small(FIGURES[name][place]) for place in places) for name, places in chosen.items()}


def laptop_panels() -> dict[str, tuple[Panel, ...]]:
    """Return all settings, the transformer reduced."""
    return {name: tuple(map(reduced, panels)) for name, panels in FIGURES.items()}


def _sweep(figures: dict[str, tuple[Panel, ...]], trials: int) -> Sweep:
    """Return the trials of every setting, those of the transformers, which take longest, last."""
    panels = [panel for own in figures.values() for panel in own]
    panels.sort(key=lambda panel: panel.identifier == "*iii")
    return Sweep(tuple(part for panel in panels for part in grid(panel.trial, {}, seeds=trials).parts))


def smoke(trials: int) -> Sweep:
    """Return the trials of a few small settings."""
    return _sweep(smoke_panels(), trials)


def laptop(trials: int) -> Sweep:
    """Return the trials of all settings, the transformer reduced."""
    return _sweep(laptop_panels(), trials)


def paper(trials: int) -> Sweep:
    """Return the trials of all settings."""
    return _sweep(FIGURES, trials)


@lru_cache
def _places() -> dict[str, tuple[int, str, Panel]]:
    """Return the place, the figure and the setting of each cell of every scale."""
    scales = (smoke_panels(), laptop_panels(), FIGURES)
    shown = [[(name, panel) for name, panels in figures.items() for panel in panels] for figures in scales]
    return {panel.trial.cell: (place, name, panel) for own in shown for place, (name, panel) in enumerate(own)}


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a trial and point of its curve: minibatch loss and error, averaged since the point before.

    ``solved_at`` (NaN where unsolved) and ``plateau``, the share of that time until the error is below 0.4 for good,
    are the same in all rows of a trial.
    """
    places = _places()
    ordered = sorted(trials["outcome"], key=lambda outcome: places[outcome.trial.cell][0])
    return pd.concat([_curve(outcome) for outcome in ordered], ignore_index=True)


def _curve(outcome: Any) -> pd.DataFrame:
    _, figure, panel = _places()[outcome.trial.cell]
    step, loss, error = _even(outcome.curve)
    solved_at = np.nan if outcome.solved_at is None else float(outcome.solved_at)
    high = step[error >= LOW]
    return pd.DataFrame(
        {
            "figure": figure,
            "panel": panel.title,
            "configuration": panel.identifier,
            "task.n": panel.n,
            "task.k": panel.k,
            "training.batch_size": panel.batch_size,
            "training.learning_rate": panel.learning_rate,
            "seed": outcome.trial.seed,
            "step": step,
            "loss": loss,
            "error": error,
            "solved_at": solved_at,
            "plateau": (high[-1] if len(high) else 0.0) / solved_at,
        }
    )


def _even(curve: Curve) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return steps that are evenly spaced, and loss and error averaged between each of them and the one before."""
    known = np.array([0, *curve.step], float)
    step = np.linspace(0, known[-1], min(POINTS, len(curve.step)) + 1)
    spans = np.diff(known)
    sums = [np.interp(step, known, [0, *np.cumsum(spans * values)]) for values in (curve.loss, curve.error)]
    loss, error = (np.diff(total) / np.diff(step) for total in sums)
    return step[1:], loss, error


def plot(table: pd.DataFrame) -> Figure:
    """Draw a panel a setting, the figures below each other."""
    return figure_of(courses(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, for each setting, how many trials were solved, the median time, and how much of it was plateau."""
    found: dict[str, dict[str, Any]] = {}
    for (figure, panel), rows in table.groupby(["figure", "panel"], sort=False):
        last = rows.groupby("seed").last()
        solved = last[last["solved_at"].notna()]
        found.setdefault(str(figure), {})[str(panel).replace("\n", ", ")] = {
            "solved": len(solved),
            "trials": len(last),
            "median_steps": finite(median(last["solved_at"].to_numpy())),
            "plateau": finite(solved["plateau"].median()) if len(solved) else None,
        }
    return found


EXPERIMENT = Experiment(
    name="training-curves-zoo",
    shows="Every kind of network learns sparse parities after a plateau on which nothing seems to happen",
    source="figures 5.1 (left) and B.2",
    scales={
        "smoke": Scale(smoke, trials=2, time="about 5 seconds"),
        "laptop": Scale(laptop, trials=5, time="about 2 minutes on 2 cores with AVX-512"),
        "paper": Scale(paper, trials=5, time="hours on 2 cores with AVX-512, nearly all of it the transformer"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    outcomes=True,
)
