"""Population gradients of single neurons, for any activation: closed forms, enumeration, and estimates.

All functions concern the correlations G_i = E[y x_i sigma'(w . x + b)] of neurons with the parity y over a support S:
the negative gradient of the correlation loss, and of the hinge loss at an output of 0. Rows are neurons.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    weight: shape (..., n).
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from elegans.boolean.fourier import set_index
from elegans.calculators.domain import coordinates, require

LARGEST_ENUMERATED = 20
"""Maximum number of inputs for averaging any activation's derivative: 2^20 values per neuron."""

_ENTRIES = 2**22

Derivative = Callable[[np.ndarray], np.ndarray]
"""The derivative of an activation, entry by entry."""


class SineWave(NamedTuple):
    """The activation sin(frequency z + phase)."""

    frequency: float = 1.0
    phase: float = 0.0


SINE = SineWave()
"""The activation sin(z)."""


def sinusoid_coefficients(
    weight: Any, bias: Any, members: Iterable[int], sinusoid: SineWave | tuple[float, float] = SINE
) -> np.ndarray:
    """Return a Fourier coefficient of sinusoids of weighted sums of signs, for any number of signs.

    Formula: Im(e^(i (omega b + beta)) i^|A|) prod_{j in A} sin(omega w_j) prod_{j not in A} cos(omega w_j).
    Source: derived here: E[e^(i omega w_j x_j)] = cos(omega w_j) and E[x_j e^(i omega w_j x_j)] = i sin(omega w_j).

    Args:
        bias: shape (...), or one number.
        members: the coordinates of A.
        sinusoid: the frequency omega and the phase beta of sin(omega z + beta). A cosine has pi / 2 more phase.

    Returns:
        float64 of shape (...).
    """
    frequency, phase = sinusoid
    angle = frequency * np.asarray(weight, np.float64)
    chosen = sorted(coordinates("members", members, angle.shape[-1]))
    factors = np.cos(angle)
    factors[..., chosen] = np.sin(angle[..., chosen])
    shift = frequency * np.asarray(bias, np.float64) + phase
    return np.asarray(np.sin(shift + math.pi / 2 * (len(chosen) % 4)) * factors.prod(axis=-1))


def sinusoid_correlations(
    weight: Any, bias: Any, support: Iterable[int], sinusoid: SineWave | tuple[float, float] = SINE
) -> np.ndarray:
    """Return the correlations of sinusoidal neurons, exactly and for any number of inputs.

    Without a bias a plain sine has none with even parities and a plain cosine none with odd ones: a phase of
    pi (1 - k) / 2 makes the derivative even for odd k and odd for even k, as the degrees k - 1 and k + 1 are.

    Formula: G_i = omega hat f(S ^ i) for f = cos(omega (w . x + b) + beta), S ^ i being S without or with i.
    Source: derived here, for the neurons of the thesis, section 5.3.1 and appendix B.3.1.

    Args:
        bias: shape (...), or one number.
        support: the coordinates of S.
        sinusoid: the frequency omega and the phase beta of the activation sin(omega z + beta).

    Returns:
        float64 of shape (..., n).
    """
    frequency, phase = sinusoid
    angle = frequency * np.asarray(weight, np.float64)
    n = angle.shape[-1]
    relevant = np.isin(np.arange(n), sorted(coordinates("support", support, n)))
    sine, cosine = np.sin(angle), np.cos(angle)
    # the product over all coordinates but i, and the factor of i as it is in S ^ i
    others = _products_of_others(np.where(relevant, sine, cosine)) * np.where(relevant, cosine, sine)
    degree = relevant.sum() + np.where(relevant, -1, 1)
    shift = np.asarray(frequency * np.asarray(bias, np.float64) + phase)[..., None] + math.pi / 2 * (1 + degree % 4)
    return np.asarray(frequency * np.sin(shift) * others)


def _products_of_others(factors: np.ndarray) -> np.ndarray:
    """Return the product of all others for each entry of the last axis, without quotients, since entries may be 0."""
    unit = np.ones_like(factors[..., :1])
    before = np.concatenate([unit, factors[..., :-1]], axis=-1).cumprod(axis=-1)
    after = np.concatenate([factors[..., 1:], unit], axis=-1)[..., ::-1].cumprod(axis=-1)[..., ::-1]
    return np.asarray(before * after)


