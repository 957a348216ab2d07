"""The states in which a trial can end."""

from typing import Literal

State = Literal["solved", "unsolved", "diverged", "failed", "interrupted"]
FINISHED: tuple[State, ...] = ("solved", "unsolved", "diverged")
"""The states of a completed trial; a failed one is rerun on request, an interrupted one always."""

LONGEST_ENGINE = 32  # maximum number of characters of an engine's name, which every outcome has

STATES: tuple[State, ...] = (*FINISHED, "failed", "interrupted")  # every state of an outcome
