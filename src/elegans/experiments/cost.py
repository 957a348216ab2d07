"""Estimates of what a run costs on this machine: its trials, steps and time, from measured costs per step."""

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial import KDTree

from elegans.analysis.frontier_search import FrontierSearch
from elegans.analysis.sequential import SequentialTest
from elegans.display import displayed
from elegans.errors import ExperimentError
from elegans.experiments.adaptive import LEVEL, panels_of
from elegans.experiments.base import Experiment
from elegans.experiments.evidence import collected
from elegans.experiments.registry import find
from elegans.experiments.simulation import simulate
from elegans.machine import cores
from elegans.probes import Probe
from elegans.sweeps import Sweep
from elegans.training import Trial
from elegans.training.cost import INTERVAL, Cost, cost_of
from elegans.training.engines import choose

BUDGET = 25.0
"""Seconds for measuring all shapes."""
MOST_CORES = 2**16
"""Maximum number of cores for which a run is planned."""
SOLVED_SHARE = 0.25
"""The share of its steps that a solved trial of a traced frontier is assumed to take."""
LONGEST = 4.0
"""Maximum number of seconds for measuring one shape, where there are few."""
FREE = ("learning_rate", "weight_decay", "momentum", "steps", "support", "noise", "penalty", "seed", "restart")
"""Endings of the names of parameters that barely affect the cost of a step."""

Shape = tuple[tuple[str, Any], ...]
"""The parameters of a cell that determine the cost of a step, by path."""
Requests = list[tuple[Trial, int, bool]]
"""Cells whose trials are requested at once: for each its number of trials, and whether they are solved early."""


@displayed
@dataclass(frozen=True)
class RunPlan:
    """The estimated cost of a run.

    Args:
        experiment: the experiment's name.
        scale: its scale.
        cells: the number of cells.
        trials: the number of trials, without trials that follow from others.
        steps: the maximum number of training steps; a trial that ends when it is solved takes fewer.
        shapes: the number of different shapes of cells: trials of one shape cost the same.
        measured: the number of shapes that were measured; the others are taken to cost as much as the nearest shape.
        seconds: the maximum duration, or the duration of a traced frontier if it is as assumed.
        expected: the likely duration: ``seconds`` times the share of its own maximum that the committed run took, since
            trials end when they are solved. That run is at the same scale or, if there is none, the one with the most
            trials; None without a committed run.
        workers: how many cores train: threads, or beyond this machine's cores the workers of a cluster.
        efficiency: the share of a cluster's time that is spent on training; None for threads of this machine.
        writer: the share of a cluster's time during which the process that claims and records is busy; or None.
        follow: whether more trials follow from the outcomes of these.
        traced: whether a traced frontier was simulated, which runs through the grid's middle and whose solved trials
            take a quarter of their steps.
    """

    experiment: str
    scale: str
    cells: int
    trials: int
    steps: int
    shapes: int
    measured: int
    seconds: float
    expected: float | None
    workers: int
    efficiency: float | None
    writer: float | None
    follow: bool
    traced: bool


