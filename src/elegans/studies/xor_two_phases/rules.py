"""Rules that claims on the XOR share: groups of enough runs, means over runs, and growth with the logarithm of d."""

import math
from typing import Any

import numpy as np
import pandas as pd

from elegans.experiments import InsufficientData, Verdict
from elegans.experiments.rules import LEVEL, by_interval


def groups(rows: pd.DataFrame, by: list[str], count: int, least: int, needs: str) -> dict[Any, pd.DataFrame]:
    """Return rows by the values of columns, if there are ``count`` groups of at least ``least`` rows each."""
    by_key = dict(iter(rows.groupby(by)))
    if len(by_key) < count or min(map(len, by_key.values())) < least:
        raise InsufficientData(needs)
    return by_key


def mean_interval(values: Any, level: float = LEVEL / 2) -> tuple[float, float]:
    """Return the t interval of a mean, each of whose ends has the error rate ``level``."""
    from scipy.stats import t

    numbers = np.asarray(values, float)
    half = float(t.ppf(1 - level, len(numbers) - 1) * numbers.std(ddof=1) / math.sqrt(len(numbers)))
    return float(numbers.mean()) - half, float(numbers.mean()) + half


def by_mean(what: str, values: Any, above: float = -math.inf, below: float = math.inf) -> Verdict:
    """Decide where a mean over runs lies, by its 95% t interval."""
    if not np.isfinite(np.asarray(values, float)).all():
        raise InsufficientData(f"{what} of every run")
    return by_interval(what, float(np.mean(values)), mean_interval(values), above=above, below=below)


def slope_on_log(n: "pd.Series[int]", values: Any) -> tuple[float, tuple[float, float]]:
    """Return the slope of values on log d with its 95% t interval."""
    from scipy.stats import linregress, t

    if not np.isfinite(np.asarray(values, float)).all():
        raise InsufficientData("runs that reach all marks")
    line = linregress(np.log(n), values)
    half = float(t.ppf(0.975, len(n) - 2) * line.stderr)
    return float(line.slope), (float(line.slope) - half, float(line.slope) + half)
