"""Ctrl-C in a command: what the process does from its first import on, so that this module imports next to nothing."""

import _signal  # type: ignore[import-not-found]  # the module `signal` imports others
import _thread
import os
import sys
import time

PATIENCE_SECONDS = 5.0
"""Seconds during which repeated signals count as one; a later one ends a program that ignored the first."""
INTERRUPTED = 130
"""The exit code of a program that was interrupted."""


class SigintHandler:
    """Handles SIGINT in a command: until a run has begun, the process ends at once, even during an import."""

    def __init__(self) -> None:
        self.said = "interrupted: nothing was started"
        """The last line that the process prints."""
        self.begun = False
        """Whether a run has begun, so that the command itself reports how it ended."""
        self.before: float | None = None
        """When the first of the signals that count as one came."""
        self.ended: int | None = None
        """The exit code, once the command has ended and only Python has something to do."""

    def __call__(self, number: int, frame: object) -> None:
        """Handle a signal."""
        if self.ended is not None:
            os._exit(self.ended)
        if not self.begun:
            shown = "\x1b[?25h" if os.isatty(1) else ""  # a live view may have hidden the cursor
            try:  # noqa: SIM105 (contextlib is not imported yet)
                os.write(1, f"{shown}{self.said}\n".encode())
            except OSError:
                pass
            os._exit(INTERRUPTED)
        now = time.monotonic()
        if self.before is None or now > self.before + PATIENCE_SECONDS:
            self.before = now
            interrupt()


def interrupt() -> None:
    """Raise KeyboardInterrupt without a log message from the connections that it closes."""
    import logging

    logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)
    raise KeyboardInterrupt


leave = SigintHandler()
"""This process's handler, once ``install`` has been called."""


def install() -> None:
    """Handle SIGINT from now on, unless it is ignored or handled by someone else."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        try:
            _signal.signal(_signal.SIGINT, leave)
        except ValueError:  # another thread than the main one, which alone receives signals
            return
        sys.unraisablehook = _raised_again


def _send_again() -> None:
    time.sleep(0.01)
    leave.before = None
    _signal.raise_signal(_signal.SIGINT)


def _raised_again(unraisable: "sys.UnraisableHookArgs") -> None:
    """Send a signal again that came while Python called what cannot raise, such as a finaliser."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        _thread.start_new_thread(_send_again, ())  # here it could not be raised either
    else:
        sys.__unraisablehook__(unraisable)
