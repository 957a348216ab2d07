"""Estimates of what a run costs on this machine: its trials, steps and time, from measured costs per step."""

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial import KDTree

from elegans.analysis.frontier_search import FrontierSearch
from elegans.analysis.sequential import SequentialTest
from elegans.errors import ExperimentError
from elegans.experiments.adaptive import LEVEL, panels_of
from elegans.experiments.base import Experiment
from elegans.experiments.registry import find
from elegans.experiments.simulation import simulate
from elegans.machine import cores
from elegans.probes import Probe
from elegans.sweeps import Sweep
from elegans.training import Trial
from elegans.training.cost import INTERVAL, Cost, cost_of
from elegans.training.engines import choose
from elegans.training.trial_set import Seeds

BUDGET = 25.0
"""Seconds for measuring all shapes."""
MOST_CORES = 2**16
"""Maximum number of cores for which a run is planned."""
SOLVED_SHARE = 0.25
"""The share of its steps that a solved trial of a traced frontier is assumed to take."""
LONGEST = 4.0
"""Maximum number of seconds for measuring one shape, where there are few."""
FREE = ("learning_rate", "weight_decay", "momentum", "steps", "support", "noise", "penalty", "seed", "restart")
"""Endings of the names of parameters that hardly affect the cost of a step."""

Shape = tuple[tuple[str, Any], ...]
"""The parameters of a cell that determine the cost of a step, by path."""


@dataclass(frozen=True)
class RunPlan:
    """The estimated cost of a run.

    Args:
        experiment: the experiment's name.
        scale: its scale.
        cells: how many cells there are.
        trials: how many trials there are, not counting those that follow from others.
        steps: how many training steps they take at most; a trial that ends when it is solved takes fewer.
        shapes: how many different shapes the cells have: trials of one shape cost the same.
        measured: how many of the shapes were measured; the others are taken to cost as much as the nearest one.
        seconds: how long the run takes: at most, or for a traced frontier if it is as assumed.
        workers: how many cores train: threads, or beyond this machine's cores the workers of a cluster.
        efficiency: the share of a cluster's time that is spent on training; None for threads of this machine.
        writer: the share of a cluster's time during which the process that claims and records is busy; or None.
        follow: whether more trials follow from the outcomes of these.
        traced: whether the numbers are those of a traced frontier, simulated with a frontier through the grid's middle
            and with solved trials that take a quarter of their steps.
    """

    experiment: str
    scale: str
    cells: int
    trials: int
    steps: int
    shapes: int
    measured: int
    seconds: float
    workers: int
    efficiency: float | None
    writer: float | None
    follow: bool
    traced: bool


def plan(
    name: str,
    scale: str,
    *,
    seeds: int | None = None,
    adaptive: bool = False,
    workers: int | None = None,
    options: Mapping[str, Any] = {},
    budget: float = BUDGET,
) -> RunPlan:
    """Estimate what a run of an experiment costs on this machine, from short trainings of each shape of its cells.

    Args:
        name: as in ``run_experiment``, like all but the last.
        scale: of the run.
        seeds: per cell.
        adaptive: whether the frontier is traced.
        workers: how many cores train; if they are more than this machine has, those of a cluster with equal ones.
        options: of the experiment.
        budget: the seconds that measuring may take; a shape whose single steps are slow may exceed them.

    Raises:
        ExperimentError: the experiment, the scale or an option is unknown, or ``seeds`` or ``workers`` is below 1.
        EngineError: no engine takes the trials.
    """
    experiment = find(name).having(options)
    chosen = experiment.scale(scale)
    for what, value in (("seeds", seeds), ("workers", workers)):
        if value is not None and value < 1:
            raise ExperimentError(f"{what} must be at least 1: {what}={value}")
    if workers is not None and workers > MOST_CORES:
        raise ExperimentError(f"workers must be at most {MOST_CORES}: workers={workers}")
    count = seeds or chosen.trials
    grid = chosen.sweep(count)
    sweep = _traced(experiment, grid, count) if adaptive else grid
    shapes = [_shape(cell, _probes(experiment, cell)) for cell in sweep.cells]
    costs = _measured(experiment, sweep, shapes, budget)
    nearest = zip(sweep.cells, _nearest(shapes, list(costs)), strict=True)
    known = {cell.cell: costs[shape].of(cell, _probes(experiment, cell)) for cell, shape in nearest}
    used = workers or cores()
    asked = list(_panels(experiment, grid, count, known) if adaptive else _whole(sweep, known))
    if used > cores():
        found = simulate(asked, used)
        seconds, efficiency, writer = found.seconds, found.efficiency, found.writer
    else:
        work = math.fsum(seconds for search in asked for together in search for seconds in together)
        seconds, efficiency, writer = work / max(1, min(used, _batches(sweep))), None, None
    return RunPlan(
        experiment=name,
        scale=scale,
        cells=len(sweep.cells),
        trials=len(sweep),
        steps=sum(len(given) * cell.steps for cell, given in sweep.parts),
        shapes=len(set(shapes)),
        measured=len(costs),
        seconds=seconds,
        workers=used,
        efficiency=efficiency,
        writer=writer,
        follow=experiment.further is not None,
        traced=adaptive,
    )


def _batches(sweep: Sweep) -> int:
    """Return the number of batches of trials that train side by side, which is how many workers can be busy."""
    trials: Counter[tuple[int, str]] = Counter()
    for cell, seeds in sweep.parts:
        engine = choose(cell)
        trials[engine.together(cell), engine.signature(cell) if engine.side_by_side > 1 else ""] += len(seeds)
    return sum(math.ceil(count / together) for (together, _), count in trials.items())


def _probes(experiment: Experiment, cell: Trial) -> tuple[Probe, ...]:
    return tuple(experiment.probes(cell)) if experiment.probes else ()


