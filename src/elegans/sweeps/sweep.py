"""Many trials from a grid: the product of axes, and seeds inside every cell."""

import hashlib
import math
import operator
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np

from elegans import extensions, records
from elegans.arguments import methods_checked
from elegans.component import Component, by_field
from elegans.display import card
from elegans.errors import ArgumentError, SweepError, counted, printable, shown, suggest
from elegans.files import checked_path, readable
from elegans.training.trial import Trial, identity
from elegans.training.trial_set import Seeds, TrialSet, check_ends, check_size

NAMED = 1000
"""Maximum number of cells whose differences a sweep's representation lists."""
LARGEST_GRID = 100_000
"""Maximum number of cells in a grid, each a trial in memory that takes about 0.1 ms to check."""
LARGEST_FILE = 5_000_000
"""Maximum number of bytes in a sweep file, which TOML takes seconds to read."""
ADOPTION_SECONDS = 2.0
"""Seconds for which a file without tables may be a store that another run is making."""
_C = TypeVar("_C", bound=Component)


def _listed(values: Sequence[str]) -> str:
    return ", ".join(values if len(values) <= 6 else [*values[:3], "…", values[-1]])


@dataclass(frozen=True, repr=False)
@methods_checked()
class Sweep(TrialSet):
    """Many trials, lazily: one template trial per cell, and the seeds of each cell.

    Iterating yields the trials cell by cell, and seed by seed within a cell. The sum of two sweeps has the trials of
    both, each once: the cells of the first, then the new cells of the second.

    Args:
        parts: each cell's template, a trial with seed 0, and its distinct seeds.
        engine: the engine that the sweep requests.
        store: the store that the sweep requests, or None.
    """

    engine: str = field(default="auto", kw_only=True)
    store: str | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        """Return in one line how many trials there are, and what differs between their cells."""
        varied = [f"{name}: {listed}" for name, listed in self._varied().items()]
        counts = f"{counted(len(self), 'trial')} of {counted(len(self.parts), 'cell')}"
        return f"Sweep({'; '.join([counts, *varied[:8]])})"

    def _repr_html_(self) -> str:
        return card("Sweep", {"trials": len(self), "cells": len(self.parts), **self._varied()})

    def _varied(self) -> dict[str, str]:
        """Return the parameters that differ between the first cells, each with its values."""
        values: dict[str, dict[Any, None]] = {}
        for cell in self.cells[:NAMED]:
            for name, value in cell.columns().items():
                values.setdefault(name, {})[str(value)] = None
        return {name: _listed(list(found)) for name, found in values.items() if len(found) > 1}

    def __add__(self, other: "Sweep") -> "Sweep":
        if not isinstance(other, Sweep):
            return NotImplemented
        return Sweep(_merged([*self.parts, *other.parts]), engine=self.engine, store=self.store)

    @property
    def identity(self) -> str:
        """A hash of the identities of all trials, in whatever order: 64 hexadecimal digits."""
        found = sorted(identity(cell.cell, seed) for cell, seeds in self.parts for seed in seeds)
        return hashlib.sha256("\n".join(found).encode()).hexdigest()

    def shifted(self, by: int) -> "Sweep":
        """Return the same cells with a number added to every seed."""
        if not by:
            return self
        return replace(self, parts=tuple((cell, _shifted(seeds, by)) for cell, seeds in self.parts))

    @classmethod
    def of(cls, cells: Iterable[Trial], seeds: int | range | Iterable[int] = 1) -> "Sweep":
        """Return a sweep of the given cells in their order, each once, all with the same seeds.

        The seeds of the trials that are given do not count.

        Raises:
            SweepError: there is no cell, or a seed is out of range.
        """
        parts = _merged([(cell.with_seed(0), range(1)) for cell in cells])
        if not parts:
            raise SweepError("a sweep must have at least one cell: cells=[]")
        return cls(parts).with_seeds(seeds)

    @classmethod
    def hint_for(cls, value: Any) -> str:
        """Return how a sweep is made of a trial, or of a list of trials, that is given instead."""
        if isinstance(value, Trial):
            return "; el.Sweep.of([trial], seeds=[trial.seed]) makes one"
        if isinstance(value, list | tuple) and value and all(isinstance(member, Trial) for member in value):
            return "; el.Sweep.of(trials, seeds=1) makes one, with these seeds instead of the trials' own"
        return ""

    def with_seeds(self, seeds: int | range | Iterable[int]) -> "Sweep":
        """Return the same cells, all with the given seeds: how many, counted from 0, or the seeds themselves.

        Raises:
            SweepError: a seed is out of range.
        """
        chosen = _seeds(seeds)
        check_size(len(self.parts) * len(chosen))
        return replace(self, parts=tuple((cell, chosen) for cell, _ in self.parts))

    @classmethod
    def from_toml(cls, source: str | Path, *, load: Callable[[Path], Any] | None = extensions.load) -> "Sweep":
        """Read a sweep file (``elegans sweep --example`` prints one).

        Its keys ``import`` and ``store`` may name files in its folder or below, and no others.

        Args:
            source: the file's path, or its text, whose folder is the current one.
            load: imports a Python file that the key ``import`` names; None refuses a sweep file that names one.

        Raises:
            SweepError: the file does not exist or is not TOML, or a key is unknown (the nearest is suggested), or names
                a file elsewhere.
            TrialError: the trial, or a cell of the grid, breaks a rule.
        """
        text, folder = _read(source)
        return _from_record(records.read(text, "TOML", "a sweep file", SweepError), folder, load)


