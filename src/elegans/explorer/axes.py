"""The axes of a map: the parameters along which the cells of a store differ, and their values as texts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from elegans.analysis.aggregation import hashable, is_parameter
from elegans.errors import ExperimentError, printable

LETTERS = {"regime.size": "m"}
"""Axes that the field knows by a letter."""
NONE = "none"
"""What an axis calls a missing value, where no component's label says more."""


@dataclass(frozen=True)
class Axis:
    """A parameter that differs between cells.

    Args:
        name: its dotted column.
        values: the distinct values, numbers in increasing order, None for a missing one last.
        numeric: whether the values are numbers, but for the missing one.
        missing: what a missing value is called.
    """

    name: str
    values: tuple[Any, ...]
    numeric: bool
    missing: str = NONE

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The values as texts, all different."""
        return tuple(self.missing if value is None else text_of(value) for value in self.values)

    def place(self, text: str) -> int:
        """Return the place of a value that is given as its text."""
        if text not in self._places:
            raise ExperimentError(f"{self.name} must be one of its values: {self.name}={printable(text[:40])!r}")
        return self._places[text]

    @cached_property
    def word(self) -> str:
        """The last part of the name, as cells are named by it."""
        return LETTERS.get(self.name, self.name.rpartition(".")[2].replace("_", " "))

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {text: index for index, text in enumerate(self.texts)}


def text_of(value: Any) -> str:
    """Return a value as an axis names it."""
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return printable(str(value))


def words_of(axes: Sequence[Axis]) -> tuple[str, ...]:
    """Return what each axis is called in the name of a cell: its last part, or all where two have the same."""
    words = [axis.word for axis in axes]
    return tuple(word if words.count(word) == 1 else axis.name for axis, word in zip(axes, words, strict=True))


def setting(word: str, value: str) -> str:
    """Return a value of an axis in words: ``width 100``, ``m = 500``."""
    return f"{word} = {value}" if len(word) == 1 else f"{word} {value}"


def texts(table: pd.DataFrame, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return some columns of each row of a table as texts, in which numbers of different types are the same."""
    columns = [[text_of(plain_value(value)) for value in table[name]] for name in names]
    return list(zip(*columns, strict=True)) if names else [()] * len(table)


def axes_of(columns: pd.DataFrame) -> tuple[tuple[Axis, ...], np.ndarray]:
    """Return the parameters along which cells differ, and each cell's place on each axis.

    Of a component and its fields one is kept where it says all: its label, or the only number that differs. Of
    parameters that differ together the first is kept.
    """
    coded: dict[str, np.ndarray] = {}
    for name in map(str, columns):
        if is_parameter(name) and _differs(columns[name].tolist()):
            codes = pd.factorize(hashable(columns[name]), use_na_sentinel=False)[0]
            if codes.max(initial=0) > 0:
                coded[name] = codes
    distinct: dict[str, np.ndarray] = {}
    axes = []
    codes_of = []
    for name in _without_labels(coded, columns):
        if not any(np.array_equal(coded[name], other) for other in distinct.values()):
            distinct[name] = coded[name]
            axis, codes = _axis(columns, name)
            axes.append(axis)
            codes_of.append(codes)
    return tuple(axes), np.array(codes_of, np.int64).reshape(len(axes), len(columns)).T


def _differs(values: Sequence[Any]) -> bool:
    # of one object per value, of which there are few where equal values are one object
    first, *others = (plain_value(value) for value in ({id(value): value for value in values}.values() or [None]))
    return any(value != first for value in others)


def _without_labels(coded: Mapping[str, np.ndarray], columns: pd.DataFrame) -> list[str]:
    names = list(coded)
    for parent in list(coded):
        inner = [name for name in coded if name.startswith(f"{parent}.")]
        settled = [name for name in inner if _determines(coded[parent], coded[name])]
        if not settled:
            continue
        numbers = [name for name in settled if _is_numeric(columns[name]) and columns[name].dropna().nunique() > 1]
        if len(settled) == len(inner) and len(numbers) == 1 and _determines(coded[numbers[0]], coded[parent]):
            settled = [parent, *(name for name in settled if name != numbers[0])]
        names = [name for name in names if name not in settled]
    return names


def _determines(outer: np.ndarray, inner: np.ndarray) -> bool:
    pairs = outer * (inner.max() + 1) + inner
    return len(np.unique(pairs)) == len(np.unique(outer))


def _is_numeric(column: pd.Series) -> bool:
    return all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in column.dropna())


def _axis(columns: pd.DataFrame, name: str) -> tuple[Axis, np.ndarray]:
    column = hashable(columns[name])
    codes, values = pd.factorize(column, use_na_sentinel=False)
    plain = [plain_value(value) for value in values]
    numeric = _is_numeric(columns[name])
    keys = [(value is None, value if numeric and value is not None else str(value)) for value in plain]
    order = sorted(range(len(plain)), key=lambda index: (keys[index][0], 0 if plain[index] is None else keys[index][1]))
    rank = np.argsort(order)
    missing = NONE
    parent = name.rpartition(".")[0]
    if None in plain and parent in columns:
        labels = columns[parent][pd.isna(columns[name])].unique()
        missing = printable(str(labels[0])) if len(labels) == 1 else NONE
    return Axis(name, tuple(plain[index] for index in order), numeric, missing), rank[codes]


def plain_value(value: Any) -> Any:
    """Return a value as a Python type: None if it is missing, and an integer if it is a whole number."""
    if value is None or value is pd.NA or (isinstance(value, float | np.floating) and math.isnan(value)):
        return None
    value = value.item() if isinstance(value, np.generic) else value
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
