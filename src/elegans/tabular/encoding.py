"""Rows of a table as networks read them: numbers in quantile bins, categories, and what is missing.

Source: RealMLP (Holzmüller, Grinsztajn and Steinwart, 2024) for robust scaling with a smooth clip, one-hot columns and
embeddings; TabM and Gorishniy, Rubachev and Babenko (2022) for piecewise linear bins.
"""

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, UInt16
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import StandardScaler

TINY = 1e-30
"""A difference between inputs below which even large weights barely change an output."""
NO_LEVEL = 0xFFFF
"""The code of a look-up none of whose inputs is on."""
EMBEDDING = 8
"""How many trained numbers a level of a column with many levels has."""
_ONE_HOT = 9
"""The largest number of levels that have an input each."""
_RARE, _EMBEDDED_RARE = 5, 25
"""Levels with fewer training rows share one; embeddings of fewer rows would learn them by heart."""


@dataclass
class RawRows:
    """Rows of a table before they are encoded.

    Args:
        numbers: all columns as numbers, NaN where one is missing; columns of categories are 0.
        categories: the values of each column of categories, missing ones as in pandas.
    """

    numbers: Float[np.ndarray, "rows columns"]
    categories: dict[int, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: Any) -> "RawRows":
        return RawRows(self.numbers[index], {column: values[index] for column, values in self.categories.items()})


@dataclass(frozen=True)
class Encoded:
    """Encoded rows.

    Args:
        codes: for each look-up the number of the row's bin or level, or ``NO_LEVEL``.
        positions: the position in the bin, from 0 to 1; 0 for a level.
        statics: inputs that are not looked up.
        levels: the number of the embedding of each embedded column.
    """

    codes: UInt16[np.ndarray, "rows look_ups"]
    positions: Float[np.ndarray, "rows look_ups"]
    statics: Float[np.ndarray, "rows statics"]
    levels: Int[np.ndarray, "rows embedded"]

    def __len__(self) -> int:
        return len(self.statics)

    def __getitem__(self, index: Any) -> "Encoded":
        return Encoded(*(np.ascontiguousarray(each[index]) for each in vars(self).values()))


@dataclass(frozen=True)
class Inputs:
    """What the first layer reads.

    Args:
        columns: the number of columns of the table.
        look_ups: rows of (column, bins, levels): inputs that are 1 before the row's bin, -1 after it and between in it;
            and inputs with at most a single 1.
        statics: the column of each input that is not looked up.
        embedded: the column of each embedding.
        sizes: how many levels each embedding has; the last one is for values that training did not see.
    """

    columns: int
    look_ups: Int[np.ndarray, "look_ups 3"]
    statics: Int[np.ndarray, " statics"]
    embedded: Int[np.ndarray, " embedded"]
    sizes: tuple[int, ...] = ()

    @property
    def levels(self) -> int:
        """How many embeddings there are in all."""
        return sum(self.sizes)

    @property
    def embedded_ranges(self) -> list[tuple[int, int]]:
        """The first level of each embedded column, and the one after its last."""
        ends = np.cumsum(self.sizes, dtype=int).tolist()
        return list(zip([0, *ends], ends, strict=False))

    @property
    def owner(self) -> Int[np.ndarray, " inputs"]:
        """The column of each input, in the order of the first layer's weights."""
        looked_up = np.repeat(self.look_ups[:, 0], self.look_ups[:, 1] + self.look_ups[:, 2])
        return np.concatenate([looked_up, self.statics, np.repeat(self.embedded, EMBEDDING)])

    @property
    def count(self) -> int:
        """How many inputs there are."""
        return len(self.owner)

    def expand(
        self, rows: Encoded, column: int | None = None, embeddings: np.ndarray | None = None
    ) -> Float[np.ndarray, "rows inputs"]:
        """Return the inputs of one column, or of all, as numbers."""
        if column is None and not len(self.look_ups) and not len(self.embedded):
            return rows.statics
        parts: list[np.ndarray] = [np.zeros((len(rows), 0))]
        for number, (owner, bins, levels) in enumerate(self.look_ups.tolist()):
            if column in (None, owner):
                code, place = rows.codes[:, number, None].astype(int), rows.positions[:, number, None]
                inner = np.arange(bins)
                values = np.where(inner < code, 1.0, np.where(inner == code, 2 * place - 1, -1.0)) * (code < bins)
                parts += [values, code == np.arange(bins, bins + levels)]
        parts += [rows.statics[:, [number]] for number, owner in enumerate(self.statics) if column in (None, owner)]
        for number, owner in enumerate(self.embedded):
            if column in (None, owner):
                assert embeddings is not None
                parts.append(embeddings[rows.levels[:, number]])
        return np.concatenate(parts, axis=1, dtype=np.float64)


