"""Positions of a store's rows within a sweep, for many rows at once."""

from collections.abc import Mapping, Sequence

import numpy as np

from elegans.training.trial_set import Seeds, TrialSet


class Listed:
    """Numbers in the order of a list. They may have any size, since no memory is allocated by value.

    Args:
        numbers: the numbers, distinct except for negative ones, which are ignored.
    """

    def __init__(self, numbers: np.ndarray) -> None:
        self.order = np.argsort(numbers, kind="stable")
        self.ordered = numbers[self.order]

    def positions(self, numbers: np.ndarray) -> np.ndarray:
        """Return the position of each number in the list, or -1 if it is absent."""
        if not len(self.ordered):
            return np.full(len(numbers), -1, np.int64)
        nearest = np.minimum(np.searchsorted(self.ordered, numbers), len(self.ordered) - 1)
        return np.where(self.ordered[nearest] == numbers, self.order[nearest], -1)


class _Spaced:
    """Seeds in the order of a range, without making a list."""

    def __init__(self, seeds: range) -> None:
        self.seeds = seeds

    def positions(self, numbers: np.ndarray) -> np.ndarray:
        first, last = np.uint64(min(self.seeds[0], self.seeds[-1])), np.uint64(max(self.seeds[0], self.seeds[-1]))
        inside = (numbers >= first) & (numbers <= last)
        offset = np.where(inside, numbers - first, 0)
        step = np.uint64(abs(self.seeds.step))
        position = (offset // step).astype(np.int64)
        if self.seeds.step < 0:
            position = len(self.seeds) - 1 - position
        return np.where(inside & (offset % step == 0), position, -1)


class Positions:
    """Numbers the trials of a sweep from 0 in their order, and finds the number of a store's row.

    Args:
        sweep: the sweep.
        numbers: the store's numbers for the sweep's cells that it has, by hash.
    """

    def __init__(self, sweep: TrialSet, numbers: Mapping[str, int]) -> None:
        self.first = sweep.first
        self.cells = Listed(np.array([numbers.get(template.cell, -1) for template, _ in sweep.parts], np.int64))
        self.orders, self.order_of = _orders([seeds for _, seeds in sweep.parts])

    def parts(self, cell: np.ndarray) -> np.ndarray:
        """Return the number of each row's cell within the sweep, or -1 if the sweep does not have it."""
        return self.cells.positions(cell)

    def of(self, cell: np.ndarray, seed: np.ndarray) -> np.ndarray:
        """Return the number of each row's trial, or -1 if the sweep does not have it."""
        part = self.parts(cell)
        position = np.full(len(cell), -1, np.int64)
        for number, order in enumerate(self.orders):
            rows = np.flatnonzero((part >= 0) & (self.order_of[part] == number))
            within = order.positions(seed[rows])
            hit = within >= 0
            position[rows[hit]] = self.first[part[rows[hit]]] + within[hit]
        return position


def _orders(seeds: Sequence[Seeds]) -> tuple[list[Listed | _Spaced], np.ndarray]:
    """Return one order for each distinct sequence of seeds, and the one that each cell uses."""
    known: dict[int, int] = {}
    orders: list[Listed | _Spaced] = []
    which = np.zeros(len(seeds), np.int64)
    for part, given in enumerate(seeds):
        if id(given) not in known:
            known[id(given)] = len(orders)
            orders.append(
                _Spaced(given) if isinstance(given, range) else Listed(np.fromiter(given, np.uint64, len(given)))
            )
        which[part] = known[id(given)]
    return orders, which
