"""Signals that end a program: at once before a run, and between transactions during one."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

PATIENCE_SECONDS = 5.0
"""Seconds during which repeated signals count as one; a later one ends a program that ignored the first."""
INTERRUPTED = 130  # the exit code of a program that was interrupted
_DEFAULT: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
if hasattr(signal, "SIGHUP"):  # the terminal was closed
    _DEFAULT[signal.SIGHUP] = signal.SIG_DFL


class Leave:
    """Handles SIGINT in a command: until a run has begun, the process ends at once, even during an import."""

    def __init__(self) -> None:
        self.said = "interrupted: nothing was started"
        """The last line that the process prints."""
        self.begun = False
        """Whether a run has begun, so that the command itself reports how it ended."""
        self.before: float | None = None

    def __call__(self, number: int, frame: Any) -> None:
        if not self.begun:
            cursor = "\x1b[?25h" if os.isatty(1) else ""  # a live view may have hidden it
            with suppress(OSError):
                os.write(1, f"{cursor}{self.said}\n".encode())
            os._exit(INTERRUPTED)
        now = time.monotonic()
        if self.before is None or now > self.before + PATIENCE_SECONDS:
            self.before = now
            raise KeyboardInterrupt


leave = Leave()
"""This process's handler, once ``install`` has been called."""


def install() -> None:
    """Handle SIGINT from now on, unless it is ignored or handled by someone else."""
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)


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

    Signals in quick succession count as one. Only the main thread receives signals; the user's own handlers stay.
    """
    first = 0.0

    def handle(number: int, frame: Any) -> None:
        nonlocal first
        if not first:
            first = time.monotonic()
            # in a thread: the event's lock may be held here, by a wait or by another signal's handler
            threading.Thread(target=stop.set, daemon=True).start()
        elif time.monotonic() > first + PATIENCE_SECONDS:
            raise KeyboardInterrupt

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
        _stops.remove(stop)
        for number, old in handlers.items():
            signal.signal(number, old)
