"""Networks made by hand, and the exact truth about any small one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import elegans as el


def outcome(
    weight: ArrayLike, bias: ArrayLike, output: ArrayLike, offset: ArrayLike, support: Sequence[int], seed: int = 0
) -> el.Outcome:
    """Return the outcome of a trial on the parity of ``support`` with these parameters, as float32."""
    weight = np.asarray(weight, np.float32)
    trial = el.Trial(
        task=el.SparseParity(n=weight.shape[1], k=len(support), support=tuple(support)),
        regime=el.Online(),
        model=el.MLP(width=len(weight)),
        training=el.SGD(steps=1),
        seed=seed,
    )
    parameters = {
        "hidden": {"weight": weight, "bias": np.asarray(bias, np.float32)},
        "output": {"weight": np.asarray(output, np.float32), "bias": np.asarray(offset, np.float32)},
    }
    return el.Outcome(trial, "solved", parameters=parameters)


def parity(n: int, support: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return the parameters of k neurons that are a parity exactly: a zigzag of the sum over the support.

    At the sums -k, -k + 2, …, k the parity alternates from (-1)^k on: a slope of 1 or -1 after the first
    value, and a change of slope by 2 at each of the next k - 1.
    """
    k = len(support)
    first = (-1) ** k
    weight = np.zeros((k, n))
    weight[:, list(support)] = 1
    knots = -k + 2 * np.arange(k)
    slopes = -first * np.array([1 if m == 0 else 2 * (-1) ** m for m in range(k)])
    return weight, -knots, slopes, first


def inputs(n: int) -> np.ndarray:
    """Return all inputs, int64 of shape (2^n, n)."""
    return 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)


def exact_margins(made: el.Outcome) -> np.ndarray:
    """Return y f at all inputs as exact integers, in units of 2^-298."""
    parameters = made.parameters
    weight, bias, output, offset = (
        np.array([int(value) for value in np.ravel(part).astype(float) * 2.0**149], object).reshape(np.shape(part))
        for part in (
            parameters["hidden"]["weight"],
            parameters["hidden"]["bias"],
            parameters["output"]["weight"],
            parameters["output"]["bias"],
        )
    )
    x = inputs(weight.shape[1])
    hidden = x.astype(object) @ weight.T + bias
    task: Any = made.trial.task
    y = x[:, list(task.support)].prod(axis=1)
    margins: np.ndarray = y.astype(object) * (np.maximum(hidden, 0) @ output + offset.item() * 2**149)
    return margins


def as_float(units: Any) -> Any:
    """Return a number in units of 2^-298 as a float."""
    return units / 2**298
