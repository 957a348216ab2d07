"""The search for a success frontier: which trials to train next, and what follows from their outcomes."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import islice

from elegans.analysis.planning import carried, next_places
from elegans.analysis.sequential import ABOVE, BELOW, SequentialTest

SIDES = {"below": BELOW, "undecided": 0, "above": ABOVE}

Place = tuple[int, int]
"""A cell: its row (the index of its y value) and its column (the index of its x value)."""
Answer = tuple[bool | None, int]
"""The outcome of a trial: whether it was solved (None if it failed), and the steps that it took."""
Ask = Callable[[Mapping[Place, range]], Mapping[Place, Sequence[Answer]]]
"""Trains the given seeds of cells and returns their answers, seed by seed."""


class FrontierSearch:
    """The state of a trace: the answers so far by cell and seed, and what follows from them.

    Args:
        rows: how many values y has.
        columns: how many values x has.
        test: the sequential test of each cell.
        gap: how far apart known cells of one verdict may be.
        monotone: whether evidence below the level is carried to smaller rows.
        steps: the number of steps of an unsolved trial.
        budget: the largest number of steps, or None.
    """

    def __init__(
        self, rows: int, columns: int, test: SequentialTest, gap: int, monotone: bool, steps: int, budget: int | None
    ) -> None:
        self.rows, self.columns, self.test, self.gap = rows, columns, test, gap
        self._verdict, self._wait = cache(test.verdict), cache(test.wait)  # of few counts, which come again and again
        self.monotone, self.longest, self.budget = monotone, steps, budget
        self.trials: dict[Place, list[Answer]] = {}
        self.complete = False

    @property
    def steps(self) -> int:
        """The steps of all trials so far."""
        return sum(steps for answers in self.trials.values() for _, steps in answers)

    @property
    def carries(self) -> bool:
        """Whether evidence is carried: requested, and not contradicted by the examined cells.

        It is contradicted if, at the same x, a row is clearly below the level and a smaller one clearly above it.
        """
        verdicts = {place: self.verdict(place) for place in self.trials}
        above = [place for place, side in verdicts.items() if side == ABOVE]
        return self.monotone and not any(
            side == BELOW and any(row < place[0] and column == place[1] for row, column in above)
            for place, side in verdicts.items()
        )

    def run(self, ask: Ask) -> None:
        """Ask for trials until the contour is known or the budget is used up."""
        while rows := self.wanted():
            while rows and not self.affords(rows):
                rows = rows[:-1]
            if not rows:
                return
            for place, answers in ask({place: seeds for row in rows for place, seeds in row.items()}).items():
                self.trials.setdefault(place, []).extend(answers)
        self.complete = True

    def affords(self, rows: Sequence[Mapping[Place, range]]) -> bool:
        """Return whether the trials of some rows are within the budget whatever their outcomes."""
        count = sum(len(seeds) for row in rows for seeds in row.values())
        return self.budget is None or self.steps + self.longest * count <= self.budget

    def wanted(self) -> list[dict[Place, range]]:
        """Return the seeds to train next, by row and cell; none if the contour is known.

        If evidence is carried, rows are taken in turn, the largest first, since each depends on the larger ones;
        otherwise all of them at once.
        """
        rows = filter(None, (self.wanted_of(row) for row in range(self.rows - 1, -1, -1)))
        return list(islice(rows, 1)) if self.carries else list(rows)

    def wanted_of(self, row: int) -> dict[Place, range]:
        """Return the seeds that a row needs next: for each cell the smallest number after which its test may end."""
        asked = {place: self.seeds(place) for place in self.trials if place[0] == row}
        if asked := {place: seeds for place, seeds in asked.items() if seeds}:
            return asked
        known, costs = self.known(row), self.costs(row)
        unseen = float(self.longest * self.test.wait(0, 0))
        places = next_places(known, self.columns, self.gap, costs, unseen)
        places += [column for column in self.doubtful(row) if column not in places]
        return {(row, column): self.seeds((row, column)) for column in places}

    def seeds(self, place: Place) -> range:
        """Return the seeds that a cell's test needs next: none if it has ended."""
        answers = self.trials.get(place, [])
        used = len(answers)
        wait = self._wait(*self.counts(place))
        return range(used, min(used + wait, self.test.maximum))

    def counts(self, place: Place) -> tuple[int, int]:
        """Return how many trials of a cell were solved, and how many have an answer."""
        known = [solved for solved, _ in self.trials.get(place, []) if solved is not None]
        return sum(known), len(known)

    def verdict(self, place: Place) -> int:
        """Return ``BELOW``, ``ABOVE``, or ``OPEN``."""
        return SIDES[self._verdict(*self.counts(place))]

    def costs(self, row: int) -> dict[int, float]:
        """Return the steps that each examined cell of a row took."""
        return {
            column: float(sum(steps for _, steps in answers))
            for (own, column), answers in self.trials.items()
            if own == row
        }

    def known(self, row: int) -> dict[int, int]:
        """Return the verdicts of a row by column: its own, or otherwise the verdicts carried from larger rows."""
        found = dict.fromkeys(self.sources(row), BELOW)
        own = {column: self.verdict((row, column)) for other, column in self.trials if other == row}
        return {**found, **own}

    def sources(self, row: int) -> dict[int, Place]:
        """Return, by column, the cell from which evidence below the level is carried to a row."""
        if not self.carries:
            return {}
        found: dict[int, Place] = {}
        for larger in range(self.rows - 1, row, -1):
            own = {column: self.verdict((larger, column)) for other, column in self.trials if other == larger}
            found.update({column: (larger, column) for column in carried(own)})
        return found

    def doubtful(self, row: int) -> list[int]:
        """Return the column where the smallest row is examined although its verdict was carried there.

        It is the last such column, where a decrease of success in y would show first.
        """
        last = max(self.sources(row), default=None) if row == 0 else None
        return [] if last is None or (row, last) in self.trials else [last]

    def rates(self, row: int) -> dict[int, float]:
        """Return the success rates of a row by column; carried rates come from the larger row and are bounds."""
        own = {place[1]: place for place in self.trials if place[0] == row}
        counts = {column: self.counts(place) for column, place in {**self.sources(row), **own}.items()}
        return {column: solved / trials for column, (solved, trials) in counts.items() if trials}