def plan(
    experiment: str | Path | Experiment,
    scale: str | None = None,
    *,
    seeds: int | None = None,
    adaptive: bool = False,
    workers: int | None = None,
    options: Mapping[str, Any] = {},
    budget: float = BUDGET,
) -> RunPlan:
    """Estimate what a run of an experiment costs on this machine, from short trainings of each shape of its cells.

    Args:
        experiment: as in ``run_experiment``.
        scale: as in ``run_experiment``.
        seeds: as in ``run_experiment``.
        adaptive: as in ``run_experiment``.
        workers: the number of cores; more than this machine has means a cluster with equal cores.
        options: as in ``run_experiment``.
        budget: the seconds that measuring may take; a shape whose single steps are slow may exceed them.

    Raises:
        ExperimentError: the experiment, the scale or an option is unknown, or ``seeds`` or ``workers`` is below 1.
        EngineError: no engine takes the trials.
    """
    experiment = find(experiment).with_options(options)
    scale = experiment.scale_name(scale)
    size = experiment.scale(scale)
    for argument, value in (("seeds", seeds), ("workers", workers)):
        if value is not None and value < 1:
            raise ExperimentError(f"{argument} must be at least 1: {argument}={value}")
    workers = cores() if workers is None else workers
    if workers > MOST_CORES:
        raise ExperimentError(f"workers must be at most {MOST_CORES}: workers={workers}")
    count = seeds or size.trials
    sweep = size.cells(count)
    searches = [[[(cell, len(part_seeds), False) for cell, part_seeds in sweep.parts]]]
    if adaptive:
        searches = _trace(experiment, sweep, count)
        requests = [request for search in searches for requests in search for request in requests]
        cells, trials = {cell.cell: cell for cell, _, _ in requests}, Counter[str]()
        for cell, number, _ in requests:
            trials[cell.cell] += number
        sweep = Sweep(tuple((cell, range(trials[identity])) for identity, cell in cells.items()))
    seconds_of, shapes, measured = _seconds_by_cell(experiment, sweep, budget, workers)

    def durations(requests: Requests) -> list[float]:
        repeated = ((cell, solved) for cell, number, solved in requests for _ in range(number))
        return [seconds_of[cell.cell] * (SOLVED_SHARE if solved else 1.0) for cell, solved in repeated]

    work = [list(map(durations, search)) for search in searches]
    if workers > cores():
        simulated = simulate(map(iter, work), workers)
        seconds, efficiency, writer = simulated.seconds, simulated.efficiency, simulated.writer
    else:
        total = math.fsum(trial_seconds for search in work for batch in search for trial_seconds in batch)
        seconds, efficiency, writer = total / max(1, min(workers, _batches(sweep))), None, None
    share = None if adaptive or options or not len(sweep) else _share_needed(experiment, scale, budget, workers)
    return RunPlan(
        experiment=experiment.name,
        scale=scale,
        cells=len(sweep.cells),
        trials=len(sweep),
        steps=sum(len(part_seeds) * cell.steps for cell, part_seeds in sweep.parts),
        shapes=shapes,
        measured=measured,
        seconds=seconds,
        expected=None if share is None else share * seconds,
        workers=workers,
        efficiency=efficiency,
        writer=writer,
        follow=experiment.further is not None,
        traced=adaptive,
    )


def _seconds_by_cell(
    experiment: Experiment, sweep: Sweep, budget: float, workers: int
) -> tuple[dict[str, float], int, int]:
    """Return what a trial of each cell takes at most, and how many shapes the cells have and were measured."""
    probes = list(map(experiment.probes_of, sweep.cells))
    shapes = list(map(_shape, sweep.cells, probes))
    costs = _measure(sweep, shapes, probes, budget, min(workers, cores()))
    nearest = zip(sweep.cells, probes, _nearest(shapes, list(costs)), strict=True)
    seconds = {cell.cell: costs[shape].of(cell, cell_probes) for cell, cell_probes, shape in nearest}
    return seconds, len(set(shapes)), len(costs)


def _share_needed(experiment: Experiment, scale: str, budget: float, workers: int) -> float | None:
    """Return the share of its maximum that the training took of the run whose evidence is kept.

    We take the run at the same scale, or else the run with the most trials. Its maximum is measured on this machine.
    """
    kept = [
        piece.content["record"]
        for piece in sorted(collected(), key=lambda piece: piece.scale != scale)
        if piece.experiment == experiment.name and not piece.content["options"] and piece.scale in experiment.scales
    ]
    runs = [record for record in kept if record.get("trials") and not record.get("arguments", {}).get("adaptive")]
    if not runs:
        return None
    record = runs[0] if runs[0]["scale"] == scale else max(runs, key=lambda record: int(record["trials"]))
    size = experiment.scale(record["scale"])
    sweep = size.cells(record.get("arguments", {}).get("seeds") or size.trials)
    seconds, _, _ = _seconds_by_cell(experiment, sweep, budget, workers)
    most = math.fsum(len(seeds) * seconds[cell.cell] for cell, seeds in sweep.parts)
    return min(1.0, float(record["training_seconds"]) / most) if most else None


def _batches(sweep: Sweep) -> int:
    """Return the number of batches of trials that train side by side, which is how many workers can be busy."""
    trials: Counter[tuple[int, str]] = Counter()
    for cell, seeds in sweep.parts:
        engine = choose(cell)
        trials[engine.together(cell), engine.signature(cell) if engine.side_by_side > 1 else ""] += len(seeds)
    return sum(math.ceil(count / together) for (together, _), count in trials.items())


