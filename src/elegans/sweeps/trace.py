"""Tracing a success frontier: the next trials are chosen from the outcomes so far."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from elegans.analysis.contours import crossing_within, segments
from elegans.analysis.intervals import wilson
from elegans.analysis.planning import carried, next_places
from elegans.analysis.sequential import ABOVE, BELOW, SequentialTest
from elegans.errors import SweepError, shown
from elegans.sweeps.progress import Progress
from elegans.sweeps.runner import Watch, complete, report
from elegans.sweeps.store import Store, opened
from elegans.sweeps.sweep import Sweep, grid
from elegans.sweeps.view import watching
from elegans.training import Trial
from elegans.training.states import FINISHED

VALUES: dict[str, tuple[int, ...]] = {
    "regime.size": (*(factor * 10**power for power in range(2, 6) for factor in (1, 2, 3, 6)), 10**6),
    "model.width": (10, 30, 100, 300, 1000),
}
"""The values of an axis where none are given."""
SIDES = {"below": BELOW, "undecided": 0, "above": ABOVE}

Place = tuple[int, int]
"""A cell: its row (the number of its y value) and its column (of its x value)."""
Answer = tuple[bool | None, int]
"""The outcome of a trial: whether it was solved (None where it failed), and the steps that it took."""
Ask = Callable[[Mapping[Place, range]], Mapping[Place, Sequence[Answer]]]
"""Trains the given seeds of cells and returns their answers, seed by seed."""


@dataclass(frozen=True)
class Contour:
    """Where the success rate passes a level, row by row, with what the statement rests on.

    Args:
        x, xs: the dotted path along which crossings are looked for, and its values.
        y, ys: the dotted path of the rows, and its values.
        level: the success rate of the contour.
        crossings: a row for each crossing of each y value: the value of y; ``direction``, ``gained`` or ``lost`` as x
            grows; ``low`` and ``high``, the examined values of x between which it lies unless a cell's verdict is
            wrong (NaN where it lies before the first value, or after the last one if anywhere); ``crossing``,
            interpolated between the cells' rates (linear in log x), NaN where an end is open.
        cells: one row per cell examined: values of y and x; ``trials``, ``solved``, ``rate`` and its Wilson interval
            ``low`` to ``high``, at ``test.confidence``; ``verdict`` (``below``, ``above``, ``undecided``); ``steps``;
            and ``failed`` trials.
        trials: one row per trial, as ``elegans.run`` returns it: also what ``elegans.plots.success_frontier`` takes.
        sweep: the same trials.
        test: the sequential test of each cell, with its exact error rates.
        steps: the training steps of all trials that the contour rests on, those that the store had among them.
        monotone: whether evidence was carried from larger to smaller y: where a larger one fails clearly, and has at
            no smaller x succeeded, smaller ones are taken to fail too. False where it was not asked for, or where the
            cells examined contradict it.
        complete: whether the trace came to its end within the budget.
    """

    x: str
    y: str
    xs: tuple[float, ...]
    ys: tuple[Any, ...]
    level: float
    crossings: pd.DataFrame
    cells: pd.DataFrame
    trials: pd.DataFrame = field(repr=False)
    sweep: Sweep = field(repr=False)
    test: SequentialTest
    steps: int
    monotone: bool
    complete: bool


def trace_frontier(  # noqa: PLR0913 (all but the first three by name)
    trial: Trial,
    x: str = "regime.size",
    y: str = "model.width",
    *,
    xs: Sequence[float] | None = None,
    ys: Sequence[Any] | None = None,
    level: float = 0.5,
    confidence: float = 0.99,
    seeds: int = 20,
    gap: int = 4,
    monotone: bool | None = None,
    budget: int | None = None,
    store: Store | str | Path | None = None,
    workers: int | None = None,
    engine: str = "auto",
    watch: Watch | None = None,
    progress: bool | None = None,
) -> Contour:
    """Find where the success rate passes a level, training far fewer trials than the whole grid has.

    Each cell is tested sequentially and ends as soon as its verdict is certain (see ``SequentialTest``). Along x,
    cells are chosen so that neighbouring verdicts meet at the least expected number of steps: a cell that is not
    solved costs all its steps, so the search leans towards solved ones. Success may be lost again at larger x: every
    region of one verdict is probed every ``gap`` values, and further crossings are followed where they show. What
    is lost and regained between two probes is not seen.

    What is trained next follows from the outcomes so far alone, and the trial of a seed is the one of the full grid:
    a trace that was cut short goes on where it was, the same trace again trains nothing, and a grid in the store is
    used.

    Args:
        trial: where the grid starts from; its own seed does not count.
        x: the dotted path along which crossings are looked for.
        y: the dotted path of the rows.
        xs: the values of x, increasing; by default, for ``regime.size``, 1, 2, 3, 6, 10, … times 100 up to 10^6.
        ys: the values of y; by default, for ``model.width``, 10, 30, 100, 300 and 1000.
        level: the success rate that is traced, between 0 and 1.
        confidence: 1 minus the largest probability that a cell gets either wrong verdict.
        seeds: the largest number of trials per cell, with the seeds from 0.
        gap: how many values apart two examined cells of one verdict may be.
        monotone: whether success never decreases in y, which must then increase: saves most cells below the contour.
            By default for ``model.width`` only. It is given up where the examined cells contradict it.
        budget: the largest number of training steps, those of trials that the store has already among them; without
            one the trace ends by itself. What is unknown when it is used up is NaN in the contour.
        store: where outcomes are kept, as in ``elegans.run``.
        workers: how many threads train, as in ``elegans.run``.
        engine: an engine's name, or ``auto`` for the first that takes each trial.
        watch: told of the progress, of all trials asked for so far.
        progress: whether to show it, as in ``elegans.run``.

    Raises:
        SweepError: a value breaks a rule: the level, values that do not increase, a budget below that of one cell's
            first trials. Other errors are those of ``grid`` and ``run``.
    """
    across, up = _values(x, xs, "xs"), _values(y, ys, "ys")
    if monotone is None:
        monotone = y == "model.width"
    for name, values, must in (("xs", across, True), ("ys", up, monotone)):
        if must:
            _check_increasing(name, values)
    test = _test(level, confidence, seeds)
    steps = _longest(trial)
    _check_amounts(gap, budget, test, steps)
    cells = grid(trial, {y: up, x: across}).cells
    if len(cells) != len(up) * len(across):
        raise SweepError(f"every value must be there once: {x}={list(across)}, {y}={list(up)}")
    with opened(store) as kept, watching(progress, watch) as told:
        trainer = _Trainer(cells, len(across), workers, engine, told)
        search = FrontierSearch(len(up), len(across), test, gap, monotone, steps, budget)
        search.run(lambda asked: trainer.ask(kept, asked))
        sweep = Sweep(trainer.parts(search.trials))
        table = kept.table(sweep)
    return Contour(
        x=x,
        y=y,
        xs=across,
        ys=up,
        level=level,
        crossings=_crossings(search, y, up, across),
        cells=_examined(search, (y, x), up, across),
        trials=table,
        sweep=sweep,
        test=test,
        steps=search.steps,
        monotone=search.carries,
        complete=search.complete,
    )


class FrontierSearch:
    """The state of a trace: which seeds of which cells have which answers, and what follows from them.

    Args:
        rows: how many values y has.
        columns: how many values x has.
        test: the sequential test of each cell.
        gap: how far apart known cells of one verdict may be.
        monotone: whether evidence below the level is carried to smaller rows.
        steps: what a trial that is not solved takes.
        budget: the largest number of steps, or None.
    """

    def __init__(
        self, rows: int, columns: int, test: SequentialTest, gap: int, monotone: bool, steps: int, budget: int | None
    ) -> None:
        self.rows, self.columns, self.test, self.gap = rows, columns, test, gap
        self.monotone, self.longest, self.budget = monotone, steps, budget
        self.trials: dict[Place, list[Answer]] = {}
        self.complete = False

    @property
    def steps(self) -> int:
        """The steps of all trials so far."""
        return sum(steps for answers in self.trials.values() for _, steps in answers)

    @property
    def carries(self) -> bool:
        """Whether evidence is carried: asked for, and contradicted by no cells that were examined.

        It is contradicted where a row lies clearly below the level and a smaller one clearly above it, at one x.
        """
        verdicts = {place: self.verdict(place) for place in self.trials}
        above = [place for place, side in verdicts.items() if side == ABOVE]
        return self.monotone and not any(
            side == BELOW and any(row < place[0] and column == place[1] for row, column in above)
            for place, side in verdicts.items()
        )

    def run(self, ask: Ask) -> None:
        """Ask for trials until the contour is known or the budget is used up."""
        while asked := self.wanted():
            if self.budget is not None and self.steps + self.longest * sum(map(len, asked.values())) > self.budget:
                return
            for place, answers in ask(asked).items():
                self.trials.setdefault(place, []).extend(answers)
        self.complete = True

    def wanted(self) -> dict[Place, range]:
        """Return the seeds to train next, by cell; none where the contour is known.

        Rows come one after the other, the largest first where evidence is carried; all that one row needs at a time
        is asked for together, and of a cell as many seeds as it takes at the least until its test may end.
        """
        for row in range(self.rows - 1, -1, -1):
            asked = {place: self.seeds(place) for place in self.trials if place[0] == row}
            asked = {place: seeds for place, seeds in asked.items() if seeds}
            if not asked:
                known, costs = self.known(row), self.costs(row)
                unseen = float(self.longest * self.test.wait(0, 0))
                places = next_places(known, self.columns, self.gap, costs, unseen)
                places += [column for column in self.doubtful(row) if column not in places]
                asked = {(row, column): self.seeds((row, column)) for column in places}
            if asked:
                return asked
        return {}

    def seeds(self, place: Place) -> range:
        """Return the seeds that a cell's test needs next: none where it has ended."""
        answers = self.trials.get(place, [])
        used = len(answers)
        wait = self.test.wait(*self.counts(place))
        return range(used, min(used + wait, self.test.maximum))

    def counts(self, place: Place) -> tuple[int, int]:
        """Return how many trials of a cell were solved, and of how many that came to an answer."""
        known = [solved for solved, _ in self.trials.get(place, []) if solved is not None]
        return sum(known), len(known)

    def verdict(self, place: Place) -> int:
        """Return ``BELOW``, ``ABOVE``, or ``OPEN``."""
        return SIDES[self.test.verdict(*self.counts(place))]

    def costs(self, row: int) -> dict[int, float]:
        """Return the steps that each examined cell of a row took."""
        return {
            column: float(sum(steps for _, steps in answers))
            for (own, column), answers in self.trials.items()
            if own == row
        }

    def known(self, row: int) -> dict[int, int]:
        """Return the verdicts of a row by column: its own, and elsewhere those carried from larger rows."""
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
        """Return the column where the smallest row looks itself, though it is known by what was carried there.

        It is the last such column: if success did decrease in y, this is where it would show first.
        """
        last = max(self.sources(row), default=None) if row == 0 else None
        return [] if last is None or (row, last) in self.trials else [last]

    def rates(self, row: int) -> dict[int, float]:
        """Return the success rates of a row by column; a carried one is the larger row's, which bounds it."""
        own = {place[1]: place for place in self.trials if place[0] == row}
        counts = {column: self.counts(place) for column, place in {**self.sources(row), **own}.items()}
        return {column: solved / trials for column, (solved, trials) in counts.items() if trials}


