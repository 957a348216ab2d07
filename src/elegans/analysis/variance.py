"""Components of variance: how much of the variance lies between groups, and how much within them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elegans.analysis.intervals import check_confidence
from elegans.display import displayed
from elegans.errors import AnalysisError


@displayed
@dataclass(frozen=True)
class VarianceComponents:
    """The two variances of a one-way random effects model, and their ratio with its interval.

    Args:
        between: the variance of the groups' own means (0 where the estimate is negative).
        within: the variance of values about their group's mean.
        ratio: ``between / within``; infinite if nothing varies within groups, and NaN if all values are equal.
        low: the lower end of the ratio's interval, which is exact for normal values and groups of one size; it is
            infinite or NaN where the ratio is.
        high: the upper end.
        groups: how many groups there are.
        values: how many values.
        confidence: the confidence of the interval.
    """

    between: float
    within: float
    ratio: float
    low: float
    high: float
    groups: int
    values: int
    confidence: float


def variance_components(groups: Sequence[Sequence[float]], confidence: float = 0.95) -> VarianceComponents:
    """Estimate how much of the variance of values lies between groups and how much within, by analysis of variance.

    Formula: within = MSW; between = (MSB - MSW) / m, with m the size of a group (for unequal sizes, the usual
    average); the interval of the ratio is (F / F_q - 1) / m with F = MSB / MSW and the quantiles of the F distribution.

    Args:
        groups: the values of each group, all finite.
        confidence: the confidence of the interval, between 0 and 1.

    Source: Searle, Casella and McCulloch, "Variance Components" (1992), chapter 3.
    """
    from scipy.stats import f

    arrays = [np.asarray(group, float) for group in groups]
    _check(arrays, confidence)
    sizes = np.array([len(group) for group in arrays])
    count, total = len(arrays), int(sizes.sum())
    means = np.array([group.mean() for group in arrays])
    overall = float(sizes @ means) / total
    mean_between = float(sizes @ (means - overall) ** 2) / (count - 1)
    squares = sum(float(((group - mean) ** 2).sum()) for group, mean in zip(arrays, means, strict=True))
    within = squares / (total - count)
    size = (total - float((sizes**2).sum()) / total) / (count - 1)
    between = max(0.0, (mean_between - within) / size)
    everything = math.inf if mean_between else math.nan
    statistic = mean_between / within if within else everything
    distribution = f(count - 1, total - count)
    ends = [(statistic / distribution.ppf((1 + sign * confidence) / 2) - 1) / size for sign in (1, -1)]
    ratio = between / within if within else everything
    low, high = (float(np.maximum(0.0, end)) for end in ends)
    return VarianceComponents(between, within, ratio, low, high, count, total, confidence)


def _check(groups: Sequence[np.ndarray], confidence: float) -> None:
    check_confidence(confidence)
    sizes = [len(group) for group in groups]
    if len(sizes) < 2:
        raise AnalysisError(f"components of variance must have at least two groups: groups={len(sizes)}")
    if min(sizes) < 1 or max(sizes) < 2:
        raise AnalysisError(f"every group must have a value, and some group at least two: sizes={sizes}")
    values = np.concatenate(groups)
    if not np.isfinite(values).all():
        raise AnalysisError(f"a value must be finite: {values[~np.isfinite(values)][0]}")
