"""Intervals and censored medians, which are all computed here.

``times`` has one entry per trial, in steps; NaN or infinity means that the trial was never solved and is censored at
the end of its training. ``generator`` is used for resampling: a seeded one gives the same interval every time.
``confidence`` is the nominal coverage and ``share`` the quantile, both from 0 to 1.
"""

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float, Int

from elegans.arguments import AtMost
from elegans.errors import AnalysisError, shown

Resamples = Annotated[int, AtMost(100_000)]
"""Number of bootstrap samples."""


def check_confidence(confidence: float) -> None:
    """Refuse a confidence that does not lie between 0 and 1."""
    if not 0 < confidence < 1:
        raise AnalysisError(f"confidence must lie between 0 and 1: confidence={confidence}")


def check_bootstrap(resamples: int, confidence: float) -> None:
    """Refuse fewer than one bootstrap sample, and a confidence that does not lie between 0 and 1."""
    check_confidence(confidence)
    if resamples < 1:
        raise AnalysisError(f"resamples must be at least 1: resamples={resamples}")


def outer_ranks(resamples: int, confidence: float) -> tuple[int, int]:
    """Return the ranks, from 0, of the sorted bootstrap values just outside the percentile interval.

    Interpolated percentiles would not be defined next to an infinite value.
    """
    outside = (1 - confidence) / 2
    return math.floor(outside * (resamples - 1)), math.ceil((1 - outside) * (resamples - 1))


def percentile_interval(values: Any, confidence: float) -> tuple[float, float]:
    """Return the interpolated percentile interval of finite bootstrap values; NaN if there are none."""
    if not len(values):
        return math.nan, math.nan
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def wilson(successes: Float[Any, "..."], trials: Float[Any, "..."], confidence: float = 0.95) -> tuple[Any, Any]:
    """Return the Wilson score interval of a success rate.

    Args:
        successes: how many trials succeeded: a number, or an array of any shape.
        trials: how many trials there were, in the same form.
        confidence: the nominal coverage, between 0 and 1.

    Returns:
        The lower and the upper end, each from 0 to 1, in the form of the arguments; NaN where there are no trials.

    Source: Wilson, "Probable inference, the law of succession, and statistical inference" (1927). Brown, Cai and
    DasGupta (2001) recommend it for small numbers of trials, because of its coverage near 0 and 1.
    """
    check_confidence(confidence)
    hits, out_of = np.asarray(successes, float), np.asarray(trials, float)
    if not ((hits >= 0) & (hits <= out_of)).all():
        raise AnalysisError(f"successes must lie in 0..trials: successes={shown(successes)}, trials={shown(trials)}")
    with np.errstate(invalid="ignore", divide="ignore"):
        rate, squared = hits / out_of, NormalDist().inv_cdf((1 + confidence) / 2) ** 2
        middle = (hits + squared / 2) / (out_of + squared)
        spread = np.sqrt(squared * (out_of * rate * (1 - rate) + squared / 4)) / (out_of + squared)
    low, high = middle - spread, middle + spread
    low = np.where(hits == 0, np.where(out_of > 0, 0.0, np.nan), low)
    high = np.where(hits == out_of, np.where(out_of > 0, 1.0, np.nan), high)
    return (float(low), float(high)) if np.ndim(low) == 0 else (low, high)


def median(times: Float[np.ndarray, " trials"]) -> float:
    """Return the median time to solve, unsolved trials being infinite.

    Returns:
        The median over all trials, or NaN if it is not finite, because too few trials were solved.
    """
    middle = float(np.median(_censored(times))) if len(times) else math.nan
    return middle if math.isfinite(middle) else math.nan


