"""Sparse parities learned by a transformer on fresh examples: chance for hundreds of steps, then an abrupt fall."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import wilson
from elegans.experiments.base import Experiment, Scale
from elegans.plots import figure_of
from elegans.studies.variable_creation.plots import parity_courses
from elegans.studies.variable_creation.settings import parity
from elegans.sweeps import Sweep, grid
from elegans.training.outcome import FINISHED

CHANCE = math.log(2)
"""The loss of a network that knows nothing."""
CLOSE = 0.01
"""How near the loss stays to that of chance on the plateau."""
SETTLED = 10
"""The steps of an initial overshoot, which are no part of the plateau."""
ABRUPT = 200
"""Within how many steps the fall is over."""


def courses(bits: tuple[int, ...], trials: int, **training: Any) -> Sweep:
    """Return networks on parities of three of so many bits, few bits first.

    Args:
        bits: the numbers of bits.
        trials: how many networks each.
        training: of ``settings.parity``.
    """
    parts = [grid(parity(n, **training), {}, seeds=trials) for n in bits]
    return Sweep(tuple(part for sweep in parts for part in sweep.parts))


def smoke(trials: int) -> Sweep:
    """Return 5 bits with smaller minibatches."""
    return courses((5,), trials, batch_size=256, steps=600, consecutive=3)


def laptop(trials: int) -> Sweep:
    """Return the published 10 and 15 bits."""
    return courses((10, 15), trials, steps=4000)


def paper(trials: int) -> Sweep:
    """Return the published 10 and 15 bits, and time enough for every network."""
    return courses((10, 15), trials, steps=10_000)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each point of each network's curve.

    Columns: ``n``, ``seed``, ``step``, ``loss`` and ``error``, means over the minibatches since the point before; and,
    the same in all rows of a network, ``plateau``, the last point at which the loss is within 0.01 of log 2, ``stray``,
    how far the loss is from log 2 at most up to there, the mean that the first 10 steps are part of apart,
    ``above_99``, the first of the checks in a row at which held-out accuracy is above 99% (NaN where it is never),
    ``fall``, the steps from the plateau's end to there, and ``last``, the loss at the end.
    """
    ended = trials[trials["state"].isin(FINISHED)]
    return pd.concat([_course(row) for row in ended.to_dict("records")], ignore_index=True)


def _course(row: Mapping[Any, Any]) -> pd.DataFrame:
    curve = row["outcome"].curve
    step, loss = np.array(curve.step), np.array(curve.loss)
    settled = np.append(0, step[:-1]) >= SETTLED
    close = np.abs(loss - CHANCE) <= CLOSE
    plateau = int(step[close].max()) if close.any() else 0
    checks = (row["training.stopping.consecutive"] - 1) * row["training.stopping.every"]
    above = math.nan if pd.isna(row["solved_at"]) else float(row["solved_at"]) - checks
    columns = {
        "n": int(row["task.n"]),
        "seed": int(row["seed"]),
        "step": step,
        "loss": loss,
        "error": curve.error,
        "plateau": plateau,
        "stray": float(np.abs(loss[settled & (step <= plateau)] - CHANCE).max(initial=0.0)),
        "above_99": above,
        "fall": above - plateau,
        "last": loss[-1],
    }
    return pd.DataFrame(columns)


def plot(table: pd.DataFrame) -> Figure:
    """Draw minibatch losses against steps, a panel a number of bits."""
    return figure_of(parity_courses(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, for each number of bits, how long the plateau is and how abrupt the fall.

    Numbers are least, median and largest over networks; shares have 95% Wilson intervals. ``flat`` is how many
    networks' losses stay within 0.01 of log 2 from step 10 to the plateau's end, ``stray`` by how much they leave it,
    ``abrupt`` how many have an accuracy above 99% at most 200 steps after it.
    """
    found = {}
    for n, rows in table.groupby("n", sort=False):
        runs = rows.groupby("seed").first()
        solved, flat = runs["above_99"].notna(), runs["stray"] <= CLOSE
        found[str(n)] = {
            "networks": len(runs),
            "solved": _rate(solved),
            "flat": _rate(flat),
            "stray": _spread(runs["stray"]),
            "abrupt": _rate(runs["fall"] <= ABRUPT),
            "plateau_until": _spread(runs.loc[solved, "plateau"]),
            "fall": _spread(runs["fall"].dropna()),
            "loss_at_the_end": _spread(runs.loc[solved, "last"]),
        }
    return found


def _rate(having: "pd.Series[bool]") -> dict[str, Any]:
    low, high = wilson(int(having.sum()), len(having))
    return {"of": f"{int(having.sum())} of {len(having)}", "interval": [round(low, 3), round(high, 3)]}


def _spread(values: "pd.Series[float]") -> list[float]:
    if not len(values):
        return []
    return [round(float(value), 4) for value in (values.min(), values.median(), values.max())]


EXPERIMENT = Experiment(
    name="parity-transformer",
    shows="A transformer on fresh examples of a sparse parity stays at chance, then falls to no loss abruptly",
    source="figure 4.4 and appendix A.3.2",
    scales={
        "smoke": Scale(smoke, trials=2, time="about 3 seconds"),
        "laptop": Scale(laptop, trials=10, time="about 10 minutes on 2 cores with AVX-512"),
        "paper": Scale(paper, trials=10, time="about 15 minutes on 2 cores with AVX-512"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    outcomes=True,
    partial=True,
)
