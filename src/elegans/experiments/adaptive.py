"""Adaptive tracing of an experiment's frontier: only the cells that decide where success begins are trained."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from elegans.analysis import cells
from elegans.errors import ExperimentError
from elegans.experiments.base import Experiment
from elegans.experiments.results import Results, StoredResults, Tables
from elegans.plots import figure_of, traced_frontier
from elegans.sweeps import Contour, Progress, Store, Sweep, trace_frontier
from elegans.sweeps.trace import added
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
            own contour. Online cells are left out: they have no place on the axis of sample sizes.
        count: the largest number of trials per cell.
        store: where outcomes are kept; the trials are those of the full grid.
        settings: ``workers``, ``scheduler``, ``engine`` and ``watch``, as in ``elegans.run``.

    Returns:
        The experiment with the traced figure and its findings (``steps`` used, and the crossings of each panel), and
        the results of the trained sweep.

    Raises:
        ExperimentError: the experiment's sweep is not a grid of sample sizes and widths.
        SweepError: the count is too small for a verdict on any cell.
    """
    panels, sizes, widths = panels_of(experiment, sweep)
    given = {name: settings[name] for name in ("workers", "scheduler", "engine")}
    contours: list[Contour] = []
    before: Progress | None = None
    for panel in panels:
        view = _Sum(settings["watch"], before)
        contours.append(
            trace_frontier(panel, xs=sizes, ys=widths, level=LEVEL, seeds=count, store=store, watch=view, **given)
        )
        before = view.last
    trained = Sweep(tuple(part for contour in contours for part in contour.sweep.parts))
    traced = replace(experiment, analyse=_cells, plot=partial(_plot, contours), findings=partial(_findings, contours))
    return traced, StoredResults(store, trained)


def _cells(results: Results) -> Tables:
    return {"table": cells(results.trials)}


class _Sum:
    """Reports the progress of one trace, added to that of earlier ones."""

    def __init__(self, watch: Callable[[Progress], None] | None, before: Progress | None) -> None:
        self.watch, self.before, self.last = watch, before, before

    def __call__(self, progress: Progress) -> None:
        self.last = added(self.before, progress)
        if self.watch:
            self.watch(self.last)


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


def _plot(contours: Sequence[Contour], tables: Tables) -> Figure:
    return figure_of(traced_frontier(contours))


def _findings(contours: Sequence[Contour], tables: Tables) -> dict[str, Any]:
    test = contours[0].test
    return {
        "steps": sum(contour.steps for contour in contours),
        "level": LEVEL,
        "largest_error_of_a_verdict": max(test.error),
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
