"""Estimates of what a run costs on this machine: its trials, steps and time, from measured costs per step."""

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial import KDTree

from elegans.analysis.sequential import SequentialTest
from elegans.errors import ExperimentError
from elegans.experiments.adaptive import LEVEL, panels_of
from elegans.experiments.base import Experiment
from elegans.experiments.registry import find
from elegans.machine import MOST_WORKERS, cores
from elegans.probes import Probe
from elegans.sweeps import Sweep
from elegans.sweeps.sweep import Seeds
from elegans.sweeps.trace import Answer, FrontierSearch, Place
from elegans.training import Trial
from elegans.training.cost import INTERVAL, Cost, cost_of
from elegans.training.engines import choose

BUDGET = 25.0
"""Seconds for measuring all shapes."""
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
        seconds: how long the run takes at most.
        workers: how many threads train.
        follow: whether more trials follow from the outcomes of these.
        traced: whether the numbers are those of a traced frontier, simulated with a frontier through the grid's middle.
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
        workers: how many threads train.
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
    if workers is not None and workers > MOST_WORKERS:
        raise ExperimentError(f"workers must be at most {MOST_WORKERS}: workers={workers}")
    count = seeds or chosen.trials
    sweep = chosen.sweep(count)
    if adaptive:
        sweep = _traced(experiment, sweep, count)
    shapes = [_shape(cell, _probes(experiment, cell)) for cell in sweep.cells]
    costs = _measured(experiment, sweep, shapes, budget)
    used = workers or cores()
    total = sum(
        len(given) * costs[shape].of(cell, _probes(experiment, cell))
        for (cell, given), shape in zip(sweep.parts, _nearest(shapes, list(costs)), strict=True)
    )
    return RunPlan(
        experiment=name,
        scale=scale,
        cells=len(sweep.cells),
        trials=len(sweep),
        steps=sum(len(given) * cell.steps for cell, given in sweep.parts),
        shapes=len(set(shapes)),
        measured=len(costs),
        seconds=total / max(1, min(used, cores(), _batches(sweep))),
        workers=used,
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
    panels, sizes, widths = panels_of(experiment, sweep)
    test = SequentialTest(level=LEVEL, maximum=count)
    parts: list[tuple[Trial, Seeds]] = []
    for panel in panels:
        steps = panel.steps

        def ask(asked: Mapping[Place, range], steps: int = steps) -> dict[Place, list[Answer]]:
            middle = (len(sizes) + len(widths)) // 2
            return {
                (row, column): [(True, steps // 4) if row + column >= middle else (False, steps) for _ in wanted]
                for (row, column), wanted in asked.items()
            }

        search = FrontierSearch(len(widths), len(sizes), test, 4, True, steps, None)
        search.run(ask)
        parts += [
            (_placed(panel, sizes[column], widths[row]), range(len(answers)))
            for (row, column), answers in sorted(search.trials.items())
        ]
    return Sweep(tuple(parts))


def _placed(panel: Trial, size: int, width: int) -> Trial:
    return panel.replace("regime.size", size).replace("model.width", width)