def grid(trial: Trial, axes: Mapping[str, Any], seeds: int | range | Iterable[int] = 1) -> Sweep:
    """Return the trials of a grid: every combination of the axes' values, with every seed.

    Args:
        trial: the trial that the grid varies; its seed is ignored.
        axes: the values to take in turn, by dotted path (``model.width``, ``regime``), in any form that
            the field accepts (``"sample:1000"``). The last axis varies fastest.
        seeds: how many seeds, counted from 0, or the seeds themselves.

    Raises:
        SweepError: an axis is empty or not a list of values, or a seed is out of range.
        TrialError: a path names no field (the nearest is suggested), or a combination breaks a rule.
    """
    chosen = _seeds(seeds)
    lists = [_axis(path, values) for path, values in axes.items()]
    size = math.prod(map(len, lists))
    if size > LARGEST_GRID:
        raise SweepError(f"a grid must have at most {LARGEST_GRID:,} cells: {shown(size)}")
    check_size(size * len(chosen))
    cells = (_replaced(trial, dict(zip(axes, values, strict=True))) for values in product(*lists))
    return Sweep(_merged([(cell.with_seed(0), chosen) for cell in cells]))


def _axis(path: str, values: Any) -> list[Any]:
    if path == "seed":
        raise SweepError("seeds must be given as seeds, not as an axis: axis 'seed'")
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | np.ndarray):
        raise SweepError(f"an axis must be a list of values: {path}={shown(values)}")
    if not len(values):
        raise SweepError(f"an axis must have at least one value: {path}=[]")
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def _seeds(seeds: int | Iterable[int]) -> Seeds:
    """Return consecutive seeds as a range, others as a tuple."""
    try:
        listed = range(operator.index(seeds)) if isinstance(seeds, int | np.integer) else seeds
        given = listed if isinstance(listed, range) else tuple(listed)
        if isinstance(seeds, bool) or (isinstance(given, tuple) and any(isinstance(seed, bool) for seed in given)):
            raise TypeError
        chosen = given if isinstance(given, range) else tuple(dict.fromkeys(map(operator.index, given)))
    except ArgumentError:  # a TypeError that says what is wrong
        raise
    except TypeError:
        raise SweepError(f"seeds must be a number of seeds or whole numbers: seeds={shown(seeds)}") from None
    if isinstance(seeds, int | np.integer) and seeds < 1:
        raise SweepError(f"the number of seeds must be at least 1: seeds={shown(seeds)}")
    if not chosen:
        raise SweepError(f"seeds is empty: seeds={shown(seeds)}")
    check_ends(chosen)
    if isinstance(chosen, range):
        check_size((chosen[-1] - chosen[0]) // chosen.step + 1)
        return chosen
    follow = all(second == first + 1 for first, second in pairwise(chosen))
    return range(chosen[0], chosen[-1] + 1) if follow else chosen


def _united(before: Seeds, seeds: Seeds) -> Seeds:
    """Return the union of the seeds, in the order of first appearance."""
    if isinstance(before, range) and isinstance(seeds, range):
        overlap = before.step == seeds.step == 1 and before.start <= seeds.start <= before.stop
        if overlap:
            return range(before.start, max(before.stop, seeds.stop))
    return before if before == seeds else _seeds([*before, *seeds])


def _shifted(seeds: Seeds, by: int) -> Seeds:
    if isinstance(seeds, range):
        return _seeds(range(seeds.start + by, seeds.stop + by, seeds.step))
    return _seeds(seed + by for seed in seeds)


def _merged(parts: Sequence[tuple[Trial, Seeds]]) -> tuple[tuple[Trial, Seeds], ...]:
    """Merge the seeds of equal cells, so that no trial occurs twice."""
    found: dict[str, tuple[Trial, Seeds]] = {}
    together: dict[tuple[int, int], Seeds] = {}  # cells with the same seeds still share them
    for template, seeds in parts:
        known, before = found.setdefault(template.cell, (template, seeds))
        if before is seeds:
            continue
        pair = id(before), id(seeds)
        if pair not in together:
            together[pair] = _united(before, seeds)
        found[template.cell] = known, together[pair]
    return tuple(found.values())


def _replaced(component: _C, values: Mapping[str, Any]) -> _C:
    """Replace fields at several dotted paths at once, so that only the result has to obey the rules."""
    direct, nested = by_field(values)
    for name in direct.keys() & nested.keys():  # as in "regime" and "regime.size": the outer one first
        component = component.replace(name, direct.pop(name))
    fields = {name: getattr(component, name) for name in type(component).model_fields}
    for name, parts in nested.items():
        inner = fields.get(name)
        if not isinstance(inner, Component):
            return component.replace(f"{name}.{next(iter(parts))}", None)  # raises: it says what is wrong
        fields[name] = _replaced(inner, parts)
    for name, value in direct.items():
        if name not in fields:
            return component.replace(name, value)  # raises: it suggests the nearest name
        fields[name] = value
    return type(component)(**fields)


def _read(source: str | Path) -> tuple[str, Path]:
    if isinstance(source, str) and ("\n" in source or "=" in source):
        return source, Path()
    path = readable(source, "a sweep file", SweepError)
    try:
        if (size := path.stat().st_size) > LARGEST_FILE:
            raise SweepError(
                f"a sweep file must have at most {LARGEST_FILE:,} bytes: {printable(str(path))} has {size:,}"
            )
        return path.read_text(encoding="utf-8"), path.parent
    except OSError as error:
        raise SweepError(f"a sweep file must be readable: {printable(str(path))} ({error.strerror})") from None
    except UnicodeDecodeError:
        raise SweepError(f"a sweep file must be TOML in UTF-8: {printable(str(path))}") from None


_KEYS = {"trial": dict, "axes": dict, "seeds": int | list, "import": list, "engine": str, "store": str}


def _from_record(record: dict[str, Any], folder: Path, load: Callable[[Path], Any] | None) -> Sweep:
    for key, value in record.items():
        if key not in _KEYS:
            raise SweepError(f"a sweep file has no key {key!r}{suggest(key, _KEYS)}")
        if not isinstance(value, _KEYS[key]):
            raise SweepError(f"{key} of a sweep file must be {_named(_KEYS[key])}: {key}={value!r}")
    if "trial" not in record:
        raise SweepError("a sweep file must have a trial: the tables [trial.task], [trial.regime], [trial.model], …")
    files = [_within(file, folder, "import") for file in record.get("import", [])]
    if files and load is None:
        raise SweepError(
            f"a sweep file must not import files where imports are refused: import={shown(record['import'])}"
        )
    for file in files:
        assert load is not None
        load(file)
    axes = dict(_flat(record.get("axes", {})))
    swept = grid(Trial.parse(record["trial"]), axes, record.get("seeds", 1))
    return Sweep(swept.parts, engine=record.get("engine", "auto"), store=_store_within(record.get("store"), folder))


def _named(kind: Any) -> str:
    return {dict: "a table", list: "a list", str: "a string"}.get(kind, "a number or a list")


def _within(name: Any, folder: Path, key: str) -> Path:
    """Return the path of a file that a sweep file names; it may reach no further than the sweep file's folder."""
    path = checked_path(folder / name, f"{key} of a sweep file", SweepError) if isinstance(name, str) and name else None
    if path is None or not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise SweepError(f"{key} of a sweep file must name files in its folder or below: {key}={shown(name)}")
    return path


def _store_within(name: str | None, folder: Path) -> str | None:
    """Return the path of a sweep file's store: a new file or a store, since one that is empty may belong to others."""
    if name is None:
        return None
    if "://" in name:
        rule = "store of a sweep file must be a file in its folder or below; a database is named by --store"
        raise SweepError(f"{rule}: store={shown(name)}")
    path, until = _within(name, folder, "store"), time.monotonic() + ADOPTION_SECONDS
    while _is_blank(path):
        if time.monotonic() > until:
            raise SweepError(f"store of a sweep file must be a new file or a store: {printable(str(path))} is empty")
        time.sleep(0.05)
    return str(path)


def _is_blank(path: Path) -> bool:
    """Return whether there is a file that is empty, or a database without tables."""
    if not path.is_file() or not path.stat().st_size:
        return path.is_file()
    address = f"file:{quote(os.fsencode(path.absolute()))}?mode=ro"
    with suppress(sqlite3.Error), closing(sqlite3.connect(address, uri=True)) as database:
        return database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None
    return False


def _flat(table: Mapping[str, Any], prefix: str = "", seen: set[str] | None = None) -> Iterator[tuple[str, Any]]:
    seen = set() if seen is None else seen
    for key, value in table.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            if not value:
                raise SweepError(f"an axis must have at least one value: {path}={{}}")
            yield from _flat(value, f"{path}.", seen)
            continue
        if path in seen:
            raise SweepError(f"an axis must be given once: {path!r}")
        seen.add(path)
        yield path, value
