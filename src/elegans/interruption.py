"""Signals that end a run: between its transactions. Before and after one, ``leaving`` handles them."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from elegans.leaving import PATIENCE_SECONDS, interrupt, leave

_DEFAULT = {
    getattr(signal, name): default
    for name, default in (
        ("SIGINT", signal.default_int_handler),
        ("SIGTERM", signal.SIG_DFL),
        ("SIGHUP", signal.SIG_DFL),  # the terminal was closed
    )
    if hasattr(signal, name)
}


_stops: list[threading.Event] = []
"""The events that signals set now."""


def pause(seconds: float) -> bool:
    """Wait, but not once a signal has stopped a run of this process; return whether one has."""
    until = time.monotonic() + seconds
    while not (stopped := any(stop.is_set() for stop in _stops)) and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 0.1))
    return stopped


@contextmanager
def stopped_by_signals(stop: threading.Event) -> Iterator[threading.Event]:
    """Make SIGINT, SIGTERM and SIGHUP set an event, so that no transaction is interrupted.

    Signals in quick succession count as one. Only the main thread receives signals; the user's handlers stay in place.
    """
    first = 0.0

    def handle(number: int, frame: Any) -> None:
        nonlocal first
        if not first:
            first = time.monotonic()
            # in a thread: the event's lock may be held here, by a wait or by another signal's handler
            threading.Thread(target=stop.set, daemon=True).start()
        elif time.monotonic() > first + PATIENCE_SECONDS:
            interrupt()

    leave.begun = True
    handlers = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in _DEFAULT}
        handlers = {number: old for number, old in handlers.items() if old is _DEFAULT[number] or old is leave}
    for number in handlers:
        signal.signal(number, handle)
    _stops.append(stop)
    try:
        yield stop
    finally:
        leave.before = first or leave.before  # a signal that comes again while the command ends
        _stops.remove(stop)
        for number, old in handlers.items():
            signal.signal(number, old)
