"""Tables in which there is nothing to find: where a claim still *holds*, its rule may not notice a false statement."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from elegans.errors import brief
from elegans.experiments.claims import judge
from elegans.experiments.evidence import Evidence, collected
from elegans.experiments.registry import find
from elegans.experiments.words import CORRECTED, HOLDS, UNDECIDED

if TYPE_CHECKING:
    from elegans.experiments.results import Tables

REPLICATES = ("seed", "replicate")
"""Columns that number the trials of a cell. Together with the columns before them, they say what was run."""
ALONG = ("step", "checks", "name")
"""Columns that say what was measured, wherever they stand in a table."""
COUNTS = ("trials", "draws", "networks", "runs", "hits", "solved")
"""Columns of counts. In a table without numbers of trials, the first of these and all later columns are outcomes."""
SHARES, TIMES = (
    ("solved", "rate", "learned"),
    ("time", "steps", "solved_at", "learned_at", "train_at", "test_at", "fitted_at"),
)
"""Outcomes of networks that never learn: shares are zero, and times are NaN."""


def permuted(tables: Mapping[str, pd.DataFrame]) -> "Tables":
    """Return tables whose outcomes are shuffled among their settings: no setting makes a difference.

    A column is a setting if its name has a dot. In a table without such names, all columns up to ``seed`` or
    ``replicate`` are settings or, if there are none of these either, all columns before the first count. The outcomes
    of a row stay together. Tables without settings, and tables of checks, stay unchanged.
    """
    return {name: _permuted(table) for name, table in tables.items()}


def untrained(tables: Mapping[str, pd.DataFrame]) -> "Tables":
    """Return tables in which all networks stay as they were at their first recorded step and solve nothing."""
    return {name: _untrained(table) for name, table in tables.items()}


NULLS: Mapping[str, Callable[[Mapping[str, pd.DataFrame]], "Tables"]] = {"permuted": permuted, "untrained": untrained}
"""Functions that make tables in which there is nothing to find, by name."""


@dataclass(frozen=True)
class NullVerdict:
    """A claim's verdict on tables in which there is nothing to find.

    Args:
        claim: the claim's id.
        study: its study.
        verdict: the verdict on the evidence.
        null: the verdict on these tables; ``undecided`` also if the rule cannot judge them.
        because: the reason for ``null``.
        touched: whether the rule's numbers differ from those on the evidence; if not, it reads nothing that changed.
    """

    claim: str
    study: str
    verdict: str
    null: str
    because: str
    touched: bool

    @property
    def holds(self) -> bool:
        """Whether the claim holds both on the evidence and on these tables, by different numbers."""
        return self.touched and {self.verdict, self.null} <= {HOLDS, CORRECTED}


def judge_nulls(kind: str, claim: str | None = None, study: str | None = None) -> Iterator[NullVerdict]:
    """Judge tables made from the committed evidence of trials, in which there is nothing to find; yield each verdict.

    Args:
        kind: a name of ``NULLS``.
        claim: the id of the only claim to judge; all claims by default.
        study: the name of the only study to judge; all studies by default.
    """
    for evidence, verdicts in _on_trials(claim, study):
        of_trials = {name: each for name, each in verdicts.items() if each["error_rate"] > 0}
        if decided := {name: each for name, each in of_trials.items() if each["verdict"] != UNDECIDED}:
            yield from _judged(kind, evidence, decided)


def undecided(claim: str | None = None, study: str | None = None) -> int:
    """Return how many verdicts on trials ``judge_nulls`` leaves out, since they are undecided on the evidence."""
    kept = (verdicts.values() for _, verdicts in _on_trials(claim, study))
    return sum(verdict["verdict"] == UNDECIDED for verdicts in kept for verdict in verdicts)


def _on_trials(claim: str | None, study: str | None) -> Iterator[tuple[Evidence, dict[str, Mapping[str, Any]]]]:
    """Yield the evidence of trials with its verdicts by claim."""
    for evidence in collected():
        if study in (None, evidence.study) and evidence.content["record"].get("trials"):
            yield evidence, {name: each for name, each in evidence.verdicts.items() if claim in (None, name)}


def _judged(kind: str, evidence: Evidence, decided: Mapping[str, Mapping[str, Any]]) -> Iterator[NullVerdict]:
    experiment = find(evidence.experiment).with_options(evidence.content["options"])
    tables = NULLS[kind]({name: table.reset_index(drop=True) for name, table in evidence.tables.items()})
    for claim in experiment.claims:
        if claim.id not in decided:
            continue
        try:
            verdict = judge([claim], tables)[claim.id]
        except Exception as error:  # whatever a rule raises on tables that no run would give
            reason = f"the rule cannot judge these tables: {type(error).__name__}: {brief(str(error))}"
            verdict = {"verdict": UNDECIDED, "because": reason, "numbers": None}
        before = decided[claim.id]
        touched = verdict["numbers"] != before["numbers"]
        yield NullVerdict(claim.id, evidence.study, before["verdict"], verdict["verdict"], verdict["because"], touched)


def _settings(table: pd.DataFrame) -> list[str]:
    """Return the columns that say what was run and measured; all columns if outcomes cannot be told from settings."""
    names = list(map(str, table))
    if {"claim", "check"} <= set(names):
        return names
    if dotted := [name for name in names if "." in name]:
        return [*dotted, *(name for name in names if name in (*REPLICATES, *ALONG))]
    ends = [place + 1 for place, name in enumerate(names) if name in REPLICATES]
    ends = ends[-1:] or [place for place, name in enumerate(names) if name in COUNTS][:1]
    return [*names[: ends[0]], *(name for name in names[ends[0] :] if name in ALONG)] if ends else names


def _outcomes(table: pd.DataFrame) -> list[str]:
    settings = _settings(table)
    return [name for name in map(str, table) if name not in settings]


def _permuted(table: pd.DataFrame) -> pd.DataFrame:
    outcomes, shuffled = _outcomes(table), table.copy()
    order = np.random.default_rng(0).permutation(len(table))
    shuffled[outcomes] = table[outcomes].iloc[order].set_axis(table.index)
    return shuffled


def _untrained(table: pd.DataFrame) -> pd.DataFrame:
    settings, outcomes, still = _settings(table), _outcomes(table), table.copy()
    trials = [name for name in settings if name not in ("step", "checks")]
    if "step" in table and trials and outcomes:
        ordered = table.sort_values("step", kind="stable")
        still[outcomes] = ordered.groupby(trials, dropna=False, sort=False)[outcomes].transform("first").sort_index()
    for name in outcomes:
        if name in SHARES:
            still[name] = False if table[name].dtype == bool else 0
        elif name in TIMES:
            still[name] = np.nan
    return still