@dataclass
class _Number:
    """A column of numbers: robustly scaled, and its quantile bins."""

    middle: float
    spread: float
    edges: Float[np.ndarray, " edges"]
    gaps: bool

    @classmethod
    def of(cls, values: Float[np.ndarray, " rows"], bins: int) -> "_Number":
        known = values[~np.isnan(values)]
        gaps = 0 < len(known) < len(values)
        if not len(known) or known.min() == known.max():
            return cls(0.0, 0.0, np.zeros(0), gaps)
        middle, low, high = np.quantile(known, [0.5, 0.25, 0.75])
        spread = high - low or known.max() / 2 - known.min() / 2
        return cls(float(middle), float(spread), np.unique(np.quantile(known, np.arange(bins + 1) / bins)), gaps)

    @property
    def bins(self) -> int:
        return max(0, len(self.edges) - 1)

    def encode(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the code, the position in the bin, and the scaled number."""
        missing = np.isnan(values)
        values = np.where(missing, self.middle, values)
        code, position, scaled = np.full(len(values), NO_LEVEL), np.zeros(len(values)), np.zeros(len(values))
        if self.bins:
            z = (values - self.middle) / self.spread
            scaled = z / np.hypot(1, z / 3)
            code = np.searchsorted(self.edges[1:-1], values, side="right")
            position = np.clip((values - self.edges[code]) / np.diff(self.edges)[code], 0, 1)
        if self.gaps:
            code, position = np.where(missing, self.bins, code), np.where(missing, 0, position)
            scaled = np.where(missing, 0, scaled)
        return code, position, scaled


@dataclass
class _Category:
    """A column of categories: the number of each value's level, and of values that are rare or missing (-1: none)."""

    numbers: dict[Any, int]
    count: int
    rare: int
    gap: int

    @classmethod
    def of(cls, values: np.ndarray, embed: bool) -> "_Category":
        codes, distinct = pd.factorize(values)
        counts = np.bincount(codes[codes >= 0], minlength=len(distinct))
        least = _EMBEDDED_RARE if embed and (counts >= _RARE).sum() > _ONE_HOT else _RARE
        common = sorted((value for value, rows in zip(distinct, counts, strict=True) if rows >= least), key=_sorting)
        rare = len(common) if len(common) < len(distinct) else -1
        count = len(common) + (rare >= 0)
        return cls(dict(zip(common, range(count), strict=False)), count, rare, count if (codes < 0).any() else -1)

    def encode(self, values: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
        """Return the code, the position 0, and the input of two levels."""
        codes, distinct = pd.factorize(values)
        missing = self.gap if self.gap >= 0 else self.rare
        level = np.array([*(self.numbers.get(value, self.rare) for value in distinct), missing])[codes]
        first = self.gap if self.count <= 2 else 0  # of the levels that are looked up
        return np.where(level < first, NO_LEVEL, level - first), 0.0, np.select([level == 0, level == 1], [-1, 1], 0)


@dataclass
class Bins:
    """The encoding of numbers by quantile bins, and of categories by their levels.

    Args:
        bins: the largest number of bins of a column, or None for max(4, min(32, rows // 4, 8000 // columns)).
        embed: whether the levels of a category with more than nine have eight trained numbers each, or one input each.
    """

    bins: int | None = None
    embed: bool = True

    def fit(self, rows: RawRows, owner: Sequence[int], weights: Any = None) -> "Bins":
        """Learn scales, bins and levels of columns; ``owner`` has the table's column to which each belongs."""
        count, columns = rows.numbers.shape
        bins = self.bins or max(4, min(32, count // 4, 8000 // columns))
        with np.errstate(over="ignore", invalid="ignore"):
            self.columns: list[_Number | _Category] = [
                _Category.of(rows.categories[column], self.embed)
                if column in rows.categories
                else _Number.of(values, bins)
                for column, values in enumerate(rows.numbers.T)
            ]
        looks, self.statics, self.embedded, sizes = [], [], [], []
        for number, column in enumerate(self.columns):
            if isinstance(column, _Number):
                looks.append((number, column.bins, int(column.gaps)))
                self.statics += [number] * (column.bins > 0)
            elif self.embed and column.count > _ONE_HOT:
                self.embedded.append(number)
                sizes.append(column.count + (column.gap >= 0) + 1)
            else:
                gap = int(column.gap >= 0 and column.count > 0)
                self.statics += [number] * (column.count == 2)
                looks.append((number, 0, gap + (column.count if column.count > 2 else 0)))
        looks = [look for look in looks if look[1] + look[2] > 0]
        self.looks = [look[0] for look in looks]
        self.inputs = Inputs(
            int(max(owner)) + 1,
            np.array([(owner[number], *rest) for number, *rest in looks], np.int32).reshape(-1, 3),
            np.array([owner[number] for number in self.statics], np.int32),
            np.array([owner[number] for number in self.embedded], np.int32),
            tuple(sizes),
        )
        return self

    def transform(self, rows: RawRows, dtype: str = "float64") -> Encoded:
        """Return rows as networks read them."""
        codes = np.full((len(rows), len(self.looks)), NO_LEVEL, np.uint16)
        positions, statics = np.zeros(codes.shape, dtype), np.zeros((len(rows), len(self.statics)), dtype)
        levels = np.zeros((len(rows), len(self.embedded)), np.int32)
        looks, fixed = ({column: place for place, column in enumerate(each)} for each in (self.looks, self.statics))
        ranges = dict(zip(self.embedded, enumerate(self.inputs.embedded_ranges), strict=True))
        for number, column in enumerate(self.columns):
            values = rows.categories[number] if number in rows.categories else rows.numbers[:, number]
            with np.errstate(over="ignore", invalid="ignore"):
                code, position, static = column.encode(values)
            if number in looks:
                codes[:, looks[number]], positions[:, looks[number]] = code, position
            if number in fixed:
                statics[:, fixed[number]] = static
            if number in ranges:
                place, (begin, end) = ranges[number]
                levels[:, place] = np.where(code == NO_LEVEL, end - 1, begin + code)
        return Encoded(codes, positions, statics, levels)


@dataclass
class Standard:
    """The encoding of numbers by their deviation from the mean, in standard deviations, or not at all."""

    standardise: bool

    def fit(self, rows: RawRows, owner: Sequence[int], weights: Any = None) -> "Standard":
        """Learn means and standard deviations of columns; ``owner`` has the table's column to which each belongs."""
        numbers = rows.numbers
        self.varies = np.ptp(numbers, axis=0) > 0
        with np.errstate(over="ignore", invalid="ignore"):
            self.scaler = StandardScaler().fit(numbers, sample_weight=weights)
        variance = self.scaler.var_
        if self.standardise and not np.isfinite(variance).all():
            raise ValueError("Input X contains a value too large to be standardised: its square must be finite")
        tiny = variance < sys.float_info.min if self.standardise else np.ptp(numbers, axis=0) < TINY
        if lost := int((self.varies & tiny).sum()):
            warnings.warn(
                f"{lost} of {len(tiny)} features of X vary by so little that they are constant to networks: "
                "multiply X by a large number",
                stacklevel=6,
            )
        self.inputs = Inputs(
            int(max(owner)) + 1, np.zeros((0, 3), np.int32), np.array(owner, np.int32), np.zeros(0, np.int32)
        )
        return self

    def transform(self, rows: RawRows, dtype: str = "float64") -> Encoded:
        """Return rows as networks read them; the type of numbers stays."""
        numbers = self.scaler.transform(rows.numbers) if self.standardise else rows.numbers
        nothing = np.zeros((len(rows), 0))
        return Encoded(nothing.astype(np.uint16), nothing.astype(dtype), numbers, nothing.astype(np.int32))


@dataclass
class Encoder:
    """All that turns rows of a table into inputs of networks: settings of the estimators, and ``embed`` of ``Bins``."""

    encoding: str
    missing: str
    missing_indicator: bool
    standardise: bool
    n_bins: int | None
    embed: bool

    def fit(self, rows: RawRows, weights: Any = None) -> "Encoder":
        """Learn from rows."""
        if rows.categories and self.encoding == "standard":
            raise ValueError('columns of categories must have encoding="bins"')
        self.imputer, columns = None, rows.numbers.shape[1]
        owner = list(range(columns))
        automatic = self.missing == "auto" and self.encoding == "standard"
        if automatic or self.missing not in ("auto", "error"):
            strategy, indicator = ("mean", True) if automatic else (self.missing, self.missing_indicator)
            self.imputer = SimpleImputer(strategy=strategy, add_indicator=indicator, keep_empty_features=True)
            self.imputer.fit(rows.numbers)
            if self.imputer.indicator_ is not None:
                owner += self.imputer.indicator_.features_.tolist()
        kind = Standard(self.standardise) if self.encoding == "standard" else Bins(self.n_bins, self.embed)
        self.part: Standard | Bins = kind.fit(self._filled(rows), owner, weights)
        return self

    @property
    def inputs(self) -> Inputs:
        """What networks read."""
        return self.part.inputs

    def transform(self, rows: RawRows, dtype: str = "float64") -> Encoded:
        """Return rows as networks read them."""
        encoded = self.part.transform(self._filled(rows), dtype)
        if np.abs(encoded.statics).max(initial=0) > np.finfo(dtype).max:
            raise ValueError(f"Input X contains infinity or a value too large for dtype('{dtype}').")
        return encoded

    def _filled(self, rows: RawRows) -> RawRows:
        return rows if self.imputer is None else RawRows(self.imputer.transform(rows.numbers), rows.categories)


def _sorting(value: Any) -> tuple[bool, Any]:
    """Return a key by which numbers and texts are ordered, whatever the order of categories in a frame."""
    return (False, float(value)) if isinstance(value, (bool, int, float, np.number)) else (True, str(value))
