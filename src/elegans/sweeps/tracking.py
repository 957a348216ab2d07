"""Sweeps in an experiment tracker."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from elegans.errors import SweepError, shown
from elegans.store.store import Store
from elegans.sweeps.sweep import Sweep

Track = Literal["wandb"]
CURVES = 200
"""Maximum number of cells whose curves are sent, one trial each."""


class Tracker:
    """A run of Weights & Biases: the one that is active in this process, or a new one in the project ``elegans``.

    Variables such as ``WANDB_MODE=offline`` and ``WANDB_PROJECT`` apply as everywhere.
    """

    def __init__(self, name: str | None, sweep: Sweep) -> None:
        try:
            import wandb
        except ImportError:
            raise SweepError("track='wandb' needs wandb: pip install 'elegans[wandb]'") from None
        self.wandb, self.is_new = wandb, wandb.run is None
        self.run = wandb.run or wandb.init(name=name, project=os.environ.get("WANDB_PROJECT", "elegans"))
        first = sweep.cells[0].model_dump(mode="json")
        facts = {"version": version("elegans"), "cells": len(sweep.cells), "trials": len(sweep), "first cell": first}
        self.run.config.update({"elegans": facts}, allow_val_change=True)

    def record(self, store: Store, sweep: Sweep) -> None:
        """Send the table of cells, the curves of one trial per cell, and how many trials ended in which state."""
        cells = store.cells_table(sweep)
        values = [[_plain(value) for value in row] for row in cells.astype(object).to_numpy()]
        self.run.log({"cells": self.wandb.Table(columns=[*cells], data=values)})
        rows = []
        for number, (template, seeds) in enumerate(sweep.parts[:CURVES]):
            trial = template.with_seed(seeds[0])
            curve = store.outcome(trial).curve
            points = zip(curve.step, curve.loss, curve.error, strict=True)
            rows += [[f"cell {number}", trial.seed, *point] for point in points]
        table = self.wandb.Table(columns=["cell", "seed", "step", "loss", "error"], data=rows)
        charts = {
            name: self.wandb.plot.line(table, "step", name, stroke="cell", title=f"minibatch {name}")
            for name in ("loss", "error")
        }
        self.run.log({"curves": table, **charts})
        ended = store.totals(sweep).groupby("state")["trials"].sum()
        self.run.summary.update({f"trials {state}": int(count) for state, count in ended.items()})

    def show(self, figure: Path, summary: Mapping[str, Any]) -> None:
        """Send an experiment's figure, if it has one, and facts for the summary."""
        if figure.exists():
            self.run.log({"figure": self.wandb.Image(str(figure))})
        self.run.summary.update(summary)


@contextmanager
def tracking(track: Track | None, name: str | None, sweep: Sweep) -> Iterator[Tracker | None]:
    """Yield a tracker, or None where nothing is tracked; a run that it began ends with the block.

    Args:
        track: ``wandb``, or None.
        name: the name of the run.
        sweep: the sweep that will be trained.

    Raises:
        SweepError: there is no such tracker, or it is not installed.
    """
    if track not in (None, "wandb"):
        raise SweepError(f"track must be wandb or None: track={shown(track)}")
    if track is None:
        yield None
        return
    tracker, code = Tracker(name, sweep), 1
    try:
        yield tracker
        code = 0
    finally:
        if tracker.is_new:
            tracker.run.finish(exit_code=code)


def _plain(value: Any) -> Any:
    """Return a value of a table as a tracker takes it: numbers and texts as they are, None for missing values."""
    if not isinstance(value, int | float | str):
        value = value.item() if hasattr(value, "item") else None if value is None or value is pd.NA else str(value)
    return None if value != value else value  # NaN
