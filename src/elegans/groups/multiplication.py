"""Multiplication tables: reading them from files, and checking that they are a group's."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from elegans.arguments import scalar
from elegans.errors import GroupError

LARGEST_ORDER = 5040
"""Maximum order, 7!, for elements, tables and matrices; characters of S_n are available beyond it."""


def read(path: Path) -> dict[str, Any]:
    """Read the arguments of ``Group.from_table`` from a file; see ``Group.from_file``."""
    readers: dict[str, Callable[[Path], dict[str, Any]]] = {
        ".csv": _read_csv,
        ".json": _read_json,
        ".npy": lambda path: {"table": np.load(path)},
    }
    if path.suffix not in readers:
        raise GroupError(f"a multiplication table must be in a file {', '.join(readers)}: {path}")
    try:
        arguments = readers[path.suffix](path)
    except (OSError, ValueError) as error:
        raise GroupError(f"a multiplication table cannot be read from {path}: {error}") from None
    return {"title": path.stem, **arguments}


def _read_csv(path: Path) -> dict[str, Any]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = [[entry.strip() for entry in row] for row in csv.reader(file) if row]
    if not rows:
        raise ValueError("the file is empty")
    names = rows.pop(0) if len(rows) == len(rows[0]) + 1 else None
    return {"table": [[int(entry) for entry in row] for row in rows], "names": names}


def _read_json(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(content, list):
        return {"table": content}
    if not isinstance(content, dict) or "table" not in content or set(content) - {"table", "names", "name"}:
        raise ValueError("it must be a list of lists, or a record with 'table' and optionally 'names' and 'name'")
    named = {"title": content["name"]} if "name" in content else {}
    return {"table": content["table"], "names": content.get("names"), **named}


def square(rows: Any) -> Int64[np.ndarray, "order order"]:
    """Return a table as an array of whole numbers below its size."""
    if np.ma.is_masked(rows):
        raise ValueError("a multiplication table must not be masked")
    if hasattr(rows, "__array__"):
        rows = np.asarray(rows).tolist()
    if not isinstance(rows, list | tuple) or not all(isinstance(row, list | tuple) for row in rows):
        raise ValueError(f"a multiplication table must be a list of rows: rows={rows!r}")
    order = len(rows)
    if not 1 <= order <= LARGEST_ORDER:
        raise ValueError(f"a multiplication table must have from 1 to {LARGEST_ORDER} rows: rows={order}")
    for a, row in enumerate(rows):
        if len(row) != order:
            raise ValueError(f"a multiplication table must be square: rows={order}, entries of row {a}={len(row)}")
        for b, entry in enumerate(map(scalar, row)):
            if not isinstance(entry, int | float) or entry % 1 or not 0 <= entry < order:
                raise ValueError(
                    f"a product must be one of the elements 0, …, {order - 1} (closure): "
                    f"the product of {a} and {b} is {entry!r}"
                )
    return np.array(rows).astype(int)


def check_table(table: Int64[np.ndarray, "order order"], names: Any = None) -> int:
    """Return the identity's number in the multiplication table of a group.

    Args:
        table: entries from 0 to order - 1.
        names: the elements' names, for messages.
    """
    if names is not None and (len(names) != len(table) or len(set(names)) != len(table)):
        raise ValueError(f"names must be distinct, one per element: {len(table)} elements, names={names!r}")
    called = [str(name) for name in (range(len(table)) if names is None else names)]
    identity = _identity(table, called)
    _check_inverses(table, identity, called)
    _check_associativity(table, identity, called)
    return identity


def _identity(table: Int64[np.ndarray, "order order"], called: list[str]) -> int:
    elements = np.arange(len(table))
    left = np.flatnonzero((table == elements).all(axis=1))
    both = [element for element in left if np.array_equal(table[:, element], elements)]
    if both:
        return int(both[0])
    if len(left):
        e = left[0]
        a = np.flatnonzero(table[:, e] != elements)[0]
        raise ValueError(
            f"a group must have an identity: the product of {called[e]} and any b is b, "
            f"but the product of {called[a]} and {called[e]} is {called[table[a, e]]}"
        )
    wrong = (table != elements).argmax(axis=1)
    failures = ", ".join(f"{called[e]} · {called[b]} = {called[table[e, b]]}" for e, b in enumerate(wrong[:4]))
    raise ValueError(f"a group must have an identity e, with e b = b for all b: {failures}{', …' * (len(table) > 4)}")


def _check_inverses(table: Int64[np.ndarray, "order order"], identity: int, called: list[str]) -> None:
    for a, hits in enumerate(table == identity):
        if not hits.any():
            raise ValueError(
                f"every element must have an inverse: no product of {called[a]} with another is the identity "
                f"{called[identity]}"
            )
        if (b := int(hits.argmax())) != a and hits.sum() == 1 and table[b, a] != identity:
            raise ValueError(
                f"every element must have an inverse: the product of {called[a]} and {called[b]} is the identity "
                f"{called[identity]}, but the product of {called[b]} and {called[a]} is {called[table[b, a]]}"
            )


def _check_associativity(table: Int64[np.ndarray, "order order"], identity: int, called: list[str]) -> None:
    """Check (x g) y = x (g y) only for generators g: elements for which it holds are closed under products (Light)."""
    for g in generators(table, identity):
        differs = table[table[:, g]] != table[:, table[g]]
        if differs.any():
            x, y = map(int, np.unravel_index(differs.argmax(), differs.shape))
            left, right = table[table[x, g], y], table[x, table[g, y]]
            a, b, c, first, second = (called[element] for element in (x, g, y, left, right))
            raise ValueError(
                f"a product must be associative: ({a} · {b}) · {c} = {first}, but {a} · ({b} · {c}) = {second}"
            )


def generators(table: Any, identity: int = 0) -> list[int]:
    """Return elements whose products, bracketed from the left, give all elements: each the first not yet reached."""
    reached = np.zeros(len(table), bool)
    reached[identity] = True
    chosen: list[int] = []
    while not reached.all():
        chosen.append(int(np.argmin(reached)))
        size = 0
        while size < (size := int(reached.sum())):
            reached[table[reached][:, chosen]] = True
    return chosen
