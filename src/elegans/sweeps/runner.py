"""Runs sweeps: only missing trials are trained, beside other runs, and a run can be stopped at any moment."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pandas as pd

from elegans.display import note, wanted
from elegans.errors import ElegansWarning, RunError, SweepError, brief, counted, shown
from elegans.extensions import own_frames
from elegans.machine import MOST_WORKERS
from elegans.probes import Probe
from elegans.store.store import Store, opened
from elegans.store.tables import reason
from elegans.sweeps.dispatcher import Dispatcher, Options, Retrain
from elegans.sweeps.progress import OnProgress, watching
from elegans.sweeps.sweep import Sweep
from elegans.sweeps.tracking import Track, tracking
from elegans.training.engines import Engine, choose, fallback
from elegans.training.loop import check_probes
from elegans.training.outcome import LONGEST_LINE
from elegans.training.rehearsal import rehearse

if TYPE_CHECKING:
    from elegans.sweeps.dask_client import Cluster

Scheduler = Any
"""Where other machines train: None for threads here, the address or file of a Dask scheduler, or ``local:N``; also a
``distributed.Client``, or a ``Cluster`` that is connected already."""


def run(  # noqa: PLR0913 (all but the first two by name)
    sweep: Sweep,
    store: Store | str | Path | None = None,
    *,
    workers: int | None = None,
    scheduler: Scheduler = None,
    engine: str = "auto",
    probes: Sequence[Probe] = (),
    retry_failed: bool = False,
    retrain: Retrain = "missing",
    watch: OnProgress | None = None,
    progress: bool | None = None,
    name: str | None = None,
    table: Literal["trials", "cells"] = "trials",
    track: Track | None = None,
) -> pd.DataFrame:
    """Train the trials of a sweep that a store lacks, and return the table of all its trials.

    Memory barely grows during training; the table has one row of half a kilobyte per trial, or with ``table="cells"``
    one row per cell, for millions of trials.

    Several processes may run sweeps on one store at the same time: each trial is trained by one of them,
    and each returns once its own sweep is complete. To continue a run that was killed, run it again. A trial within
    which an exception is raised is ``failed``, and the others continue: ``error`` gives the reason, and a warning
    quotes the first traceback, as far as it lies in the user's own files.

    Args:
        sweep: the sweep.
        store: where outcomes are kept: a store, a path or a URL; by default the store that the sweep
            names, or else memory, where only the returned table remains.
        workers: the number of training threads; by default the number of cores that this process may use.
        scheduler: where other machines train, instead of threads of this process: the address or file of a Dask
            scheduler, ``local:N`` for N processes on this machine, or a ``distributed.Client``. This process claims
            and records the trials, so the store may be a file here.
        engine: an engine's name; ``auto`` leaves it to the sweep.
        probes: measures to take (``store.outcome(trial).measures``); a trial whose outcome lacks them is trained again.
        retry_failed: whether to train failed trials again although the code of their classes is unchanged.
        retrain: ``missing`` trains what the store lacks; if the code of a class of your own has changed, a warning
            states how many outcomes are older than the change. ``changed`` trains these again; ``refuse`` raises.
        watch: called with the progress at most ten times a second, and at the end.
        progress: whether to show the progress on stderr, or in the notebook; by default on a terminal and in a
            notebook, unless there is ``watch``.
        name: the name of the run in the store's status.
        table: what to return: one row for each of the ``trials``, or for each of the ``cells``.
        track: ``wandb`` also sends the table of cells and one learning curve per cell to Weights & Biases, at the end.

    Returns:
        One row per trial in the sweep's order, as ``Store.table``; or one row per cell, over all trials that the store
        has of it, as ``Store.cells_table``.

    Raises:
        StoreError: the store cannot be opened, read or written. What was committed is kept.
        EngineError: no engine can train one of the trials; nothing has been started.
        TrialError: a probe cannot measure one of the trials; nothing has been started.
        SweepError: the sweep has no trial, ``workers`` is not positive or given beside ``scheduler``, ``retrain`` or
            ``table`` is unknown, ``retrain`` is ``refuse`` and trials are older than their code, two probes are of one
            kind, the tracker is unknown or not installed, the scheduler cannot be reached, or its workers have other
            versions.
        RunError: every trial of the sweep failed; its note is the first traceback.
        Interrupted: Ctrl-C, SIGTERM or SIGHUP was received. Trials that had ended are kept.
    """
    if table not in ("trials", "cells"):
        raise SweepError(f"table must be trials or cells: table={table!r}")
    if not sweep.parts:
        raise SweepError("a sweep must have at least one trial: trials=0")
    options = Options(workers, engine, probes, retry_failed, retrain, name)
    note_fallback(sweep, engine, wanted(progress, watch is not None))
    store = sweep.store if store is None else store
    engines = _engines(sweep, options, store)
    with (
        tracking(track, name, sweep) as tracker,
        connected(scheduler, workers) as cluster,
        opened(store) as store,
    ):
        with watching(progress, watch) as on_progress:
            failed = Dispatcher(sweep, engines, on_progress).train(store, options, cluster)
        report(store, sweep, failed)
        if tracker is not None:
            tracker.record(store, sweep)
        return store.table(sweep) if table == "trials" else store.cells_table(sweep)


def complete(  # noqa: PLR0913 (as run)
    sweep: Sweep,
    store: Store | str | Path,
    *,
    workers: int | None = None,
    scheduler: Scheduler = None,
    engine: str = "auto",
    probes: Sequence[Probe] = (),
    retry_failed: bool = False,
    retrain: Retrain = "missing",
    watch: OnProgress | None = None,
    name: str | None = None,
) -> np.ndarray:
    """Train the trials of a sweep that a store lacks, as in ``run``, and return the positions of failed trials."""
    options = Options(workers, engine, probes, retry_failed, retrain, name)
    engines = _engines(sweep, options, store)
    with connected(scheduler, workers) as cluster, opened(store) as store:
        return Dispatcher(sweep, engines, watch).train(store, options, cluster)


def _engines(sweep: Sweep, options: Options, store: Store | str | Path | None) -> list[Engine]:
    """Return the engine of each cell; refuse what cannot run before a store is made.

    If the store exists, user-defined code is rehearsed once it is known which cells lack trials.
    """
    workers, probes = options.workers, options.probes
    if workers is not None and not 1 <= workers <= MOST_WORKERS:
        raise SweepError(f"workers must be from 1 to {MOST_WORKERS}: workers={shown(workers)}")
    if options.retrain not in get_args(Retrain):
        raise SweepError(f"retrain must be missing, changed or refuse: retrain={shown(options.retrain)}")
    kinds = [probe.kind for probe in probes]
    for kind in kinds:
        if kinds.count(kind) > 1:
            raise SweepError(f"probes must be of different kinds: {kind} occurs {kinds.count(kind)} times")
    for template in sweep.cells if probes else ():
        check_probes(probes, template)
    engine = sweep.engine if options.engine == "auto" else options.engine
    engines = [choose(template, engine) for template in sweep.cells]
    if not (isinstance(store, Store) or "://" in str(store) or Path(str(store)).exists()):
        for template in sweep.cells:
            rehearse(template, probes)
    return engines


def note_fallback(sweep: Sweep, engine: str, shown: bool = True) -> None:
    """Note once why ``auto`` leaves cells of a sweep to the general engine, if it does and notes are shown."""
    if not shown:
        return
    asked = sweep.engine if engine == "auto" else engine
    slow = next(filter(None, (fallback(cell, asked) for cell in sweep.cells)), None)
    if slow:
        note(slow)


def report(store: Store, sweep: Sweep, failed: np.ndarray) -> None:
    """Warn of failed trials, given their positions in the sweep.

    Raises:
        RunError: all of the sweep's trials failed.
    """
    if not len(failed):
        return
    first = sweep.trial(int(failed[0]))
    again = "retry_failed, or --retry-failed in the shell, trains them again"
    count = f"{len(failed):,} of {counted(len(sweep), 'trial')} failed ({again})"
    lines = own_frames(str(store.outcome(first).error)).splitlines()
    error = "\n".join(brief(line, LONGEST_LINE) for line in lines)
    quoted = f"the first, of model {first.model.label()!r} with seed {first.seed}:\n\n{error}"
    if len(failed) < len(sweep):
        warnings.warn(f"{count}; {quoted}", ElegansWarning, stacklevel=4)
        return
    raised = RunError(f"{count}: {reason(error)}")
    raised.add_note(quoted)
    raise raised


@contextmanager
def connected(scheduler: Scheduler, workers: int | None = None, **chosen: Any) -> Iterator["Cluster | None"]:
    """Yield the connection to a scheduler, or None where there is none: threads of this process train.

    Args:
        scheduler: as in ``run``.
        workers: the number of threads that was requested, which a scheduler excludes.
        chosen: further arguments of ``Cluster``.

    Raises:
        SweepError: as ``run``.
    """
    if scheduler is None:
        if chosen.get("instruction_set") is not None:
            rule = "instruction_set needs a scheduler (ELEGANS_INSTRUCTION_SET sets it for threads)"
            raise SweepError(f"{rule}: instruction_set={chosen['instruction_set']!r}")
        yield None
        return
    if workers is not None:
        raise SweepError(f"workers and scheduler are mutually exclusive: workers={shown(workers)}")
    from elegans.sweeps.dask_client import Cluster  # late: Dask takes a while to load, and is an extra

    if isinstance(scheduler, Cluster):
        yield scheduler
        return
    with Cluster(scheduler, **chosen) as cluster:
        yield cluster