def quantile(times: Float[np.ndarray, "*groups trials"], share: float) -> Any:
    """Return a quantile of times to solve, unsolved trials being infinite.

    Args:
        times: a time for each trial along the last axis, in steps; NaN or infinity where it was never solved.
        share: the quantile, from 0 to 1, interpolated linearly between two trials' times.

    Returns:
        The quantile of each group of trials, as a number if there is only one group; NaN where it is not finite.
    """
    ordered = np.sort(_censored(times), axis=-1)
    if not 0 <= share <= 1:
        raise AnalysisError(f"a quantile must lie from 0 to 1: share={share}")
    if not ordered.shape[-1]:
        raise AnalysisError("a quantile must have at least one trial: trials=0")
    part, below = math.modf(share * (ordered.shape[-1] - 1))
    result = ordered[..., int(below)]
    if part > 0:
        result = (1 - part) * result + part * ordered[..., int(below) + 1]
    result = np.where(np.isfinite(result), result, np.nan)
    return float(result) if result.ndim == 0 else result


def bootstrap_interval(
    times: Float[np.ndarray, " trials"],
    *,
    generator: np.random.Generator,
    share: float = 0.5,
    resamples: Resamples = 1000,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of a quantile of times to solve, unsolved trials being infinite.

    Returns:
        The lower and the upper end; infinity where an end falls on a sample whose quantile is not finite.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13.
    """
    check_bootstrap(resamples, confidence)
    values = _censored(times)
    if not len(values):
        raise AnalysisError("a bootstrap must have at least one trial: trials=0")
    draws = np.sort(_censored(quantile(generator.choice(values, (resamples, len(values))), share)))
    low, high = outer_ranks(resamples, confidence)
    return float(draws[low]), float(draws[high])


def median_interval(times: Float[np.ndarray, " trials"], confidence: float = 0.95) -> tuple[float, float]:
    """Return the order-statistic interval of the median time to solve, unsolved trials being infinite.

    It holds for any distribution of the times: the ends are the order statistics between which the median lies with at
    least the given probability, by the binomial distribution of the number of trials below it.

    Returns:
        The lower and the upper end; 0 and infinity if there are too few trials for the confidence, and infinity where
        an end falls on an unsolved trial.
    """
    check_confidence(confidence)
    ordered, count = np.sort(_censored(times)), len(times)
    below = _rank(count, confidence)
    if below == 0:
        return 0.0, math.inf
    return float(ordered[below - 1]), float(ordered[count - below])


@lru_cache(maxsize=10_000)
def _rank(count: int, confidence: float) -> int:
    """Return which order statistic, counted from 1 from either end, bounds the median; 0 if none does."""
    below, cumulative = 0, 0.5**count
    while cumulative <= (1 - confidence) / 2:
        below += 1
        cumulative += math.comb(count, below) / 2**count
    return below


def medians(
    times: Float[np.ndarray, " solved"], solved: Int[np.ndarray, " groups"], trials: Int[np.ndarray, " groups"]
) -> Float[np.ndarray, " groups"]:
    """Return ``median`` of many groups of trials at once.

    Args:
        times: the times of the solved trials, group by group, increasing within each.
        solved: the number of each group's times.
        trials: the number of trials in each group.
    """
    return _middle(times, solved, (trials - 1) // 2, trials // 2)


def median_intervals(
    times: Float[np.ndarray, " solved"],
    solved: Int[np.ndarray, " groups"],
    trials: Int[np.ndarray, " groups"],
    confidence: float = 0.95,
) -> tuple[Float[np.ndarray, " groups"], Float[np.ndarray, " groups"]]:
    """Return the lower and upper ends of ``median_interval`` of many groups of trials, given as in ``medians``."""
    rank = np.array([_rank(count, confidence) for count in trials.tolist()], np.int64)
    low, high = (_censored(_middle(times, solved, index, index)) for index in (rank - 1, trials - rank))
    return np.where(rank == 0, 0.0, low), np.where(rank == 0, np.inf, high)


def _middle(times: Any, solved: Any, below: Any, above: Any) -> Float[np.ndarray, " groups"]:
    """Return the mean of two order statistics of each group, counted from 0; NaN if one is not finite."""
    start = np.cumsum(solved) - solved
    middle = np.full(len(solved), np.nan)
    finite = (below >= 0) & (above < solved)
    middle[finite] = (times[(start + below)[finite]] + times[(start + above)[finite]]) / 2
    return middle


def mean_interval(values: Float[Any, "trials ..."], confidence: float = 0.95) -> tuple[Any, Any]:
    """Return Student's interval of a mean over the first axis.

    Args:
        values: numbers of at least two trials, or arrays of any shape.
        confidence: the coverage for normally distributed numbers.

    Returns:
        The lower and the upper end, in the shape of one trial's values.

    Source: Student, "The probable error of a mean" (1908).
    """
    check_confidence(confidence)
    numbers = np.asarray(values, float)
    if len(numbers) < 2 or not np.isfinite(numbers).all():
        raise AnalysisError(f"the interval of a mean must have two or more finite numbers: values={shown(values)}")
    from scipy.special import stdtrit

    count, mean = len(numbers), numbers.mean(axis=0)
    reach = stdtrit(count - 1, (1 + confidence) / 2) * numbers.std(axis=0, ddof=1) / math.sqrt(count)
    return (float(mean - reach), float(mean + reach)) if np.ndim(mean) == 0 else (mean - reach, mean + reach)


def mean_intervals(
    count: Int[np.ndarray, " groups"],
    total: Float[np.ndarray, " groups"],
    squares: Float[np.ndarray, " groups"],
    confidence: float = 0.95,
) -> tuple[Float[np.ndarray, " groups"], Float[np.ndarray, " groups"], Float[np.ndarray, " groups"]]:
    """Return the means of many groups of numbers and their Student intervals, from sums.

    Args:
        count: how many numbers each group has.
        total: their sums.
        squares: the sums of their squares.
        confidence: the coverage for normally distributed numbers.

    Returns:
        Mean, lower and upper end; NaN where there are no numbers, infinite ends where there is one.
    """
    from scipy.special import stdtrit

    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / count
        variance = np.maximum(squares - count * mean**2, 0) / (count - 1)
        reach = stdtrit(np.maximum(count - 1, 1), (1 + confidence) / 2) * np.sqrt(variance / count)
    reach = np.where(count == 1, np.inf, reach)
    return mean, mean - reach, mean + reach


def _censored(times: Any) -> Float[np.ndarray, "..."]:
    values = np.asarray(times, float)
    if np.isneginf(values).any():
        raise AnalysisError("a time must not be minus infinity: times=-inf")
    return np.where(np.isnan(values), np.inf, values)


def rank_correlation(predictors: Float[Any, "... trials"], outcome: Float[Any, "... trials"]) -> Any:
    """Return Spearman's rank correlation of quantities with an outcome; ties have the mean of their ranks.

    Args:
        predictors: shape (..., trials); no NaN.
        outcome: shape (..., trials), broadcast against the predictors; infinity ranks as the largest; no NaN.

    Returns:
        Shape (...), from -1 to 1; NaN where either side is constant.
    """
    from scipy.stats import rankdata

    x, y = np.asarray(predictors, float), np.asarray(outcome, float)
    if np.isnan(x).any() or np.isnan(y).any():
        raise AnalysisError("a rank correlation needs numbers: nan")
    x, y = rankdata(x, axis=-1), rankdata(y, axis=-1)
    x, y = (ranks - ranks.mean(axis=-1, keepdims=True) for ranks in (x, y))
    spread = np.sqrt((x**2).sum(axis=-1) * (y**2).sum(axis=-1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return (x * y).sum(axis=-1) / spread


def rank_correlation_interval(
    predictor: Float[np.ndarray, " trials"],
    outcome: Float[np.ndarray, " trials"],
    *,
    generator: np.random.Generator,
    resamples: Resamples = 1000,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of Spearman's rank correlation, trials being resampled in pairs.

    Returns:
        The lower and the upper end; NaN if no resample has a defined correlation.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13.
    """
    check_bootstrap(resamples, confidence)
    x, y = np.asarray(predictor, float), np.asarray(outcome, float)
    if not len(x):
        raise AnalysisError("a bootstrap must have at least one trial: trials=0")
    rows = generator.integers(len(x), size=(resamples, len(x)))
    correlations = rank_correlation(x[rows], y[rows])
    return percentile_interval(correlations[np.isfinite(correlations)], confidence)
