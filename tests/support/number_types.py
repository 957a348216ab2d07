"""One number, or list of numbers, as all types that can hold it, and whether two results are the same."""

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from elegans.errors import ElegansError

WHOLE = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
REAL = (np.float16, np.float32, np.float64, np.longdouble)
TYPES = (*WHOLE, *REAL, bool)


def forms(value: Any) -> list[np.ndarray]:
    """Return a number, a list of numbers or an array as arrays of all types that can hold its numbers."""
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
    """Return a function's value, or ``ElegansError`` where it refuses its arguments in one line."""
    try:
        return function(**given)
    except ElegansError as error:
        assert "\n" not in str(error) and len(str(error)) < 1000
        return ElegansError


def alike(first: Any, second: Any) -> bool:
    """Return whether two results are both refusals, or the same up to the rounding of single precision."""
    if first is ElegansError or second is ElegansError:
        return first is second
    if isinstance(first, tuple | list):
        return len(first) == len(second) and all(map(alike, first, second))
    if isinstance(first, int | Fraction) and isinstance(second, int | Fraction):
        return first == second
    if isinstance(first, int | float | Fraction | np.ndarray | np.generic):
        first, second = (float(value) if isinstance(value, Fraction) else value for value in (first, second))
        return np.shape(first) == np.shape(second) and np.allclose(first, second, rtol=1e-5, atol=1e-6, equal_nan=True)
    return type(first) is type(second) and alike(parts(first), parts(second))


def parts(result: Any) -> list[Any]:
    """Return the values of a dictionary, the columns of a table or the fields of a record."""
    if isinstance(result, pd.DataFrame):
        return [result[column].to_numpy() for column in result]
    if isinstance(result, dict):
        return list(result.values())
    return list(vars(result).values()) if dataclasses.is_dataclass(result) else []


def undefined(result: Any) -> bool:
    """Return whether a result holds a number that is not one."""
    if isinstance(result, tuple | list):
        return any(map(undefined, result))
    if isinstance(result, float | np.ndarray | np.generic):
        return bool(np.isnan(result).any()) if np.asarray(result).dtype.kind in "fc" else False
    return any(map(undefined, parts(result)))
