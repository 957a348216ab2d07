"""Running an experiment, given by its name, by its file, or as an object."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from elegans.errors import ExperimentError, article
from elegans.experiments.adaptive import trace
from elegans.experiments.base import Experiment, Result, Scale, errors_named
from elegans.experiments.claims import judge, plain
from elegans.experiments.record import record_of
from elegans.experiments.registry import cited, find
from elegans.experiments.results import NamedTables, Results, StoredResults, Tables
from elegans.files import failure, writable
from elegans.probes import Probe
from elegans.store import Store
from elegans.store.store import opened
from elegans.sweeps import Progress, Sweep
from elegans.sweeps.dispatcher import Retrain
from elegans.sweeps.frontier import ADDED
from elegans.sweeps.runner import Scheduler, complete, connected, report
from elegans.sweeps.tracking import Track, tracking
from elegans.training.engines import choose


def run_experiment(  # noqa: PLR0913 (the options of the command line, all by name)
    experiment: str | Path | Experiment,
    scale: str | None = None,
    *,
    out: Path | str = "results",
    store: Store | str | Path | None = None,
    workers: int | None = None,
    scheduler: Scheduler = None,
    instruction_set: str | None = None,
    seeds: int | None = None,
    adaptive: bool = False,
    engine: str = "auto",
    retry_failed: bool = False,
    retrain: Retrain = "missing",
    options: Mapping[str, Any] = {},
    first_seed: int = 0,
    watch: Any = None,
    command: str | None = None,
    track: Track | None = None,
) -> Result:
    """Run an experiment and write its figure, table and record into a folder of its scale.

    Trials that the store already has are not trained again, so a run that was cut short continues where it stopped.

    Args:
        experiment: the experiment, its name, or the path of your file that defines it.
        scale: ``smoke``, ``laptop``, ``part`` or ``paper``; by default ``laptop``, or the first one
            of an experiment that has no ``laptop``.
        out: where the folder ``<name>/<scale>`` is made, with ``figure.png``, ``figure.pdf``, a CSV file for each
            table, ``record.json`` and the experiment's own extras; with options it is ``<name>/<scale>.<option>=…``.
        store: the store of the outcomes; ``<out>/<name>/runs.db`` by default.
        workers: the number of training threads; by default one per core.
        scheduler: where other machines train, as in ``elegans.run``.
        instruction_set: the instruction set of all workers of the scheduler; by default the best that all have.
        seeds: the number of trials per cell; by default the scale's number.
        adaptive: whether to trace the success frontier (``elegans.trace_frontier``) by up to ``seeds`` trials per cell.
        engine: an engine's name, or ``auto`` for the first that takes each trial.
        retry_failed: whether to train failed trials again although the code of their classes is unchanged.
        retrain: as in ``elegans.run``; with ``refuse``, no verdict rests on trials that are older than their code.
        options: the experiment's own options by name, such as ``{"group": "S4"}`` for ``group-margins``.
        first_seed: added to every seed: claims are judged on seeds that influenced neither setting nor rule.
        watch: called with the progress, as in ``elegans.run``.
        command: the command to write into the record; this call by default.
        track: as in ``elegans.run``; the figure and the verdicts are sent too.

    Raises:
        ExperimentError: the experiment, the scale or an option is unknown, ``seeds`` is not positive, ``first_seed``
            is negative, or the folder cannot be written.
        StoreError: the store cannot be used.
        EngineError: no engine takes the trials.
        SweepError: the scheduler cannot be reached, its workers have other versions, or ``retrain`` is ``refuse`` and
            trials are older than their code.
    """
    experiment = find(experiment).with_options(options)
    name, scale = experiment.name, experiment.scale_name(scale)
    count, rounds, sweep = _requested(experiment.scale(scale), seeds, first_seed, engine)
    folder = _folder(out, name, scale, options)
    if store is None:
        _make(folder)  # the folder above it contains the store
    settings: dict[str, Any] = {"workers": workers, "engine": engine, "name": name}
    settings |= {"retry_failed": retry_failed, "retrain": retrain}
    call = {"seeds": seeds, "adaptive": adaptive, "first_seed": first_seed, "options": dict(options)}
    text = "".join(f", {argument}={value!r}" for argument, value in call.items() if value)
    origin: dict[str, Any] = {
        "command": command or f"elegans.experiments.run_experiment({name!r}, {scale!r}{text})",
        "date": datetime.now(UTC),
        "begun": time.perf_counter(),
        "first_seed": first_seed,
        "arguments": {"seeds": seeds, "adaptive": adaptive, "engine": engine, "options": dict(options)},
    }
    connection = connected(scheduler, workers, instruction_set=instruction_set)
    with (
        tracking(track, name, sweep) as tracker,
        connection as cluster,
        opened(store or folder.parent / "runs.db") as open_store,
    ):
        _make(folder)
        for file in ("figure.png", "figure.pdf", "record.json"):  # before hours of training
            writable(folder / file, "a file of results", ExperimentError, open_store.place)
        settings["scheduler"] = cluster
        total = _TotalProgress(watch, sweep)
        if adaptive:
            experiment, results = trace(experiment, sweep, count, open_store, {**settings, "watch": watch})
        else:
            _train(experiment, sweep, open_store, total, settings)
            train = partial(_train_further, open_store, total, settings)
            results = _followed(experiment, StoredResults(open_store, sweep), count, rounds, train)
        origin |= {"cluster": cluster.record()} if cluster else {}
        result = _written(experiment, StoredResults(open_store, results.sweep, scale), folder, origin, total.stage)
        if tracker is not None:
            tracker.record(open_store, results.sweep)
            tracker.show(result.folder / "figure.png", {"verdicts": result.record["verdicts"]})
        return result


def _requested(size: Scale, seeds: int | None, first_seed: int, engine: str) -> tuple[int, int, Sweep]:
    """Return how many trials each cell has, how many rounds follow, and the sweep; refuse what cannot run."""
    if seeds is not None and seeds < 1:
        raise ExperimentError(f"seeds must be at least 1: seeds={seeds}")
    if first_seed < 0:
        raise ExperimentError(f"first_seed must be at least 0: first_seed={first_seed}")
    count = seeds or size.trials
    sweep = size.cells(count).shifted(first_seed)
    for template in sweep.cells:  # all of them: the sweep runs in parts, and a late one must not fail after hours
        choose(template, engine)
    return count, size.rounds, sweep


def draw_experiment(
    experiment: str | Path | Experiment,
    scale: str | None = None,
    *,
    out: Path | str = "results",
    store: str | Path | None = None,
    options: Mapping[str, Any] = {},
    command: str | None = None,
) -> Result:
    """Write figure, table and record of the trials that a store already has; nothing is trained.

    For a run that is under way or was cut short: the ``paper`` scale of ``success-frontier`` takes months, but its
    first panels can be drawn after an hour.

    Args:
        experiment: as in ``run_experiment``.
        scale: as in ``run_experiment``; trials of other scales are left out.
        out: where the folder of the files is made, as in ``run_experiment``.
        store: the store of the outcomes; ``<out>/<name>/runs.db`` by default.
        options: the experiment's own options, as in ``run_experiment``.
        command: the command to write into the record; this call by default.

    Raises:
        ExperimentError: the experiment, the scale or an option is unknown, its figure shows more than rates and times,
            or the store has none of its trials.
        StoreError: the store does not exist or cannot be read.
    """
    experiment = find(experiment).with_options(options)
    name, scale = experiment.name, experiment.scale_name(scale)
    size = experiment.scale(scale)
    if (experiment.further or experiment.probes) and not experiment.partial:
        raise ExperimentError(
            f"{name} must be run to be drawn: its figure needs every trial with its curve; "
            "`elegans run` without --draw-only trains only what the store lacks"
        )
    folder = _folder(out, name, scale, options)
    origin = {
        "command": command or f"elegans.experiments.draw_experiment({name!r}, {scale!r})",
        "date": datetime.now(UTC),
        "begun": time.perf_counter(),
        "first_seed": 0,
    }
    with Store(store or folder.parent / "runs.db", create=False) as open_store:
        recorded = open_store.recorded(size.cells(size.trials))
        results = _recorded(experiment, open_store, recorded, size.trials, scale)
        if not len(results.recorded):
            raise ExperimentError(f"a store must have trials of {name} at scale {scale} to draw: trials=0")
        return _written(experiment, results, _make(folder), origin)


def analyse_store(experiment: Experiment, scale: str, store: Store, sweep: Sweep) -> tuple[Results, Tables]:
    """Return what a store has of an experiment so far, and the tables that its claims are decided from.

    Args:
        experiment: the experiment.
        scale: one of its scales.
        store: the store, which is only read.
        sweep: the scale's sweep, with the seeds that the store has.
    """
    count = max((len(seeds) for _, seeds in sweep.parts), default=1)
    results = _recorded(experiment, store, store.recorded(sweep), count, scale)
    return results, experiment.analyse(results)


def _recorded(experiment: Experiment, store: Store, sweep: Sweep, count: int, scale: str) -> StoredResults:
    """Return a store's results of a sweep's trials, and of the trials that follow as far as the store has them."""
    rounds, read = experiment.scale(scale).rounds, partial(StoredResults, store)
    return StoredResults(store, _followed(experiment, read(sweep), count, rounds, read).sweep, scale)


def _written(
    experiment: Experiment,
    results: StoredResults,
    folder: Path,
    origin: Mapping[str, Any],
    stage: Callable[[str], None] = lambda stage: None,
) -> Result:
    stage("analysing")
    results.first_seed = origin["first_seed"]
    with errors_named("analyse", experiment):
        analysed = experiment.analyse(results)
    if not isinstance(analysed, Mapping) or not all(isinstance(table, pd.DataFrame) for table in analysed.values()):
        rule = f"analyse of {experiment.name} must return data frames by name, as in {{'cells': table}}"
        raise ExperimentError(f"{rule}: {article(type(analysed).__name__)}")
    tables = NamedTables(analysed)
    with errors_named("findings", experiment):
        findings = {"findings": plain(experiment.findings(tables))} if experiment.findings else {}
    stage("judging")
    with errors_named("a claim's rule", experiment):
        verdicts = judge(experiment.claims, tables)
    record = {
        "experiment": experiment.name,
        "source": cited(experiment),
        "scale": results.scale,
        "command": origin["command"],
        "date": origin["date"].isoformat(timespec="seconds"),
        "seconds": round(time.perf_counter() - origin["begun"], 3),
        "first_seed": origin["first_seed"],
        **({"arguments": origin["arguments"]} if "arguments" in origin else {}),
        "identities": results.sweep.identity,
        "cells": len(results.sweep.cells),
        **record_of(results.store.totals(results.sweep)),
        **({"cluster": origin["cluster"]} if "cluster" in origin else {}),
        **findings,
        "verdicts": verdicts,
    }
    stage("drawing")
    return Result(experiment, results, tables, record, folder).write(results.store.place)


class _TotalProgress:
    """Reports the progress of an experiment's runs as if they were one."""

    def __init__(self, watch: Callable[[Progress], None] | None, sweep: Sweep) -> None:
        self.watch, self.cells, self.trials = watch, len(sweep.cells), len(sweep)
        self.sums: Progress | None = None

    def following(self, summed: Sequence[str]) -> Callable[[Progress], None]:
        """Return a watcher of the next run, which adds the numbers of earlier runs to the ``summed`` ones."""
        before = self.sums

        def tell(progress: Progress) -> None:
            if before is not None:
                sums = {name: getattr(before, name) + getattr(progress, name) for name in summed}
                progress = replace(progress, **sums)
            self.sums = progress
            if self.watch:
                cells, trials = max(self.cells, progress.cells), max(self.trials, progress.trials)
                missing, pace = trials - progress.done, progress.per_second
                left = max(0.0, missing - progress.share) / pace if pace else None if missing else 0.0
                self.watch(replace(progress, cells=cells, trials=trials, seconds_left=left))

        return tell

    def stage(self, name: str) -> None:
        """Report what the experiment does after its last trial."""
        if self.watch and self.sums:
            self.watch(replace(self.sums, stage=name))


