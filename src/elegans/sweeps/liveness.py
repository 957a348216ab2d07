"""Which runs are still at work: a claim is worth as much as the process that holds it."""

import os
import platform
import time
from functools import lru_cache
from typing import Any

import psutil

HEARTBEAT_SECONDS = 10.0
"""How often a run says that it is alive."""
SILENCE_SECONDS = 60.0
"""How long a run on another machine may be silent before its claims are free."""

ACTIVE: set[str] = set()
"""The tokens of the runs at work in this process."""


@lru_cache
def _this_process(pid: int) -> tuple[str, int, float]:
    return platform.node(), pid, psutil.Process(pid).create_time()


def this_process() -> tuple[str, int, float]:
    """Return host, process number and the time at which this process started."""
    return _this_process(os.getpid())  # by number: a forked child is another process


def is_alive(run: Any) -> bool:
    """Return whether a run is still at work.

    A run in this process is asked by its token; one on this host by its process (number and start, as
    numbers are used again); one elsewhere by when it was last heard of.
    """
    host, pid, started = this_process()
    if run.finished is not None:
        return False
    if run.host != host:
        return bool(time.time() - run.heartbeat < SILENCE_SECONDS)
    if run.pid == pid and abs(run.process_started - started) < 1:
        return run.token in ACTIVE
    try:
        return bool(abs(psutil.Process(run.pid).create_time() - run.process_started) < 1)
    except psutil.AccessDenied:
        return True
    except psutil.Error:
        return False
