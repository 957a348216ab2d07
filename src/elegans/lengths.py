"""Limits on the lengths of lists and arrays; without NumPy, which quick commands do not import."""

from collections.abc import Sequence
from typing import Any

ENTRIES = 10**7
"""Maximum number of entries of an array or a list."""


def too_long(value: Any, longest: int) -> bool:
    """Return whether a list or an array, or a member of a list, has too many entries."""
    if not isinstance(value, Sequence):
        return hasattr(value, "dtype") and isinstance(value.size, int) and value.size > longest
    return _length(value) > longest or (not isinstance(value, range) and any(map(_endless, value)))


def _endless(member: Any) -> bool:
    return isinstance(member, range) and _length(member) > ENTRIES


def _length(value: Any) -> int:
    """Return a list's length; that of a range may be more than ``len`` can return."""
    return max(0, -((value.start - value.stop) // value.step)) if isinstance(value, range) else len(value)
