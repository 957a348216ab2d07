"""Tests of whether success never falls as something grows, over all pairs of cells, with a familywise error rate."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from elegans.analysis.aggregation import cell_parameters
from elegans.errors import AnalysisError, ExperimentError, shown


def monotonicity(table: pd.DataFrame, over: str = "model.width", alpha: float = 0.05) -> pd.DataFrame:
    """Test in every column of a grid whether success falls anywhere as ``over`` grows.

    For each pair of cells that differ only in ``over``, Fisher's one-sided exact test is applied to the hypothesis that
    the larger cell succeeds at least as often. Holm's step-down adjustment over all pairs of the table bounds the
    probability of any false rejection by ``alpha``, however the tests depend on each other. Few trials may reject
    nothing although success is not monotone.

    Args:
        table: one row per cell, as ``elegans.analysis.summarise_cells`` returns it.
        over: the column along which success should not fall.
        alpha: the familywise error rate, between 0 and 1.

    Returns:
        One row per pair, the strongest evidence first: the parameters in common; ``smaller`` and ``larger`` (values of
        ``over``); ``trials_smaller``, ``solved_smaller``, ``trials_larger``, ``solved_larger``; ``p``,
        ``p_adjusted`` and ``falls`` (whether monotonicity is rejected there).

    Source: Fisher's exact test by the hypergeometric distribution; Holm, "A simple sequentially rejective multiple test
    procedure" (1979).
    """
    from scipy.stats import hypergeom

    if not 0 < alpha < 1:
        raise AnalysisError(f"alpha must lie between 0 and 1: alpha={alpha}")
    for name in (over, "solved", "trials"):
        if name not in table:
            columns = ", ".join(map(str, table)) or "it has no columns"
            raise ExperimentError(f"a test of monotonicity must have a column {shown(name)}: {columns}")
    pairs = _pairs(table[table["trials"] > 0], over)
    solved, trials, others, more = (
        pairs[f"{what}_{which}"].to_numpy(int) for which in ("larger", "smaller") for what in ("solved", "trials")
    )
    pairs["p"] = np.minimum(hypergeom.cdf(solved, trials + more, solved + others, trials), 1) if len(pairs) else []
    pairs["p_adjusted"] = holm(pairs["p"].tolist())
    pairs["falls"] = pairs["p_adjusted"] <= alpha
    return pairs.sort_values("p", kind="stable", ignore_index=True)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted to bound the probability of any false rejection (Holm, 1979).

    Args:
        p_values: one per hypothesis, from 0 to 1; the tests may depend on each other.
    """
    values = np.asarray(p_values, float)
    if not (within := (values >= 0) & (values <= 1)).all():
        raise AnalysisError(f"a p-value must be from 0 to 1: p={values[~within][0]}")
    order = np.argsort(values, kind="stable")
    raised = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    adjusted = np.empty(len(values))
    adjusted[order] = np.minimum(raised, 1)
    return [float(value) for value in adjusted]


def _pairs(table: pd.DataFrame, over: str) -> pd.DataFrame:
    common = [name for name in cell_parameters(table) if name != over]
    groups = table.groupby(common, dropna=False, sort=False) if common else [((), table)]
    rows: list[tuple[Any, ...]] = []
    for values, cells in groups:
        ordered = cells.sort_values(over, kind="stable")[[over, "trials", "solved"]].itertuples(index=False)
        for (smaller, *first), (larger, *second) in combinations(ordered, 2):
            rows.append((*values, smaller, larger, *first, *second))
    names = ["smaller", "larger", "trials_smaller", "solved_smaller", "trials_larger", "solved_larger"]
    return pd.DataFrame(rows, columns=[*common, *names])