def _shape(cell: Trial, probes: Sequence[Probe]) -> Shape:
    """Return what the costs of a cell depend on.

    These are its probes, its parameters other than ``FREE``, and the order of magnitude of its sample.
    """
    kept = {path: value for path, value in cell.columns().items() if not path.endswith(FREE) and ".init" not in path}
    kept["regime"] = cell.regime.kind
    if "regime.size" in kept:
        kept["regime.size"] = 10 ** round(math.log10(kept["regime.size"]))
    rest = ((path, value if isinstance(value, int | float) else str(value)) for path, value in kept.items())
    return (_taken(probes), *sorted(rest))


def _taken(probes: Sequence[Probe]) -> tuple[str, str]:
    return "probes", " ".join(probe.kind for probe in probes)


def _nearest(shapes: Sequence[Shape], known: Sequence[Shape]) -> list[Shape]:
    """Return for each shape the measured one with the same probes and the fewest and smallest differences.

    Differences of numbers are taken on a logarithmic scale.
    """
    nearest: dict[Shape, Shape] = {}
    for probes in {shape[0] for shape in shapes}:
        own, others = ([shape for shape in some if shape[0] == probes] for some in (shapes, known))
        nearest |= dict(zip(own, _nearest_of(own, others), strict=True))
    return [nearest[shape] for shape in shapes]


def _nearest_of(shapes: Sequence[Shape], known: Sequence[Shape]) -> list[Shape]:
    table = pd.DataFrame([dict(shape) for shape in [*shapes, *known]])
    columns = [
        np.log(values.to_numpy(float) + 1e-9)
        if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
        else 3.0 * pd.factorize(values)[0]
        for _, values in table.items()
        if values.astype(str).nunique() > 1
    ]
    if not columns:
        return [known[0]] * len(shapes)
    places = np.nan_to_num(np.stack(columns, axis=1), nan=-20.0)
    tree = KDTree(places[len(shapes) :])
    return [known[place] for place in tree.query(places[: len(shapes)], p=1)[1]]


def _measured(experiment: Experiment, sweep: Sweep, shapes: Sequence[Shape], budget: float) -> dict[Shape, Cost]:
    """Return the costs of as many shapes as the budget allows, spread evenly over the sweep.

    At least one shape is measured with each set of probes.
    """
    cells: dict[Shape, tuple[Trial, Seeds]] = {}
    for shape, part in zip(shapes, sweep.parts, strict=True):
        cells.setdefault(shape, part)
    parts = list(cells.items())
    order = sorted(range(len(parts)), key=lambda place: int(f"{place:032b}"[::-1], 2))  # every prefix is spread evenly
    found: dict[Shape, Cost] = {}
    deadline = time.perf_counter() + budget
    for place in order:
        shape, (cell, seeds) = parts[place]
        if time.perf_counter() >= deadline and shape[0] in {known[0] for known in found}:
            continue
        share = min(LONGEST, max(budget / len(parts), INTERVAL))
        found[shape] = cost_of(cell, seeds, _probes(experiment, cell), share)
    return found


def _traced(experiment: Experiment, sweep: Sweep, count: int) -> Sweep:
    """Return the trials of a traced frontier that runs through the middle of each panel's grid.

    Wider networks succeed with smaller samples: one sample size for each width.
    """
    asked: dict[str, tuple[Trial, int]] = {}
    for panel in _searches(experiment, sweep, count):
        for cell, seeds, _ in (each for together in panel for each in together):
            asked[cell.cell] = cell, asked.get(cell.cell, (cell, 0))[1] + seeds
    return Sweep(tuple((cell, range(seeds)) for cell, seeds in asked.values()))


def _searches(experiment: Experiment, sweep: Sweep, count: int) -> Iterator[Iterator[list[tuple[Trial, int, bool]]]]:
    """Yield for each panel what its trace asks for at once: cells, numbers of trials, and whether they are solved."""
    panels, sizes, widths = panels_of(experiment, sweep)
    test = SequentialTest(level=LEVEL, maximum=count)
    middle = (len(sizes) + len(widths)) // 2

    def asked(panel: Trial) -> Iterator[list[tuple[Trial, int, bool]]]:
        search = FrontierSearch(len(widths), len(sizes), test, 4, True, panel.steps, None)
        while rows := search.wanted():
            wanted = {place: len(seeds) for each in rows for place, seeds in each.items()}
            for (row, column), trials in wanted.items():
                answer = (True, int(panel.steps * SOLVED_SHARE)) if row + column >= middle else (False, panel.steps)
                search.trials.setdefault((row, column), []).extend([answer] * trials)
            yield [
                (_placed(panel, sizes[column], widths[row]), trials, row + column >= middle)
                for (row, column), trials in wanted.items()
            ]

    return map(asked, panels)


def _panels(
    experiment: Experiment, sweep: Sweep, count: int, known: Mapping[str, float]
) -> Iterator[Iterator[list[float]]]:
    """Yield for each panel of a traced frontier the seconds of the trials that are asked for at once."""
    for panel in _searches(experiment, sweep, count):
        yield (
            [
                known[cell.cell] * (SOLVED_SHARE if solved else 1.0)
                for cell, trials, solved in together
                for _ in range(trials)
            ]
            for together in panel
        )


def _whole(sweep: Sweep, known: Mapping[str, float]) -> Iterator[Iterator[list[float]]]:
    """Yield the seconds of all trials of a grid, which are asked for at once."""
    yield iter([[known[cell.cell] for cell, seeds in sweep.parts for _ in seeds]])


def _placed(panel: Trial, size: int, width: int) -> Trial:
    return panel.replace("regime.size", size).replace("model.width", width)
