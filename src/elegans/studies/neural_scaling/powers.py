"""Power laws of measured losses, which two experiments fit in the same way."""

import math
from typing import Any

import numpy as np
import pandas as pd

from elegans.analysis import Scaling, finite_or_none, scaling_exponent

FALLING = 0.8
"""The mean loss below which a power law is fitted."""
SEED = 0


def power(rows: pd.DataFrame, size: str, column: str, confidence: float = 0.95) -> Scaling:
    """Return the exponent with which the mean of a column grows with another column."""
    groups: Any = rows.groupby(size)[column]
    cells = {float(value): values.tolist() for value, values in groups}
    return scaling_exponent(cells, generator=np.random.default_rng(SEED), statistic=np.mean, confidence=confidence)


def power_within(rows: pd.DataFrame, size: str, column: str, confidence: float = 0.95) -> Scaling:
    """Return the same exponent where each network is measured at all sizes.

    It is the mean over networks of their own exponents, with Student's interval: sizes are not independent. The
    interval of a single network has no bounds.
    """
    from scipy.stats import t

    wide = rows.pivot(index=size, columns="seed", values=column)
    sizes = np.log(wide.index.to_numpy(float))
    slopes = np.polyfit(sizes, np.log(wide.to_numpy(float)), 1)[0]
    free, mean, half = len(slopes) - 1, float(slopes.mean()), math.inf
    if free:
        half = float(t.isf((1 - confidence) / 2, free) * slopes.std(ddof=1)) / math.sqrt(len(slopes))
    factor = math.exp(np.polyfit(sizes, np.log(wide.to_numpy(float).mean(axis=1)), 1)[1])
    return Scaling(mean, mean - half, mean + half, factor, confidence, resamples=0, undefined=0)


def log_slope(sizes: np.ndarray, losses: np.ndarray) -> float:
    """Return the slope of the logarithms of losses, where these are positive; NaN where fewer than two are."""
    inside = losses > 0
    return float(np.polyfit(np.log(sizes[inside]), np.log(losses[inside]), 1)[0]) if inside.sum() > 1 else np.nan


def rounded(law: Scaling) -> dict[str, Any]:
    """Return an exponent and its interval for findings."""
    return {
        "exponent": finite_or_none(law.exponent, 4),
        "interval": [finite_or_none(law.low, 4), finite_or_none(law.high, 4)],
    }


def thinned(steps: np.ndarray, count: int) -> np.ndarray:
    """Return the places of about as many positive steps as are counted, in equal ratios."""
    positive = np.flatnonzero(steps > 0)
    wanted = np.geomspace(steps[positive[0]], steps[-1], count)
    return np.unique(positive[np.abs(steps[positive][None, :] - wanted[:, None]).argmin(axis=1)])
