"""The columns of cells and trials as a DataFrame."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from pydantic_core import to_jsonable_python
from sqlalchemy import Column

from elegans.component import HAVE_LATER_FIELDS
from elegans.errors import TrialError, UnknownKind
from elegans.sweeps.columns import Damage, read_record, stored
from elegans.training.trial import Trial

if TYPE_CHECKING:
    import pandas as pd

OWN_COLUMNS = "the columns of a cell must be those of its trial"

Filter = Mapping[str, Any]
"""The value that a cell must have in a dotted column, or a list of allowed values."""


def columns_of(template: Trial) -> str:
    """Return a cell's dotted columns as JSON."""
    columns = template.columns()
    del columns["seed"]
    return json.dumps(to_jsonable_python(columns, fallback=str, inf_nan_mode="constants"))


def read_columns(text: str, record: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a cell's dotted columns from JSON; lists come back as tuples.

    Args:
        text: the columns.
        record: the cell's trial, whose fields they must match.
    """
    found = read_record(text, "the columns of a cell")
    if record is not None:
        _refuse_others(found, record)
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}


def _refuse_others(columns: Mapping[str, Any], record: Mapping[str, Any]) -> None:
    """Refuse columns that are not those of a trial, as far as its record alone can tell.

    There may be more columns than fields where classes have later fields, which records leave out at their defaults.
    """
    fields, parts = _fields(record, columns)
    for name in fields.keys() - parts.keys() if HAVE_LATER_FIELDS else (fields.keys() | columns.keys()) - parts.keys():
        if name not in columns or name not in fields or not _alike(fields[name], columns[name]):
            raise Damage(f"{OWN_COLUMNS}: they differ in {name[:40]!r}")
    labels = {
        (columns.get(name), json.dumps(part)) for name, part in parts.items() if not _is_usual(columns, name, part)
    }
    for name, part in parts.items():
        label = columns.get(name)
        if not (label is None and "kind" not in part) and not (isinstance(label, str) and label.isprintable()):
            raise Damage(f"{OWN_COLUMNS}: the label of {name[:40]!r} is not printable")
    if labels <= _compared:
        return
    with suppress(UnknownKind):  # a class that is not imported, which alone knows its labels
        if json.loads(columns_of(parsed(record))) != columns:
            raise Damage(f"{OWN_COLUMNS}: their labels differ")
        _compared.update(labels)


def parsed(record: Mapping[str, Any]) -> Trial:
    """Return the trial of a cell from its record.

    Raises:
        UnknownKind: a class of it is not imported.
        Damage: no trial is like that, or elegans would write it differently, with 1.0 for 1.
    """
    try:
        trial = Trial.parse(record)
    except UnknownKind:
        raise
    except TrialError as error:
        raise Damage(f"the trial of a cell must be one that elegans takes: {error}") from None
    if name := _differs(record, trial.model_dump(mode="json", exclude={"seed"})):
        raise Damage(f"the trial of a cell must be as elegans writes it: {name[1:61]!r} is written differently")
    return trial


def _differs(told: Any, written: Any) -> str:
    """Return the dotted path at which a record differs from what is written, which may have further fields."""
    if not (isinstance(told, dict) and isinstance(written, dict)):
        return "" if _alike(told, written) else "."
    found = (f".{name}{inner}" for name, value in told.items() if (inner := _differs(value, written.get(name, ...))))
    return next(found, "").removesuffix(".")


def refuse_untaken(key: str, record: Mapping[str, Any]) -> None:
    """Refuse the record of a cell's trial that no trial is like, whatever its hash is."""
    if key not in _taken:
        with suppress(UnknownKind):
            parsed(record)
            _taken.add(key)


_taken: set[str] = set()
"""Hashes of records that are those of trials."""
_compared: set[tuple[Any, str]] = set()
"""Labels that only their classes know, with their fields: a store has few of them, in many cells."""


def _fields(
    record: Mapping[str, Any], columns: Mapping[str, Any], prefix: str = ""
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the fields of a trial's record by dotted name: values, and records with fields of their own."""
    fields: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    for name, value in record.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict) and not isinstance(columns.get(path), dict):
            inner = _fields(value, columns, f"{path}.")
            fields |= inner[0]
            parts |= {path: value} | inner[1]
        elif name != "kind" or not prefix:
            fields[path] = value
    return fields, parts


def _is_usual(columns: Mapping[str, Any], name: str, part: Mapping[str, Any]) -> bool:
    """Return whether a component's label is its kind, alone or with the value of a field."""
    label, kind = columns.get(name), part.get("kind")
    return kind is not None and (label == kind or label in [f"{kind}:{value}" for value in part.values()])


def _alike(value: Any, told: Any) -> bool:
    """Return whether two JSON values are the same, including their types."""
    if isinstance(value, list) and isinstance(told, list):
        return len(value) == len(told) and all(map(_alike, value, told))
    if isinstance(value, dict) and isinstance(told, dict):
        return value.keys() == told.keys() and all(_alike(value[name], told[name]) for name in value)
    return type(value) is type(told) and bool(value == told)


def matches(columns: Mapping[str, Any], where: Filter) -> bool:
    """Return whether a cell's columns match a filter."""
    return all(_is_one_of(columns.get(name), wanted) for name, wanted in where.items())


def _is_one_of(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, list | set | frozenset | range | np.ndarray):
        return any(value == one for one in wanted)
    return bool(value == wanted)


def cell_frame(cells: Sequence[Mapping[str, Any]], rows: np.ndarray | None = None) -> "pd.DataFrame":
    """Return the dotted columns of cells as a table.

    Args:
        cells: each cell's columns; a column that a cell lacks is a missing value.
        rows: the cell of each row of the table; by default one row per cell.

    Returns:
        One row for each entry of ``rows``; whole numbers with gaps are ``Int64``, others as pandas infers.
    """
    import pandas as pd

    made = {}
    for name in united(cells):
        column = _series([cell.get(name) for cell in cells])
        made[name] = column if rows is None else column.take(rows).reset_index(drop=True)
    return pd.DataFrame(made, index=pd.RangeIndex(len(cells) if rows is None else len(rows)))


def united(cells: Iterable[Iterable[str]]) -> list[str]:
    """Return the names that any of some cells have, in an order that is that of each of them as far as it goes."""
    names: list[str] = []
    known: set[str] = set()
    for cell in dict.fromkeys(tuple(cell) for cell in cells):
        place = 0
        for name in cell:
            if name not in known:
                known.add(name)
                names.insert(place, name)
            elif names[place : place + 1] != [name]:
                place = names.index(name)
            place += 1
    return names


def _series(values: list[Any]) -> "pd.Series[Any]":
    import pandas as pd

    present = [value for value in values if value is not None]
    if present and len(present) < len(values) and all(type(value) is int and abs(value) < 2**63 for value in present):
        return pd.Series(values, dtype="Int64")
    if any(isinstance(value, tuple | dict) for value in present):
        return pd.Series(values, dtype=object)
    return pd.Series(values)


LONGEST_ERROR = 10_000
"""Maximum number of characters that a file has of a failed trial's error, which may be of any length in a store."""


def write_table(table: "pd.DataFrame", file: Path, suffix: str) -> None:
    """Write a table as ``.csv`` or ``.parquet``.

    Tuples and records become JSON, as do all values of a column that Parquet could not hold. Strings that a
    spreadsheet would take for a formula get an apostrophe.
    """
    table = table.copy(deep=False)
    if "error" in table:
        table["error"] = table["error"].map(_shortened)
    for name in (name for name in table.columns if table[name].dtype.kind == "O"):
        values = table[name].map(lambda value: json.dumps(value) if isinstance(value, tuple | dict) else value)
        if suffix == ".parquet" and (values.map(type).nunique() > 1 or values.map(_too_large).any()):
            values = values.map(lambda value: value if value is None or isinstance(value, str) else json.dumps(value))
        table[name] = values
    if suffix == ".parquet":
        with file.open("wb") as opened:  # by its name, Arrow takes only files whose names are UTF-8
            table.to_parquet(opened, index=False)
        return
    write_csv(table, file)


def write_csv(table: "pd.DataFrame", file: Path | TextIO) -> None:
    """Write a table as CSV, in which no text is a formula of a spreadsheet's."""
    table = table.copy(deep=False)
    for name in (name for name in table.columns if table[name].dtype.kind not in "biufc"):
        table[name] = table[name].map(_harmless)
    table.rename(columns=_harmless).to_csv(file, index=False)


def _shortened(value: Any) -> Any:
    return f"{value[:LONGEST_ERROR]}…" if isinstance(value, str) and len(value) > LONGEST_ERROR else value


def _too_large(value: Any) -> bool:
    return isinstance(value, int) and value.bit_length() > 63


def _harmless(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def quantity(taken: Sequence[Sequence[Any] | np.ndarray]) -> "pd.Series[Any]":
    """Return one quantity's values, listed for each trial, as one column in which arrays are objects."""
    import pandas as pd

    values = [value for listed in taken for value in listed]
    if not any(isinstance(value, list | np.ndarray) for value in values):
        return pd.Series(values, dtype=None if values else float)
    return pd.Series([_array(value) if isinstance(value, list) else value for value in values], dtype=object)


def _array(value: list[Any]) -> np.ndarray | list[Any]:
    """Return a list of numbers as an array, and any other list unchanged."""
    try:
        return np.asarray(value)
    except ValueError:  # ragged, or of more dimensions than an array may have
        return value


class Labels:
    """Turns a column of few distinct strings into small codes and back.

    Args:
        column: the column, which defines its allowed values.
    """

    def __init__(self, column: Column[Any]) -> None:
        self.read = stored(column).read
        self.known: dict[str | None, int] = {}

    def __call__(self, values: Sequence[str | None]) -> np.ndarray:
        """Return the code of each string."""
        for value in set(values) - self.known.keys():
            self.known[self.read(value)] = len(self.known)
        return np.fromiter(map(self.known.__getitem__, values), np.int32, len(values))

    def series(self, codes: np.ndarray) -> "pd.Series[Any]":
        """Return the strings that codes stand for."""
        import pandas as pd

        texts = pd.Series(list(self.known), dtype="str")
        return texts.take(codes).reset_index(drop=True)