class _Trainer:
    """Trains the trials that a search asks for, and tells how far they are."""

    def __init__(
        self, cells: Sequence[Trial], columns: int, workers: int | None, engine: str, watch: Watch | None
    ) -> None:
        self.cells, self.columns = cells, columns
        self.workers, self.engine, self.watch = workers, engine, watch
        self.before: Progress | None = None
        self.seen: set[Place] = set()

    def parts(self, trained: Mapping[Place, Sequence[Any]]) -> tuple[tuple[Trial, range], ...]:
        """Return cells with as many seeds as they have trials, as the parts of a sweep."""
        return tuple((self._cell(place), range(len(trained[place]))) for place in sorted(trained))

    def ask(self, store: Store, asked: Mapping[Place, range]) -> dict[Place, list[Answer]]:
        """Train seeds of cells, as far as the store lacks them."""
        sweep = Sweep(tuple((self._cell(place), seeds) for place, seeds in asked.items()))
        ended = len(self.seen - asked.keys())
        self.seen |= asked.keys()
        last: list[Progress] = []

        def watch(progress: Progress) -> None:
            known: dict[str, Any] = {"cells": len(self.seen), "cells_done": ended + progress.cells_done}
            last[:] = [replace(added(self.before, progress), **known)]
            if self.watch:
                self.watch(last[0])

        failed = complete(sweep, store, workers=self.workers, engine=self.engine, watch=watch, name="trace")
        if self.before is None:  # what fails later is counted in the contour's table
            report(store, sweep, failed)
        self.before = last[0]
        results = store.by_cell(sweep, ("state", "solved_at", "steps"))
        return {
            place: [
                (bool(solved) if finished else None, int(steps))
                for finished, solved, steps in zip(
                    table["state"].isin(FINISHED), table["solved_at"].notna(), table["steps"], strict=True
                )
            ]
            for place, (_, table) in zip(asked, results, strict=True)
        }

    def _cell(self, place: Place) -> Trial:
        return self.cells[place[0] * self.columns + place[1]]