def power_correlations(weight: Any, support: Iterable[int], degree: int | None = None) -> np.ndarray:
    """Return the correlations of neurons with the activation z^d, exactly and for any number of inputs and any bias.

    A derivative of degree d - 1 has no coefficient of degree k + 1, and it has one of degree k - 1 only for d = k. For
    d < k the gradient vanishes, so greedy training of such a layer has no signal.

    Formula: for d = k: G_i = k! prod_{j in S - i} w_j for i in S, 0 elsewhere; for d < k: 0.
    Source: derived here, for the networks of the thesis, section 5.3.1 and appendix B.3.7.

    Args:
        support: the k coordinates of S.
        degree: d, from 1 to k; k by default.

    Returns:
        float64 of shape (..., n).
    """
    rows = np.asarray(weight, np.float64)
    relevant = sorted(coordinates("support", support, rows.shape[-1]))
    k = len(relevant)
    chosen = k if degree is None else degree
    require(1 <= chosen <= k, "degree must lie in 1..k for the closed form of z^d", degree=chosen, k=k)
    correlations = np.zeros_like(rows)
    if chosen == k:
        for i in relevant:
            others = [j for j in relevant if j != i]
            correlations[..., i] = math.factorial(k) * rows[..., others].prod(axis=-1)
    return correlations


def neuron_correlations(
    activation: Derivative | SineWave | tuple[float, float] | int, weight: Any, bias: Any, support: Iterable[int]
) -> np.ndarray:
    """Return the exact correlations of many neurons at once, by a closed form if there is one, else by enumeration.

    Formula: G_i = E[y x_i sigma'(w . x + b)] over uniform x, y the parity of x over S.
    Source: thesis, appendix B.3.1.

    Args:
        activation: the derivative sigma' as a function of arrays, for means over all 2^n inputs, n up
            to 20; or a sinusoid's (frequency, phase); or the degree d of z^d, at most k.
        weight: shape (neurons, n).
        bias: shape (neurons,), or one number.
        support: the k coordinates of S.

    Returns:
        float64 of shape (neurons, n), for ``strict_gap`` and ``relaxed_gap``.
    """
    if isinstance(activation, int):
        return power_correlations(weight, support, activation)
    if isinstance(activation, tuple):
        return sinusoid_correlations(weight, bias, support, activation)
    rows = np.asarray(weight, np.float64)
    neurons, n = rows.shape
    require(
        n <= LARGEST_ENUMERATED,
        f"n must be at most {LARGEST_ENUMERATED} for means over all inputs (above it give a sinusoid or a degree, "
        "which have closed forms, or estimate with sample_correlations)",
        n=n,
    )
    relevant = set_index(coordinates("support", support, n))
    parity = 1.0 - 2 * (np.bitwise_count(np.arange(2**n) & relevant) % 2)
    offset = np.broadcast_to(np.asarray(bias, np.float64), (neurons,))
    size = max(1, _ENTRIES >> n)
    parts = [np.empty((0, n))]
    for first in range(0, neurons, size):
        values = activation(_preactivations(rows[first : first + size], offset[first : first + size]))
        parts.append(_first_coefficients(np.multiply(values, parity, dtype=np.float64)))
    return np.concatenate(parts)


def _preactivations(weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return w . x + b at all inputs, in the order of ``sign_table``: shape (neurons, 2^n)."""
    sums: np.ndarray = (weight.sum(axis=1) + bias)[:, None]
    for column in weight.T:
        sums = np.concatenate([sums, sums - 2 * column[:, None]], axis=1)
    return sums


def _first_coefficients(values: np.ndarray) -> np.ndarray:
    """Return the coefficients of degree 1 of tables (neurons, 2^n), by halving, in 2^(n + 1) additions per table."""
    neurons, size = values.shape
    n = size.bit_length() - 1
    coefficients = np.empty((neurons, n))
    for i in reversed(range(n)):
        halves = values.reshape(neurons, 2, -1)
        coefficients[:, i] = (halves[:, 0].sum(axis=1) - halves[:, 1].sum(axis=1)) / size
        values = halves.sum(axis=1)
    return coefficients


def sample_correlations(derivative: Derivative, weight: Any, bias: Any, x: Any, y: Any) -> np.ndarray:
    """Return the correlations of many neurons estimated on examples, each within about 1/sqrt(m) for |sigma'| <= 1.

    They are the negative of the correlation loss's batch gradient; recovery uses only their absolute values.

    Formula: G_i = (1 / m) sum_a y_a x_ai sigma'(w . x_a + b).
    Source: thesis, Proposition B.7.

    Args:
        derivative: the derivative sigma' as a function of arrays.
        weight: shape (neurons, n).
        bias: shape (neurons,), or one number.
        x: examples of n signs, shape (m, n).
        y: their labels, shape (m,).

    Returns:
        float64 of shape (neurons, n).
    """
    rows, inputs, labels = (np.asarray(values, np.float64) for values in (weight, x, y))
    require(
        len(inputs) > 0 and inputs.shape == (len(labels), rows.shape[-1]),
        "x must hold one example per label, with as many signs as there are weights",
        x=inputs.shape,
        y=labels.shape,
        weight=rows.shape,
    )
    signed = inputs * labels[:, None]
    size = max(1, _ENTRIES // len(rows))
    offset = np.asarray(bias, np.float64)
    total = np.zeros_like(rows)
    for first in range(0, len(inputs), size):
        part = slice(first, first + size)
        total += derivative(inputs[part] @ rows.T + offset).T @ signed[part]
    return np.asarray(total / len(inputs))
