"""The learning rate at which a loss is least, and what it costs to use another width's."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from elegans.analysis.intervals import Resamples, check_bootstrap, percentile_interval
from elegans.display import displayed
from elegans.errors import AnalysisError


@displayed
@dataclass(frozen=True)
class BestRate:
    """The learning rate of the least mean loss, with its bootstrap interval.

    Args:
        rate: the learning rate.
        low: the lower end of the interval.
        high: the upper end.
        undefined: the share of bootstrap samples whose least loss is at an end of the grid; they are left out.
    """

    rate: float
    low: float
    high: float
    undefined: float


def best_rate(
    rates: Float[np.ndarray, " rates"],
    losses: Float[np.ndarray, "seeds rates"],
    *,
    generator: np.random.Generator,
    resamples: Resamples = 1000,
    confidence: float = 0.95,
) -> BestRate:
    """Return the learning rate at which the mean loss over seeds is least; seeds are resampled for all rates at once.

    Args:
        rates: the grid, in increasing order and evenly spaced on a logarithmic axis, at least three.
        losses: by seed and rate; infinite or NaN where a training diverged.
        generator: the generator for resampling.
        resamples: the number of bootstrap samples.
        confidence: the nominal coverage, between 0 and 1.

    Raises:
        AnalysisError: the least mean loss is at an end of the grid, so the best rate may lie beyond.
    """
    check_bootstrap(resamples, confidence)
    values = np.asarray(losses, float)
    rate = float(grid_optimum(rates, values.mean(axis=0)))
    if np.isnan(rate):
        raise AnalysisError(f"the least mean loss must lie inside of the grid: rates={rates[0]:g} to {rates[-1]:g}")
    rows = generator.integers(len(values), size=(resamples, len(values)))
    draws = grid_optimum(rates, values[rows].mean(axis=1))
    low, high = percentile_interval(draws[np.isfinite(draws)], confidence)
    return BestRate(rate, low, high, float(np.isnan(draws).mean()))


def grid_optimum(rates: Float[np.ndarray, " rates"], losses: Float[np.ndarray, "... rates"]) -> np.ndarray:
    """Return the minimum of the parabola through the least log loss on a grid and its neighbours, against log rate.

    The result is the grid's own rate where a neighbour is not finite, and NaN where the least loss is at an end.

    Args:
        rates: the grid, evenly spaced on a logarithmic axis.
        losses: along the last axis, positive; infinite or NaN where a training diverged.
    """
    logs = np.log(np.asarray(rates, float))
    if len(logs) < 3 or not np.allclose(np.diff(logs), logs[1] - logs[0]) or logs[1] <= logs[0]:
        raise AnalysisError(f"rates must be at least three, evenly spaced on a logarithmic axis: {len(logs)} rates")
    values = np.asarray(losses, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        heights = np.log(np.where(np.isfinite(values), values, np.inf))
        least = heights.argmin(axis=-1)
        inside = np.clip(least, 1, len(logs) - 2)
        left, middle, right = (
            np.take_along_axis(heights, (inside + side)[..., None], axis=-1)[..., 0] for side in (-1, 0, 1)
        )
        offset = (left - right) / (2 * (left - 2 * middle + right))
    offset = np.where(np.isfinite(left + right) & np.isfinite(offset), offset, 0.0)
    best = np.exp(logs[inside] + offset * (logs[1] - logs[0]))
    return np.where((least == inside) & np.isfinite(middle), best, np.nan)


def transfer_regret(
    losses: Float[np.ndarray, "... rates"], base: Float[np.ndarray, "... rates"]
) -> Float[np.ndarray, "..."]:
    """Return by how much the log loss at the base's best rate exceeds the least log loss on the grid.

    Args:
        losses: mean losses of one width along the last axis, positive; infinite or NaN where a training diverged.
        base: mean losses of the base width, on the same grid.

    Returns:
        At least 0; infinite where the rate of the base diverges.
    """
    values, others = (
        np.where(np.isfinite(each), each, np.inf)
        for each in np.broadcast_arrays(np.asarray(losses, float), np.asarray(base, float))
    )
    chosen = np.take_along_axis(values, others.argmin(axis=-1)[..., None], axis=-1)[..., 0]
    return np.asarray(np.log(chosen) - np.log(values.min(axis=-1)))