ADDED = ("cells", "cells_done", "trials", "done", "this_run", "elapsed", *FINISHED, "failed", "interrupted")
"""What of the progress of several runs adds up."""


def added(before: Progress | None, progress: Progress) -> Progress:
    """Return the progress of a run together with what was done before; how much is to come is not known."""
    earlier = {name: 0 if before is None else getattr(before, name) for name in ADDED}
    return replace(progress, seconds_left=None, **{name: getattr(progress, name) + earlier[name] for name in ADDED})


def _values(path: str, given: Sequence[Any] | None, name: str) -> tuple[Any, ...]:
    if given is None:
        if path not in VALUES:
            raise SweepError(
                f"{name} must be given where {name[0]} is neither {' nor '.join(VALUES)}: {name[0]}={path!r}"
            )
        return VALUES[path]
    values = tuple(value.item() if isinstance(value, np.generic) else value for value in given)
    if not values:
        raise SweepError(f"{name} must have at least one value: {name}=[]")
    return values


def _check_increasing(name: str, values: Sequence[Any]) -> None:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    if not numbers or any(not first < second for first, second in pairwise(values)):
        raise SweepError(f"{name} must be increasing numbers: {name}={shown(list(values))}")


def _test(level: float, confidence: float, seeds: int) -> SequentialTest:
    try:
        return SequentialTest(level, confidence, seeds)
    except ValueError as error:
        raise SweepError(str(error)) from None


