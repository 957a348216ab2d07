"""Tables whose rows name the setting of their trial."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from elegans.experiments import Results
from elegans.sweeps import Sweep
from elegans.training import Trial

Cells = Iterable[tuple[dict[str, Any], Trial]]
"""What names each cell in the tables, and its trial."""


def sweep_of(cells: Cells, trials: int) -> Sweep:
    """Return a sweep of the cells, each once: at the base width parametrisations are the same trial."""
    return Sweep.of({one.cell: one for _, one in cells}.values(), trials)


def labelled(results: Results, cells: Cells, rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of an experiment's measures with the names of their cells in front, instead of ``trial``.

    Rows of a cell with several names are there several times.

    Args:
        results: the trials.
        cells: the cells of their scale.
        rows: a table of measures; its column ``trial`` is the number of a trial.
    """
    positions = {template.cell: position for position, (template, _) in enumerate(results.recorded.parts)}
    names = [{**label, "position": positions[one.cell]} for label, one in cells if one.cell in positions]
    numbers = np.searchsorted(results.recorded.first, rows["trial"], side="right") - 1
    merged = pd.DataFrame(names).merge(rows.assign(position=numbers), on="position")
    return merged.drop(columns=["position", "trial"])
