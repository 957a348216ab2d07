"""Differences between two sets of trials, with intervals: of success rates, medians and means."""

import math
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from elegans.analysis.intervals import Resamples, check_bootstrap, outer_ranks, wilson
from elegans.errors import AnalysisError, shown


def newcombe(
    first: tuple[int, int], second: tuple[int, int], *, both: int | None = None, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the interval of the difference of two success rates, first minus second.

    Args:
        first: successes and trials.
        second: successes and trials.
        both: the number of pairs of trials in which both succeeded, or None if the trials are not paired.
        confidence: the nominal coverage, between 0 and 1.

    Returns:
        The lower and the upper end; NaN if a side has no trials.

    Source: Newcombe (1998), "Interval estimation for the difference between independent proportions", method 10; and
    "Improved confidence intervals for the difference between binomial proportions based on paired data", method 10.
    """
    (hits, trials), (others, more) = first, second
    if both is not None and (trials != more or not max(0, hits + others - trials) <= both <= min(hits, others)):
        raise AnalysisError(
            f"paired samples must have the same number of trials: first={first}, second={second}, both={both}"
        )
    (low_1, high_1), (low_2, high_2) = wilson(hits, trials, confidence), wilson(others, more, confidence)
    if not trials or not more:
        return math.nan, math.nan
    rate_1, rate_2 = hits / trials, others / more
    correlation = 0.0 if both is None else _correlation(both, hits - both, others - both, trials - hits - others + both)

    def reach(margin: float, margin_2: float) -> float:
        return math.sqrt(max(margin**2 - 2 * correlation * margin * margin_2 + margin_2**2, 0))

    difference = rate_1 - rate_2
    return difference - reach(rate_1 - low_1, high_2 - rate_2), difference + reach(high_1 - rate_1, rate_2 - low_2)


def _correlation(both: int, first: int, second: int, neither: int) -> float:
    """Return the correlation of paired outcomes, with Newcombe's correction for continuity."""
    spread = (both + first) * (second + neither) * (both + second) * (first + neither)
    product = float(both * neither - first * second)
    if product > 0:
        product = max(product - (both + first + second + neither) / 2, 0)
    return product / math.sqrt(spread) if spread else 0.0


def bootstrap_difference(
    first: Float[np.ndarray, " trials"],
    second: Float[np.ndarray, " others"],
    *,
    generator: np.random.Generator,
    of: Literal["median", "mean"] = "median",
    paired: bool = False,
    resamples: Resamples = 1000,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the difference of two medians or means, first minus second.

    If both medians of a resample are infinite, their difference may be anything, and widens both ends.

    Args:
        first: a number per trial; for medians, the time of an unsolved trial is infinity or NaN.
        second: the same for the other trials.
        of: the statistic whose difference is taken.
        generator: the generator for resampling.
        paired: whether entries at the same position are a pair, such as trials with the same seed.
        resamples: the number of bootstrap samples.
        confidence: the nominal coverage, between 0 and 1.

    Returns:
        The lower and the upper end; infinite where a median is.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapters 8 and 13.
    """
    check_bootstrap(resamples, confidence)
    if of not in ("median", "mean"):
        raise AnalysisError(f"of must be median or mean: of={shown(of)}")
    values, values_2 = np.asarray(first, float), np.asarray(second, float)
    count, count_2 = len(values), len(values_2)
    if not count or not count_2:
        raise AnalysisError(f"a bootstrap must have at least one trial on either side: {count}, {count_2}")
    if paired and count != count_2:
        raise AnalysisError(f"paired samples must have the same number of trials: {count}, {count_2}")
    both = np.concatenate([values, values_2])
    if bad := both[np.isneginf(both) if of == "median" else ~np.isfinite(both)].tolist():
        rule = "a time must not be minus infinity" if of == "median" else "a number must be finite for a mean"
        raise AnalysisError(f"{rule}: {bad[0]}")
    rows = generator.integers(count, size=(resamples, count))
    rows_2 = rows if paired else generator.integers(count_2, size=(resamples, count_2))
    with np.errstate(invalid="ignore"):
        differences = _middles(values[rows], of) - _middles(values_2[rows_2], of)
    low, high = outer_ranks(resamples, confidence)
    undefined = np.isnan(differences)
    return (
        float(np.sort(np.where(undefined, -np.inf, differences))[low]),
        float(np.sort(np.where(undefined, np.inf, differences))[high]),
    )


def _middles(values: np.ndarray, of: str) -> Any:
    if of == "mean":
        return values.mean(axis=1)
    values = np.where(np.isnan(values), np.inf, values)
    below, above = (values.shape[1] - 1) // 2, values.shape[1] // 2
    ordered = np.partition(values, (below, above), axis=1)
    return (ordered[:, below] + ordered[:, above]) / 2
