"""The results of an experiment's trials, as its analysis receives them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import pandas as pd

from elegans.errors import shown, suggest
from elegans.probes import Probe
from elegans.store import Store
from elegans.sweeps import Sweep
from elegans.training import Trial

Tables = dict[str, pd.DataFrame]
"""The tables behind a figure by name; each is written as ``<name>.csv``."""


class NamedTables(dict[str, pd.DataFrame]):
    """Tables by name; a wrong name gives an error that suggests one, or lists them."""

    def __missing__(self, name: Any) -> pd.DataFrame:
        raise KeyError(f"{shown(name)}{suggest(str(name), self)}")


class Results:
    """The trials of a sweep that have run, with the measures taken during training.

    Args:
        trials: one row per trial, as ``elegans.run`` returns them. Rows take half a kilobyte, so analyses of over
            10^5 trials should use ``by_cell``.
        measures: for each kind of probe a long table, one row per trial and measured step: ``trial`` (an index of
            ``trials``), ``seed``, ``step``, and a column for each measured quantity, whose entries are numbers or
            arrays. The learning curves are under ``curve``, train and held-out error at log-spaced steps under
            ``errors``.
        sweep: all trials of the experiment so far, run or not.
        scale: the scale of the run, which decides how much an experiment without trials computes.

    Attributes:
        recorded: the trials that the rows of ``trials`` stand for, in the same order.
        first_seed: what the run added to every seed; an analysis that draws takes its keys from it.
    """

    first_seed = 0

    def __init__(
        self,
        trials: pd.DataFrame,
        measures: Mapping[str, pd.DataFrame] = MappingProxyType({}),
        sweep: Sweep = Sweep(()),  # noqa: B008 (immutable)
        scale: str = "",
    ) -> None:
        self.trials, self.measures, self.sweep, self.scale = trials, measures, sweep, scale
        self.recorded = sweep

    def trial(self, position: int) -> Trial:
        """Return the trial at an index of ``trials``."""
        return self.recorded.trial(position)

    def measured(self, probe: str, *names: str) -> pd.DataFrame:
        """Return the measures of a kind of probe, with the named columns of their trials beside them.

        Args:
            probe: the kind of the probe, or ``curve``.
            names: columns of ``trials``.
        """
        return self.measures[probe].join(self.trials[list(names)], on="trial")

    def by_cell(self, *names: str) -> Iterator[tuple[Trial, pd.DataFrame]]:
        """Yield each cell's template and a table of its trials' ``seed`` and the named columns of their outcomes."""
        for (template, _), (first, end) in zip(self.recorded.parts, pairwise(self.recorded.first), strict=True):
            yield template, self.trials.iloc[first:end][["seed", *names]].reset_index(drop=True)


class StoredResults(Results):
    """A store's results of a sweep; the rows of its trials and each kind of measure are read on first use."""

    def __init__(self, store: Store, sweep: Sweep, scale: str = "") -> None:
        self.store, self.sweep, self.scale = store, sweep, scale
        self.measures = _Measures(store, sweep)

    @cached_property
    def trials(self) -> pd.DataFrame:  # type: ignore[override]  # mypy takes it for read-only
        return self.store.table(self.sweep).drop(columns="error")

    @cached_property
    def recorded(self) -> Sweep:  # type: ignore[override]
        return self.store.recorded(self.sweep)

    def by_cell(self, *names: str) -> Iterator[tuple[Trial, pd.DataFrame]]:
        return self.store.by_cell(self.sweep, names)


def summary_by(
    table: pd.DataFrame, by: str | Sequence[str], title: str, **parts: Callable[[pd.DataFrame], Any]
) -> dict[str, Any]:
    """Return findings by group of a table's rows, in the order in which groups appear.

    Args:
        table: the table.
        by: the columns whose values make a group.
        title: a group's name, a format string of these values: ``"weight decay {:g}"``.
        parts: the findings of a group by name: functions of its rows.
    """
    columns = [by] if isinstance(by, str) else list(by)
    groups = table.groupby(columns, sort=False)
    return {title.format(*key): {name: part(rows) for name, part in parts.items()} for key, rows in groups}


def one_table(summarise: Callable[[pd.DataFrame], pd.DataFrame]) -> Callable[[Results], Tables]:
    """Return an analysis whose only table, ``table``, summarises the trials."""
    return lambda results: {"table": summarise(results.trials)}


class _Measures(Mapping[str, pd.DataFrame]):
    def __init__(self, store: Store, sweep: Sweep) -> None:
        self._store, self._sweep, self._read = store, sweep, dict[str, pd.DataFrame]()

    def __getitem__(self, kind: str) -> pd.DataFrame:
        if kind not in self._read:
            store, sweep = self._store, self._sweep
            curves = {"curve": store.curves, "errors": store.errors}
            table = curves[kind](sweep) if kind in curves else store.measures(sweep, kind)
            if not len(table) and kind not in (kinds := [*curves, *Probe.kinds()]):
                raise KeyError(f"{shown(kind)}{suggest(str(kind), kinds)}")
            self._read[kind] = table
        return self._read[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self._read)
