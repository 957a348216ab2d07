"""Readers of a store's columns: every value is checked, and one that elegans cannot have written is damage."""

import hashlib
import json
import re
import zlib
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from sqlalchemy import BigInteger, Column, Dialect, Float, Integer, LargeBinary, String, Table, Text, TypeDecorator
from sqlalchemy.types import TypeEngine

from elegans.errors import StoreError

LARGEST_DETAILS = 2**28
"""Maximum size in bytes of one trial's measures before compression."""

DEEPEST = 50
"""Levels of a record."""


class Damage(StoreError):
    """A value that elegans did not write; ``database.translated`` adds the name of the store."""


class Stored(TypeDecorator[Any]):
    """A column's type, which checks each value that is read.

    Args:
        length: the maximum length of a string, for databases that need one, or None.
        low, high: the smallest and the largest number, or None.
        among: the only allowed strings, or None.
    """

    impl: type[TypeEngine[Any]] = Text
    cache_ok = True
    kinds: ClassVar[tuple[type, ...]] = (str,)
    """The Python types that are allowed."""
    storage: ClassVar[tuple[str, ...]] = ("text",)
    """SQLite's names for these types."""
    name: ClassVar[str] = "a string"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.cache_ok = True  # SQLAlchemy asks each class

    def __init__(
        self,
        length: int | None = None,
        *,
        low: float | None = None,
        high: float | None = None,
        among: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(*(() if length is None else (length,)))
        self.length = length
        self.low, self.high, self.among = low, high, among
        self.place, self.nullable = "", True

    def result_processor(self, dialect: Dialect, coltype: Any) -> Any:
        """Return the function that reads one value."""
        return self.read

    def read(self, value: Any) -> Any:
        """Return a value of a row.

        Raises:
            Damage: it has another type, is out of range, or is missing although required.
        """
        if type(value) not in self.kinds:
            if value is None and self.nullable:
                return None
            raise self._damage(value)
        if self.among is not None and value not in self.among:
            raise self._damage(value)
        if (self.low is not None and value < self.low) or (self.high is not None and value > self.high):
            raise self._damage(value)
        return value

    def array(self, values: Sequence[Any], missing: bool = False) -> np.ndarray:
        """Return many values of rows as an array.

        Args:
            values: the values.
            missing: whether values may be missing, which become NaN.
        """
        allowed = {*self.kinds, type(None)} if missing else set(self.kinds)
        if not allowed.issuperset(map(type, values)):
            raise self._damage(next(value for value in values if type(value) not in allowed))
        found = np.array(values, np.float64 if missing or float in self.kinds else np.int64)
        for bad in (() if self.low is None else found < self.low, () if self.high is None else found > self.high):
            if np.any(bad):
                raise self._damage(values[int(np.argmax(bad))])
        return found

    def _damage(self, value: Any) -> Damage:
        ends = {"at least": self.low, "at most": self.high}
        rule = " and ".join(f"{how} {end}" for how, end in ends.items() if end is not None)
        rule = rule or (f"at most {self.length} characters" if self.length and not self.among else "")
        rule = self.name + (f" of {rule}" if rule else "") + (f" ({', '.join(self.among)})" if self.among else "")
        return Damage(f"{self.place} must be {rule}: {_shortened(value)}")


class ShortText(Stored):
    """Names of bounded length."""

    impl = String
    name = "a name"

    def read(self, value: Any) -> Any:
        """Return a name, which must have no control characters."""
        found = super().read(value)
        if found is not None and not (found and found.isprintable() and len(found) <= (self.length or len(found))):
            raise self._damage(value)
        return found


class Whole(Stored):
    """Whole numbers."""

    impl = Integer
    kinds = (int,)
    storage = ("integer",)
    name = "a whole number"


class LongWhole(Whole):
    """Whole numbers of up to 64 bits."""

    impl = BigInteger


class Number(Stored):
    """Finite numbers."""

    impl = Float
    kinds = (float, int)
    storage = ("real", "integer")
    name = "a number"


class Packed(Stored):
    """Compressed bytes."""

    impl = LargeBinary
    kinds = (bytes, memoryview)
    storage = ("blob",)
    name = "packed bytes"


def written(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row for a table, whose values can be read back: databases differ in what they take.

    Raises:
        StoreError: a value is out of its column's range, or is text that not every database can hold.
    """
    for name, value in row.items():
        if name not in table.columns:
            continue
        kind = stored(table.columns[name])
        plain = float(value) if isinstance(value, float) else value
        if isinstance(value, str) and storable(value) != value:
            rule = "must have no NUL and no lone surrogate"
            raise StoreError(f"text in a store {rule}: {kind.place}={_shortened(value)}")
        try:
            kind.read(plain)
        except Damage as damage:
            raise StoreError(f"a store must be able to hold what is recorded: {damage}") from None
        if plain != plain:  # SQLite would make it a missing value
            raise StoreError(f"a store must be able to hold what is recorded: {kind.place} must be a number: nan")
    return row


def storable(text: str) -> str:
    """Return a text with the signs escaped that a database cannot hold: NUL and lone surrogates."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def stored(column: Column[Any]) -> Stored:
    """Return the type of a column of a store."""
    kind = column.type
    assert isinstance(kind, Stored)
    return kind


def _shortened(value: Any) -> str:
    text = repr(value[:40] if isinstance(value, str | bytes) else value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(text: str, what: str, kind: type | tuple[type, ...] = dict) -> Any:
    """Return the value of a JSON text.

    Args:
        text: the text.
        what: a name for it, for the error.
        kind: the type that the value must have.
    """
    try:
        found = json.loads(text)
        if _SURROGATE.search(text):  # no file can hold a lone surrogate
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise Damage(f"{what} must be JSON: {_shortened(text)} ({str(error)[:80]})") from None
    if not isinstance(found, kind):
        raise Damage(f"{what} must be a record: {_shortened(text)}")
    return found


def read_record(text: str, what: str) -> dict[str, Any]:
    """Return the record that a text holds as JSON, which is not nested so deeply that Python cannot go through it."""
    found: dict[str, Any] = read_json(text, what)
    if _deeper(found, DEEPEST):
        raise Damage(f"{what} must be nested at most {DEEPEST} times: {_shortened(text)}")
    if (bad := unprintable(found)) is not None:
        raise Damage(f"{what} must have printable names, kinds and texts: {bad}")
    return found


def unprintable(record: Any) -> str | None:
    """Return, quoted, a text of a record that could act on a terminal, or a name or kind that cannot be shown.

    Names of fields and kinds of components are printed in tables and messages; texts may have several lines.
    """
    if isinstance(record, str):
        return _shortened(record) if _CONTROL.search(record) else None
    members: list[Any] = list(record.values() if isinstance(record, dict) else record)
    if isinstance(record, dict):
        for name in (*record, record.get("kind", "kind")):
            if not (isinstance(name, str) and name and name.isprintable()):
                return _shortened(name)
    found = (unprintable(inner) for inner in members if isinstance(inner, dict | list | str))
    return next((bad for bad in found if bad is not None), None)


_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters other than tabs and ends of lines."""


def _deeper(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return inner is not None and (levels == 0 or any(_deeper(one, levels - 1) for one in inner))


def read_template(text: str, key: str) -> dict[str, Any]:
    """Return the record of a cell's trial without its seed, which must match the cell's hash."""
    found = read_record(text, "the trial of a cell")
    if hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest() != key:
        raise Damage(f"the trial of a cell must have the cell's hash: {_shortened(key[:12])} has {_shortened(text)}")
    return found


def read_probes(text: str | None) -> list[dict[str, Any]]:
    """Return the probes named in a row."""
    found: list[dict[str, Any]] = [] if text is None else read_json(text, "probes of a trial", list)
    if not all(isinstance(probe, dict) and isinstance(probe.get("kind"), str) for probe in found):
        raise Damage(f"probes of a trial must be a list of probes: {_shortened(text)}")
    return found


def inflate(packed: bytes, largest: int, what: str) -> bytes:
    """Decompress bytes, unless the result would be larger than allowed."""
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(packed, largest + 1)
    except zlib.error as error:
        raise Damage(f"{what} must be compressed bytes: {error}") from None
    if len(found) > largest:
        raise Damage(f"{what} must take at most {largest:,} bytes: {len(packed):,} compressed bytes hold more")
    if not unpacker.eof or unpacker.unused_data:
        raise Damage(f"{what} must be compressed bytes: they are incomplete or continue after their end")
    return found
