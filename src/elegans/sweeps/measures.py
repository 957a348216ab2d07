"""The format of measures in a store: numbers as JSON, arrays as bytes, compressed together."""

import json
import math
import re
import struct
import zlib
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from elegans.sweeps.columns import LARGEST_DETAILS, Damage, inflate, read_json, unprintable
from elegans.training.outcome import BESIDE_QUANTITIES, CURVE_POINTS, Curve

LARGEST_STEP = 2**53
"""The last step of a measurement."""
ROUNDING = 1e-5
"""How far beyond 0 or 1 a mean error may be in single precision."""

_LENGTH = struct.Struct("<I")


def pack_measures(measures: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Return measures as bytes; ``read_measures`` reads them back.

    Quantities that are arrays of one shape are stacked and kept exactly, in their own type; all else is JSON.

    Args:
        measures: one value per measurement, by probe kind and name: a number, an array, or any JSON value, whose texts
            have no control characters but tabs and ends of lines.
    """
    arrays: list[np.ndarray] = []

    def plain(values: Any) -> Any:
        stacked = _stacked(values)
        if stacked is None:
            return values
        arrays.append(stacked)
        return {"type": stacked.dtype.str, "shape": stacked.shape}

    named = {kind: {name: plain(values) for name, values in taken.items()} for kind, taken in measures.items()}
    written = json.dumps(named, default=_plain)
    _refuse_controls(written)  # it could not be read back
    text = written.encode()
    return zlib.compress(_LENGTH.pack(len(text)) + text + b"".join(array.tobytes() for array in arrays))


def read_measures(packed: bytes | None) -> dict[str, dict[str, Any]]:
    """Return measures by probe kind and name: a list of values, or one array with one row per measurement."""
    if packed is None:
        return {}
    content = inflate(packed, LARGEST_DETAILS, "measures")
    try:
        (length,) = _LENGTH.unpack_from(content)
        place = _LENGTH.size + length
        text = content[_LENGTH.size : place].decode()
    except (struct.error, UnicodeDecodeError) as error:
        raise Damage(f"measures must begin with their names: {error}") from None
    named: dict[str, dict[str, Any]] = read_json(text, "measures")
    for kind, taken in named.items():
        if not isinstance(taken, dict):
            raise Damage(f"measures must be records: {kind!r}")
        for name, values in taken.items():
            if isinstance(values, dict):
                taken[name] = _array(content, place, values)
                place += taken[name].nbytes
            elif not isinstance(values, list):
                raise Damage(f"measures must be lists or arrays: {kind!r}, {name!r}")
        _check(kind, taken)
    _refuse_controls(text)
    if place != len(content):
        raise Damage(f"measures must end with their last array: {len(content):,} bytes instead of {place:,}")
    return named


_MAYBE_CONTROL = re.compile(r"\\(u00[0189]|u007f|[bfr])|[\x7f-\x9f]", re.IGNORECASE)
"""What JSON with a control character contains: escapes, or characters that need none."""


def _refuse_controls(text: str) -> None:
    """Refuse measures with texts that could act on a terminal."""
    if _MAYBE_CONTROL.search(text) and (bad := unprintable(json.loads(text))) is not None:
        raise Damage(f"measures must have printable texts: {bad}")


def _check(kind: str, taken: Mapping[str, Any]) -> None:
    """Refuse measures of one probe without printable names, or without a value for each of their steps."""
    for name in (kind, *taken):
        if not name or not name.isprintable() or name in BESIDE_QUANTITIES[:2]:
            raise Damage(f"measures must have printable names that are not reserved: {name[:40]!r}")
    if "step" not in taken:
        raise Damage(f"measures must be of steps: those of {kind[:40]!r} have none")
    steps = taken["step"]
    whole = all(isinstance(step, int | np.integer) and not isinstance(step, bool) for step in steps)
    if not whole or not all(0 <= step <= LARGEST_STEP for step in steps):
        raise Damage(f"measures must be of steps: those of {kind!r} are not all whole numbers of 0 to 2^53")
    if any(after <= step for step, after in pairwise(steps)):
        raise Damage(f"measures must be of steps in their order: those of {kind!r} do not increase")
    for name, values in taken.items():
        if len(values) != len(steps):
            raise Damage(f"{name} must have a value for each of {len(steps)} steps: {len(values)} in {kind!r}")


def _array(content: bytes, place: int, facts: dict[str, Any]) -> np.ndarray:
    try:
        kind, shape = np.dtype(facts["type"]), tuple(facts["shape"])
        if (
            type(facts["type"]) is not str
            or kind.kind not in "biufc"
            or not shape
            or not all(type(size) is int and size >= 0 for size in shape)
        ):
            raise ValueError("its type or shape is not that of an array of numbers")
        return np.frombuffer(content, kind, math.prod(shape), place).reshape(shape)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise Damage(f"measures must be arrays of the shape that they name: {error}") from None


def read_curve(packed: bytes) -> Curve:
    """Return a trial's curve."""
    point = 12  # bytes
    content = inflate(packed, point * (CURVE_POINTS - 1), "a curve")
    if not content or len(content) % point:
        raise Damage(f"a curve must have whole points, at least one: {len(content)} bytes")
    curve = Curve.from_bytes(packed)
    if any(after <= step for step, after in pairwise([0, *curve.step])):
        raise Damage("a curve must go on from step to step, from step 1: its steps do not increase")
    if not all(-ROUNDING <= error <= 1 + ROUNDING for error in curve.error if not math.isnan(error)):
        raise Damage("the errors of a curve must be from 0 to 1")
    return curve


def _stacked(values: Any) -> np.ndarray | None:
    """Return values as one array if they are arrays of numbers of one shape, else None."""
    if isinstance(values, np.ndarray):
        return values
    if not values or not all(isinstance(value, np.ndarray) and value.dtype.kind in "biuf" for value in values):
        return None
    same = all(value.shape == values[0].shape and value.dtype == values[0].dtype for value in values)
    return np.stack(values) if same else None


def _plain(value: Any) -> Any:
    """Return NumPy numbers and arrays, which a probe may measure, in JSON types."""
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else str(value)
