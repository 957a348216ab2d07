"""How well measures taken during training predict the time that remains.

Two questions are often confused. *At half of the time to solve*, how does a measure correlate with the remaining time?
The elapsed time then equals the remaining time: anything that grows or falls steadily correlates with it, and a clock
perfectly so; but this moment is known only at the end. *At a fixed step*, the same for all trials that are not solved
yet, the answer is a prediction that could have been made then.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from elegans.analysis.intervals import Resamples, rank_correlation, rank_correlation_interval

Measures = Mapping[str, pd.DataFrame]
"""Measures by kind of probe, as in ``Store.measures``."""
Steps = pd.Series
"""A step for each trial, indexed by trial."""
Predictor = Callable[[Measures, Steps], "pd.Series[float]"]
"""Returns a prediction for each trial at its step, from measurements up to then."""

HALF = "half of the time to solve"
FIXED = "fixed step"


def last_measured(measured: pd.DataFrame, steps: Steps) -> pd.DataFrame:
    """Return the last measurement of each trial up to its step, one row per trial."""
    before = measured[measured["step"] <= measured["trial"].map(steps)]
    return before.groupby("trial").tail(1).set_index("trial").loc[steps.index]


def measured(kind: str, name: str) -> Predictor:
    """Return a predictor: the last measurement of a quantity by a kind of probe."""
    return lambda measures, steps: last_measured(measures[kind], steps)[name].astype(float)


def initially(predictor: Predictor) -> Predictor:
    """Return a predictor that always gives the prediction made before the first step."""
    return lambda measures, steps: predictor(measures, 0 * steps)


def clock(measures: Measures, steps: Steps) -> "pd.Series[float]":
    """Return the step itself, the least informed of all predictors."""
    return steps.astype(float)


def predictions(
    trials: pd.DataFrame,
    measures: Measures,
    predictors: Mapping[str, Predictor],
    *,
    steps: Iterable[int],
    generator: np.random.Generator,
    resamples: Resamples = 1000,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Correlate predictors with the remaining time, at half of the time to solve and at fixed steps.

    At half of the time to solve, only solved trials are included. At a fixed step, all trials that are not yet solved
    are; if one is never solved, its remaining time is infinite and ranks as the longest.

    Args:
        trials: one row per trial of one cell, with ``solved_at``; with the index of ``measures``.
        measures: by kind of probe, one row per trial and measured step.
        predictors: the predictors by name.
        steps: the fixed steps.
        generator: the generator of the bootstrap; a seeded one gives the same intervals every time.
        resamples: the number of bootstrap samples.
        confidence: the confidence of the intervals, between 0 and 1.

    Returns:
        One row per moment and predictor: ``when`` (``half of the time to solve`` or ``fixed step``), ``step`` (NaN at
        half), ``predictor``, ``trials`` (the number included), ``censored`` (how many of them are never solved),
        ``correlation`` (Spearman's, between predictor and remaining time; negative if larger values mean sooner)
        and its bootstrap interval ``low`` to ``high``. NaN where a predictor is the same for all trials.
    """
    times = trials["solved_at"].astype(float).fillna(np.inf)
    moments: list[tuple[str, float, Any]] = [(HALF, np.nan, times[np.isfinite(times)] // 2)]
    moments += [(FIXED, float(step), pd.Series(step, times.index[times > step])) for step in steps]
    rows: list[tuple[Any, ...]] = []
    for when, step, moment in moments:
        remaining = (times[moment.index] - moment).to_numpy(float)
        for name, predictor in predictors.items():
            values = predictor(measures, moment).to_numpy(float)
            correlation = low = high = np.nan
            if len(moment):
                correlation = float(rank_correlation(values, remaining))
                low, high = rank_correlation_interval(
                    values, remaining, generator=generator, resamples=resamples, confidence=confidence
                )
            rows.append((when, step, name, len(moment), int(np.isinf(remaining).sum()), correlation, low, high))
    names = ["when", "step", "predictor", "trials", "censored", "correlation", "low", "high"]
    return pd.DataFrame(rows, columns=names)
