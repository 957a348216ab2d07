"""Adaptive tracing of an experiment's frontier: only the cells that decide where success begins are trained."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial, reduce
from typing import Any

from elegans.analysis import summarise_cells
from elegans.errors import ExperimentError
from elegans.experiments.base import Experiment
from elegans.experiments.results import Results, StoredResults, one_table
from elegans.plots import figure_of, traced_frontier
from elegans.store import Store
from elegans.sweeps import Contour, Progress, Sweep, trace_frontier
from elegans.sweeps.frontier import added
from elegans.tasks import Sample
from elegans.training import Trial

LEVEL = 0.5


def trace(
    experiment: Experiment, sweep: Sweep, count: int, store: Store, settings: Mapping[str, Any]
) -> tuple[Experiment, Results]:
    """Trace the success frontier of a sweep over sample sizes and widths, instead of training all of it.

    Args:
        experiment: the experiment that the sweep belongs to.
        sweep: cells that differ in sample size and width; each combination of other differences is a panel with its
            own contour. Online cells are left out, since they have no sample size.
        count: the largest number of trials per cell.
        store: the store of the outcomes; it may hold trials of the full grid already.
        settings: ``workers``, ``scheduler``, ``engine``, ``retrain`` and ``watch``, as in ``elegans.run``.

    Returns:
        The experiment with the traced figure and its findings (``steps`` used, and the crossings of each panel), and
        the results of the trained sweep.

    Raises:
        ExperimentError: the experiment's sweep is not a grid of sample sizes and widths.
        SweepError: the count is too small for a verdict on any cell.
    """
    panels, sizes, widths = panels_of(experiment, sweep)
    arguments = {name: settings[name] for name in ("workers", "scheduler", "engine", "retrain")}
    arguments |= {"xs": sizes, "ys": widths, "level": LEVEL, "seeds": count, "store": store, "progress": False}
    total = _TotalProgress(settings["watch"])

    def contour(number: int) -> Contour:
        return trace_frontier(panels[number], watch=partial(total, number), **arguments)

    contours = _trace_panels(contour, len(panels), settings["scheduler"])
    traced = replace(
        experiment,
        analyse=one_table(summarise_cells),
        plot=lambda tables: figure_of(traced_frontier(contours)),
        findings=lambda tables: _findings(contours),
    )
    return traced, StoredResults(store, Sweep(tuple(part for contour in contours for part in contour.sweep.parts)))


def _trace_panels(contour: Callable[[int], Contour], count: int, scheduler: Any) -> list[Contour]:
    """Return the contours of panels: one after another on this machine, whose cores one keeps busy, else at once."""
    if scheduler is None:
        return [contour(number) for number in range(count)]
    with scheduler.at_once() as stop, ThreadPoolExecutor(count) as threads:
        futures = [threads.submit(contour, number) for number in range(count)]
        for future in wait(futures, return_when=FIRST_EXCEPTION).done:
            if error := future.exception():
                stop.set()
                raise error
        return [future.result() for future in futures]


class _TotalProgress:
    """Reports the progress of several traces as if they were one."""

    def __init__(self, watch: Callable[[Progress], None] | None) -> None:
        self.watch, self.last, self.lock = watch, dict[int, Progress](), threading.Lock()

    def __call__(self, number: int, progress: Progress) -> None:
        with self.lock:
            self.last[number] = progress
            total = reduce(added, self.last.values(), None)
            assert total is not None
            if self.watch:
                rates = [trace.per_second for trace in self.last.values() if trace.done < trace.trials]
                self.watch(replace(total, per_second=sum(rates) if rates else progress.per_second))


def panels_of(experiment: Experiment, sweep: Sweep) -> tuple[list[Trial], list[int], list[int]]:
    """Return a trial of each panel of a grid, at its smallest sample and width, the sample sizes and the widths."""
    offline = [cell for cell in sweep.cells if isinstance(cell.regime, Sample) and hasattr(cell.model, "width")]
    sizes = sorted({cell.regime.size for cell in offline if isinstance(cell.regime, Sample)})
    widths = sorted({int(cell.columns()["model.width"]) for cell in offline})
    if experiment.probes or experiment.further or len(sizes) < 2 or len(widths) < 2:
        raise ExperimentError(
            f"a traced experiment must be a grid of several sample sizes and widths: {experiment.name!r} is not"
        )
    panels = [cell.replace("regime", Sample(sizes[0])).replace("model.width", widths[0]) for cell in offline]
    return list({panel.cell: panel for panel in panels}.values()), sizes, widths


def _findings(contours: Sequence[Contour]) -> dict[str, Any]:
    return {
        "steps": sum(contour.steps for contour in contours),
        "level": LEVEL,
        "largest_error_of_a_verdict": max(contours[0].test.error),
        "contours": [
            {
                "panel": contour.sweep.cells[0].columns()["model.init"],
                "task": {"n": contour.sweep.cells[0].columns().get("task.n")},
                "steps": contour.steps,
                "trials": len(contour.trials),
                "monotone_in_width": contour.monotone,
                "crossings": contour.crossings.astype(object).where(contour.crossings.notna(), None).to_dict("records"),
            }
            for contour in contours
        ],
    }
