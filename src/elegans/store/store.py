"""The one table of outcomes: one row per network, in SQLite or another database."""

from collections.abc import Container, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sqlalchemy import Connection, select

from elegans.arguments import methods_checked
from elegans.errors import StoreError, printable
from elegans.files import checked_path, replaced, writable
from elegans.probes import Checkpoints, Probe
from elegans.store import aggregates, queries, tables
from elegans.store.cells import Filter, cell_numbers, read_template, stored_cells
from elegans.store.connection import Database
from elegans.store.coverage import Coverage
from elegans.store.export import write_table
from elegans.store.leases import Run
from elegans.store.location import locate
from elegans.store.queries import RESULTS
from elegans.store.schema import CELLS, TRIALS
from elegans.store.status import Status, read_status
from elegans.store.tables import as_record, same
from elegans.training.outcome import Outcome
from elegans.training.trial import Trial
from elegans.training.trial_set import AnySet, TrialSet
from elegans.training.weights import write_weights

if TYPE_CHECKING:
    import pandas as pd

    from elegans.store.tables import Row


@methods_checked()
class Store:
    """Outcomes of trials, one row per network, and the claims of the runs at work on them.

    A store can be shared: many processes read it while several write. An SQLite file uses a write-ahead log,
    so readers never wait; committed data survives if the process ends at any moment. Every method raises a
    StoreError if the database cannot be read or written, or lacks what was requested.

    Args:
        url: None for memory (gone when closed), a path, ``sqlite:///…`` or any SQLAlchemy URL.
        create: whether a missing or empty database becomes a store; if False, the store is also opened for
            reading only.

    Raises:
        StoreError: the database cannot be opened, is not a store, or is a store of another version.

    Attributes:
        place: the store's name in messages, without a password.
    """

    def __init__(self, url: str | Path | None = None, *, create: bool = True) -> None:
        self.database = Database(locate(url), read_only=not create)
        """The database, opened: ``read`` and ``write`` do work in transactions."""
        self.engine, self.place = self.database.engine, self.database.name

    def __repr__(self) -> str:
        return f"Store({self.place!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        self.close()

    def close(self) -> None:
        """Close the database. A store in memory is lost."""
        self.database.close()

    def begin(
        self,
        sweep: TrialSet,
        *,
        name: str | None = None,
        probes: Sequence[Probe] = (),
        retry_failed: bool = False,
        retrain_changed: bool = False,
    ) -> tuple[Run, Coverage]:
        """Register a run of a sweep, which counts as running from now on, until it is released.

        Args:
            sweep: the sweep to train.
            name: the name of the run in ``status``.
            probes: the probes whose measures an outcome must have, or else the trial is trained again.
            retry_failed: whether to train failed trials again although the code of their classes is unchanged.
            retrain_changed: whether to train trials again if the code of their user-defined classes has changed.

        Returns:
            The run, and what the store already has of the sweep.
        """
        run = Run(self.database, sweep, name, probes, retry_failed)
        return run, run.begin(retrain_changed)

    def outcome(self, trial: Trial) -> Outcome:
        """Return the outcome of a trial, with its curve and measures."""

        def read(connection: Connection) -> Outcome:
            query = queries.outcome_rows(cell_numbers(connection, [trial.cell]).get(trial.cell, 0))
            row = connection.execute(query.where(TRIALS.c.seed == queries.signed(trial.seed))).mappings().first()
            if row is None:
                raise StoreError(
                    f"an outcome must be recorded before it is read: {self.place} has none of {trial.identity}"
                )
            return queries.outcome_of(trial, row)

        return self.database.read(read)

    def trial(self, row: "Row") -> Trial:
        """Return the trial of a row of the store's table: ``store.trial(table.sort_values("steps").iloc[0])``.

        Args:
            row: a row with ``seed`` and enough of the trial's dotted columns to identify it in the store.
        """
        record = as_record(row)
        if record.get("seed") is None:
            raise StoreError(f"a row must have a seed to identify a trial: {', '.join(record)}")

        def read(connection: Connection) -> Trial:
            cells = stored_cells(connection, None)
            missing = np.full(len(cells.numbers), None, object)
            fields = Trial.model_fields.keys() - {"seed"}
            given = {name: value for name, value in record.items() if name.partition(".")[0] in fields}
            matching = [
                number
                for index, number in enumerate(cells.numbers)
                if all(same(cells.columns.get(name, missing)[index], value) for name, value in given.items())
            ]
            if len(matching) != 1:
                counts = f"{len(matching)} of {len(cells.numbers)}"
                raise StoreError(f"a row must match one cell of the store: it matches {counts}")
            cell = connection.execute(select(CELLS.c.trial, CELLS.c.hash).where(CELLS.c.id == matching[0])).one()
            return read_template(cell.trial, cell.hash).replace("seed", record["seed"])

        return self.database.read(read)

    def outcomes(self, sweep: TrialSet | None = None) -> Iterator[Outcome]:
        """Yield every outcome, or every outcome of a sweep, cell by cell and by seed within a cell."""
        query = select(CELLS.c.id, CELLS.c.hash, CELLS.c.trial).order_by(CELLS.c.id)
        wanted: dict[str, Container[int]] = {
            template.cell: seeds if isinstance(seeds, range) else frozenset(seeds)
            for template, seeds in (sweep.parts if sweep else ())
        }

        for cell in self.database.read(lambda connection: connection.execute(query).all()):
            if sweep is not None and cell.hash not in wanted:
                continue
            for first, last in queries.SIGNED:
                while first <= last:
                    outcomes = self.database.read(partial(queries.outcomes_between, cell=cell, first=first, last=last))
                    yield from (each for each in outcomes if sweep is None or each.trial.seed in wanted[cell.hash])
                    full = len(outcomes) == queries.OUTCOMES_AT_ONCE
                    first = queries.signed(outcomes[-1].trial.seed) + 1 if full else last + 1

    def table(self, sweep: TrialSet | None = None, *, where: Filter | None = None) -> "pd.DataFrame":
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
        return self.database.read(
            lambda connection: tables.trial_table(connection, stored_cells(connection, sweep, where), sweep)
        )

    def by_cell(self, sweep: TrialSet, names: Sequence[str] = RESULTS) -> "Iterator[tuple[Trial, pd.DataFrame]]":
        """Yield each cell of a sweep that has outcomes, with some of their columns; suitable for millions of trials.

        Some cells are read at a time, and the next ones when they are asked for: only the rows of one cell are certain
        to be of one moment.

        Args:
            sweep: the sweep, whose order is kept.
            names: columns of an outcome, from ``state`` to ``engine`` in ``table``.

        Returns:
            The cell's template, and one row per trial with ``seed`` and these columns.
        """
        for part in queries.bundles(sweep):
            yield from self.database.read(partial(tables.results_by_cell, sweep=part, names=names))

    def totals(self, sweep: TrialSet) -> "pd.DataFrame":
        """Return how a sweep's trials ended: one row per ``state`` and ``engine``.

        Columns: ``state``, ``engine``, ``trials``, ``seconds`` and ``evaluation_seconds`` (summed).
        """
        return self.database.read(lambda connection: tables.totals(connection, sweep))

    def recorded(self, sweep: AnySet) -> AnySet:
        """Return the part of a sweep that has outcomes now: a snapshot, if others are writing."""
        return self.database.read(lambda connection: tables.recorded_part(connection, sweep))

    def measures(self, sweep: TrialSet, kind: str) -> "pd.DataFrame":
        """Return the measures of one kind of probe: one row per trial and measured step.

        Returns:
            ``trial`` (the trial's row in ``table(sweep)``), ``seed``, ``step``, and one column per quantity,
            missing if a trial lacks it. Quantities that are arrays have a NumPy array in each row.
        """
        return self.database.read(lambda connection: tables.measures_table(connection, sweep, kind))

    def curves(self, sweep: TrialSet) -> "pd.DataFrame":
        """Return the training curves: one row per trial and point.

        Returns:
            ``trial`` (the trial's row in ``table(sweep)``), ``seed``, ``step``, ``loss`` and ``error``,
            as in ``Curve``.
        """
        return self.database.read(lambda connection: tables.curves_table(connection, sweep))

    def errors(self, sweep: TrialSet) -> "pd.DataFrame":
        """Return the train and held-out error during training: one row per trial and point, about a hundred per trial.

        Returns:
            ``trial`` (the trial's row in ``table(sweep)``), ``seed``, ``step``, ``loss``, ``train_error`` and
            ``test_error``, as in ``ErrorCurve``. Trials of earlier versions have no rows.
        """
        return self.database.read(lambda connection: tables.errors_table(connection, sweep))

    def cells_table(self, sweep: TrialSet | None = None, *, where: Filter | None = None) -> "pd.DataFrame":
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
        return self.database.read(
            lambda connection: aggregates.cells_table(connection, stored_cells(connection, sweep, where))
        )

    def status(self) -> Status:
        """Return the progress of this store's runs; ``str`` makes it readable."""
        return self.database.read(read_status)

    def export(self, path: str | Path, sweep: TrialSet | None = None) -> int:
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
                f"an export must go to a writable file: {printable(str(path))} ({error.strerror or error})"
            ) from None
        return len(table)

    def export_weights(self, folder: str | Path, sweep: TrialSet | None = None) -> int:
        """Write the weights that the probe ``Checkpoints`` kept as safetensors files, one per trial and step.

        Files are named by the trial's identity and the step, ``<12 digits>-<step>.safetensors``, and have the trial as
        metadata; ``el.load_network`` reads them.

        Args:
            folder: the folder, which is made if there is none.
            sweep: the sweep whose trials to write; all of the store by default.

        Returns:
            The number of files.

        Raises:
            StoreError: no trial has checkpoints of all its parameters, or the folder cannot be written.
        """
        place = checked_path(folder, "a folder of weights", StoreError)
        files = 0
        for outcome in self.outcomes(sweep):
            columns = dict(outcome.measures.get(Checkpoints.kind, {}))
            steps = columns.pop("step", [])
            if not columns or columns.keys() != {*outcome.trial.model.parameter_names(outcome.trial.task)}:
                continue
            try:
                place.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                rule = f"weights must go to a folder that can be created: {printable(str(folder))}"
                raise StoreError(f"{rule} ({error.strerror or error})") from None
            for row, step in enumerate(steps):
                arrays = {name: np.asarray(values[row], np.float32) for name, values in columns.items()}
                file = place / f"{outcome.trial.identity[:12]}-{step}.safetensors"
                write_weights(file, outcome.trial, arrays, step=step, state=outcome.state, engine=outcome.engine)
            files += len(steps)
        if not files:
            raise StoreError(
                "weights must be in the store before they are exported: no trial has checkpoints of all its "
                f"parameters (probes=[el.probes.Checkpoints()]): {self.place}"
            )
        return files


def opened(store: Store | str | Path | None) -> AbstractContextManager[Store]:
    """Return a context of a store; if the store is given by a path or URL, it is closed at the end."""
    return nullcontext(store) if isinstance(store, Store) else Store(store)
