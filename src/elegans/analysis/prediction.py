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

from elegans.analysis.intervals import rank_correlation, rank_correlation_interval
from elegans.training import Outcome

Predictor = Callable[[Outcome, int], float]
"""Returns what is known of a trial at a step, from measurements up to then."""

HALF = "half of the time to solve"
FIXED = "fixed step"


def measured(kind: str, name: str) -> Predictor:
    """Return what a probe measured last before a step, or at it."""

    def value(outcome: Outcome, step: int) -> float:
        taken = outcome.measures[kind]
        return float(taken[name][_last(taken["step"], step)])

    return value


def initially(predictor: Predictor) -> Predictor:
    """Return what a predictor says before the first step, whenever it is asked."""
    return lambda outcome, step: predictor(outcome, 0)


def clock(outcome: Outcome, step: int) -> float:
    """Return the step itself: what the least informed of all predictors knows."""
    return float(step)


def predictions(
    outcomes: Iterable[Outcome],
    predictors: Mapping[str, Predictor],
    *,
    steps: Iterable[int],
    generator: np.random.Generator,
    resamples: int = 1000,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Correlate predictors with the time that remains, at half of the time to solve and at fixed steps.

    At half of its time only solved trials have a place. At a fixed step, all do that are not solved by then; the
    remaining time of one that is never solved is infinite, and ranks as the longest.

    Args:
        outcomes: trials of one cell, with their measures.
        predictors: by name, what is known of a trial at a step.
        steps: the fixed steps.
        generator: where the bootstrap draws from; give a seeded one, and the intervals are the same every time.
        resamples: how many bootstrap samples.
        confidence: of the intervals, between 0 and 1.

    Returns:
        A row a moment and predictor: ``when`` (``half of the time to solve`` or ``fixed step``), ``step`` (NaN at
        half), ``predictor``, ``trials`` (that had a place), ``censored`` (those of them that are never solved),
        ``correlation`` (Spearman's, of the predictor with the remaining time; negative where more of it means sooner)
        and its bootstrap interval ``low`` to ``high``. NaN where a predictor is the same for all trials.
    """
    kept = list(outcomes)
    times = np.array([np.inf if one.solved_at is None else one.solved_at for one in kept], float)
    halves = np.where(np.isfinite(times), np.floor(times / 2), np.nan)
    moments: list[tuple[str, float, np.ndarray]] = [(HALF, np.nan, halves)]
    moments += [(FIXED, float(step), np.where(times > step, float(step), np.nan)) for step in steps]
    rows: list[dict[str, Any]] = []
    for when, step, at in moments:
        there = np.flatnonzero(np.isfinite(at))
        remaining = times[there] - at[there]
        for name, predictor in predictors.items():
            values = np.array([predictor(kept[place], int(at[place])) for place in there])
            low = high = np.nan
            if len(there):
                low, high = rank_correlation_interval(
                    values, remaining, generator=generator, resamples=resamples, confidence=confidence
                )
            rows.append(
                {
                    "when": when,
                    "step": step,
                    "predictor": name,
                    "trials": len(there),
                    "censored": int(np.isinf(remaining).sum()),
                    "correlation": float(rank_correlation(values, remaining)),
                    "low": low,
                    "high": high,
                }
            )
    return pd.DataFrame(rows)


def _last(steps: Any, step: int) -> int:
    """Return the place of the last of increasing steps that is not after a step; -1 where all are."""
    return int(np.searchsorted(steps, step, side="right")) - 1
