"""The part of a run that is executed by the workers of a cluster.

A batch arrives as plain data, so that a worker needs nothing but elegans to read it: cells as JSON, seeds, the user's
files as text. What a worker trains depends on nothing else.
"""

import importlib
import json
import os
import pickle
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from elegans import discovery, extensions
from elegans.errors import RunError, SweepError, brief, shown
from elegans.machine import instruction_sets, native_build, versions
from elegans.probes import Probe
from elegans.sweeps.threads import outcomes_of
from elegans.training.engines import ENGINES
from elegans.training.trial import Trial

TELL_SECONDS = 1.0
"""Seconds between two reports of the steps taken by a batch."""
LOOK_SECONDS = 0.2
"""Seconds between two checks of whether a batch is still wanted."""
SAME = ("elegans", "numpy", "jax", "jaxlib", "equinox", "optax")
"""Distributions whose versions must be the same on all of a run's machines."""
ISA = {"baseline": "SSE4_2", "avx2": "AVX2", "avx512": "AVX512", "avx512_popcount": "AVX512"}
"""XLA's names for the instruction sets of the native engines."""

_stopped: set[str] = set()
"""The runs that have been stopped."""
_ready: set[str] = set()
"""The setups that this process has taken."""
_setting_up = threading.Lock()


@dataclass(frozen=True)
class Setup:
    """What a run asks of its workers.

    Args:
        run: the run's name among the scheduler's tasks.
        token: the name of this setup: a run has another one once it needs more.
        versions: what ``identity`` must return as ``versions``.
        instruction_set: the instruction set that every worker has to use, or None where there is no native build.
        extensions: the user's files that define classes: the names of their modules, their paths and contents.
        modules: installed modules that define classes.
        probes: the probes of the run, as JSON.
    """

    run: str
    token: str
    versions: dict[str, str]
    instruction_set: str | None
    extensions: tuple[tuple[str, str, bytes], ...] = ()
    modules: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Batch:
    """Trials for one worker.

    Args:
        key: the name of the batch among the tasks of the scheduler.
        setup: what the run asks of its workers.
        engine: the engine's name.
        cells: trials as JSON; only their seeds vary.
        trials: for each trial its cell, by position, and its seed.
        seconds: after this time the worker returns the trials that it has not begun.
    """

    key: str
    setup: Setup
    engine: str
    cells: tuple[str, ...]
    trials: tuple[tuple[int, int], ...]
    seconds: float


