"""Tracing a success frontier: the next trials are chosen from the outcomes so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from elegans.analysis.contours import crossing_within, segments
from elegans.analysis.frontier_search import Answer, FrontierSearch, Place
from elegans.analysis.intervals import wilson
from elegans.analysis.sequential import SequentialTest
from elegans.display import displayed
from elegans.errors import SweepError, shown
from elegans.store.store import Store, opened
from elegans.sweeps.dispatcher import Retrain
from elegans.sweeps.progress import OnProgress, Progress, watching
from elegans.sweeps.runner import Scheduler, complete, connected, report
from elegans.sweeps.sweep import Sweep, grid
from elegans.training import Trial
from elegans.training.states import FINISHED

VALUES: dict[str, tuple[int, ...]] = {
    "regime.size": (*(factor * 10**power for power in range(2, 6) for factor in (1, 2, 3, 6)), 10**6),
    "model.width": (10, 30, 100, 300, 1000),
}
"""Default values of an axis."""


@displayed
@dataclass(frozen=True)
class Contour:
    """Where the success rate passes a level, row by row, with the underlying trials.

    Args:
        x, xs: the dotted path along which crossings are sought, and its values.
        y, ys: the dotted path of the rows, and its values.
        level: the success rate of the contour.
        crossings: one row for each crossing of each y value: the value of y; ``direction``, ``gained`` or ``lost`` as x
            grows; ``low`` and ``high``, the examined values of x between which it lies unless a cell's verdict is
            wrong (NaN if it lies before the first value or after the last); ``crossing``, interpolated between the
            cells' rates (linear in log x), NaN if an end is open.
        cells: one row per examined cell: values of y and x; ``trials``, ``solved``, ``rate`` and its Wilson interval
            ``low`` to ``high``, at ``test.confidence``; ``verdict`` (``below``, ``above``, ``undecided``); ``steps``;
            and ``failed`` trials.
        trials: one row per trial, as from ``elegans.run``, which ``elegans.plots.success_frontier`` can draw.
        sweep: the same trials.
        test: the sequential test of each cell, with its exact error rates.
        steps: the training steps of all trials behind the contour, including trials that the store already had.
        monotone: whether evidence was carried from larger to smaller y: if a larger one clearly fails, and succeeds at
            no smaller x, smaller ones are assumed to fail too. False if not requested, or if the examined cells
            contradict it.
        complete: whether the trace finished within the budget.
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
    scheduler: Scheduler = None,
    engine: str = "auto",
    retrain: Retrain = "missing",
    watch: OnProgress | None = None,
    progress: bool | None = None,
) -> Contour:
    """Find where the success rate passes a level, training far fewer trials than the whole grid has.

    Each cell is tested sequentially until its verdict is certain (see ``SequentialTest``). Along x, cells are chosen to
    minimise the expected number of steps until neighbouring verdicts differ: an unsolved cell costs all its steps, so
    the search favours solved ones. Success may be lost again at larger x: every region of one verdict is probed every
    ``gap`` values, and further crossings are followed where they appear. Success that is lost and regained between two
    probes is not detected.

    The next trials depend only on the outcomes so far, and are trials of the full grid: a trace that was cut short
    continues where it stopped, repeating it trains nothing, and outcomes of a grid in the store are used.

    Args:
        trial: the trial that the grid varies; its seed is ignored.
        x: the dotted path along which crossings are sought.
        y: the dotted path of the rows.
        xs: the values of x, increasing; by default, for ``regime.size``, 1, 2, 3, 6, 10, … times 100 up to 10^6.
        ys: the values of y; by default, for ``model.width``, 10, 30, 100, 300 and 1000.
        level: the success rate to trace, between 0 and 1.
        confidence: 1 minus the largest probability that a cell gets either wrong verdict.
        seeds: the largest number of trials per cell, with the seeds from 0.
        gap: how many values apart two examined cells of one verdict may be.
        monotone: whether to assume that success never decreases in y, which must then increase; this saves most cells
            below the contour. By default only for ``model.width``. Abandoned if the examined cells contradict it.
        budget: the largest number of training steps, including steps of trials already in the store; None for no
            limit. Crossings that are still unknown when it is used up are NaN in the contour.
        store: where outcomes are kept, as in ``elegans.run``.
        workers: how many threads train, as in ``elegans.run``.
        scheduler: where other machines train, as in ``elegans.run``.
        engine: an engine's name, or ``auto`` for the first that takes each trial.
        retrain: as in ``elegans.run``.
        watch: called with the progress of all trials requested so far.
        progress: whether to show it, as in ``elegans.run``.

    Raises:
        SweepError: the level is out of range, values do not increase, or the budget is too small for one cell's first
            trials. Other errors come from ``grid`` and ``run``.
    """
    plane = _Plane(x, y, _values(x, xs, "xs"), _values(y, ys, "ys"))
    cells, search = _planned(trial, plane, (level, confidence, seeds), gap, monotone, budget)
    with connected(scheduler, workers) as cluster, opened(store) as store, watching(progress, watch) as on_progress:
        settings = {"workers": workers, "scheduler": cluster, "engine": engine, "retrain": retrain}
        trainer = _Trainer(cells, len(plane.xs), settings, on_progress)
        search.run(partial(trainer.ask, store))
        return _contour(plane, search, level, Sweep(trainer.parts(search.trials)), store)


