"""What a store has of a sweep: which trials have ended, how, and whether anything more is needed of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from sqlalchemy import Connection, select

from elegans.store.positions import Positions
from elegans.store.queries import Labels, fetch, fetch_pieces, of_cells, seeds, states, whole
from elegans.store.schema import TRIALS
from elegans.training.states import STATES
from elegans.training.trial_set import TrialSet

Settles = Callable[[str | None, str | None], bool]
"""Whether a trial's state and probes satisfy a request."""


@dataclass(frozen=True)
class Coverage:
    """What a store has of a sweep.

    Args:
        state: for each trial of the sweep, the index of its state in ``STATES``, or -1 if it has none.
        settled: for each trial of the sweep, whether nothing more is needed.
        others: for each cell of the sweep, how many trials the store has in addition to the sweep's.
        changed: how many of the sweep's outcomes were made by code that has since changed; failed trials count only if
            all such outcomes are to be trained again.
    """

    state: np.ndarray
    settled: np.ndarray
    others: np.ndarray
    changed: int = 0


def read_coverage(
    connection: Connection,
    sweep: TrialSet,
    numbers: Mapping[str, int],
    settles: Settles,
    changed: Mapping[str, frozenset[int]],
    retrain_changed: bool,
) -> Coverage:
    """Return what the store has of a sweep.

    Args:
        connection: to the store.
        sweep: the sweep.
        numbers: the numbers of its cells in the store, by hash.
        settles: whether an outcome is all that is needed.
        changed: the runs whose code has changed, by cell.
        retrain_changed: whether all their outcomes are to be trained again; trials that failed are in any case.
    """
    positions = Positions(sweep, numbers)
    cover = Coverage(np.full(len(sweep), -1, np.int8), np.zeros(len(sweep), bool), np.zeros(len(sweep.parts), np.int64))
    query = select(TRIALS.c.cell, TRIALS.c.seed, TRIALS.c.state, TRIALS.c.probes)
    for part in of_cells(connection, query, list(numbers.values())):
        probes = Labels()
        for cell, seed, state, probed in fetch_pieces(connection, part, [whole, seeds, states, probes]):
            position = positions.of(cell, seed)
            parts = positions.parts(cell[position < 0])
            cover.others[:] += np.bincount(parts[parts >= 0], minlength=len(cover.others))
            for text, code in probes.known.items():
                rows = np.flatnonzero((position >= 0) & (probed == code))
                settling = np.array([*(settles(each, text) for each in STATES), False])
                cover.state[position[rows]] = state[rows]
                cover.settled[position[rows]] = settling[state[rows]]
    if not any(changed.values()):
        return cover
    outdated = [np.zeros(0, np.int64)]
    for key, runs in changed.items():
        recorded = select(TRIALS.c.cell, TRIALS.c.seed).where(TRIALS.c.state.is_not(None), TRIALS.c.run.in_(runs))
        position = positions.of(*fetch(connection, recorded.where(TRIALS.c.cell == numbers[key]), [whole, seeds]))
        outdated.append(position[position >= 0])
    rows = np.concatenate(outdated)
    again = np.full(len(rows), retrain_changed) | (cover.state[rows] == STATES.index("failed"))
    cover.settled[rows[again]] = False
    if not retrain_changed:
        rows = rows[~again]
    return replace(cover, changed=len(rows))