def _shape(cell: Trial, probes: Sequence[Probe]) -> Shape:
    """Return what the costs of a cell depend on.

    These are its probes, its parameters other than ``FREE``, and the order of magnitude of its sample.
    """
    columns = {path: value for path, value in cell.columns().items() if not path.endswith(FREE) and ".init" not in path}
    columns["regime"] = cell.regime.kind
    if "regime.size" in columns:
        columns["regime.size"] = 10 ** round(math.log10(columns["regime.size"]))
    parameters = ((path, value if isinstance(value, int | float) else str(value)) for path, value in columns.items())
    return (("probes", " ".join(probe.kind for probe in probes)), *sorted(parameters))


def _nearest(shapes: Sequence[Shape], measured: Sequence[Shape]) -> list[Shape]:
    """Return for each shape the measured shape with the same probes and the fewest and smallest differences.

    Differences of numbers are taken on a logarithmic scale.
    """
    nearest: dict[Shape, Shape] = {}
    for probes in {shape[0] for shape in shapes}:
        alike = [shape for shape in shapes if shape[0] == probes]
        nearest |= zip(alike, _nearest_of(alike, [shape for shape in measured if shape[0] == probes]), strict=True)
    return [nearest[shape] for shape in shapes]


def _nearest_of(shapes: Sequence[Shape], measured: Sequence[Shape]) -> list[Shape]:
    table = pd.DataFrame([dict(shape) for shape in [*shapes, *measured]])
    columns = [
        np.log(np.abs(values.to_numpy(float)) + 1e-9)
        if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
        else 3.0 * pd.factorize(values)[0]
        for _, values in table.items()
        if values.astype(str).nunique() > 1
    ]
    if not columns:
        return [measured[0]] * len(shapes)
    points = np.nan_to_num(np.stack(columns, axis=1), nan=-20.0)
    tree = KDTree(points[len(shapes) :])
    return [measured[index] for index in tree.query(points[: len(shapes)], p=1)[1]]


def _measure(
    sweep: Sweep, shapes: Sequence[Shape], probes: Sequence[Sequence[Probe]], budget: float, workers: int
) -> dict[Shape, Cost]:
    """Return the costs of as many shapes as the budget allows, spread evenly over the sweep.

    At least one shape is measured with each set of probes.
    """
    first: dict[Shape, int] = {}
    for part, shape in enumerate(shapes):
        first.setdefault(shape, part)
    distinct = list(first)
    order = sorted(range(len(distinct)), key=lambda number: int(f"{number:032b}"[::-1], 2))  # every prefix is spread
    costs: dict[Shape, Cost] = {}
    deadline = time.perf_counter() + budget
    for shape in (distinct[number] for number in order):
        if time.perf_counter() < deadline or shape[0] not in {measured[0] for measured in costs}:
            cell, seeds = sweep.parts[first[shape]]
            share = min(LONGEST, max(budget / len(distinct), INTERVAL))
            costs[shape] = cost_of(cell, seeds, probes[first[shape]], share, workers)
    return costs


def _trace(experiment: Experiment, sweep: Sweep, count: int) -> list[list[Requests]]:
    """Return for each panel the successive requests of a traced frontier through the middle of its grid.

    Wider networks succeed with smaller samples: one sample size for each width.
    """
    panels, sizes, widths = panels_of(experiment, sweep)
    test = SequentialTest(level=LEVEL, maximum=count)
    middle = (len(sizes) + len(widths)) // 2
    searches: list[list[Requests]] = []
    for panel in panels:
        search = FrontierSearch(len(widths), len(sizes), test, 4, True, panel.steps, None)
        searches.append([])
        while rows := search.wanted():
            requests: Requests = []
            for (row, column), seeds in chain.from_iterable(row_seeds.items() for row_seeds in rows):
                solved = row + column >= middle
                answer = (solved, int(panel.steps * SOLVED_SHARE) if solved else panel.steps)
                search.trials.setdefault((row, column), []).extend([answer] * len(seeds))
                cell = panel.replace("regime.size", sizes[column]).replace("model.width", widths[row])
                requests.append((cell, len(seeds), solved))
            searches[-1].append(requests)
    return searches