def _train(
    experiment: Experiment, sweep: Sweep, store: Store, total: _TotalProgress, settings: Mapping[str, Any]
) -> None:
    groups: dict[tuple[Probe, ...], list[Any]] = {}
    for part in sweep.parts:
        groups.setdefault(experiment.probes_of(part[0]), []).append(part)
    for probes, parts in groups.items():
        group = Sweep(tuple(parts))
        report(store, group, complete(group, store, probes=probes, watch=total.following(ADDED), **settings))


def _train_further(store: Store, total: _TotalProgress, settings: Mapping[str, Any], sweep: Sweep) -> Results:
    """Train trials that follow from others, without probes, and return all results."""
    report(store, sweep, complete(sweep, store, watch=total.following(("this_run", "elapsed")), **settings))
    return StoredResults(store, sweep)


def _followed(
    experiment: Experiment, results: Results, count: int, rounds: int, results_of: Callable[[Sweep], Results]
) -> Results:
    """Return the results of a sweep and of the trials that follow from them, round by round."""
    for _ in range(rounds if experiment.further else 0):
        assert experiment.further is not None
        more = results.sweep + experiment.further(results.sweep, results, count)
        if len(more) == len(results.sweep):
            break
        results = results_of(more)
    return results


def _folder(out: Path | str, name: str, scale: str, options: Mapping[str, Any]) -> Path:
    """Return the folder of a run's files: those of another scale or other options stay; all share the store above."""
    values = (f"{option}={str(value).replace('/', '-')}" for option, value in options.items())
    return Path(out) / name / ".".join([scale, *values])


def _make(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExperimentError(f"results must have a folder that can be created: {failure(error)}") from None
    return folder
