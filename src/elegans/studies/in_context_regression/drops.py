"""Drops and plateaus of attention's error on fresh tasks, and the published settings in which they are seen."""

import math
from typing import Any, Literal

import numpy as np
import pandas as pd

from elegans.stopping import StoppingRule
from elegans.studies.in_context_regression.models import LinearAttention
from elegans.studies.in_context_regression.tasks import LinearRegressionSequences
from elegans.tasks import Sample
from elegans.training import Trial

D, LENGTH, SEQUENCES = 4, 31, 5000
"""Published sizes; the published 32 tokens include the query."""
MERGED_STEPS, SEPARATE_STEPS = 6001, 10_001
"""Published numbers of steps."""
FLAT = 0.2
"""A plateau's slope may be at most this share of the slopes at both middles of drops around it."""
SECOND = 0.1
"""A maximum of the slope counts as a drop of its own if it is at least this share of the largest."""


def no_stop(every: int) -> StoppingRule:
    """Return a rule that never ends a trial."""
    return StoppingRule(error=0, examples=1, every=every, stop=False)


def merged(covariance: Literal["white", "linear"], steps: int = MERGED_STEPS) -> Trial:
    """Return the published training of merged attention: 8 heads, initial weights 1e-6, rate 1e-3.

    The source does not divide by the number of examples n, and its loss is not halved: its steps are ours with weights
    larger by n^(1/2) and the rate by 2 n.
    """
    task = LinearRegressionSequences(d=D, length=LENGTH, covariance=covariance)
    model = LinearAttention(
        heads=8, rate=2 * LENGTH * 1e-3, init=1e-6 * LENGTH**0.5, steps=steps, stopping=no_stop(steps)
    )
    return Trial(task=task, regime=Sample(SEQUENCES), model=model)


def separate(steps: int = SEPARATE_STEPS, blocks: Literal["reduced", "all"] = "reduced", larger: float = 1.0) -> Trial:
    """Return the published training of separate attention: 5 heads, initial weights .01 / root of the matrix's size.

    Here weights are larger by n^(1/3), and the rate by 2 n^(2/3).

    Args:
        steps: the number of steps.
        blocks: the model.
        larger: a factor of the first weights.
    """
    output: Literal["moments", "statistics"] = "moments" if blocks == "all" else "statistics"
    task = LinearRegressionSequences(d=D, length=LENGTH, covariance="linear", output=output)
    heads, side, unit = 5, D + 1, LENGTH ** (1 / 3)
    model = LinearAttention(
        heads=heads,
        rank=1,
        blocks=blocks,
        rate=2 * unit**2 * 0.02,
        init=larger * unit * 0.01 / math.sqrt(heads * side**2),
        init_keys=larger * unit * 0.01 / math.sqrt(heads * side),
        steps=steps,
        stopping=no_stop(steps),
    )
    return Trial(task=task, regime=Sample(SEQUENCES), model=model)


def first_below(steps: np.ndarray, values: np.ndarray, level: float) -> float:
    """Return the first measured step at which values are below a level, NaN if there is none."""
    below = np.flatnonzero(values < level)
    return float(steps[below[0]]) if len(below) else math.nan


def maxima_of_slope(steps: np.ndarray, losses: np.ndarray) -> int:
    """Return how many local maxima -d ln L/dt has that are above a tenth of the largest."""
    slope = -np.diff(np.log(losses)) / np.diff(steps)
    slope = np.convolve(slope, np.full(5, 0.2), mode="same")  # rounding makes maxima of its own
    inner = slope[1:-1]
    peaks = (inner > slope[:-2]) & (inner >= slope[2:]) & (inner > SECOND * slope.max())
    return int(peaks.sum())


def plateaus(steps: np.ndarray, losses: np.ndarray, levels: np.ndarray) -> list[dict[str, Any]]:
    """Return what one run shows of the plateaus between its drops.

    Args:
        steps: measured steps.
        losses: errors on fresh tasks.
        levels: the predicted levels, the largest first.

    Returns:
        For each plateau m between two drops whose middles the run has passed: ``m``, its ``level`` where the loss falls
        slowest, and whether it is ``flat`` there.
    """
    slope = -np.gradient(np.log(losses), steps)
    middles = [first_below(steps, losses, float(middle)) for middle in (levels[1:] + levels[:-1]) / 2]
    rows = []
    for m in range(1, len(middles)):
        if math.isnan(middles[m]):
            break
        start, end = (int(np.searchsorted(steps, middle)) for middle in (middles[m - 1], middles[m]))
        slowest = start + int(slope[start : end + 1].argmin())
        flat = slope[slowest] <= FLAT * min(slope[start], slope[end])
        rows.append({"m": m, "level": round(float(losses[slowest]), 6), "flat": bool(flat and end > start)})
    return rows


def directions(steps: np.ndarray, shares: np.ndarray) -> list[float]:
    """Return the step at which each direction's share of its end passes one half, NaN if it does not.

    Args:
        steps: measured steps.
        shares: by step and direction, the largest eigenvalue first.
    """
    return [first_below(steps, -shares[:, number], -0.5) for number in range(shares.shape[1])]


def by_run(measured: pd.DataFrame, *columns: str) -> dict[int, tuple[np.ndarray, ...]]:
    """Return by seed the measured columns of one cell, the step first."""
    runs = {}
    for seed, rows in measured.groupby("seed"):
        rows = rows.sort_values("step")
        runs[int(str(seed))] = (rows["step"].to_numpy(float), *(np.stack(rows[name].to_list()) for name in columns))
    return runs
