"""Tables as files."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import pandas as pd

LONGEST_ERROR = 10_000
"""Maximum number of characters that a file has of a failed trial's error, which may be of any length in a store."""


def write_table(table: "pd.DataFrame", file: Path, suffix: str) -> None:
    """Write a table as ``.csv`` or ``.parquet``.

    Tuples and records become JSON, and so do all values of a column that Parquet could not hold. Strings that a
    spreadsheet would take for a formula get an apostrophe.
    """
    table = table.copy(deep=False)
    if "error" in table:
        table["error"] = table["error"].map(_shortened)
    for name in (name for name in table.columns if table[name].dtype.kind == "O"):
        values = table[name].map(lambda value: json.dumps(value) if isinstance(value, tuple | dict) else value)
        large = values.map(lambda value: isinstance(value, int) and value.bit_length() > 63)
        if suffix == ".parquet" and (values.map(type).nunique() > 1 or large.any()):
            values = values.map(lambda value: value if value is None or isinstance(value, str) else json.dumps(value))
        table[name] = values
    if suffix == ".parquet":
        with file.open("wb") as binary:  # by its name, Arrow takes only files whose names are UTF-8
            table.to_parquet(binary, index=False)
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


def _harmless(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
