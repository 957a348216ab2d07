"""What a map shows, read from and written to the address of a page: every name is looked up among the known ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import numpy as np

from elegans.errors import ExperimentError, printable, suggest
from elegans.explorer.axes import Axis
from elegans.explorer.cells import Cells

PANELS = 12
"""The maximum number of panels of a map: an axis with more values has a slider."""
SQUARES = 250_000
"""The maximum number of squares of a map: a browser draws no more at once."""
FIRST = ("regime.size", "model.width", "task.n")
"""Default axes."""


@dataclass(frozen=True)
class View:
    """What a map shows.

    Args:
        x, y: the axes of each panel, or None where there are fewer.
        facet: the axis whose values are the panels, or None.
        at: of every other axis, the value that is shown, as text.
        stat: the statistic.
        theory: whether lines of theory are drawn.
        contour: whether the contour of half the trials solved is drawn.
    """

    x: str | None = None
    y: str | None = None
    facet: str | None = None
    at: Mapping[str, str] = field(default_factory=dict)
    stat: str = "rate"
    theory: bool = False
    contour: bool = True

    @classmethod
    def parse(cls, query: Mapping[str, str], cells: Cells, without: str | None = None) -> "View":
        """Return the view that a query asks for; whatever the query omits gets a default.

        Args:
            query: names of axes and values by ``x``, ``y``, ``facet``, ``at.AXIS``, ``stat``, ``theory``, ``contour``.
            cells: the cells in which names are looked up.
            without: an axis that has no place in the view.

        Raises:
            ExperimentError: the query names an axis, a value or a statistic that there is not.
        """
        stat = query.get("stat") or "rate"
        if stat not in cells.statistics:
            raise ExperimentError(f"unknown statistic {printable(stat[:60])!r}{suggest(stat, list(cells.statistics))}")
        axes = [query.get(name) or None for name in ("x", "y", "facet")]
        for name in axes:
            if name is not None:
                cells.axis(name)
        if len(set(filter(None, axes))) < len(list(filter(None, axes))):
            raise ExperimentError(f"x, y and facet must be different axes: {', '.join(filter(None, axes))}")
        remaining = [axis for axis in cells.axes if axis.name not in (*axes, without)]
        x, y, facet = _chosen(axes, remaining, cells, facets=query.get("facet") is None)
        values = {name[3:]: value for name, value in query.items() if name.startswith("at.")}
        at = _at(values, (x, y, facet, without), cells)
        return cls(x, y, facet, at, stat, _flag(query, "theory", "0"), _flag(query, "contour", "1"))

    def query(self) -> str:
        """Return the view as a query, which ``parse`` reads back."""
        parameters: dict[str, str] = {name: getattr(self, name) or "" for name in ("x", "y", "facet")}
        parameters |= {f"at.{name}": value for name, value in self.at.items()}
        parameters |= {"stat": self.stat, "theory": str(int(self.theory)), "contour": str(int(self.contour))}
        return urlencode(parameters)

    def record(self) -> dict[str, Any]:
        """Return the view as JSON has it."""
        names = ("x", "y", "facet", "stat", "theory", "contour")
        return {name: getattr(self, name) for name in names} | {"at": dict(self.at)}

    def shown(self, cells: Cells) -> np.ndarray:
        """Return which cells the map shows."""
        mask = np.ones(len(cells.numbers), bool)
        for name, text in self.at.items():
            index, axis = cells.axis(name)
            mask &= cells.codes[:, index] == axis.place(text)
        return mask


def _flag(query: Mapping[str, str], name: str, usual: str) -> bool:
    value = query.get(name) or usual
    if value not in ("0", "1"):
        raise ExperimentError(f"{name} must be 0 or 1: {name}={printable(value[:40])!r}")
    return value == "1"


def _chosen(axes: list[str | None], remaining: list[Axis], cells: Cells, facets: bool) -> list[str | None]:
    """Return x, y and facet; missing ones are filled in from the axes that are left."""
    x, y, facet = axes
    remaining = sorted(remaining, key=_preference)

    def take() -> str | None:
        return remaining.pop(0).name if remaining else None

    x = x or take()
    y = y or take()
    if facet is None and facets:
        few = [axis for axis in remaining if len(axis.values) <= PANELS]
        facet = min(few, key=lambda axis: axis.name != "model.init").name if few else None
    if facet is not None and len(cells.axis(facet)[1].values) > PANELS:
        count = len(cells.axis(facet)[1].values)
        raise ExperimentError(f"a facet must have at most {PANELS} values: {printable(facet)} has {count}")
    return [x, y, facet]


def _preference(axis: Axis) -> tuple[int, bool, int]:
    rank = FIRST.index(axis.name) if axis.name in FIRST else len(FIRST)
    return rank, not axis.numeric, -len(axis.values)


def _at(values: Mapping[str, str], used: tuple[str | None, ...], cells: Cells) -> dict[str, str]:
    """Return the value of each axis that has no place in the map: as asked for where some cell has it, or the first."""
    for name, text in values.items():
        cells.axis(name)[1].place(text)
    at: dict[str, str] = {}
    mask = np.ones(len(cells.numbers), bool)
    for index, axis in enumerate(cells.axes):
        if axis.name in used:
            continue
        present = np.unique(cells.codes[mask, index])
        requested = axis.place(values[axis.name]) if axis.name in values else -1
        code = requested if requested in present else int(present[0])
        at[axis.name] = axis.texts[code]
        mask &= cells.codes[:, index] == code
    return at
