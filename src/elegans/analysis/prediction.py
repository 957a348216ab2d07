"""How well what is measured while trials learn tells how long they still need.

Two questions, which are often taken for one. *At half of the time to solve*, how does a measure go with the time that
remains? There the time already spent equals the time that remains, so that anything that grows or falls steadily with
time goes with it, and a clock does so perfectly: the half cannot be known before the end. *At a fixed step*, the same
for all trials, and among those that are not solved yet, the answer is one that could have been given then.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from elegans.analysis.intervals import Resamples, rank_correlation, rank_correlation_interval

Measures = Mapping[str, pd.DataFrame]
"""By kind of probe what it measured, as ``Store.measures`` returns it."""
Steps = pd.Series
"""A step for each trial; the index are the trials."""
Predictor = Callable[[Measures, Steps], "pd.Series[float]"]
"""Returns what is known of each trial at its step, from measurements up to then."""

HALF = "half of the time to solve"
FIXED = "fixed step"


def last_measured(measured: pd.DataFrame, steps: Steps) -> pd.DataFrame:
    """Return the last measurement of each trial at its step or before, one row per trial."""
    before = measured[measured["step"] <= measured["trial"].map(steps)]
    return before.groupby("trial").tail(1).set_index("trial").loc[steps.index]


def measured(kind: str, name: str) -> Predictor:
    """Return the predictor that is the last measurement of a quantity by a kind of probe."""
    return lambda measures, steps: last_measured(measures[kind], steps)[name].astype(float)


def initially(predictor: Predictor) -> Predictor:
    """Return what a predictor says before the first step, whenever it is asked."""
    return lambda measures, steps: predictor(measures, 0 * steps)


def clock(measures: Measures, steps: Steps) -> "pd.Series[float]":
    """Return the step itself: what the least informed of all predictors knows."""
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
    """Correlate predictors with the time that remains, at half of the time to solve and at fixed steps.

    At half of its time only solved trials have a place. At a fixed step, all do that are not solved by then; the
    remaining time of one that is never solved is infinite, and ranks as the longest.

    Args:
        trials: one row per trial of one cell, with ``solved_at``; the index is that of ``measures``.
        measures: by kind of probe one row per trial and measured step.
        predictors: by name.
        steps: the fixed steps.
        generator: where the bootstrap draws from; give a seeded one, and the intervals are the same every time.
        resamples: how many bootstrap samples.
        confidence: of the intervals, between 0 and 1.

    Returns:
        One row per moment and predictor: ``when`` (``half of the time to solve`` or ``fixed step``), ``step`` (NaN at
        half), ``predictor``, ``trials`` (that had a place), ``censored`` (those of them that are never solved),
        ``correlation`` (Spearman's, of the predictor with the remaining time; negative where more of it means sooner)
        and its bootstrap interval ``low`` to ``high``. NaN where a predictor is the same for all trials.
    """
    times = trials["solved_at"].astype(float).fillna(np.inf)
    moments: list[tuple[str, float, Any]] = [(HALF, np.nan, times[np.isfinite(times)] // 2)]
    moments += [(FIXED, float(step), pd.Series(step, times.index[times > step])) for step in steps]
    rows: list[dict[str, Any]] = []
    for when, step, at in moments:
        remaining = (times[at.index] - at).to_numpy(float)
        for name, predictor in predictors.items():
            values = predictor(measures, at).to_numpy(float)
            low = high = np.nan
            if len(at):
                low, high = rank_correlation_interval(
                    values, remaining, generator=generator, resamples=resamples, confidence=confidence
                )
            rows.append(
                {
                    "when": when,
                    "step": step,
                    "predictor": name,
                    "trials": len(at),
                    "censored": int(np.isinf(remaining).sum()),
                    "correlation": float(rank_correlation(values, remaining)),
                    "low": low,
                    "high": high,
                }
            )
    return pd.DataFrame(rows)
