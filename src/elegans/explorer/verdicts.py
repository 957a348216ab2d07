"""The experiments as which a store is recognised, the verdicts on their claims so far, and what decides them."""

import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import BigInteger, func, select

from elegans.errors import StoreError, printable
from elegans.experiments.registry import Entry, find
from elegans.explorer.analysed import Analysed, alike, statistics_of
from elegans.explorer.cells import Cells
from elegans.store import Store
from elegans.store.cells import cell_numbers
from elegans.store.schema import TRIALS
from elegans.sweeps import Sweep

if TYPE_CHECKING:
    from elegans.experiments import Experiment
    from elegans.experiments.results import Tables

LARGEST = 200_000
"""The number of trials above which verdicts wait for the end of a store's runs: they read every trial anew."""
PAUSE = 50
"""Seconds before the next verdicts, per second that the last ones took: a running sweep loses little to them."""
LEAST_PAUSE = 5.0


class Judged(NamedTuple):
    """The experiments of a store.

    Args:
        experiments: as JSON has them, with their verdicts.
        statistics: what the verdicts are decided from, by cell.
    """

    experiments: list[dict[str, Any]]
    statistics: dict[str, Analysed]


def judged(store: Store, cells: Cells) -> Judged:
    """Return the experiments of a store, with their verdicts and what these are decided from."""
    result = Judged([], {})
    for entry in cells.experiments:
        experiment, statistics = _judged(store, entry)
        result.experiments.append(experiment)
        result.statistics.update(statistics)
    return result


def without_verdicts(cells: Cells) -> list[dict[str, Any]]:
    """Return the experiments of a store that are known immediately."""
    return [{"name": entry.name, "scale": None, "title": entry.shows, "verdicts": []} for entry in cells.experiments]


def _judged(store: Store, entry: Entry) -> tuple[dict[str, Any], dict[str, Analysed]]:
    from elegans.experiments.claims import UNDECIDED, judge
    from elegans.experiments.run import analyse_store
    from elegans.experiments.words import needed

    statistics: dict[str, Analysed] = {}
    record: dict[str, Any] = {"name": entry.name, "scale": None, "title": entry.shows, "verdicts": []}
    experiment = find(entry.name)
    scale = _scale(store, experiment, entry.scales)
    if scale is None:
        return record, statistics
    try:
        results, tables = analyse_store(experiment, scale, store, _swept(store, experiment, scale))
        verdicts: Mapping[str, Mapping[str, Any]] = judge(experiment.claims, tables)
        statistics = _statistics(store, experiment, results.recorded, tables)
    except Exception as error:  # analyses are written for complete tables, and each lacks something else in others
        message = printable(f"{type(error).__name__}: {error}"[:200])
        more = f"its analysis needs more trials ({message})"
        reason = printable(str(error)) if isinstance(error, StoreError) else more
        verdicts = {claim.id: {"verdict": UNDECIDED, "because": reason} for claim in entry.claims}
    entries = [
        {
            "id": name,
            "verdict": verdict["verdict"],
            "because": needed(verdict) if "needs" in verdict else verdict["because"],
        }
        for name, verdict in verdicts.items()
    ]
    return record | {"scale": scale, "verdicts": entries}, statistics


def _statistics(store: Store, experiment: "Experiment", recorded: Sweep, tables: "Tables") -> dict[str, Analysed]:
    numbers = store.database.read(
        lambda connection: cell_numbers(connection, [template.cell for template in recorded.cells])
    )
    return statistics_of(experiment, recorded, numbers, tables)


def _scale(store: Store, experiment: "Experiment", scales: Sequence[str]) -> str | None:
    """Return the scale of whose cells the store has the largest share, or None where it has none of any."""
    shares = {}
    for scale in scales:
        hashes = [template.cell for template in experiment.scale(scale).cells(1).cells]
        numbers = store.database.read(partial(cell_numbers, hashes=hashes))
        shares[scale] = len(numbers) / max(1, len(hashes))
    best = max(shares, key=shares.__getitem__, default=None)
    return best if best is not None and shares[best] > 0 else None


def _swept(store: Store, experiment: "Experiment", scale: str) -> Sweep:
    """Return the sweep of a scale with the seeds that the store has, which may begin anywhere."""
    ends = [function(TRIALS.c.seed, type_=BigInteger()) for function in (func.min, func.max)]
    ended = select(ends[0], ends[1]).where(TRIALS.c.state.is_not(None), TRIALS.c.seed >= 0)
    first, last = store.database.read(lambda connection: connection.execute(ended).one())
    size = experiment.scale(scale)
    if first is None:
        return size.cells(size.trials)
    return size.cells(min(last - first + 1, LARGEST)).shifted(first)


class Verdicts:
    """The experiments of a store, judged in the background whenever they were asked for and trials have come in.

    Args:
        store: the store.
        cells: its cells.

    Attributes:
        known: the experiments as JSON has them.
        statistics: what their verdicts are decided from, by cell.
        version: counts how often these have changed.
    """

    def __init__(self, store: Store, cells: Cells) -> None:
        self.store, self.cells = store, cells
        self.known = without_verdicts(cells)
        self.statistics: Mapping[str, Analysed] = {}
        self.version = 0
        self._of, self._next = -1, 0.0
        self._lock = threading.Lock()

    def latest(self) -> list[dict[str, Any]]:
        """Return the verdicts so far; verdicts that rest on fewer trials than there are now are judged again."""
        due = self.cells.version != self._of and time.monotonic() > self._next
        if due and self._affordable and self._lock.acquire(blocking=False):
            threading.Thread(target=self._judge, daemon=True).start()
        return self.known

    def await_first(self) -> None:
        """Wait until the experiments have been judged once, if they are going to be."""
        if not self.version and self._affordable and self.cells.experiments:
            self.latest()
            with self._lock:  # held while they are being judged
                pass

    @property
    def _affordable(self) -> bool:
        return int(self.cells.column("ended").sum()) <= LARGEST or not self.cells.column("running").any()

    def _judge(self) -> None:
        begun = time.monotonic()
        try:
            self._of = self.cells.version
            experiments, statistics = judged(self.store, self.cells)
            if experiments != self.known or not alike(statistics, self.statistics):
                self.known, self.statistics, self.version = experiments, statistics, self.version + 1
        except Exception:  # a store that is gone: the next request says so
            self._of = -1
        finally:
            now = time.monotonic()
            self._next = now + max(LEAST_PAUSE, PAUSE * (now - begun))
            self._lock.release()