@dataclass
class BatchReport:
    """What a worker returns of a batch.

    Args:
        outcomes: by the position of a trial in the batch, the fields of its outcome but for the trial; the others have
            not ended.
        seconds: how long the batch took.
        failure: what ended it, if that is no ``Exception``: the error's type and arguments.
    """

    outcomes: dict[int, dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0
    failure: tuple[type[BaseException], tuple[Any, ...]] | None = None


@cache
def identity() -> dict[str, Any]:
    """Return what decides whether this process may train trials of a run, and its instruction sets."""
    found = versions()
    same = {name: found.get(name, "none") for name in SAME}
    return {
        "host": socket.gethostname(),
        "versions": {"python": ".".join(found["python"].split(".")[:2]), **same, "native build": native_build()},
        "instruction_sets": instruction_sets()[1],
    }


def difference(wanted: dict[str, str], found: dict[str, str]) -> str:
    """Return in words how two results of ``identity`` differ; empty if they do not."""
    return ", ".join(
        f"{name} {found.get(name)} in place of {value}" for name, value in wanted.items() if found.get(name) != value
    )


def prepare(setup: Setup) -> None:
    """Set this process up for a run, once.

    Raises:
        SweepError: versions differ, the instruction set cannot be used, or a module cannot be imported.
    """
    with _setting_up:
        if setup.token not in _ready:
            own = identity()
            if differs := difference(setup.versions, own["versions"]):
                raise SweepError(f"a worker must have the same versions as the run: {own['host']} has {differs}")
            for name, path, code in setup.extensions:
                extensions.execute(name, path, code)
                if discovery.LOADED[name] != (path, code):
                    rule = "a worker must have the run's version of a file"
                    raise SweepError(f"{rule}: restart the workers of {own['host']}, which have an older {path}")
            for module in setup.modules:
                try:
                    importlib.import_module(module)
                except Exception as error:  # whatever a user's own module raises
                    said = f"{own['host']}: {type(error).__name__}: {error}"
                    raise SweepError(f"a worker must be able to import {module}: {said}") from None
            _ready.add(setup.token)
        _use(setup.instruction_set)


def _use(name: str | None) -> None:
    """Use an instruction set from now on, in the native engines and in XLA."""
    if name is None:
        return
    from elegans import _native

    host, known = socket.gethostname(), instruction_sets()[1]
    if name not in known:
        raise SweepError(f"a worker must have the run's instruction set: {host} has {', '.join(known)}, not {name}")
    _native.use_instruction_set(name)
    flags = os.environ.get("XLA_FLAGS", "").split()
    others = [flag for flag in flags if not flag.startswith("--xla_cpu_max_isa=")]
    wanted = [*others, f"--xla_cpu_max_isa={ISA[name]}"] if name != known[-1] else others
    if wanted != flags:
        if "jax" in sys.modules and sys.modules["jax"]._src.xla_bridge.backends_are_initialized():
            rule = "a worker must have the run's instruction set before JAX computes"
            raise SweepError(f"{rule}: restart the workers of {host} to use {name}")
        os.environ["XLA_FLAGS"] = " ".join(wanted)


def stop(run: str) -> None:
    """Stop the batches of a run in this process: their trials end as interrupted."""
    _stopped.add(run)


def train_batch(packed: bytes) -> bytes:
    """Train a batch and return its ``BatchReport``, pickled.

    An error that is no ``Exception``, such as a KeyboardInterrupt of a user's own class, is part of the report: Dask
    would end the worker, and the run would take the trial for one that kills workers.
    """
    batch: Batch = pickle.loads(packed)  # from the run that this worker serves
    report = BatchReport()
    begun = time.perf_counter()
    try:
        _train(batch, report)
    except Exception:
        raise
    except BaseException as error:
        report.failure = _sendable(error)
    report.seconds = time.perf_counter() - begun
    return pickle.dumps(report)


def _sendable(error: BaseException) -> tuple[type[BaseException], tuple[Any, ...]]:
    """Return what makes an error anew, or an error that says the same if its class cannot be sent.

    Not the error itself: with ``distributed``, a pickled group of errors cannot be read.
    """
    made = type(error), error.args
    try:
        kind, arguments = pickle.loads(pickle.dumps(made))
        kind(*arguments)
    except Exception:  # whatever a user's own class raises
        return RunError, (f"a worker must send what ended it: {brief(f'{type(error).__name__}: {error}', 200)}",)
    return made


def _train(batch: Batch, report: BatchReport) -> None:
    prepare(batch.setup)
    engine = ENGINES.get(batch.engine)
    if engine is None or (reason := engine.unavailable()):
        said = "it does not exist" if engine is None else reason
        rule = "a worker must have the run's engine"
        raise SweepError(f"{rule}: {shown(batch.engine)} on {socket.gethostname()}: {said}")
    probes = [Probe.parse(json.loads(text)) for text in batch.setup.probes]
    cells = [Trial.parse(json.loads(text)) for text in batch.cells]
    trials = [cells[cell].with_seed(seed) for cell, seed in batch.trials]
    wanted = _Wanted(batch)
    places = {(trial.cell, trial.seed): place for place, trial in enumerate(trials)}
    groups = [trials] if engine.side_by_side > 1 else [[trial] for trial in trials]
    begun = time.perf_counter()
    for group in groups:
        if report.outcomes and (wanted.stopped() or time.perf_counter() - begun > batch.seconds):
            break
        for outcome in outcomes_of(group, engine, probes, wanted.stopped, wanted.advanced):
            place = places[outcome.trial.cell, outcome.trial.seed]
            report.outcomes[place] = {name: value for name, value in vars(outcome).items() if name != "trial"}


class _Wanted:
    """Says whether a batch is still wanted, and tells the run of its steps."""

    def __init__(self, batch: Batch) -> None:
        self.batch, self.answer = batch, False
        self.worker, self.looked, self.told = _worker(), 0.0, time.monotonic()

    def stopped(self) -> bool:
        """Return whether the run has been stopped or does not exist any more."""
        now = time.monotonic()
        if not self.answer and now > self.looked + LOOK_SECONDS:
            self.looked = now
            self.answer = self.batch.setup.run in _stopped or self._dropped()
        return self.answer

    def _dropped(self) -> bool:
        """Return whether the scheduler has dropped the task, since its client is gone."""
        if self.worker is None:
            return False
        task = self.worker.state.tasks.get(self.batch.key)
        return task is None or task.state in ("cancelled", "released", "forgotten")

    def advanced(self, step: int, steps: int, trials: int) -> None:
        """Tell the run how many steps a batch has taken."""
        now = time.monotonic()
        if self.worker is not None and now > self.told + TELL_SECONDS:
            self.told = now
            self.worker.log_event(self.batch.setup.run, {"key": self.batch.key, "steps": [step, steps, trials]})


def _worker() -> Any:
    """Return the Dask worker that this thread belongs to, or None."""
    from distributed import get_worker

    try:
        return get_worker()
    except ValueError:
        return None


def parts_of(trials: Sequence[Trial]) -> tuple[tuple[str, ...], tuple[tuple[int, int], ...]]:
    """Return the cells of trials as JSON, and for each trial its cell and seed."""
    cells: dict[str, tuple[int, str]] = {}
    for trial in trials:
        if trial.cell not in cells:
            cells[trial.cell] = len(cells), trial.model_dump_json(exclude={"seed"})
    return tuple(text for _, text in cells.values()), tuple((cells[trial.cell][0], trial.seed) for trial in trials)
