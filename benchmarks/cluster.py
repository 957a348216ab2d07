"""Training on the workers of a Dask scheduler: the cost of the one process that claims and records, and its limits.

``python -m benchmarks.cluster TRIALS STORE`` runs one-step trials on two worker processes and prints what they cost.
"""

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil

import elegans as el
from benchmarks import tiny
from benchmarks.measure import in_turns, ratios, seconds, spread
from benchmarks.record import Result, at_least, at_most, cores
from elegans.experiments import plan
from elegans.studies.pareto_frontiers import settings as pareto
from elegans.sweeps.dask_client import Cluster

MILLISECONDS, MEGABYTES, EFFICIENCY, CORE_HOURS = 0.5, 500.0, 90.0, 400.0
COUNTS = (8, 64, 512, 4096)


def run(*, quick: bool) -> Result:
    """Measure the cost of the driver, compare threads with worker processes, and simulate larger clusters."""
    trials, seeds, repetitions = (5000, 4, 2) if quick else (100_000, 24, 5)
    own, memory = _driver(trials)
    times = _times(seeds, repetitions)
    threads, *clusters = times
    scale = "smoke" if quick else "paper"
    plans = {
        (way, count): plan("success-frontier", scale, adaptive=way == "traced", workers=count)
        for way in ("grid", "traced")
        for count in (COUNTS[:1] if quick else COUNTS)
    }
    summary: list[dict[str, Any]] = [
        {
            "what": f"{trials} one-step trials: driver and scheduler, ms of processor time per trial",
            "measured": f"{own:.3g}",
        },
        {"what": "… their memory, MB", "measured": f"{memory:.0f}"},
    ]
    summary += [{"what": f"{name}, s", "measured": spread(values)} for name, values in times.items()]
    summary += [
        {"what": f"{threads} / {name}", "measured": spread(ratios(times[threads], times[name]))} for name in clusters
    ]
    summary += [
        {
            "what": f"simulated: success-frontier at scale {scale}, {way}, {count} cores",
            "measured": f"{found.seconds / 3600:.3g} h, training {found.efficiency:.0%}, writer {found.writer:.1%}",
        }
        for (way, count), found in plans.items()
    ]
    targets = [
        at_most(f"driver and scheduler per trial at {trials} one-step trials", own, MILLISECONDS, " ms"),
        at_most("memory of driver and scheduler", memory, MEGABYTES, " MB"),
    ]
    if not quick:
        traced = plans["traced", COUNTS[0]]
        work = traced.seconds * COUNTS[0] * (traced.efficiency or 0) / 3600
        busy = 100 * (plans["grid", 512].efficiency or 0)
        targets += [
            at_most("simulated: all 24 panels of success-frontier, traced, core-hours", work, CORE_HOURS, ""),
            at_least("simulated: efficiency of their grid on 512 cores", busy, EFFICIENCY, "%"),
        ]
    return Result(
        settings={"trials": trials, "seeds": seeds, "repetitions": repetitions, "scale": scale},
        repetitions={
            "seconds": times,
            "plans": {f"{way}, {count}": vars(each) for (way, count), each in plans.items()},
        },
        summary=summary,
        targets=targets,
    )


def _driver(trials: int) -> tuple[float, float]:
    """Return the milliseconds of processor time per trial and the memory in MB of driver and scheduler."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.cluster", str(trials), f"{folder}/runs.db"]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    spent, memory = map(float, printed.split())
    return 1e3 * spent / trials, memory


def _times(seeds: int, repetitions: int) -> dict[str, list[float]]:
    """Return the seconds of one sweep on threads and on workers of as many cores."""
    axes = {"model.width": [30, 300], "regime": ["sample:300", "sample:1000", "sample:3000"]}
    sweep = el.grid(pareto.trial(n=50, k=3, steps=4000), axes, seeds=seeds)
    count = cores()
    with Cluster(f"local:{count}") as processes, _one_process(count) as threaded:
        contenders = {
            f"{count} threads": partial(el.run, sweep, workers=count),
            f"{count} processes of one core": partial(el.run, sweep, scheduler=processes),
            f"one process of {count} cores": partial(el.run, sweep, scheduler=threaded),
        }
        for work in contenders.values():
            work()
        return in_turns({name: partial(seconds, work) for name, work in contenders.items()}, repetitions)


@contextmanager
def _one_process(threads: int) -> Iterator[Cluster]:
    """Yield the connection to a scheduler with one worker process that trains so many batches at once."""
    import distributed

    make: Any = distributed.LocalCluster
    with make(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=50) as own:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", own.scheduler_address, "--no-dashboard"]
        silent: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        worker = subprocess.Popen([*command, f"--nthreads={threads}", "--nworkers=1"], **silent)
        try:
            own.wait_for_workers(1, timeout=60)
            with Cluster(own.scheduler_address) as cluster:
                yield cluster
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.wait(30)


def main(trials: int, store: Path) -> None:
    """Run one-step trials on two worker processes; print the processor seconds and the memory in MB of this one."""
    with Cluster("local:2") as cluster:
        begun = time.process_time()
        cells = el.run(tiny.sweep_of(trials), store=str(store), scheduler=cluster, table="cells")
        spent = time.process_time() - begun
    assert cells["trials"].sum() == trials, f"{cells['trials'].sum()} of {trials} trials"
    print(spent, psutil.Process().memory_info().rss / 2**20)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
