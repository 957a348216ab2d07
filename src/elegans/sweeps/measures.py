"""How measures lie in a store: numbers as JSON, arrays as bytes, compressed together."""

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

_LENGTH = struct.Struct("<I")


def pack_measures(measures: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Return measures as bytes; ``read_measures`` reads them back.

    Quantities that are arrays of one shape are stacked, and kept in their own type to the last bit; all else is JSON.

    Args:
        measures: by probe kind and name, one value a measurement: a number, an array, or what JSON has.
    """
    arrays: list[np.ndarray] = []

    def plain(values: Any) -> Any:
        stacked = _stacked(values)
        if stacked is None:
            return values
        arrays.append(stacked)
        return {"type": stacked.dtype.str, "shape": stacked.shape}

    named = {kind: {name: plain(values) for name, values in taken.items()} for kind, taken in measures.items()}
    text = json.dumps(named, default=_plain).encode()
    return zlib.compress(_LENGTH.pack(len(text)) + text + b"".join(array.tobytes() for array in arrays))


def read_measures(packed: bytes | None) -> dict[str, dict[str, Any]]:
    """Return measures: by probe kind and name a list of values, or one array with one row per measurement."""
    if not packed:
        return {}
    content = zlib.decompress(packed)
    (length,) = _LENGTH.unpack_from(content)
    place = _LENGTH.size + length
    named: dict[str, dict[str, Any]] = json.loads(content[_LENGTH.size : place])
    for taken in named.values():
        for name, values in taken.items():
            if isinstance(values, dict):
                kind, shape = np.dtype(values["type"]), values["shape"]
                count = int(np.prod(shape))
                taken[name] = np.frombuffer(content, kind, count, place).reshape(shape)
                place += count * kind.itemsize
    return named


def _stacked(values: Any) -> np.ndarray | None:
    """Return values as one array where they are arrays of numbers of one shape, else None."""
    if isinstance(values, np.ndarray):
        return values
    if not values or not all(isinstance(value, np.ndarray) and value.dtype.kind in "biuf" for value in values):
        return None
    same = all(value.shape == values[0].shape and value.dtype == values[0].dtype for value in values)
    return np.stack(values) if same else None


def _plain(value: Any) -> Any:
    """Return NumPy's numbers and arrays, which a probe may measure, as JSON has them."""
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else str(value)
