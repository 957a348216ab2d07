"""How median numbers of examples grow with the dimension, with intervals by resampling seeds."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from elegans.analysis import describe
from elegans.experiments import InsufficientData, rules
from elegans.plots import marks
from elegans.plots.style import GREY

Function = Callable[[np.ndarray], np.ndarray]
SEED, RESAMPLES = 0, 2000
LEVEL = rules.LEVEL / 2
"""The error rate of a claim of this study: half of the usual one, to keep the sum over all studies below three."""


class FittedGrowth(NamedTuple):
    """An exponent with the ends of its bootstrap interval."""

    exponent: float
    low: float
    high: float


def power_law(
    rows: pd.DataFrame, level: float = 0.05, *, per_log: bool = False, over: pd.DataFrame | None = None
) -> FittedGrowth:
    """Return the exponent of the median number of steps in the dimension.

    Args:
        rows: one per run, with ``n``, ``rate``, ``seed`` and ``steps``, NaN for runs that have not learned. Where a
            dimension has several rates, the smallest of their medians counts.
        level: the error rate of the interval.
        per_log: whether to divide by log n.
        over: runs of the same seeds, by whose medians to divide.

    Raises:
        InsufficientData: there are fewer than three dimensions, or medians of runs that have not learned.
    """
    return slope_of_medians(rows, np.log, np.log if per_log else np.ones_like, level, over)


def slope_of_medians(
    rows: pd.DataFrame, axis: Function, unit: Function, level: float = 0.05, over: pd.DataFrame | None = None
) -> FittedGrowth:
    """Return the slope of the logarithm of median steps, in units that depend on n, on a function of n.

    Runs of one seed start alike at all dimensions, at about the same overlap times the root of n. So seeds are
    resampled for all dimensions at once.
    """
    sizes, count, best = _medians(rows)
    below = None if over is None else _medians(over)
    if len(sizes) < 3 or (below is not None and (len(below[0]) != len(sizes) or below[1] != count)):
        raise InsufficientData("three dimensions of each exponent")

    centred = axis(sizes) - axis(sizes).mean()

    def slopes(chosen: np.ndarray) -> np.ndarray:
        above, under = best(chosen), unit(sizes) if below is None else below[2](chosen)
        known = np.isfinite(above).all(axis=-1) & np.isfinite(under).all(axis=-1)
        ratio = np.divide(above, under, out=np.full(above.shape, np.nan), where=known[:, None])
        return np.asarray(np.log(ratio) @ (centred / (centred**2).sum()))

    low, high = interval_of(slopes(seed_draws(count)), level, "runs of which more than half learn")
    return FittedGrowth(float(slopes(np.arange(count)[None])[0]), low, high)


def _medians(rows: pd.DataFrame) -> tuple[np.ndarray, int, Callable[[np.ndarray], np.ndarray]]:
    """Return the dimensions, the number of seeds, and a function from draws of seeds to the best medians by dimension.

    The function takes draws of shape (draws, seeds) and returns medians of shape (draws, dimensions).
    """
    steps = rows.pivot(index="seed", columns=["n", "rate"], values="steps").sort_index(axis=1).fillna(np.inf)
    values, columns = steps.to_numpy(), steps.columns.get_level_values("n").to_numpy(float)
    sizes, first = np.unique(columns, return_index=True)
    return sizes, len(values), lambda chosen: np.minimum.reduceat(np.median(values[chosen], axis=1), first, axis=1)


def local_ends(rows: pd.DataFrame, unit: Function = np.ones_like) -> tuple[float, float]:
    """Return exponents of median steps, in units that depend on n, between the first and the last two dimensions."""
    middle = rows.fillna({"steps": np.inf}).groupby("n")["steps"].median()
    sizes = middle.index.to_numpy(float)
    local = np.diff(np.log(middle.to_numpy() / unit(sizes))) / np.diff(np.log(sizes))
    return float(local[0]), float(local[-1])


def seed_draws(count: int) -> np.ndarray:
    """Return positions of seeds, resampled: shape (resamples, count)."""
    return np.random.default_rng(SEED).integers(count, size=(RESAMPLES, count))


def last_crossing(logs: np.ndarray, shares: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Return where shares cross one half for the last time, between places by a line; NaN at an end.

    Args:
        logs: the places, in rising order.
        shares: shape (draws, places).
        before: whether a place is on the side of the first places, of the same shape.
    """
    last = shares.shape[1] - 1 - np.argmax(before[:, ::-1], axis=1)
    known = before.any(axis=1) & (last < shares.shape[1] - 1)
    last[~known] = 0
    draws = np.arange(len(shares))
    first, second = shares[draws, last], shares[draws, last + 1]
    part = np.divide(0.5 - first, second - first, out=np.full(len(shares), np.nan), where=known)
    return np.asarray(logs[last] + part * (logs[last + 1] - logs[last]))


def interval_of(draws: np.ndarray, level: float, needs: str) -> tuple[float, float]:
    """Return the percentile interval of draws; refuse where too many are NaN."""
    if np.isnan(draws).mean() > level / 4:
        raise InsufficientData(needs)
    low, high = np.nanquantile(draws, [level / 2, 1 - level / 2])
    return float(low), float(high)


def draw_medians(
    ax: Axes,
    rows: pd.DataFrame,
    colour: Any,
    label: str,
    predicted: Function | None = None,
    *,
    unit: Function = np.ones_like,
    **style: Any,
) -> None:
    """Draw median steps in units that depend on n against n, with 95% intervals, and a growth through the last."""
    stated = {float(str(n)): describe(runs["steps"]) for n, runs in rows.groupby("n")}
    points = [[n, each["median"], *(each["interval"] or (None, None))] for n, each in stated.items() if each["median"]]
    if not points:
        return
    n, *ends = np.array(points, float).T
    middle, low, high = (end / unit(n) for end in ends)
    marks.estimates(ax, n, middle, low, high, colour, label=label, **style)
    if predicted is not None:
        line = predicted(n)
        ax.plot(n, middle[-1] * line / line[-1], "--", color=GREY, linewidth=0.8)


def finding(title: str, runs: pd.DataFrame) -> str:
    """Return a figure's title, which states a finding, or that there are too few seeds for one."""
    seeds = runs["seed"].nunique()
    return title if seeds > 5 else f"{seeds} seeds, too few for a finding"
