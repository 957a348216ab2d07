"""The best single neuron under any weighting, by alternating maximisation, where there is no closed form.

Under ||u||^2 + ||v||^2 + ||w||^2 <= 1 a neuron's expected class-weighted margin is a cubic form, sum_{abc} W[a, b, c]
(u(a) + v(b))^2 w(c). Its maximum bounds the normalised margin of every network from above.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    starts: the number of random starts, at least 1.
"""

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from elegans import random
from elegans.calculators.domain import AtMost, require

STARTS = 40
"""How many random starts are tried."""
_ROUNDS = 5000
_CONVERGED = 1e-14


class SearchedMaximum(NamedTuple):
    """The largest value that a search from random starts found: a lower bound of the maximum.

    Args:
        value: the value.
        vectors: the three vectors that attain it: unit x, y, z of a tensor, or u, v, w of a neuron of norm 1.
        agreeing: how many starts ended within one part in 10^6 of it.
        starts: the number of starts.
    """

    value: float
    vectors: tuple[np.ndarray, np.ndarray, np.ndarray]
    agreeing: int
    starts: int


def tensor_spectral_norm(
    tensor: Any, starts: Annotated[int, AtMost(10_000)] = STARTS, key: random.Key | None = None
) -> SearchedMaximum:
    """Return the spectral norm of a tensor of three axes, by alternating power iteration from random starts.

    Formula: max over unit x, y, z of sum_{abc} T[a, b, c] x_a y_b z_c.
    Source: De Lathauwer, De Moor and Vandewalle (2000); for margins derived here.

    Args:
        tensor: T, of three axes.
        key: of the starts; the same ones by default at every call.
    """
    cube = np.asarray(tensor, float)
    require(cube.ndim == 3 and cube.size > 0, "a tensor must have three axes", shape=cube.shape)
    first, second, third = cube.shape
    y, z = _starts(key, starts, second), _starts(key, starts, third, 1)
    flat, sides = cube.reshape(first, -1), cube.transpose(1, 2, 0).reshape(second * third, first)
    value = np.zeros(starts)
    for _ in range(_ROUNDS):
        x = _unit(np.einsum("nb,nc->nbc", y, z).reshape(starts, -1) @ flat.T)[0]
        plane = (x @ sides.T).reshape(starts, second, third)
        y = _unit(np.einsum("nbc,nc->nb", plane, z))[0]
        z, now = _unit(np.einsum("nbc,nb->nc", plane, y))
        done = bool((now - value <= _CONVERGED * now).all())
        value = now
        if done:
            break
    best = int(value.argmax())
    agreeing = int((value >= (1 - 1e-6) * value[best]).sum())
    return SearchedMaximum(float(value[best]), (x[best], y[best], z[best]), agreeing, starts)


def best_pair_neuron(
    payoff: Any, starts: Annotated[int, AtMost(10_000)] = STARTS, key: random.Key | None = None
) -> SearchedMaximum:
    """Return the best single quadratic neuron on pairs under any sampling of examples and weighting of wrong labels.

    Where the squares of u and v cancel, as for uniform pairs and weights that depend only on the error, it is
    2/(3 sqrt(3)) times a tensor's spectral norm; else u and v are found together, as a matrix's leading eigenvector.

    Formula: max over ||u||^2 + ||v||^2 + ||w||^2 <= 1 of sum_{abc} W[a, b, c] (u(a) + v(b))^2 w(c).
    Source: derived here, for the thesis' Lemma 7.5.

    Args:
        payoff: W of shape (order, order, order): the probability of (a, b) times 1 at its label, minus tau elsewhere.
        key: of the starts; the same ones by default at every call.
    """
    cube = np.asarray(payoff, float)
    require(cube.ndim == 3 and len(set(cube.shape)) == 1, "payoffs must be a cube", shape=cube.shape)
    squares = np.abs(cube.sum(axis=1)).max(), np.abs(cube.sum(axis=0)).max()
    if max(squares) <= 1e-12 * np.abs(cube).sum():
        norm = tensor_spectral_norm(cube, starts, key)
        u, v, w = (vector / math.sqrt(3) for vector in norm.vectors)
        return SearchedMaximum(2 / (3 * math.sqrt(3)) * norm.value, (u, v, w), norm.agreeing, starts)
    found = [_ascend(cube, w) for w in _starts(key, starts, len(cube))]
    values = np.array([value for value, _ in found])
    best = int(values.argmax())
    return SearchedMaximum(
        float(values[best]), found[best][1], int((values >= (1 - 1e-6) * values[best]).sum()), starts
    )


def _ascend(cube: np.ndarray, w: np.ndarray) -> tuple[float, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return the value and the neuron that alternating maximisation over (u, v) and w ends at."""
    n, value = len(cube), -math.inf
    for _ in range(_ROUNDS):
        cross = cube @ w
        form = np.block([[np.diag(cross.sum(axis=1)), cross], [cross.T, np.diag(cross.sum(axis=0))]])
        vectors = np.linalg.eigh(form).eigenvectors
        u, v = vectors[:n, -1], vectors[n:, -1]
        towards = np.einsum("abc,ab->c", cube, (u[:, None] + v) ** 2)
        now = float(np.linalg.norm(towards))
        w = towards / now
        if now - value <= _CONVERGED * now:
            break
        value = now
    # out of a total of 1, the best share of w's square is a third
    return 2 / (3 * math.sqrt(3)) * now, (math.sqrt(2 / 3) * u, math.sqrt(2 / 3) * v, w / math.sqrt(3))


def _starts(key: random.Key | None, count: int, size: int, number: int = 0) -> Float[np.ndarray, "count size"]:
    require(count >= 1, "starts must be at least 1", starts=count)
    chosen = (random.stream(0, "probe") if key is None else key).fold(number)
    index = np.arange(count, dtype=np.uint32)[:, None]
    return _unit(random.normal(chosen, index, lane=np.arange(size, dtype=np.uint32)).astype(float))[0]


def _unit(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.linalg.norm(rows, axis=1)
    return rows / np.maximum(lengths, 1e-300)[:, None], lengths
