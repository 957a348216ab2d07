"""What width buys: fewer unlucky networks, but no search run many times over (figures 5.4, left, and B.10).

ReLU networks from one neuron to thousands. Were training a random search, r neurons would search r times as fast:
the reference curve. Networks of one or two neurons cannot represent a parity of three signs; for them weak learning
counts, an accuracy of 55% at ten checks in a row, from which the parity could be read off.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import quantile
from elegans.boolean.learning import random_search_time
from elegans.experiments.base import Experiment, Scale
from elegans.plots import figure_of
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.plot_boxes import boxes
from elegans.studies.hidden_progress.settings import configuration
from elegans.studies.hidden_progress.tables import finite, timed
from elegans.sweeps import Sweep, grid

NARROW = (*range(1, 11), 30, 100, 300)
WEAK = StoppingRule(error=0.45, examples=8192, every=10, consecutive=10)
"""What counts where a network has fewer neurons than the parity has signs."""
KEYS = ("task.n", "task.k", "model.width")


def widths(sizes: Sequence[int], chosen: Sequence[int], trials: int, steps: int = 100_000) -> Sweep:
    """Return ReLU networks of each width on the (n, 3)-parity, narrow ones first.

    Args:
        sizes: the numbers n of signs.
        chosen: the numbers r of neurons.
        trials: how many trials a cell.
        steps: after how many steps a trial is given up.
    """
    parts: list[Any] = []
    for n in sizes:
        base = configuration("ii", n, 3, batch_size=128, learning_rate=0.1, steps=steps)
        for width in chosen:
            cell = base.replace("model.width", width)
            cell = cell.replace("training.stopping", WEAK) if width < 3 else cell
            parts += grid(cell, {}, seeds=trials).parts
    return Sweep(tuple(parts))


def smoke(trials: int) -> Sweep:
    """Return five widths at n = 15."""
    return widths((15,), (1, 3, 10, 30, 100), trials, steps=5000)


def laptop(trials: int) -> Sweep:
    """Return widths up to 1000 at n = 30 and 40."""
    return widths((30, 40), (*NARROW, 1000), trials)


def paper(trials: int) -> Sweep:
    """Return widths up to three million at n = 30, 40 and 50."""
    wide = tuple(factor * 10**power for power in range(3, 7) for factor in (1, 3))
    return widths((40, 30, 50), (*NARROW, *wide), trials)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a width: rates and times, the box of the times, and the time that random search would take.

    Unsolved trials have infinite times. ``lower`` and ``upper`` are the quartiles; whiskers end at the last time
    within 1.5 interquartile ranges of the box, from ``whisker_low`` to ``whisker_high``; ``fastest`` and ``slowest``
    are the extremes; ``random_search`` is the expected time of as many independent searches as there are neurons.
    """
    found = timed(trials, KEYS)
    made = pd.DataFrame([_box(times.to_numpy(float, na_value=np.nan)) for times in _times(trials)])
    search = [random_search_time(*row) for row in found[list(KEYS)].itertuples(index=False)]
    return pd.concat([found, made], axis=1).assign(random_search=search)


def _times(trials: pd.DataFrame) -> list[pd.Series]:
    return [group["solved_at"] for _, group in trials.groupby(list(KEYS), sort=False)]


def _box(times: np.ndarray) -> dict[str, float]:
    times = np.sort(np.where(np.isnan(times), np.inf, times))
    lower, upper = (np.nan_to_num(quantile(times, share), nan=np.inf) for share in (0.25, 0.75))
    inside = times  # where the upper quartile is infinite, so are the whiskers
    if np.isfinite(upper):
        reach = 1.5 * (upper - lower)
        inside = times[(times >= lower - reach) & (times <= upper + reach)]
    return {
        "lower": lower,
        "upper": upper,
        "whisker_low": inside[0],
        "whisker_high": inside[-1],
        "fastest": times[0],
        "slowest": times[-1],
    }


def plot(table: pd.DataFrame) -> Figure:
    """Draw a panel a problem: a box a width, and the curve of random search."""
    return figure_of(boxes(table, x="model.width", panel="task.n", reference="random_search"))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, for each problem: times by width, what width 10 to 300 saves, and how the spread shrinks.

    ``speed_up`` is the median time at width 10 over that at the width given; a random search would have the ratio of
    widths. ``spread`` is the slowest trial's time over the median.
    """
    found: dict[str, Any] = {}
    for (n, k), rows in table.groupby(["task.n", "task.k"], sort=False):
        by_width = {int(row["model.width"]): row for _, row in rows.iterrows()}
        base = by_width[10]["median_steps"] if 10 in by_width else np.nan
        found[f"({n}, {k})"] = {f"width {width}": _stated(row, base) for width, row in by_width.items()}
    return found


def _stated(row: pd.Series, base: float) -> dict[str, Any]:
    return {
        "solved": int(row["solved"]),
        "trials": int(row["trials"]),
        "median_steps": finite(row["median_steps"]),
        "interval": [finite(row["median_low"]), finite(row["median_high"])],
        "random_search": finite(row["random_search"]),
        "speed_up": finite(base / row["median_steps"]) if row["median_steps"] else None,
        "spread": finite(row["slowest"] / row["median_steps"]) if row["median_steps"] else None,
    }


EXPERIMENT = Experiment(
    name="width",
    shows="Wider networks are less unlucky but hardly faster: training is no random search run many times over",
    source="figures 5.4 (left) and B.10",
    scales={
        "smoke": Scale(smoke, trials=5, time="about 3 seconds"),
        "laptop": Scale(laptop, trials=50, time="about half a minute on 2 cores with AVX-512"),
        "paper": Scale(paper, trials=1000, time="months on 2 cores with AVX-512, most of it the widest networks"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
)
