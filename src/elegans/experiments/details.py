"""What a store has beside the table: curves, and what probes measured."""

from typing import Any

import pandas as pd

from elegans.sweeps import Store, Sweep
from elegans.training import Outcome


def with_details(trials: pd.DataFrame, store: Store, sweep: Sweep) -> pd.DataFrame:
    """Return a sweep's table with a column of lists for its curves and each measure.

    Args:
        trials: a row a trial, in the sweep's order.
        store: where the outcomes are.
        sweep: the trials.

    Returns:
        The table with ``curve.step``, ``curve.error`` and a column for each measured quantity, named by its probe
        (``test-error.error``) beside the steps at which it was measured (``test-error.step``). None where a trial
        was not looked at by that probe.
    """
    found = {outcome.trial.identity: _lists(outcome) for outcome in store.outcomes(sweep)}
    rows = [found[trial.identity] for trial in sweep if trial.identity in found]
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: pd.Series([row.get(name) for row in rows], index=trials.index, dtype=object) for name in names}
    return trials.assign(**columns)


def _lists(outcome: Outcome) -> dict[str, list[Any]]:
    lists: dict[str, list[Any]] = {"curve.step": outcome.curve.step, "curve.error": outcome.curve.error}
    for probe, taken in outcome.measures.items():
        lists.update({f"{probe}.{name}": values for name, values in taken.items()})
    return lists
