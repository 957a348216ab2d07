"""Theorem 5.8: stochastic gradient descent learns disjoint parities, at any batch size.

A disjoint PolyNet of k blocks of n' weights, each initially 1 or -1, trains on fresh examples with the correlation
loss. Learning rates that shrink with the norms of the other blocks keep every weight's accumulated noise within 1/2,
while relevant weights drift away from 0.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    delta: the probability of failure over the examples, between 0 and 1.
    form: "corrected" for what the proof needs, "printed" for the thesis'.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from elegans.calculators.domain import (
    AtMost,
    Form,
    least_count,
    require,
    require_form,
    require_positive,
    require_probability,
)
from elegans.studies.hidden_progress.theory.disjoint import refuse_long_products


def disjoint_sgd_rates(weights: Any, steps: int, delta: float, form: Form = "corrected") -> np.ndarray:
    """Return the learning rate of each block at the current weights.

    The factor 2 of the printed rate leaves Azuma's inequality an exponent of a quarter of what the union bound needs; 4
    restores it.

    Formula: eta_i = 1 / (4 sqrt(2 T ln(2 n T / delta)) prod_{l != i} ||w_l||_1), n = k n'; printed: 2 for the 4.
    Source: thesis, Theorem 5.8 and its proof.

    Args:
        weights: shape (..., k, n').
        steps: the number T of steps in all.

    Returns:
        float64 of shape (..., k).
    """
    require_positive("Theorem 5.8", steps=steps)
    require_probability("delta", delta, "Theorem 5.8")
    rows = np.asarray(weights, np.float64)
    norms = np.abs(rows).sum(axis=-1)
    refuse_long_products(norms)
    n = rows.shape[-2] * rows.shape[-1]
    scale = _divisor(form) * math.sqrt(2 * steps * math.log(2 * n * steps / delta))
    others = [np.delete(norms, i, axis=-1).prod(axis=-1) for i in range(norms.shape[-1])]
    return np.asarray(1 / (scale * np.stack(others, axis=-1)))


@dataclass(frozen=True)
class Theorem58:
    """The parameters of Theorem 5.8 for one choice of n', k, epsilon and delta.

    Args:
        block: the size n' of a block.
        k: the number of blocks.
        delta: the probability of failure over the examples, once the initial signs are right.
        steps: the least number T of steps.
        log: ln(2 n T / delta).
        alpha: how far relevant weights must grow: (alpha + 1) / 2 at the end.
        largest_irrelevant: a bound that no irrelevant weight ever exceeds.
        error: the error at the end.
        success: the probability of all this: 1/2 for a positive product of relevant signs, times 1 - delta.
        form: "corrected" or "printed".
    """

    block: int
    k: int
    delta: float
    steps: int
    log: float
    alpha: float
    largest_irrelevant: float
    error: float
    success: float
    form: Form

    def relevant_bound(self, step: int) -> float:
        """Return a lower bound on the absolute value of every relevant weight after a number of steps.

        It is (1 + (2 / c) (3n' - 2)^(1 - k) t / sqrt(2 T ln(2 n T / delta))) / 2 with the rates' factor c of 4 or 2.
        """
        drift = step / float(3 * self.block - 2) ** (self.k - 1) / math.sqrt(2 * self.steps * self.log)
        return (1 + 2 / _divisor(self.form) * drift) / 2


def theorem58_parameters(
    block: Annotated[int, AtMost(1_000)],
    k: Annotated[int, AtMost(100)],
    epsilon: float,
    delta: float = 0.01,
    form: Form = "corrected",
) -> Theorem58:
    """Return the smallest number of steps of Theorem 5.8 and what it guarantees at their end.

    The printed statement has the rates' factor of 2 (see ``disjoint_sgd_rates``) and an alpha that rests on the
    misprinted exponent of Lemma B.9. With both corrected, T grows by a factor of 8: 4 for the rates and 2 for alpha.

    Formula: least T with T >= 48 ln(2 n T / delta) ln(2k / epsilon) (3n' - 2)^(2k - 1),
        alpha = 3 sqrt(2 (n' - 1) ln(2k / epsilon)) - 1; printed: 6 for the 48 and no 2 in alpha.
    Source: thesis, Theorem 5.8 (full statement) and its proof. The main text's order is n'^(2k - 1) ln(1 / epsilon).

    Args:
        block: the size n' of a block, at least 2.
        k: the number of blocks, at least 2.
        epsilon: the target error, between 0 and 1/2.
    """
    require(block >= 2, "block must be at least 2 (Theorem 5.8)", block=block)
    require(k >= 2, "k must be at least 2 (Theorem 5.8)", k=k)
    require(0 < epsilon < 0.5, "epsilon must lie between 0 and 1/2 (Theorem 5.8)", epsilon=epsilon)
    require_probability("delta", delta, "Theorem 5.8")
    corrected = _divisor(form) == 4
    size = math.log(2 * k / epsilon)
    factor = (48 if corrected else 6) * size * (3 * block - 2) ** (2 * k - 1)
    n = k * block
    steps = least_count(lambda count: count >= factor * math.log(2 * n * count / delta), math.ceil(factor))
    return Theorem58(
        block=block,
        k=k,
        delta=delta,
        steps=steps,
        log=math.log(2 * n * steps / delta),
        alpha=3 * math.sqrt((2 if corrected else 1) * (block - 1) * size) - 1,
        largest_irrelevant=1.5,
        error=epsilon,
        success=(1 - delta) / 2,
        form=form,
    )


def _divisor(form: Form) -> int:
    require_form(form)
    return 4 if form == "corrected" else 2
