"""The one table of outcomes: one row per network, in SQLite or another database."""

import math
import uuid
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sqlalchemy import Connection, select

from elegans.arguments import methods_checked
from elegans.errors import StoreError, UnknownKind, printable
from elegans.files import replaced, writable
from elegans.probes import Probe
from elegans.sweeps import claims, liveness, reading, sums
from elegans.sweeps.claims import Run
from elegans.sweeps.columns import read_template
from elegans.sweeps.database import open_engine, place_of, translated
from elegans.sweeps.frames import Filter, parsed, read_columns, write_table
from elegans.sweeps.rows import record, same
from elegans.sweeps.schema import CELLS, TRIALS
from elegans.sweeps.status import Status, read_holders, read_status
from elegans.sweeps.survey import Survey, survey
from elegans.sweeps.sweep import Seeds, Sweep
from elegans.sweeps.transactions import Transactions
from elegans.training.outcome import Outcome
from elegans.training.trial import Trial

if TYPE_CHECKING:
    import pandas as pd

    from elegans.sweeps.rows import Row

_T = TypeVar("_T")


@methods_checked()
class Store:
    """Outcomes of trials, one row per network, and the claims of the runs at work on them.

    A store can be shared: many processes read it while several write. An SQLite file uses a write-ahead log,
    so readers never wait; committed data survives if the process ends at any moment. Every method raises a
    StoreError if the database cannot be read or written, or lacks what is asked for.

    Args:
        url: None for memory (gone when closed), a path, ``sqlite:///…`` or any SQLAlchemy URL.
        create: whether a missing or empty database becomes a store; if False, the store is also opened for
            reading only.

    Raises:
        StoreError: the database cannot be opened, is not a store, or is a store of another version.
    """

    def __init__(self, url: str | Path | None = None, *, create: bool = True) -> None:
        self.engine = open_engine(url, read_only=not create)
        """The database."""
        self.place = place_of(url)
        """The store's name in messages, without a password."""
        self.transactions = Transactions(self.engine, self.place)
        """Reads and writes; they are repeated while the connection to a server is lost."""

    def __repr__(self) -> str:
        return f"Store({self.place!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database. A store in memory is lost."""
        self.engine.dispose()

    def read(self, work: Callable[[Connection], _T]) -> _T:
        """Return what work reads from a connection, in one transaction; see ``Transactions.read``."""
        return self.transactions.read(work)

    def begin(
        self,
        sweep: Sweep,
        *,
        name: str | None = None,
        probes: Sequence[Probe] = (),
        retry_failed: bool = False,
        retrain_changed: bool = False,
    ) -> tuple[Run, Survey]:
        """Register a run of a sweep, which counts as running from now on; end it with ``release``.

        Args:
            sweep: the sweep to train.
            name: the name of the run in ``status``.
            probes: the probes whose measures an outcome must have, or else the trial is trained again.
            retry_failed: whether to train failed trials again.
            retrain_changed: whether to train trials again if the code of their user-defined classes has changed.

        Returns:
            The run, and what the store already has of the sweep.
        """
        token = uuid.uuid4().hex
        liveness.ACTIVE.add(token)
        try:
            return self.transactions.write(
                lambda connection, again: claims.begin(
                    connection, sweep, name, probes, retry_failed, retrain_changed, token, again
                )
            )
        except BaseException:
            liveness.ACTIVE.discard(token)
            raise

    def claim(self, run: Run, trials: Iterable[Trial], most: int | None = None) -> list[Trial]:
        """Claim trials for a run in one transaction, and return those that it received.

        A trial cannot be claimed once it is settled (finished with the measures that the run needs, or
        failed and not to be retried), nor while another living run holds it.

        Args:
            run: the run.
            trials: the trials, in the order in which they are wanted.
            most: the number of trials at which to stop; by default all that are free.
        """
        asked, limit = list(trials), math.inf if most is None else most
        return self.transactions.write(lambda connection, again: claims.claim(connection, run, asked, again, limit))

    def record(self, run: Run, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Record the outcomes of trials that the run has claimed, in one transaction.

        An interrupted outcome does not replace a finished one. Measures of other probes that the store
        has of a trial are kept beside the new ones.

        Returns:
            The outcomes that were not recorded, since another run has taken over the trial while this one was cut off
            from the store for more than a minute.
        """
        return self.transactions.write(lambda connection, again: claims.record(connection, run, outcomes))

    def beat(self, run: Run) -> None:
        """Record that a run is alive; this counts for a minute on other machines."""
        self.transactions.write(lambda connection, again: claims.beat(connection, run))

    def release(self, run: Run) -> None:
        """End a run, which frees the trials that it still holds."""
        liveness.ACTIVE.discard(run.token)
        self.transactions.write(lambda connection, again: claims.release(connection, run))

    def survey(self, run: Run, sweep: Sweep) -> Survey:
        """Return what the store has of a run's sweep now."""
        return self.read(
            lambda connection: survey(connection, sweep, run.settles, changed=run.changed, retrain_changed=True)
        )

    def holders(self, run: Run) -> tuple[str, ...]:
        """Return which other runs are training trials of this store, and how many."""
        return self.read(lambda connection: read_holders(connection, run.number))

    def outcome(self, trial: Trial) -> Outcome:
        """Return the outcome of a trial, with its curve and measures."""

        def read(connection: Connection) -> Outcome:
            number = reading.cell_numbers(connection, [trial.cell]).get(trial.cell)
            query = reading.outcome_rows(number or 0).where(TRIALS.c.seed == reading.signed(trial.seed))
            row = connection.execute(query).mappings().first()
            if row is None:
                raise StoreError(
                    f"an outcome must be recorded before it is read: {self.place} has none of {trial.identity}"
                )
            return reading.outcome_of(trial, row)

        return self.read(read)

    def trial(self, row: "Row") -> Trial:
        """Return the trial of a row of the store's table: ``store.trial(table.sort_values("steps").iloc[0])``.

        Args:
            row: a row with ``seed`` and enough of the trial's dotted columns to identify it in the store.
        """
        told = record(row)
        if told.get("seed") is None:
            raise StoreError(f"a row must have a seed to identify a trial: {', '.join(told)}")

        def read(connection: Connection) -> Trial:
            cells = connection.execute(select(CELLS.c.hash, CELLS.c.trial, CELLS.c.columns)).all()
            records = [read_template(cell.trial, cell.hash) for cell in cells]
            columns = [read_columns(cell.columns, record) for cell, record in zip(cells, records, strict=True)]
            found = [record for record, own in zip(records, columns, strict=True) if _says(told, own)]
            if len(found) != 1:
                raise StoreError(f"a row must match one cell of the store: it matches {len(found)} of {len(cells)}")
            return _trial(found[0]).replace("seed", told["seed"])

        return self.read(read)

    def outcomes(self, sweep: Sweep | None = None) -> Iterator[Outcome]:
        """Yield every outcome, or those of a sweep, cell by cell and by seed within a cell."""
        query = select(CELLS.c.id, CELLS.c.hash, CELLS.c.trial).order_by(CELLS.c.id)
        cells = self.read(lambda connection: connection.execute(query).all())
        wanted = None if sweep is None else {template.cell: _lookup(seeds) for template, seeds in sweep.parts}
        for number, key, text in cells:
            if wanted is not None and key not in wanted:
                continue
            with translated(self.place):
                template = _trial(read_template(text, key))
            for first, last in reading.SIGNED:
                while first <= last:
                    found = self.read(
                        partial(reading.outcomes_between, template=template, number=number, first=first, last=last)
                    )
                    yield from (each for each in found if wanted is None or each.trial.seed in wanted[key])
                    full = len(found) == reading.OUTCOMES_AT_ONCE
                    first = reading.signed(found[-1].trial.seed) + 1 if full else last + 1

    def table(self, sweep: Sweep | None = None, *, where: Filter | None = None) -> "pd.DataFrame":
        """Return one row per trial that has an outcome.

        Args:
            sweep: the sweep whose trials to show, in its order; by default all trials of the store, by cell and seed.
            where: the value, or list of allowed values, that a cell must have, by dotted column.

        Returns:
            The trial's dotted columns (``model.width``, ``regime.size``, …), then ``seed``, ``state``,
            ``solved_at`` (NaN if it was not solved), ``test_error``, ``train_error``, ``steps``,
            ``seconds``, ``evaluation_seconds``, ``engine`` and ``error`` (for failed trials, the exception; its
            traceback is in ``outcome``). Whole numbers that only some trials have, such as ``regime.size``, are
            ``Int64``.
        """
        return self.read(lambda connection: reading.trial_table(connection, sweep, where))

    def by_cell(self, sweep: Sweep, names: Sequence[str] = reading.RESULTS) -> "Iterator[tuple[Trial, pd.DataFrame]]":
        """Yield each cell of a sweep that has outcomes, with some of their columns; suitable for millions of trials.

        Some cells are read at a time, and the next ones when they are asked for: only the rows of one cell are certain
        to be of one moment.

        Args:
            sweep: the sweep, whose order is kept.
            names: columns of an outcome, from ``state`` to ``engine`` in ``table``.

        Returns:
            The cell's template, and one row per trial with ``seed`` and these columns.
        """
        for part in reading.bundles(sweep):
            yield from self.read(partial(reading.results_by_cell, sweep=part, names=names))

    def totals(self, sweep: Sweep) -> "pd.DataFrame":
        """Return how a sweep's trials ended: one row per ``state`` and ``engine``.

        Columns: ``state``, ``engine``, ``trials``, ``seconds`` and ``evaluation_seconds`` (summed).
        """
        return self.read(lambda connection: reading.totals(connection, sweep))

    def recorded(self, sweep: Sweep) -> Sweep:
        """Return the part of a sweep that has outcomes now: a snapshot, if others are writing."""
        return self.read(lambda connection: reading.recorded_part(connection, sweep))

    def measures(self, sweep: Sweep, kind: str) -> "pd.DataFrame":
        """Return the measures of one kind of probe: one row per trial and measured step.

        Returns:
            ``trial`` (the trial's row in ``table(sweep)``), ``seed``, ``step``, and one column per quantity,
            missing if a trial lacks it. Quantities that are arrays have a NumPy array in each row.
        """
        return self.read(lambda connection: reading.measures_table(connection, sweep, kind))

    def curves(self, sweep: Sweep) -> "pd.DataFrame":
        """Return the training curves: one row per trial and point.

        Returns:
            ``trial`` (the trial's row in ``table(sweep)``), ``seed``, ``step``, ``loss`` and ``error``,
            as in ``Curve``.
        """
        return self.read(lambda connection: reading.curves_table(connection, sweep))

    def cells_table(self, sweep: Sweep | None = None, *, where: Filter | None = None) -> "pd.DataFrame":
        """Return one row per cell, computed by the database, which is fast even for a million trials.

        Args:
            sweep: the sweep whose cells to show, with all of their trials in the store; all cells by default.
            where: the value, or list of allowed values, that a cell must have, by dotted column.

        Returns:
            The cell's dotted columns, then ``trials`` (that finished), ``solved`` (at some step),
            ``unsolved``, ``diverged``, ``failed`` and ``interrupted`` (ended in that state), ``median_steps``
            (the median of ``solved_at``, unsolved trials being infinite; NaN if it is not finite) and
            ``seconds`` (in total).
        """
        return self.read(lambda connection: sums.cells_table(connection, sweep, where))

    def status(self) -> Status:
        """Return the progress of this store's runs; ``str`` makes it readable."""
        return self.read(read_status)

    def export(self, path: str | Path, sweep: Sweep | None = None) -> int:
        """Write the table to a ``.csv`` or ``.parquet`` file; tuples and records in it become JSON.

        In a ``.csv``, a string that a spreadsheet would take for a formula (it begins with ``=``, ``+``, ``-`` or ``@``
        and is not a number) is written with an apostrophe before it.

        Args:
            path: the file; an existing one is replaced once the new one is complete.
            sweep: the sweep whose trials to write; all of the store by default.

        Returns:
            The number of rows.
        """
        file = writable(path, "an export", StoreError, self.place)
        if file.suffix not in (".csv", ".parquet"):
            raise StoreError(f"an export must be a .csv or .parquet file: {printable(str(path))}")
        table = self.table(sweep)
        try:
            with replaced(file) as draft:
                write_table(table, draft, file.suffix)
        except OSError as error:
            raise StoreError(
                f"an export must go to a file that can be written: {printable(str(path))} ({error.strerror or error})"
            ) from None
        return len(table)


def _trial(record: Mapping[str, Any]) -> Trial:
    try:
        return parsed(record)
    except UnknownKind as error:
        raise StoreError(f"the classes of a store's trials must be imported: {error}") from None


def _lookup(seeds: Seeds) -> Container[int]:
    return seeds if isinstance(seeds, range) else frozenset(seeds)


@contextmanager
def opened(store: Store | str | Path | None) -> Iterator[Store]:
    """Yield a store; one that is given by a path or URL is closed at the end."""
    if isinstance(store, Store):
        yield store
        return
    with Store(store) as own:
        yield own


def _says(row: Mapping[str, Any], columns: Mapping[str, Any]) -> bool:
    """Return whether a row has no values that differ from a cell's columns."""
    own = {
        name: value for name, value in row.items() if name.partition(".")[0] in Trial.model_fields and name != "seed"
    }
    return all(same(columns.get(name), value) for name, value in own.items())
