"""The quantization model: frequencies of subtasks, mean losses when the most frequent are learned, and exponents.

A subtask has loss 1 (in bits, a fair coin) until it is learned and 0 afterwards; the most frequent are learned first.
The source's exponents hold for infinitely many subtasks. All sums here are over the finite list that an experiment has,
exactly: its tail is shorter than a power's, so losses fall faster than the source's powers.

Arguments outside a function's domain raise ``TheoryError``.

Shared arguments:
    tasks: the number of subtasks, at least 1.
    alpha: how fast frequencies fall, above 0.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64

from elegans.calculators.domain import Listed, require, require_positive, whole_array


def quanta_frequencies(tasks: Listed, alpha: float) -> Float64[np.ndarray, " tasks"]:
    """Return the probabilities of the subtasks, the largest first.

    Formula: p_i = i^-(1 + alpha) / sum_j j^-(1 + alpha), i = 1 ... tasks.
    Source: Michaud et al. (2023), section 2.
    """
    _require_model(tasks, alpha)
    powers = np.arange(1, tasks + 1, dtype=float) ** -(1 + alpha)
    return np.asarray(powers / powers.sum())


class QuantaExponents(NamedTuple):
    """The exponents of the mean loss, L ~ size^-exponent, for infinitely many subtasks.

    Args:
        width: of the number of neurons or parameters.
        samples: of the number of examples, in training until the held-out loss rises.
        steps: of the number of steps on fresh examples.
    """

    width: float
    samples: float
    steps: float


def quanta_exponents(alpha: float) -> QuantaExponents:
    """Return the exponents of width, samples and steps.

    Width: capacity for n subtasks takes width in proportion to n. Samples and steps: subtask i is learned from examples
    or steps in proportion to 1 / p_i.

    Formula: alpha; alpha / (1 + alpha); alpha / (1 + alpha).
    Source: Michaud et al. (2023), section 2.
    """
    require_positive("the quantization model", alpha=alpha)
    return QuantaExponents(alpha, alpha / (1 + alpha), alpha / (1 + alpha))


def quanta_loss(learned: Any, tasks: Listed, alpha: float) -> Float64[np.ndarray, "*shape"]:
    """Return the mean loss in bits if the most frequent subtasks are learned.

    A broken number stands for a subtask that is learned in part: between whole numbers the loss is linear.

    Formula: sum_{i > n} p_i, exactly; about (n^-alpha - tasks^-alpha) / (alpha sum_j j^-(1 + alpha)).
    Source: Michaud et al. (2023), section 2, where tasks is infinite.

    Args:
        learned: n, from 0 to tasks, of any shape.
    """
    frequencies = quanta_frequencies(tasks, alpha)
    n = np.asarray(learned, float)
    require(bool(((n >= 0) & (n <= tasks)).all()), "learned must lie in 0 ... tasks", tasks=tasks)
    tails = np.append(np.cumsum(frequencies[::-1])[::-1], 0.0)
    return np.asarray(np.interp(n, np.arange(tasks + 1), tails))


def quanta_local_exponent(learned: Any, tasks: Listed, alpha: float) -> Float64[np.ndarray, "*shape"]:
    """Return the local exponent with which the mean loss falls in n, at n learned subtasks.

    It is alpha for infinitely many subtasks and n far above 1, and larger for finitely many.

    Formula: -d log L / d log n, by the difference between n and n + 1: log(L(n) / L(n + 1)) / log((n + 1) / n).
    Source: derived here from section 2 of Michaud et al. (2023).

    Args:
        learned: n, from 1 to tasks - 2, of any shape.
    """
    n = np.asarray(learned, float)
    require(bool(((n >= 1) & (n <= tasks - 2)).all()), "learned must lie in 1 ... tasks - 2", tasks=tasks)
    fall = np.log(quanta_loss(n, tasks, alpha) / quanta_loss(n + 1, tasks, alpha))
    return np.asarray(fall / np.log((n + 1) / n))


def quanta_crossover(tasks: Listed, alpha: float, excess: float) -> int:
    """Return the number of learned subtasks beyond which the end of the list makes the loss fall noticeably faster.

    Formula: the least n from which on the local exponent exceeds alpha by more than the share ``excess``;
        about tasks (excess / (1 + excess))^(1 / alpha), if that is far above 1.
    Source: derived here.

    Args:
        tasks: at least 3.
        excess: such as 0.25, above 0.
    """
    require(tasks >= 3, "tasks must be at least 3", tasks=tasks)
    require_positive("the crossover", excess=excess)
    n = np.arange(1, tasks - 1)
    below = np.flatnonzero(quanta_local_exponent(n, tasks, alpha) <= (1 + excess) * alpha)
    return int(n[below[-1]]) + 1 if len(below) else 1


def quanta_width_loss(width: Any, each: float, tasks: Listed, alpha: float) -> Float64[np.ndarray, "*shape"]:
    """Return the mean loss of networks in which each learned subtask takes its own neurons.

    Formula: L(min(width / each, tasks)).
    Source: Michaud et al. (2023), section 2.

    Args:
        width: the number of neurons, at least 0, of any shape.
        each: the neurons of one subtask, above 0.
    """
    require_positive("the quantization model", each=each)
    return quanta_loss(np.minimum(_sizes("width", width) / each, tasks), tasks, alpha)


def quanta_step_loss(steps: Any, first: float, tasks: Listed, alpha: float) -> Float64[np.ndarray, "*shape"]:
    """Return the mean loss after some steps if times to learn are in inverse proportion to frequencies.

    Formula: L(n), subtask n being learned at first n^(1 + alpha): n = min((steps / first)^(1 / (1 + alpha)), tasks),
        and 0 below steps = first.
    Source: Michaud et al. (2023), section 2.

    Args:
        steps: the number of steps, at least 0, of any shape.
        first: the step at which the most frequent subtask is learned, above 0.
    """
    require_positive("the quantization model", first=first)
    _require_model(tasks, alpha)
    taken = _sizes("steps", steps) / first
    learned = np.where(taken < 1, 0.0, taken ** (1 / (1 + alpha)))
    return quanta_loss(np.minimum(learned, tasks), tasks, alpha)


def quanta_sample_loss(samples: Any, least: float, tasks: Listed, alpha: float) -> Float64[np.ndarray, "*shape"]:
    """Return the expected mean loss if a subtask is learned from at least a number of its own examples.

    Formula: sum_i p_i P(Binomial(samples, p_i) < least).
    Source: derived here; section 2 of Michaud et al. (2023) takes the means, samples p_i >= least.

    Args:
        samples: the numbers of examples, whole and at least 0, of any shape.
        least: the examples that a subtask takes, above 0.
    """
    from scipy.stats import binom

    require_positive("the quantization model", least=least)
    frequencies = quanta_frequencies(tasks, alpha)
    counts = _sizes("samples", samples)
    whole_array("samples", counts)
    missed = binom.cdf(np.ceil(least) - 1, counts[..., None], frequencies)
    return np.asarray((frequencies * missed).sum(axis=-1))


def _sizes(name: str, values: Any) -> Float64[np.ndarray, "*shape"]:
    sizes = np.asarray(values, float)
    require(bool((sizes >= 0).all()), f"{name} must be at least 0", least=sizes.min(initial=0.0))
    return sizes


def _require_model(tasks: int, alpha: float) -> None:
    require(tasks >= 1, "tasks must be at least 1", tasks=tasks)
    require_positive("the quantization model", alpha=alpha)
