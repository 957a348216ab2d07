"""Activations as tables of polynomials, so that the native engine evaluates any smooth function of one number.

The line is cut into 32 pieces: 30 intervals of equal length around 0 with a polynomial of degree 7 on each, and the two
sides beyond them, where the function is a line plus a polynomial in 1/z. An interval has its right end, so that at a
kink that is a multiple of the length the derivative is the one on the left.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float, Float32

from elegans.errors import EngineError
from elegans.models.activations import Activation

INTERVALS, DEGREE = 30, 7
LENGTHS = (0.25, 0.5, 0.625, 0.75, 1.0, 1.25, 1.5, 2.0)  # the shortest that is good enough is taken
TOLERANCE = 1e-6  # of the function, or of its largest size for |z| <= 2 where that is more; so for the derivative
_NODES = np.cos(np.pi * (np.arange(8) + 0.5) / 8)
_FAR = 1e6  # the largest |z| at which a table is checked


@dataclass(frozen=True, eq=False)
class ActivationTable:
    """An activation's table.

    Args:
        pieces: on each of the pieces from left to right the coefficients in descending degree, and the slope of the
            line. An interval's variable goes from -1 to 1; on the sides the variable is the intervals' outer end
            divided by z.
        length: the length of an interval.
    """

    pieces: Float32[np.ndarray, "9 32"]
    length: float

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the native functions that take an activation."""
        return {"activation": "tabulated", "scale": self.length, "table": self.pieces}


@lru_cache(maxsize=64)
def tabulate(activation: Activation) -> ActivationTable:
    """Return the table of an activation after comparing its values and derivatives with the activation's.

    Raises:
        EngineError: no table is good enough, with the reason; or the activation cannot take NumPy arrays.
    """
    misses = []
    for length in LENGTHS:
        try:
            with np.errstate(all="ignore"):
                table = _fit(activation, length)
                miss = _largest_miss(activation, table)
        except Exception as error:
            raise EngineError(f"it cannot take a NumPy array ({type(error).__name__}: {error})") from error
        if miss is None:
            return table
        misses.append(miss)
    size, what, place = min(misses)
    raise EngineError(f"the {what} of its table is off by {size:.1g} of its size near z = {place:.3g}")


def _own(activation: Activation, z: np.ndarray) -> Iterator[Float[np.ndarray, " count"]]:
    """Yield values and derivatives, in double precision."""
    for function in (activation.value, activation.derivative):
        yield np.broadcast_to(np.asarray(function(z), np.float64), z.shape)


def _fit(activation: Activation, length: float) -> ActivationTable:
    """Return the table of least squares, from values and derivatives at the nodes of Chebyshev's polynomials."""
    pieces = np.zeros((DEGREE + 2, INTERVALS + 2))
    half, end = length / 2, length * INTERVALS / 2
    powers = np.arange(DEGREE, -1, -1)
    falling = powers * _NODES[:, None] ** np.maximum(powers - 1, 0)
    centres = length * (np.arange(INTERVALS) - INTERVALS / 2 + 0.5)
    value, derivative = _own(activation, (centres[:, None] + half * _NODES).ravel())
    system = np.concatenate([_NODES[:, None] ** powers, falling])
    wanted = np.concatenate([value.reshape(INTERVALS, -1), half * derivative.reshape(INTERVALS, -1)], axis=1)
    pieces[:-1, 1:-1] = np.linalg.lstsq(system, wanted.T, rcond=None)[0]
    nodes = (1 + np.cos(np.pi * (np.arange(16) + 0.5) / 16)) / 2
    for column, sign in ((0, -1), (-1, 1)):
        far, _ = _own(activation, sign * _FAR * np.array([1.0, 2.0]))
        slope = sign * float(far[1] - far[0]) / _FAR
        t = sign * nodes
        value, derivative = _own(activation, end / t)
        system = np.concatenate(
            [t[:, None] ** powers, -(t**2)[:, None] / end * powers * t[:, None] ** np.maximum(powers - 1, 0)]
        )
        wanted = np.concatenate([value - slope * end / t, derivative - slope])
        pieces[:-1, column], pieces[-1, column] = np.linalg.lstsq(system, wanted, rcond=None)[0], slope
    pieces[abs(pieces) < 1e-9 * abs(pieces).max(axis=0)] = 0  # rounding, where the function is flat
    return ActivationTable(pieces.astype(np.float32), length)


def _largest_miss(activation: Activation, table: ActivationTable) -> tuple[float, str, float] | None:
    """Return the largest error relative to its scale, of what and where, or None if all errors are small enough."""
    from elegans import _native

    end = table.length * INTERVALS / 2
    inner = np.linspace(-end, end, 64 * INTERVALS + 1)
    outer = np.geomspace(end, _FAR, 512)[1:]
    z = np.concatenate([-outer[::-1], inner, outer]).astype(np.float32)
    at_end = np.concatenate([outer < 0, np.arange(len(inner)) % 64 == 0, outer < 0])
    misses = []
    for what, own, native in zip(
        ("value", "derivative"),
        _own(activation, z.astype(np.float64)),
        _native.activate(z, **table.arguments),
        strict=True,
    ):
        scale = np.maximum(abs(own), abs(own[abs(z) <= 2]).max())
        error = np.where((own == native) | ((what == "derivative") & at_end), 0, abs(native - own) / scale)
        error[np.isnan(error)] = np.inf
        misses.append((error.max(), what, float(z[error.argmax()])))
    largest = max(misses)
    return largest if largest[0] > TOLERANCE else None
