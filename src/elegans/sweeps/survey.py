"""What a store has of a sweep: which trials have ended, how, and whether anything more is needed of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sqlalchemy import Connection, select

from elegans.sweeps.columns import Damage, stored
from elegans.sweeps.frames import Labels
from elegans.sweeps.places import Places
from elegans.sweeps.reading import Reader, as_numbers, as_seeds, cell_numbers, fetch, fetch_pieces, of_cells
from elegans.sweeps.schema import CONTRADICTION, NO_CONTRADICTION, TRIALS
from elegans.sweeps.sweep import Sweep
from elegans.training.states import STATES

Settles = Callable[[str | None, str | None], bool]
"""Whether a trial's state and probes satisfy a request."""


@dataclass(frozen=True)
class Survey:
    """What a store has of a sweep.

    Args:
        state: for each trial of the sweep, the index of its state in ``STATES``, or -1 if it has none.
        settled: for each trial of the sweep, whether nothing more is needed.
        others: for each cell of the sweep, how many trials the store has besides the sweep's.
        changed: how many of the sweep's outcomes were made by code that has since changed.
    """

    state: np.ndarray
    settled: np.ndarray
    others: np.ndarray
    changed: int = 0


def survey(
    connection: Connection,
    sweep: Sweep,
    settles: Settles,
    *,
    changed: Mapping[str, frozenset[int]],
    retrain_changed: bool,
) -> Survey:
    """Return what the store has of a sweep; ``changed`` are the runs whose code has changed, by cell."""
    known = cell_numbers(connection, (template.cell for template, _ in sweep.parts))
    places = Places(sweep, known)
    found = Survey(np.full(len(sweep), -1, np.int8), np.zeros(len(sweep), bool), np.zeros(len(sweep.parts), np.int64))
    query = select(TRIALS.c.cell, TRIALS.c.seed, TRIALS.c.state, TRIALS.c.probes, CONTRADICTION)
    for part in of_cells(connection, query, list(known.values())):
        probes = Labels(TRIALS.c.probes)
        readers: list[Reader] = [as_numbers, as_seeds, _state_codes, probes, _sane]
        for cell, seed, state, probed, _ in fetch_pieces(connection, part, readers):
            place = places.of(cell, seed)
            found.others[:] += _count(places.part(cell[place < 0]), len(found.others))
            for text, code in probes.known.items():
                rows = np.flatnonzero((place >= 0) & (probed == code))
                settling = np.array([*(settles(each, text) for each in STATES), False])
                found.state[place[rows]] = state[rows]
                found.settled[place[rows]] = settling[state[rows]]
    if not any(changed.values()):
        return found
    old = _of_runs(connection, places, known, changed)
    if retrain_changed:
        found.settled[old] = False
    return replace(found, changed=len(old))


def _of_runs(
    connection: Connection, places: Places, known: Mapping[str, int], runs: Mapping[str, frozenset[int]]
) -> np.ndarray:
    """Return the positions of trials whose outcomes were made by some runs, given by cell."""
    found = [np.zeros(0, np.int64)]
    for cell, some in runs.items():
        query = select(TRIALS.c.cell, TRIALS.c.seed).where(TRIALS.c.cell == known[cell], TRIALS.c.run.in_(some))
        place = places.of(*fetch(connection, query.where(TRIALS.c.state.is_not(None)), [as_numbers, as_seeds]))
        found.append(place[place >= 0])
    return np.concatenate(found)


def _state_codes(values: Sequence[str | None]) -> np.ndarray:
    read = stored(TRIALS.c.state).read
    codes = {value: STATES.index(value) if read(value) else -1 for value in set(values)}
    return np.array([codes[value] for value in values], np.int8)


def _sane(contradictions: Sequence[int | None]) -> np.ndarray:
    if any(contradictions):
        raise Damage(f"{NO_CONTRADICTION}: {sum(filter(None, contradictions))} trials")
    return np.zeros(0)


def _count(parts: np.ndarray, length: int) -> np.ndarray:
    return np.bincount(parts[parts >= 0], minlength=length)