def _longest(trial: Trial) -> int:
    if trial.training is None:
        raise SweepError(f"a traced trial must have a training, whose steps are saved: model={trial.model.label()}")
    return trial.training.steps


def _check_amounts(gap: int, budget: int | None, test: SequentialTest, steps: int) -> None:
    if gap < 1:
        raise SweepError(f"gap must be at least 1: gap={gap}")
    least = steps * test.wait(0, 0)
    if budget is not None and budget < least:
        raise SweepError(
            f"budget must be at least the steps of one cell's first trials ({test.wait(0, 0)} trials of {steps} steps, "
            f"{least}): budget={budget}"
        )


def _crossings(search: FrontierSearch, y: str, ys: Sequence[Any], xs: Sequence[float]) -> pd.DataFrame:
    rows = [found for row, value in enumerate(ys) for found in _row_crossings(search, row, {y: value}, xs)]
    return pd.DataFrame(rows, columns=[y, "direction", "low", "crossing", "high"])


def _row_crossings(
    search: FrontierSearch, row: int, label: dict[str, Any], xs: Sequence[float]
) -> Iterator[dict[str, Any]]:
    known = search.known(row)
    if not known:
        yield {**label, "direction": "gained", "low": np.nan, "crossing": np.nan, "high": np.nan}
        return
    rates = search.rates(row)
    for segment in segments(known):
        yield {
            **label,
            "direction": segment.direction,
            "low": np.nan if segment.left is None else float(xs[segment.left]),
            "crossing": crossing_within(segment, xs, rates, search.test.level),
            "high": np.nan if segment.right is None else float(xs[segment.right]),
        }


def _examined(search: FrontierSearch, paths: tuple[str, str], ys: Sequence[Any], xs: Sequence[float]) -> pd.DataFrame:
    rows = []
    for place in sorted(search.trials):
        solved, trials = search.counts(place)
        answers = search.trials[place]
        low, high = wilson(solved, trials, search.test.confidence)
        rows.append(
            {
                paths[0]: ys[place[0]],
                paths[1]: xs[place[1]],
                "trials": trials,
                "solved": solved,
                "rate": solved / trials if trials else np.nan,
                "low": low,
                "high": high,
                "verdict": search.test.verdict(solved, trials),
                "steps": sum(steps for _, steps in answers),
                "failed": len(answers) - trials,
            }
        )
    names = [*paths, "trials", "solved", "rate", "low", "high", "verdict", "steps", "failed"]
    return pd.DataFrame(rows, columns=names)