class _Plane(NamedTuple):
    """The grid of a trace: the dotted paths of its columns and rows, and their values."""

    x: str
    y: str
    xs: tuple[Any, ...]
    ys: tuple[Any, ...]


def _planned(
    trial: Trial, plane: _Plane, tested: tuple[float, float, int], gap: int, monotone: bool | None, budget: int | None
) -> tuple[Sequence[Trial], FrontierSearch]:
    """Return the cells of the grid, row by row, and the search among them; refuse what cannot be searched.

    ``tested`` has the level, the confidence and the number of seeds of each cell's test.
    """
    x, y, across, up = plane
    if monotone is None:
        monotone = y == "model.width"
    for name, values in (("xs", across), *([("ys", up)] if monotone else [])):
        numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        if not numbers or any(not first < second for first, second in pairwise(values)):
            raise SweepError(f"{name} must be increasing numbers: {name}={shown(list(values))}")
    if trial.training is None:
        raise SweepError(f"a traced trial must have a training, whose steps are saved: model={trial.model.label()}")
    try:
        test, steps = SequentialTest(*tested), trial.training.steps
    except ValueError as error:
        raise SweepError(str(error)) from None
    if gap < 1:
        raise SweepError(f"gap must be at least 1: gap={gap}")
    first, least = test.wait(0, 0), steps * test.wait(0, 0)
    if budget is not None and budget < least:
        rule = "budget must be at least the steps of one cell's first trials"
        raise SweepError(f"{rule} ({first} trials of {steps} steps, {least}): budget={budget}")
    cells = grid(trial, {y: up, x: across}).cells
    if len(cells) != len(up) * len(across):
        raise SweepError(f"every value must be given once: {x}={list(across)}, {y}={list(up)}")
    return cells, FrontierSearch(len(up), len(across), test, gap, monotone, steps, budget)


def _contour(plane: _Plane, search: FrontierSearch, level: float, sweep: Sweep, store: Store) -> Contour:
    """Return what a search has found, and the trials of a store that it rests on."""
    x, y, across, up = plane
    return Contour(
        x=x,
        y=y,
        xs=across,
        ys=up,
        level=level,
        crossings=_crossings(search, y, up, across),
        cells=_examined(search, (y, x), up, across),
        trials=store.table(sweep),
        sweep=sweep,
        test=search.test,
        steps=search.steps,
        monotone=search.carries,
        complete=search.complete,
    )


class _Trainer:
    """Trains the trials that a search requests, and reports their progress."""

    def __init__(
        self, cells: Sequence[Trial], columns: int, settings: Mapping[str, Any], watch: OnProgress | None
    ) -> None:
        self.cells, self.columns, self.settings, self.watch = cells, columns, settings, watch
        self.before: Progress | None = None
        self.seen: set[Place] = set()

    def parts(self, trained: Mapping[Place, Sequence[Any]]) -> tuple[tuple[Trial, range], ...]:
        """Return cells, with as many seeds as they have trials, as parts of a sweep."""
        return tuple((self._cell(place), range(len(trained[place]))) for place in sorted(trained))

    def ask(self, store: Store, asked: Mapping[Place, range]) -> dict[Place, list[Answer]]:
        """Train the seeds of cells that the store lacks."""
        sweep = Sweep(tuple((self._cell(place), seeds) for place, seeds in asked.items()))
        ended = len(self.seen - asked.keys())
        self.seen |= asked.keys()
        last: list[Progress] = []

        def watch(progress: Progress) -> None:
            known: dict[str, Any] = {"cells": len(self.seen), "cells_done": ended + progress.cells_done}
            last[:] = [replace(added(self.before, progress), **known)]
            if self.watch:
                self.watch(last[0])

        failed = complete(sweep, store, watch=watch, name="trace", **self.settings)
        if self.before is None:  # later failures are counted in the contour's table
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
"""Fields of the progress that are summed over runs."""


def added(before: Progress | None, progress: Progress) -> Progress:
    """Return the progress of a run added to the progress before it; how much will follow is unknown."""
    earlier = {name: 0 if before is None else getattr(before, name) for name in ADDED}
    total = {name: getattr(progress, name) + earlier[name] for name in ADDED}
    pace = progress.per_second or total["this_run"] / max(total["elapsed"], 1e-3)  # a run that begins has none yet
    return replace(progress, seconds_left=None, per_second=pace, **total)


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


def _crossings(search: FrontierSearch, y: str, ys: Sequence[Any], xs: Sequence[float]) -> pd.DataFrame:
    rows = []
    for row, value in enumerate(ys):
        known, rates = search.known(row), search.rates(row)
        for segment in segments(known):
            low, high = (np.nan if end is None else float(xs[end]) for end in (segment.left, segment.right))
            rows.append((value, segment.direction, low, crossing_within(segment, xs, rates, search.test.level), high))
    return pd.DataFrame(rows, columns=[y, "direction", "low", "crossing", "high"])


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
