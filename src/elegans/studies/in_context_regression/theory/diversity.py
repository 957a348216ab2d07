"""How many tasks and sequences linear attention needs to regress in context on new tasks.

Training tasks are a pool of T vectors. In the limit of many dimensions d, x ~ N(0, I/d) and |w|^2 = d, with
alpha = n/d examples in a prompt, kappa = T/d tasks, tau = (sequences)/d^2, and noise of variance rho on all labels,
also on the query's. The model is f = <G, x_q [d s^T, yy]>, with s = (1/n) sum y x and yy = (1/n) sum y^2.

Shared arguments:
    alpha, kappa, tau: above 0; kappa and tau may be infinite, and alpha where tau is.
    noise: rho, at least 0.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from elegans.calculators.domain import Extended, require


def diversity_error(alpha: Extended, kappa: Extended, noise: float = 0.0, tau: Extended = math.inf) -> float:
    """Return the limiting error on fresh tasks, noise of the query's label included, of least-squares attention.

    Formula: at tau = infinity: k (1+x)(x m)^2 - 2 m x^2 + x + rho, with x = (1 + rho)/alpha,
        m = 2 / (x + 1 - 1/kappa + sqrt((x + 1 - 1/kappa)^2 + 4x/kappa)), k = 1/(1 - kappa (m/(kappa + m))^2);
        at finite tau two forms, below and above tau = 1, where the error diverges.
    Source: Lu et al. (2024), results 1 and 3; derived here for infinite tau.
    """
    for name, value in {"alpha": alpha, "kappa": kappa, "tau": tau}.items():
        require(value > 0, f"{name} must be positive", **{name: value})
    require(0 <= noise < math.inf, "noise must be at least 0", noise=noise)
    if math.isinf(alpha):
        require(math.isinf(tau), "alpha may be infinite only where tau is", alpha=alpha, tau=tau)
        return noise + max(0.0, 1 - kappa)
    x = (1 + noise) / alpha
    if tau == 1:
        return math.inf
    return _few(x, kappa, noise, tau) if tau < 1 else _many(x, kappa, noise, tau)


def _root(x: float, kappa: float) -> float:
    """Return m(x; kappa)."""
    b = x + 1 - 1 / kappa
    root = math.sqrt(b**2 + 4 * x / kappa)
    return 2 / (b + root) if b > 0 else (root - b) * kappa / (2 * x)


def _many(x: float, kappa: float, noise: float, tau: float) -> float:
    m, extra = _root(x, kappa), 1 / (tau - 1)
    k = 1.0 if math.isinf(kappa) else 1 / (1 - kappa * (m / (kappa + m)) ** 2)
    cross = -2 + extra if math.isfinite(tau) else -2.0  # (3 - 2 tau) / (tau - 1)
    scaled = x * m
    return float(
        (k - extra) * (1 + x) * scaled**2
        + cross * scaled * x
        + x
        + (1 + noise) * extra * scaled
        + noise * extra * m
        + noise
    )


def _few(x: float, kappa: float, noise: float, tau: float) -> float:
    mu = x * _root(x, kappa / tau)
    leading = tau * (1 + x) / (1 - tau) * (1 - tau * (1 - mu) ** 2 - (x - noise) / x * mu)
    return float(leading - 2 * tau * (1 - mu) + noise + 1)


def pool_optimum(second_moment: Any, spectrum: Any, n: float, noise: float = 0.0) -> np.ndarray:
    """Return the best M for tasks from a pool, without the feature yy and with infinitely many sequences.

    Formula: M^T = C Lambda ((1 + 1/n) Lambda C Lambda + ((tr Lambda C + noise)/n) Lambda)^-1.
    Source: derived here.

    Args:
        second_moment: C, the mean of w w^T over the pool, in Lambda's basis, shape (d, d).
        spectrum: the eigenvalues of Lambda, shape (d,), above 0.
        n: the number of examples before the query.
        noise: the variance of the labels' noise.

    Returns:
        float64 of shape (d, d), in Lambda's basis.
    """
    c, lam = np.asarray(second_moment, float), np.asarray(spectrum, float)
    require(lam.ndim == 1 and bool((lam > 0).all()), "spectrum must have eigenvalues above 0", spectrum=spectrum)
    require(c.shape == (len(lam),) * 2, "second_moment must be square, of the size of spectrum", second_moment=c.shape)
    require(n >= 1 and noise >= 0, "n must be at least 1 and noise at least 0", n=n, noise=noise)
    inner = (1 + 1 / n) * lam[:, None] * c * lam + np.diag(((lam * np.diag(c)).sum() + noise) / n * lam)
    return np.asarray(np.linalg.solve(inner.T, (c * lam).T))


class StatisticsMoments(NamedTuple):
    """Moments of the features z = [d s, yy] of a pool's sequences, shapes (d+1, d+1) and (d, d+1).

    Args:
        features: E z z^T.
        labels: E w z^T.
    """

    features: np.ndarray
    labels: np.ndarray


def statistics_moments(n: int, noise: float, second_moment: Any, mean: Any) -> StatisticsMoments:
    """Return moments of the features [d s, yy] for tasks with |w|^2 = d and inputs N(0, I/d).

    Formula: with C = E[w w^T]: E[s s^T] = (1 + 1/n) C/d^2 + ((1 + rho)/(n d)) I, E[yy^2] = (1 + rho)^2 (1 + 2/n),
        E[yy s] = (1 + rho)(1 + 2/n) E[w] / d, E[w s^T] = C/d, E[w yy] = (1 + rho) E[w].
    Source: derived here.

    Args:
        n: the number of examples before the query.
        noise: rho.
        second_moment: C, shape (d, d); the identity for fresh tasks.
        mean: E w, shape (d,); 0 for fresh tasks.
    """
    c, w = np.asarray(second_moment, float), np.asarray(mean, float)
    d = len(w)
    require(c.shape == (d, d) and d >= 1, "second_moment must be square, of the size of mean", second_moment=c.shape)
    require(n >= 1 and noise >= 0, "n must be at least 1 and noise at least 0", n=n, noise=noise)
    variance = 1 + noise
    features = np.empty((d + 1, d + 1))
    features[:d, :d] = (1 + 1 / n) * c + variance * d / n * np.eye(d)
    features[d, :d] = features[:d, d] = variance * (1 + 2 / n) * w
    features[d, d] = variance**2 * (1 + 2 / n)
    return StatisticsMoments(features, np.column_stack([c, variance * w]))
