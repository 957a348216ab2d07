"""Learning coefficients with a closed form, and the exact bias of their estimate by Langevin dynamics."""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from elegans.calculators.domain import Listed, Side, require

NODES = 1500
"""Points of the logarithmic grid of a quadrature."""
FIXED_POINT = 200
"""Iterations for gradient noise that depends on the variance that it causes."""


class LearningCoefficient(NamedTuple):
    """A learning coefficient.

    Args:
        coefficient: lambda, the real log canonical threshold.
        multiplicity: the order of the pole.
    """

    coefficient: float
    multiplicity: int


def reduced_rank_coefficient(outputs: Side, inputs: Side, hidden: Side, rank: Side) -> LearningCoefficient:
    """Return the learning coefficient of reduced-rank regression B A at a truth of a given rank.

    Formula: (-(H+r)^2 - M^2 - N^2 + 2 (H+r)(M+N) + 2 M N)/8, plus 1/8 with multiplicity 2 if M+N+H+r is odd, where
        N+r <= M+H, M+r <= N+H and H+r <= M+N; else (H M - H r + N r)/2 if M+H < N+r, (H N - H r + M r)/2 if N+H < M+r,
        M N/2 if M+N < H+r.
    Source: main theorem of Aoyagi and Watanabe (2005).

    Args:
        outputs: M, at least 1.
        inputs: N, at least 1.
        hidden: H, at least 1.
        rank: r, the rank of the truth, at most M, N and H.
    """
    m, n, h, r = (int(value) for value in (outputs, inputs, hidden, rank))
    require(min(m, n, h) >= 1, "sizes must be at least 1", outputs=m, inputs=n, hidden=h)
    require(0 <= r <= min(m, n, h), "rank must be at most each size", rank=r)
    if m + h < n + r:
        return LearningCoefficient((h * m - h * r + n * r) / 2, 1)
    if n + h < m + r:
        return LearningCoefficient((h * n - h * r + m * r) / 2, 1)
    if m + n < h + r:
        return LearningCoefficient(m * n / 2, 1)
    odd = (m + n + h + r) % 2
    value = -((h + r) ** 2) - m**2 - n**2 + 2 * (h + r) * (m + n) + 2 * m * n + odd
    return LearningCoefficient(value / 8, 1 + odd)


def quadratic_estimate(
    curvatures: Float[Any, " d"],
    step_size: float,
    localisation: float = 1.0,
    nbeta: float = 144.8,
    draws: Listed = 1000,
    batch_size: Listed = 0,
) -> float:
    """Return the expected estimate of the learning coefficient on a quadratic potential, whose true value is d/2.

    The chain starts at the minimum. With minibatches the potential is the loss of linear regression with unit noise,
    at inputs of covariance diag(h) and the limit of many examples.

    Formula: (1/2) n beta sum_i h_i v_i mean_{t <= T}(1 - a_i^(2t)), k_i = n beta h_i + gamma, a_i = 1 - eps k_i/2,
        v_i = (eps + (eps n beta/2)^2 C_i/B)/(1 - a_i^2), C_i = h_i (1 + h_i v_i + sum_j h_j v_j).
    Source: derived here, for the sampler of Lau et al. (2023).

    Args:
        curvatures: h, each above 0.
        step_size: epsilon, above 0, small enough that each |a_i| is below 1.
        localisation: gamma, at least 0.
        nbeta: the inverse temperature times the number of examples, above 0.
        draws: T, the number of steps.
        batch_size: B; 0 for all examples at each step.
    """
    h = np.asarray(curvatures, float)
    positive = h.ndim == 1 and len(h) > 0 and bool((h > 0).all())
    require(positive, "curvatures must be a list above 0", curvatures=curvatures)
    require(step_size > 0 and nbeta > 0, "step size and n beta must be above 0", step_size=step_size, nbeta=nbeta)
    require(localisation >= 0, "localisation must be at least 0", localisation=localisation)
    require(draws >= 1 and batch_size >= 0, "draws must be at least 1", draws=draws, batch_size=batch_size)
    a = 1 - step_size * (nbeta * h + localisation) / 2
    require(bool((abs(a) < 1).all()), "step size must be below 4/(n beta h + gamma)", step_size=step_size)
    v = step_size / (1 - a**2)
    if batch_size:
        for _ in range(FIXED_POINT):
            noise = h * (1 + h * v + (h * v).sum())
            v = (step_size + (step_size * nbeta / 2) ** 2 * noise / batch_size) / (1 - a**2)
            require(bool((v < 1e12).all()), "step size must keep the variance finite", step_size=step_size)
    squares = a**2
    warm = 1 - squares * (1 - squares**draws) / (1 - squares) / draws
    return float(nbeta / 2 * (h * v * warm).sum())


def normal_crossing_estimate(first: Side, second: Side, nbeta: float, localisation: float = 1.0) -> float:
    """Return what a perfect sampler estimates on a normal crossing w1^(2k) w2^(2l) with a Gaussian localisation.

    The learning coefficient is 1/(2 max(k, l)), with multiplicity 2 if k = l.

    Formula: n beta E[L], density proportional to exp(-n beta L - gamma |w|^2/2).
    Source: derived here; compare Watanabe (2013).

    Args:
        first: k, from 0 to 8.
        second: l, from 1 to 8.
        nbeta: above 0.
        localisation: gamma, above 0.
    """
    require(0 <= first <= 8 and 1 <= second <= 8, "exponents must be at most 8, the second at least 1", second=second)
    require(nbeta > 0 and localisation > 0, "n beta and localisation must be above 0", nbeta=nbeta)
    logs = np.linspace(-30.0, math.log(12.0), NODES)
    w = np.exp(logs) / math.sqrt(localisation)
    prior = np.exp(-localisation * w**2 / 2) * w
    total = energy = 0.0
    for rows in np.array_split(np.arange(NODES), 8):
        scaled = nbeta * w[rows, None] ** (2 * first) * w[None] ** (2 * second)
        density = prior[rows, None] * prior[None] * np.exp(-scaled)
        total, energy = total + density.sum(), energy + (scaled * density).sum()
    return float(energy / total)


def baseline_noise(nbeta: float, loss_sd: float, batch_size: Listed, batches: Listed) -> float:
    """Return the standard deviation that a baseline from a few batches adds to all chains of an estimate at once.

    Formula: n beta sd(loss)/sqrt(B K).
    Source: derived here, for the estimator of Lau et al. (2023).

    Args:
        nbeta: above 0.
        loss_sd: the standard deviation of an example's loss, at least 0.
        batch_size: B, at least 1.
        batches: K, at least 1.
    """
    require(nbeta > 0 and loss_sd >= 0, "n beta must be above 0", nbeta=nbeta, loss_sd=loss_sd)
    require(batch_size >= 1 and batches >= 1, "there must be an example", batch_size=batch_size, batches=batches)
    return float(nbeta * loss_sd / math.sqrt(batch_size * batches))
