"""What a store has beside the table: curves, and what probes measured."""

import pandas as pd

from elegans.sweeps import Store, Sweep


def with_outcomes(trials: pd.DataFrame, store: Store, sweep: Sweep) -> pd.DataFrame:
    """Return a sweep's table with a column ``outcome``, which has each trial's curve and measures.

    Args:
        trials: a row a trial, in the sweep's order.
        store: where the outcomes are.
        sweep: the trials.
    """
    found = {outcome.trial.identity: outcome for outcome in store.outcomes(sweep)}
    ordered = [found[trial.identity] for trial in sweep if trial.identity in found]
    return trials.assign(outcome=pd.Series(ordered, index=trials.index, dtype=object))


def those_kept(store: Store, sweep: Sweep) -> Sweep:
    """Return the part of a sweep that a store has outcomes of now, so that what comes in meanwhile is left out.

    Args:
        store: where the outcomes are; others may be writing to it.
        sweep: the trials.
    """
    found = {(outcome.trial.cell, outcome.trial.seed) for outcome in store.outcomes(sweep)}
    parts = [(cell, tuple(seed for seed in seeds if (cell.cell, seed) in found)) for cell, seeds in sweep.parts]
    return Sweep(tuple(part for part in parts if part[1]))
