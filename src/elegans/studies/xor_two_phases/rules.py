"""Rules that claims on the XOR share: groups of enough runs, means over runs, and growth with the logarithm of d."""

import math
from typing import Any

import numpy as np
import pandas as pd

from elegans.analysis import mean_interval
from elegans.experiments import InsufficientData, Verdict
from elegans.experiments.claims import shared
from elegans.experiments.rules import by_interval


@shared(1)
def groups(rows: pd.DataFrame, by: list[str], count: int, least: int, needs: str) -> dict[Any, pd.DataFrame]:
    """Return rows by the values of columns, if there are ``count`` groups of at least ``least`` rows each."""
    by_key = dict(iter(rows.groupby(by)))
    if len(by_key) < count or min(map(len, by_key.values())) < least:
        raise InsufficientData(needs)
    return by_key


@shared(1)
def by_mean(what: str, values: Any, above: float = -math.inf, below: float = math.inf) -> Verdict:
    """Decide where a mean over runs lies, by its 95% t interval."""
    if not np.isfinite(np.asarray(values, float)).all():
        raise InsufficientData(f"{what} of every run")
    return by_interval(what, float(np.mean(values)), mean_interval(values), above=above, below=below)


@shared(1)
def slope_on_log(n: "pd.Series[int]", values: Any) -> tuple[float, tuple[float, float]]:
    """Return the slope of values on log d with its 95% t interval."""
    from scipy.stats import linregress, t

    if not np.isfinite(np.asarray(values, float)).all():
        raise InsufficientData("runs that reach all marks")
    line = linregress(np.log(n), values)
    half = float(t.ppf(0.975, len(n) - 2) * line.stderr)
    return float(line.slope), (float(line.slope) - half, float(line.slope) + half)
