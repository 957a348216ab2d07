"""Where the rows of a store stand in a sweep, for many rows at once."""

from collections.abc import Mapping

import numpy as np

from elegans.sweeps.sweep import Seeds, Sweep

_Lookup = tuple[np.ndarray, np.ndarray]
"""Seeds in increasing order, and the place of each of them in the order that was given."""


class Places:
    """Numbers the trials of a sweep from 0 in its own order, and finds the number of a store's row.

    Args:
        sweep: the sweep.
        cells: the number that the store gave to each of the sweep's cells that it knows, by hash.
    """

    def __init__(self, sweep: Sweep, cells: Mapping[str, int]) -> None:
        self.first = sweep.first
        numbers = [cells.get(template.cell, -1) for template, _ in sweep.parts]
        self.part_of = np.full(max(numbers, default=-1) + 2, -1, np.int64)  # its last entry stays -1
        self.part_of[numbers] = np.arange(len(numbers))
        self.part_of[-1] = -1
        self.lookups, self.lookup_of = _lookups([seeds for _, seeds in sweep.parts])

    def part(self, cell: np.ndarray) -> np.ndarray:
        """Return for each row the number of its cell within the sweep, -1 where the sweep does not have it."""
        part: np.ndarray = self.part_of[np.minimum(cell, len(self.part_of) - 1)]
        return part

    def of(self, cell: np.ndarray, seed: np.ndarray) -> np.ndarray:
        """Return the number of each row's trial, -1 where the sweep does not have it."""
        part = self.part(cell)
        place = np.full(len(cell), -1, np.int64)
        for number, (ordered, order) in enumerate(self.lookups):
            rows = np.flatnonzero((part >= 0) & (self.lookup_of[part] == number))
            found = np.minimum(np.searchsorted(ordered, seed[rows]), len(ordered) - 1)
            hit = ordered[found] == seed[rows]
            place[rows[hit]] = self.first[part[rows[hit]]] + order[found[hit]]
        return place


def _lookups(seeds: list[Seeds]) -> tuple[list[_Lookup], np.ndarray]:
    """Return one lookup for each distinct sequence of seeds, and which of them each cell uses."""
    known: dict[int, int] = {}
    lookups: list[_Lookup] = []
    which = np.zeros(len(seeds), np.int64)
    for part, given in enumerate(seeds):
        if id(given) not in known:
            known[id(given)] = len(lookups)
            array = np.fromiter(given, np.uint64, len(given))
            order = np.argsort(array, kind="stable")
            lookups.append((array[order], order))
        which[part] = known[id(given)]
    return lookups, which
