"""What an experiment's trials produced, as its analysis receives it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from elegans.sweeps import Store, Sweep
from elegans.training import Trial

Tables = dict[str, pd.DataFrame]
"""The tables behind a figure by name; each is written as ``<name>.csv``."""
CURVE = "curve"


@dataclass(frozen=True)
class Results:
    """The trials of a sweep that have run, with what was measured while they learned.

    Args:
        trials: one row per trial, as ``elegans.run`` returns them.
        measures: for each kind of probe a long table, one row per trial and measured step: ``trial`` (an index of
            ``trials``), ``seed``, ``step``, and a column for each measured quantity, whose entries are numbers or
            arrays. The learning curves are there under ``curve``.
        sweep: all trials of the experiment so far, run or not.
        recorded: the trials of the rows of ``trials``, where these are not all of the sweep.
        scale: the scale of the run, which says how much an experiment without trials computes.
    """

    trials: pd.DataFrame
    measures: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    sweep: Sweep = field(default_factory=lambda: Sweep(()))
    recorded: Sweep | None = None
    scale: str = ""

    @cached_property
    def _described(self) -> list[Trial]:
        return list(self.sweep if self.recorded is None else self.recorded)

    def trial(self, position: int) -> Trial:
        """Return the trial at an index of ``trials``."""
        return self._described[position]


def one_table(summarise: Callable[[pd.DataFrame], pd.DataFrame]) -> Callable[[Results], Tables]:
    """Return the analysis whose only table, ``table``, summarises the trials."""

    def analyse(results: Results) -> Tables:
        return {"table": summarise(results.trials)}

    return analyse


def stored(store: Store, sweep: Sweep) -> Results:
    """Return what a store has of a sweep; each kind of measure is read when it is first used."""
    return Results(store.table(sweep), _Stored(store, sweep), sweep, store.recorded(sweep))


class _Stored(Mapping[str, pd.DataFrame]):
    def __init__(self, store: Store, sweep: Sweep) -> None:
        self._store, self._sweep, self._read = store, sweep, dict[str, pd.DataFrame]()

    def __getitem__(self, kind: str) -> pd.DataFrame:
        if kind not in self._read:
            store: Any = self._store
            self._read[kind] = store.curves(self._sweep) if kind == CURVE else store.measures(self._sweep, kind)
        return self._read[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self._read)
