"""Statements of theory as experiments: tables of checks that compare computations with what a statement allows."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from elegans.errors import counted
from elegans.experiments.base import Scale
from elegans.experiments.results import Tables
from elegans.sweeps import Sweep

COMPUTED = Scale(Sweep(()), trials=1)
"""A scale without trials, of checks that are computed."""


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
    """Return the table ``checks``: one row per computation, exceptions first, with the ``margin`` to its limit.

    A margin is positive or zero where a check is satisfied, and negative where it is not.
    """
    table = pd.DataFrame(list(rows))
    table.insert(list(table).index("satisfied"), "margin", table["limit"] - table["worst"])
    return {"checks": table.sort_values("satisfied", kind="stable", ignore_index=True)}


def summary(table: pd.DataFrame) -> str:
    """Return in one line how many checks of a table are satisfied, and which are not."""
    names = [f"{claim.partition('/')[2]}: {name}" for claim, name in zip(table["claim"], table["check"], strict=True)]
    return passed(table, names)


def passed(table: pd.DataFrame, names: Sequence[str]) -> str:
    """Return how many checks of a table passed, over how many cases, and the names of those that failed."""
    satisfied = table["satisfied"].astype(bool)
    cases = counted(int(table["cases"].sum()), "case")
    number = f"{satisfied.sum()} of {counted(len(table), 'check')} passed ({cases})"
    failed = [name for name, good in zip(names, satisfied, strict=True) if not good]
    return f"{number}; failed: {', '.join(failed)}" if failed else number
