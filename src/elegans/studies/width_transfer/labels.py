"""Tables whose rows name the setting of their trial."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from elegans.experiments import Results
from elegans.training import Trial

Cells = Iterable[tuple[dict[str, Any], Trial]]
"""What names each cell in the tables, and its trial."""


def labelled(results: Results, cells: Cells, rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of an experiment's measures with the names of their cells in front, instead of ``trial``.

    Args:
        results: the trials.
        cells: the cells of their scale.
        rows: a table of measures; its column ``trial`` is the number of a trial.
    """
    names = {one.cell: label for label, one in cells}
    labels = [names[template.cell] for template, _ in results.recorded.parts]
    numbers = np.searchsorted(results.recorded.first, rows["trial"], side="right") - 1
    described = pd.DataFrame([labels[number] for number in numbers], index=rows.index)
    return pd.concat([described, rows.drop(columns="trial")], axis=1).reset_index(drop=True)
