"""How a trial may have ended."""

from typing import Literal

State = Literal["solved", "unsolved", "diverged", "failed", "interrupted"]
FINISHED: tuple[State, ...] = ("solved", "unsolved", "diverged")
"""The states of a trial that ran to its end; a failed one is rerun when asked, an interrupted one always."""

STATES: tuple[State, ...] = (*FINISHED, "failed", "interrupted")
"""Every state of an outcome."""
