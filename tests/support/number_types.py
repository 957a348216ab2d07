"""One list of numbers as arrays of all types that can hold it, and whether two results are the same."""

from typing import Any

import numpy as np

from elegans.errors import ElegansError

TYPES = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64, bool)


def forms(value: Any) -> list[np.ndarray]:
    """Return a list of numbers or an array as arrays of all types that can hold its numbers."""
    try:
        array = np.asarray(value)
    except (ValueError, MemoryError):
        return []
    if array.dtype.kind not in "biuf" or not np.isfinite(array.astype(float)).all():
        return []
    with np.errstate(all="ignore"):
        arrays = [array.astype(kind) for kind in TYPES]
    return [converted for converted in arrays if (converted.astype(float) == array.astype(float)).all()]


def value_or_refusal(function: Any, given: dict[str, Any]) -> Any:
    """Return a function's value, or ``ElegansError`` where it refuses its arguments."""
    try:
        return function(**given)
    except ElegansError:
        return ElegansError


def alike(first: Any, second: Any) -> bool:
    """Return whether two results are both refusals, or the same up to the rounding of single precision."""
    if first is ElegansError or second is ElegansError:
        return first is second
    if isinstance(first, tuple | list):
        return len(first) == len(second) and all(map(alike, first, second))
    if first is second or not isinstance(first, int | float | np.ndarray | np.generic):
        return type(first) is type(second)
    if isinstance(first, int) and isinstance(second, int):
        return first == second
    return np.shape(first) == np.shape(second) and np.allclose(first, second, rtol=1e-5, atol=1e-6, equal_nan=True)
