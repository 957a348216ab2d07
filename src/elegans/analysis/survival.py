"""Times to solve where some trials were stopped early: the Kaplan-Meier estimate."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from elegans.analysis.intervals import check_confidence
from elegans.display import displayed
from elegans.errors import AnalysisError


@displayed
@dataclass(frozen=True)
class Survival:
    """The fraction of trials that are still unsolved, against steps.

    Args:
        table: one row per step at which a trial was solved: ``steps``; ``at_risk``, the number of unsolved trials still
            training just before; ``solved``, the number solved there; ``unsolved``, the estimated fraction that takes
            longer, with its pointwise interval ``low`` to ``high`` (Greenwood's variance, complementary log-log scale).
        median: the step by which half of the trials are solved, or NaN if the estimate stays above one half.
        low: the lower end of the median's interval (Brookmeyer and Crowley); 0 if it has none.
        high: the upper end; infinity if it has none.
        trials: how many trials there were.
        censored: how many of them were stopped unsolved.
        confidence: the confidence of the intervals.
    """

    table: pd.DataFrame
    median: float
    low: float
    high: float
    trials: int
    censored: int
    confidence: float


def kaplan_meier(
    times: Float[np.ndarray, " trials"], censored_at: Float[Any, "..."] | None = None, confidence: float = 0.95
) -> Survival:
    """Estimate how long trials take to be solved when some were stopped unsolved.

    If all unsolved trials were stopped at one step, after the last solution, the median equals
    ``elegans.analysis.median``: unsolved trials are then simply the slowest. If they were stopped at different steps
    (because a budget ran out or training lengths differ), only this estimate is correct.

    Args:
        times: the step at which each trial was solved; NaN or infinity where it was not.
        censored_at: the step up to which each unsolved trial had been trained: one number, or one per trial (ignored
            for solved trials); by default after every solution.
        confidence: the confidence of the intervals, between 0 and 1.

    Source: Kaplan and Meier (1958); Brookmeyer and Crowley (1982) for the median's interval; computed by
    ``statsmodels.duration.survfunc.SurvfuncRight``.
    """
    from statsmodels.duration.survfunc import SurvfuncRight

    check_confidence(confidence)
    solved, steps = _observed(times, censored_at)
    estimate = SurvfuncRight(steps, solved.astype(int))
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = estimate.quantile_ci(0.5, alpha=1 - confidence, method="cloglog") if solved.any() else (0, math.inf)
    columns = {"steps": "surv_times", "at_risk": "n_risk", "solved": "n_events", "unsolved": "surv_prob"}
    table = pd.DataFrame({name: getattr(estimate, attribute) for name, attribute in columns.items()})
    table = table.astype({"steps": float, "at_risk": np.int64, "solved": np.int64, "unsolved": float})
    error = np.asarray(estimate.surv_prob_se, float)[table["solved"] > 0]
    table = table[table["solved"] > 0].reset_index(drop=True)
    table["low"], table["high"] = _pointwise(table["unsolved"].to_numpy(), error, confidence)
    return Survival(
        table=table,
        median=_half(table),
        low=0.0 if math.isnan(low) else float(low),
        high=math.inf if math.isnan(high) else float(high),
        trials=len(solved),
        censored=int((~solved).sum()),
        confidence=confidence,
    )


def _observed(times: Any, censored_at: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return which trials were solved, and the step up to which each was observed."""
    solved_at = np.atleast_1d(np.asarray(times, float))
    if not solved_at.size:
        raise AnalysisError("a survival estimate must have at least one trial: trials=0")
    solved = np.isfinite(solved_at)
    end = np.nextafter(solved_at[solved].max(), np.inf) if solved.any() else 1.0
    until = np.broadcast_to(np.asarray(end if censored_at is None else censored_at, float), solved_at.shape)
    steps = np.where(solved, solved_at, until)
    if len(bad := steps[~(np.isfinite(steps) & (steps >= 0))]):
        raise AnalysisError(f"a step must be known and at least 0: {bad[0]}")
    return solved, steps


def _pointwise(
    unsolved: Float[np.ndarray, " steps"], error: Float[np.ndarray, " steps"], confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the interval of each fraction, within 0 and 1; it has no width where all are solved."""
    from scipy.stats import norm

    inside = (unsolved > 0) & (unsolved < 1)
    low, high = unsolved.copy(), unsolved.copy()
    share, spread = unsolved[inside], error[inside]
    centre = np.log(-np.log(share))
    reach = norm.ppf((1 + confidence) / 2) * np.abs(spread / (share * np.log(share)))
    low[inside], high[inside] = np.exp(-np.exp(centre + reach)), np.exp(-np.exp(centre - reach))
    return low, high


def _half(table: pd.DataFrame) -> float:
    """Return where the estimate passes one half, or the middle of where it equals one half, as for a median."""
    unsolved, steps = table["unsolved"].to_numpy(), table["steps"].to_numpy()
    reached = np.flatnonzero(unsolved <= 0.5 + 1e-12)
    if not len(reached):
        return math.nan
    first = reached[0]
    if abs(unsolved[first] - 0.5) > 1e-12:
        return float(steps[first])
    return float((steps[first] + steps[first + 1]) / 2) if first + 1 < len(steps) else math.nan
