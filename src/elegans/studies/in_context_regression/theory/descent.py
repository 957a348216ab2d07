"""What linear attention learns of in-context regression with fresh tasks, and how its loss falls.

Inputs are x ~ N(0, Lambda), labels y = w . x + noise with w ~ N(0, I). From n examples the model reads
s = (1/n) sum y x and answers s^T M x_q. All is written in the basis of Lambda's eigenvectors. Time is measured along
the gradient flow on (1/2) E(f - y_q)^2.

Shared arguments:
    spectrum: the eigenvalues of Lambda, shape (d,), above 0.
    n: the number of examples before the query; may be infinite.
    noise: the variance of the labels' noise; the query's label has none.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from elegans.calculators.domain import Extended, require, require_positive


def context_moment(spectrum: Any, n: Extended, noise: float = 0.0) -> np.ndarray:
    """Return the eigenvalues of Gamma, where E s s^T = Lambda Gamma.

    Formula: Gamma = (1 + 1/n) Lambda + ((tr Lambda + noise) / n) I.
    Source: Zhang, Frei and Bartlett (2023), theorem 4.1, for labels without noise; with noise derived here.

    Returns:
        float64 of shape (d,).
    """
    eigenvalues = _spectrum(spectrum, n, noise)
    return np.asarray((1 + 1 / n) * eigenvalues + (eigenvalues.sum() + noise) / n)


def context_optimum(spectrum: Any, n: Extended, noise: float = 0.0) -> np.ndarray:
    """Return the eigenvalues of the best M, which is diagonal in Lambda's basis.

    Formula: M = Gamma^-1.
    Source: Zhang, Frei and Bartlett (2023), theorem 4.1.

    Returns:
        float64 of shape (d,).
    """
    return np.asarray(1 / context_moment(spectrum, n, noise))


def context_risk(spectrum: Any, n: Extended, noise: float = 0.0, matrix: Any = None) -> float:
    """Return the mean square error of s^T M x_q on prompts of n examples, for M learned at any length.

    Formula: tr Lambda - 2 tr(Lambda M^T Lambda) + tr(Lambda M^T Lambda Gamma M).
    Source: derived here; its minimum tr Lambda - tr(Lambda^2 Gamma^-1) is by Zhang, Frei and Bartlett (2023).

    Args:
        matrix: M in Lambda's basis, shape (d, d), or its diagonal, shape (d,); the best one by default.
    """
    lam, gamma = np.asarray(spectrum, float), context_moment(spectrum, n, noise)
    m = np.asarray(1 / gamma if matrix is None else matrix, float)
    m = np.diag(m) if m.ndim == 1 else m
    require(m.shape == (len(lam),) * 2, "matrix must be square, of the size of spectrum", matrix=m.shape)
    return float(lam.sum() - 2 * (lam**2 * np.diag(m)).sum() + ((lam * gamma)[:, None] * m**2 * lam).sum())


def context_step_rate(dimension: int, n: Extended, noise: float = 0.0) -> float:
    """Return the learning rate of the one step of descent from 0 that is the best M for white inputs.

    Formula: eta = n / (n + d + 1 + noise); the step descends (1/(2n)) sum (y - w . x)^2, so M = eta I.
    Source: von Oswald et al. (2023), proposition 1, for the step; the rate is derived here.

    Args:
        dimension: d, with Lambda = I.
    """
    require(dimension >= 1, "dimension must be at least 1", dimension=dimension)
    _spectrum([1.0], n, noise)
    return 1 / (1 + (dimension + 1 + noise) / n)


def context_levels(spectrum: Any, n: Extended, noise: float = 0.0) -> np.ndarray:
    """Return the levels of the loss E(f - y_q)^2 after 0, 1, ..., d eigenvectors are learned, the largest first.

    Formula: L_m = tr Lambda - sum_{i <= m} lambda_i / (1 + (1 + (tr Lambda + noise) / lambda_i) / n).
    Source: Zhang, Singh, Latham and Saxe (2025), section 4; with noise derived here.

    Returns:
        float64 of shape (d + 1,).
    """
    lam = np.sort(_spectrum(spectrum, n, noise))[::-1]
    gains = lam / (1 + (1 + (lam.sum() + noise) / lam) / n)
    return np.asarray(lam.sum() - np.concatenate([[0.0], np.cumsum(gains)]))


def context_drop(
    times: Sequence[float], dimension: int, n: Extended, start: float, variance: float = 1.0, noise: float = 0.0
) -> np.ndarray:
    """Return how far merged attention has learned white inputs at some times, from 0 to P1; M = (P / sqrt(d)) I.

    Formula: P(t) = P1 / (1 + (P1/P0 - 1) exp(-2 sqrt(d) lambda^2 t)), P1 = sqrt(d) / (lambda kappa),
        kappa = 1 + (1 + d + noise/lambda) / n.
    Source: derived here; compare Zhang, Singh, Latham and Saxe (2025), section 3.

    Args:
        times: t, at least 0.
        dimension: d.
        start: P0 = sum_i ((v_i + tr(U_i) / sqrt(d)) / 2)^2 over heads; below P1.
        variance: lambda, with Lambda = lambda I.

    Returns:
        float64 of shape (times,).
    """
    end = _drop_end(dimension, n, start, variance, noise)
    moments = np.asarray(times, float)
    require(bool((moments >= 0).all()), "times must be at least 0", times=moments.tolist()[:5])
    return np.asarray(end / (1 + (end / start - 1) * np.exp(-2 * math.sqrt(dimension) * variance**2 * moments)))


def context_half_time(dimension: int, n: Extended, start: float, variance: float = 1.0, noise: float = 0.0) -> float:
    """Return the time at which merged attention is half way on white inputs.

    Formula: ln(P1/P0 - 1) / (2 sqrt(d) lambda^2), at least 0.
    Source: derived here, from ``context_drop``.

    Args:
        dimension: d.
        start: P0, below P1.
        variance: lambda.
    """
    end = _drop_end(dimension, n, start, variance, noise)
    return max(0.0, math.log(end / start - 1)) / (2 * math.sqrt(dimension) * variance**2)


def _drop_end(dimension: int, n: float, start: float, variance: float, noise: float) -> float:
    require(dimension >= 1, "dimension must be at least 1", dimension=dimension)
    gamma = context_moment([variance] * dimension, n, noise)[0]
    end = math.sqrt(dimension) / float(gamma)
    require(0 < start < end, "start must be between 0 and P1", start=start, end=end)
    return end


def context_head_time(eigenvalue: float, gamma: float, start: float, share: float = 0.5) -> float:
    """Return the time until a balanced head of rank one, aligned with an eigenvector, has a share of its answer.

    Formula: the time in which a' = a^2 lambda^2 (1 - Gamma a^3) goes from a0 to a^3 = share / Gamma; about
        1 / (lambda^2 a0).
    Source: derived here; compare Zhang, Singh, Latham and Saxe (2025), section 4.

    Args:
        eigenvalue: lambda.
        gamma: Gamma at this eigenvector, see ``context_moment``.
        start: a0, the first size of value, key and query.
        share: the share of a^3's final value, the head's part of M; below 1.
    """
    from scipy.integrate import quad

    require_positive("of an aligned head", eigenvalue=eigenvalue, gamma=gamma, start=start, share=share)
    end = (share / gamma) ** (1 / 3)
    require(share < 1 and start < end, "start must lie below the share of the end", start=start, share=share, end=end)
    log_times = quad(lambda z: math.exp(-z) / (1 - gamma * math.exp(3 * z)), math.log(start), math.log(end))
    return float(log_times[0] / eigenvalue**2)


def _spectrum(spectrum: Any, n: float, noise: float) -> np.ndarray:
    eigenvalues = np.asarray(spectrum, float)
    above = eigenvalues.ndim == 1 and len(eigenvalues) > 0 and bool((eigenvalues > 0).all())
    require(above and bool(np.isfinite(eigenvalues).all()), "spectrum must have eigenvalues above 0", spectrum=spectrum)
    require(n >= 1, "n must be at least 1", n=n)
    require(0 <= noise < math.inf, "noise must be at least 0", noise=noise)
    return eigenvalues
