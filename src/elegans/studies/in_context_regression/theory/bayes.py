"""The predictors that are best for tasks w ~ N(0, I), and for tasks from a known pool.

Shared arguments:
    x: inputs of each sequence's examples, shape (count, n, d).
    y: their labels, shape (count, n).
    query: the inputs to predict, shape (count, d).
    noise: the variance of the labels' noise, above 0.
"""

from typing import Any

import numpy as np

from elegans.calculators.domain import require, require_positive


def ridge_predictions(x: Any, y: Any, query: Any, noise: float) -> np.ndarray:
    """Return the predictions that are best for w ~ N(0, I), by ridge regression on each sequence.

    Formula: x_q . (X^T X + noise I)^-1 X^T y.
    Source: Raventós et al. (2023), section 2.

    Returns:
        float64 of shape (count,).
    """
    inputs, labels, queries = _sequences(x, y, query, noise)
    inner = np.einsum("cni,cnj->cij", inputs, inputs) + noise * np.eye(inputs.shape[2])
    weights = np.linalg.solve(inner, np.einsum("cni,cn->ci", inputs, labels)[..., None])[..., 0]
    return np.asarray((queries * weights).sum(axis=1))


def ridge_variance(x: Any, query: Any, noise: float) -> np.ndarray:
    """Return the mean square error of these predictions for w ~ N(0, I), noise of the query's label included.

    Formula: noise (1 + x_q . (X^T X + noise I)^-1 x_q).
    Source: the posterior variance of Bayesian linear regression.

    Returns:
        float64 of shape (count,).
    """
    inputs, _, queries = _sequences(x, np.zeros(np.shape(x)[:2]), query, noise)
    inner = np.einsum("cni,cnj->cij", inputs, inputs) + noise * np.eye(inputs.shape[2])
    solved = np.linalg.solve(inner, queries[..., None])[..., 0]
    return np.asarray(noise * (1 + (queries * solved).sum(axis=1)))


def pool_predictions(x: Any, y: Any, query: Any, noise: float, pool: Any) -> np.ndarray:
    """Return the predictions that are best for tasks that are drawn uniformly from a pool.

    Formula: x_q . sum_t p_t w_t, p_t proportional to exp(-sum_j (y_j - w_t . x_j)^2 / (2 noise)).
    Source: Raventós et al. (2023), section 2.

    Args:
        pool: the tasks, shape (tasks, d).

    Returns:
        float64 of shape (count,).
    """
    inputs, labels, queries = _sequences(x, y, query, noise)
    tasks = np.asarray(pool, float)
    fits = tasks.ndim == 2 and len(tasks) > 0 and tasks.shape[1] == inputs.shape[2]
    require(fits, "pool must have tasks of d numbers", pool=tasks.shape)
    squares = np.square(labels[:, None] - np.einsum("cni,ti->ctn", inputs, tasks)).sum(axis=2)
    # differences from the best task: no exponential overflows, and one is 1
    weight = np.exp(-(squares - squares.min(axis=1, keepdims=True)) / (2 * noise))
    weight /= weight.sum(axis=1, keepdims=True)
    return np.asarray((queries * (weight @ tasks)).sum(axis=1))


def _sequences(x: Any, y: Any, query: Any, noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    require_positive("of the labels' noise", noise=noise)
    inputs, labels, queries = (np.asarray(part, float) for part in (x, y, query))
    fits = inputs.ndim == 3 and labels.shape == inputs.shape[:2] and queries.shape == inputs.shape[::2]
    require(fits, "x, y and query must be of one count, n and d", x=inputs.shape, y=labels.shape, query=queries.shape)
    return inputs, labels, queries
