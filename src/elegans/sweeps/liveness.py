"""Which runs are still at work: a claim is worth as much as the process that holds it."""

import os
import platform
import time
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import psutil

HEARTBEAT_SECONDS = 10.0
"""How often a run says that it is alive."""
SILENCE_SECONDS = 60.0
"""How long a run on another machine may be silent before its claims are free."""

ACTIVE: set[str] = set()
"""The tokens of the runs at work in this process."""


class Process(NamedTuple):
    """What tells a process from all others.

    Args:
        host, pid: the machine's name, and the process's number, which is given again to later ones.
        started: when it started, in the kernel's ticks since the machine did: setting the clock does not change it.
        boot: which start of which machine that was, and in which space processes are numbered. None where the
            system does not say: ``started`` is in seconds since 1970 then.
    """

    host: str
    pid: int
    started: float
    boot: str | None


def this_process() -> Process:
    """Return what tells this process from all others."""
    return _this_process(os.getpid())  # by number: a forked child is another process


@lru_cache
def _this_process(pid: int) -> Process:
    found = _in_proc(pid)
    if found is None or _boot() is None:
        return Process(platform.node(), pid, psutil.Process(pid).create_time(), None)
    return Process(platform.node(), pid, found[1], _boot())


@cache
def _boot() -> str | None:
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return None


def _in_proc(pid: int) -> tuple[str, float] | None:
    """Return a process's state and when it started, in ticks since the machine did; None if it cannot be seen."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return fields[0].decode(), float(fields[19])


def is_alive(run: Any) -> bool:
    """Return whether a run is still at work.

    A run in this process is asked by its token; one that this machine can see by its process; one elsewhere by when
    it was last heard of.
    """
    return run.finished is None and _state(run) is not None


def is_stopped(run: Any) -> bool:
    """Return whether a run was stopped (SIGSTOP, Ctrl-Z): it goes on to hold its trials, and trains none."""
    return run.finished is None and _state(run) in ("T", "t")


def _state(run: Any) -> str | None:
    """Return the state of a run's process as the kernel calls it, empty where it is not known, None if it has ended."""
    here = this_process()
    if run.host != here.host or (run.boot is not None and run.boot != here.boot):
        return "" if time.time() - run.heartbeat < SILENCE_SECONDS else None
    if run.boot is None:  # of a system that does not say more, or of an elegans that did not ask
        return _state_by_clock(run)
    if (run.pid, run.process_started) == (here.pid, here.started):
        return "" if run.token in ACTIVE else None
    found = _in_proc(run.pid)
    if found is None:  # it has ended, or it is another user's and hidden
        hidden = psutil.pid_exists(run.pid) and time.time() - run.heartbeat < SILENCE_SECONDS
        return "" if hidden else None
    state, started = found
    return state if started == run.process_started and state not in ("Z", "X") else None


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
