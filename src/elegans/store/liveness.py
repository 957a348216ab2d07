"""Which runs are still running: a claim is only valid while the process that holds it lives."""

import os
import platform
import uuid
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import psutil

HEARTBEAT_SECONDS = 10.0
"""Seconds between two records that a run is alive."""
SILENCE_SECONDS = 60.0
"""Seconds after which the claims of a silent run on another machine are free."""
LOST_SECONDS = 120.0
"""Seconds for which a run goes on without its store's server, which a restart does not take."""
LARGEST_LEAD_SECONDS = 86400.0
"""Seconds by which another machine's clock may be ahead: a later heartbeat is damage."""

ACTIVE: set[str] = set()
"""The tokens of this process's runs."""


class Process(NamedTuple):
    """What distinguishes a process from all others.

    Args:
        host, pid: the machine's name, and the process's number, which later processes may reuse.
        started: when it started, in kernel ticks since the machine booted, which setting the clock does not change.
        boot: identifies the boot of the machine and the namespace of process numbers, so that machines of one name
            are told apart; where the system does not provide it, the machine's network hardware, and ``started`` is
            then in seconds since 1970.
    """

    host: str
    pid: int
    started: float
    boot: str


class Clock(NamedTuple):
    """The time by one clock for all runs of a store, which no wrong clock of a machine shifts.

    Args:
        now: in seconds since 1970.
        since: when the store's server started.
    """

    now: float
    since: float = 0.0


def this_process() -> Process:
    """Return what distinguishes this process from all others."""
    return _this_process(os.getpid())  # by number: a forked child is another process


@lru_cache
def _this_process(pid: int) -> Process:
    seen, boot = _in_proc(pid), _boot()
    if seen is None or boot is None:
        return Process(platform.node(), pid, psutil.Process(pid).create_time(), f"hardware {uuid.getnode():012x}")
    return Process(platform.node(), pid, seen[1], boot)


@cache
def _boot() -> str | None:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return None


def _in_proc(pid: int) -> tuple[str, float] | None:
    """Return a process's state and its start in ticks since the machine booted; None if it is not visible."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return fields[0].decode(), float(fields[19])


def is_alive(run: Any, clock: Clock) -> bool:
    """Return whether a run is still running.

    A run in this process is recognised by its token, one that this machine can see by its process, and one elsewhere
    by its last sign of life.
    """
    return run.finished is None and _state(run, clock) is not None


def is_stopped(run: Any, clock: Clock) -> bool:
    """Return whether a run was stopped (SIGSTOP, Ctrl-Z): it still holds its trials, but trains none."""
    return run.finished is None and _state(run, clock) in ("T", "t")


def _state(run: Any, clock: Clock) -> str | None:
    """Return the kernel's name for the state of a run's process, empty if unknown, None if it has ended."""
    here = this_process()
    if (run.host, run.boot) != (here.host, here.boot):
        return "" if _heard_of(run, clock) else None
    if _boot() is None:
        return _state_by_clock(run)
    if (run.pid, run.process_started) == (here.pid, here.started):
        return "" if run.token in ACTIVE else None
    seen = _in_proc(run.pid)
    if seen is None:  # it has ended, or it is another user's and hidden
        return "" if psutil.pid_exists(run.pid) and _heard_of(run, clock) else None
    state, started = seen
    return state if started == run.process_started and state not in ("Z", "X") else None


def _heard_of(run: Any, clock: Clock) -> bool:
    """Return whether a run has reported lately; another machine's clock may be ahead, but not by a day."""
    heard = run.heartbeat
    if clock.since - LOST_SECONDS - SILENCE_SECONDS < heard < clock.since:
        heard = clock.since  # nobody could report while the server was down
    return bool(-LARGEST_LEAD_SECONDS < clock.now - heard < SILENCE_SECONDS)


def _state_by_clock(run: Any) -> str | None:
    try:
        process = psutil.Process(run.pid)
        if abs(process.create_time() - run.process_started) >= 1:
            return None
    except psutil.AccessDenied:
        return ""
    except (psutil.Error, OverflowError):
        return None
    return "" if run.pid != os.getpid() or run.token in ACTIVE else None
