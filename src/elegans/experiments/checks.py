"""Statements of theory as experiments: tables of checks that compare computations with what a statement allows."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments.results import Tables
from elegans.plots.style import GREY, MEDIUM, SATISFIED, SMALL, VIOLATED, despine, figure_legend, panels
from elegans.sweeps import Sweep

ENDS = 1e-6, 1e6
"""The ends of the axis of deviations."""


def no_trials(trials: int) -> Sweep:
    """Return a sweep without trials, for checks that are computed rather than trained."""
    return Sweep(())


def check(claim: str, name: str, worst: Any, limit: float, *, error_rate: float = 0.0) -> dict[str, Any]:
    """Return one row of a table of checks.

    Args:
        claim: the id of the claim that it bears on.
        name: what is compared, in a few words.
        worst: how far each case deviates from the statement, in any shape; satisfied up to ``limit``.
        limit: the largest deviation that the statement, or rounding, allows.
        error_rate: the probability that chance violates a true statement; 0 for exact computations.
    """
    values = np.atleast_1d(np.asarray(worst, float)).ravel()
    largest = float(values.max()) if np.isfinite(values).all() else np.inf
    return {
        "claim": claim,
        "check": name,
        "cases": len(values),
        "worst": largest,
        "limit": float(limit),
        "satisfied": largest <= limit,
        "error_rate": error_rate,
    }


def checks(rows: Iterable[dict[str, Any]]) -> Tables:
    """Return the table ``checks``: one row per computation."""
    return {"checks": pd.DataFrame(list(rows))}


def plot_checks(tables: Tables) -> Figure:
    """Draw the largest deviation of every check as a share of what its statement allows, on a logarithmic axis.

    Arrows at the ends of the axis mark values beyond it.
    """
    table = tables["checks"].iloc[::-1].reset_index(drop=True)
    figure, ((ax,),) = panels(1, 1, height=0.6 + 0.16 * len(table))
    low, high = ENDS
    share = table["worst"] / table["limit"].where(table["limit"] != 0)
    share = share.fillna(pd.Series(np.where(table["worst"] <= table["limit"], 0, np.inf))).clip(low, high)
    marks = {"o": (share > low) & (share < high), "<": share == low, ">": share == high}
    for satisfied, colour, label in ((True, SATISFIED, "satisfied"), (False, VIOLATED, "violated")):
        rows = table["satisfied"] == satisfied
        ax.plot([], [], "o", color=colour, markersize=4, label=f"{label}: {rows.sum()} of {len(rows)}")
        for mark, marked in marks.items():
            ax.plot(share[rows & marked], table.index[rows & marked], mark, color=colour, markersize=4)
    ax.axvline(1, color=GREY, linewidth=0.9)
    ax.set(xscale="log", xlim=(0.5 * low, 2 * high), ylim=(-0.8, len(table) - 0.2))
    labels = table["claim"].str.partition("/")[2] + ": " + table["check"]
    ax.set_yticks(table.index, labels, fontsize=SMALL)
    ax.set_xlabel("deviation / allowed", fontsize=MEDIUM)
    despine(ax)
    figure_legend(figure, ax, columns=2)
    return figure
