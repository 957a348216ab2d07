"""The states in which a trial can end."""

from typing import Literal

State = Literal["solved", "unsolved", "diverged", "failed", "interrupted"]
FINISHED: tuple[State, ...] = ("solved", "unsolved", "diverged")
"""The states of a completed trial; a failed one is rerun on request, an interrupted one always."""

STATES: tuple[State, ...] = (*FINISHED, "failed", "interrupted")
"""Every state of an outcome."""
