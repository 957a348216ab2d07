"""The formats of curves and measures in a store: numbers as JSON, arrays as bytes, compressed together."""

import json
import math
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from elegans.training.outcome import CURVE_POINTS, Curve, ErrorCurve

LARGEST_MEASURES = 2**28
"""Maximum size in bytes of one trial's measures before compression."""

_LENGTH = struct.Struct("<I")


def pack_measures(measures: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Return measures as bytes; ``read_measures`` reads them back.

    Arrays of one shape are stacked and kept exactly, in their type; everything else becomes JSON.

    Args:
        measures: one value per measurement, by probe kind and name: a number, an array, or any JSON value.
    """
    arrays: list[np.ndarray] = []

    def plain(values: Any) -> Any:
        stacked = _stacked(values)
        if stacked is None:
            return values
        arrays.append(stacked)
        return {"type": stacked.dtype.str, "shape": stacked.shape}

    named = {kind: {name: plain(values) for name, values in taken.items()} for kind, taken in measures.items()}
    # NumPy's numbers and arrays, which a probe may measure, have JSON types
    text = json.dumps(named, default=lambda value: value.tolist() if hasattr(value, "tolist") else str(value)).encode()
    return zlib.compress(_LENGTH.pack(len(text)) + text + b"".join(array.tobytes() for array in arrays))


def read_measures(packed: bytes | None) -> dict[str, dict[str, Any]]:
    """Return measures by probe kind and name: a list of values, or one array with one row per measurement."""
    if packed is None:
        return {}
    content = inflate(packed, LARGEST_MEASURES, "measures")
    (length,) = _LENGTH.unpack_from(content)
    offset = _LENGTH.size + length
    named: dict[str, dict[str, Any]] = json.loads(content[_LENGTH.size : offset])
    for taken in named.values():
        for name, values in taken.items():
            if isinstance(values, dict):
                kind, shape = np.dtype(values["type"]), values["shape"]
                taken[name] = np.frombuffer(content, kind, math.prod(shape), offset).reshape(shape)
                offset += taken[name].nbytes
        lengths = {name: len(values) for name, values in taken.items()}
        if set(lengths.values()) != {lengths["step"]}:
            raise ValueError(f"measures must have a value for each of their steps: {lengths}")
    if offset != len(content):
        raise ValueError(f"measures must end with their last array: {len(content):,} bytes instead of {offset:,}")
    return named


def pack_curves(curve: Curve, errors: ErrorCurve) -> bytes | None:
    """Return both curves as bytes, one after the other, or None if there are none; ``read_curves`` reads them back."""
    packed = b""
    for one in (curve, errors):
        step, *columns = vars(one).values()
        packer = zlib.compressobj(wbits=12, memLevel=4)  # a curve is short and needs little memory
        packed += packer.compress(np.asarray(step, "<u4").tobytes() + np.asarray(columns, "<f4").tobytes())
        packed += packer.flush()
    return packed if curve.step or errors.step else None


def read_curves(packed: bytes | None) -> tuple[Curve, ErrorCurve]:
    """Return a trial's curves, empty where it has none; stores of earlier versions have no curve of errors."""
    if packed is None:
        return Curve(), ErrorCurve()
    curve, rest = _read_curve(Curve, packed)
    errors, rest = _read_curve(ErrorCurve, rest) if rest else (ErrorCurve(), b"")
    if rest:
        raise ValueError(f"there must be at most two curves: {len(rest):,} bytes follow")
    return curve, errors


def _read_curve(kind: Any, packed: bytes) -> tuple[Any, bytes]:
    rows = len(vars(kind()))
    content, rest = _inflate(packed, 4 * rows * (CURVE_POINTS - 1), "a curve")
    step, *columns = np.frombuffer(content, "<u4").reshape(rows, -1)
    return kind(step.tolist(), *(column.view("<f4").tolist() for column in columns)), rest


def inflate(packed: bytes, largest: int, what: str) -> bytes:
    """Decompress bytes, unless the result would be larger than allowed."""
    content, rest = _inflate(packed, largest, what)
    if rest:
        raise ValueError(f"{what} must be compressed bytes: they continue after their end")
    return content


def _inflate(packed: bytes, largest: int, what: str) -> tuple[bytes, bytes]:
    """Return the decompressed bytes, and what follows after the compressed ones."""
    unpacker = zlib.decompressobj()
    content = unpacker.decompress(packed, largest + 1)
    if len(content) > largest:
        raise ValueError(f"{what} must take at most {largest:,} bytes: {len(packed):,} compressed bytes hold more")
    if not unpacker.eof:
        raise ValueError(f"{what} must be compressed bytes: they are incomplete")
    return content, unpacker.unused_data


def storable(text: str) -> str:
    """Return a text with the signs escaped that a database cannot hold: NUL and lone surrogates."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _stacked(values: Any) -> np.ndarray | None:
    """Return values as one array if they are arrays of numbers of one shape, else None."""
    if isinstance(values, np.ndarray):
        return values
    if not values or not all(isinstance(value, np.ndarray) and value.dtype.kind in "biuf" for value in values):
        return None
    same = all(value.shape == values[0].shape and value.dtype == values[0].dtype for value in values)
    return np.stack(values) if same else None
