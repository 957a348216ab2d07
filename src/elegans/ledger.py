"""A ledger of the counters that have been drawn, which refuses to draw the same counter twice.

Two draws from one key at the same counter are equal or correlated, and nothing reveals it. While user-defined code is
rehearsed (see ``elegans.training.rehearsal``), each function of ``elegans.random`` enters its counters here.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elegans.errors import OverlappingDraws, printable

_LIBRARIES = frozenset({"elegans", "jax", "equinox", "optax", "contextlib"})


class _Call(NamedTuple):
    """A call of a function of ``elegans.random``: its name and line, and arguments of ``Ledger.enter``."""

    name: str
    again: str
    space: str
    whole: bool


class _Draw(NamedTuple):
    """The counters of one call as increasing numbers 2^32 index + lane, or None for all counters of a key."""

    counters: np.ndarray | None
    call: _Call


class Ledger:
    """The draws of one rehearsal, by key.

    Args:
        repeatable: classes whose draws may be repeated, since a task draws the same example each time.
    """

    def __init__(self, repeatable: tuple[type, ...] = ()) -> None:
        self._repeatable = repeatable
        self._draws: dict[tuple[Any, ...], list[_Draw]] = {}
        self._deferred: dict[_Call, list[Any]] = {}
        self.overlap: OverlappingDraws | None = None
        """The first overlap, kept in case the code under rehearsal catches the error."""

    def enter(self, key: Any, index: Any, lane: Any, again: str = "", space: str = "", whole: bool = False) -> Any:
        """Enter the counters (index, lane) of a call, and refuse any that have already been drawn.

        Args:
            key: the key.
            index: its indices, as NumPy or JAX arrays, including those traced by ``vmap`` or in compiled loops.
            lane: its lanes.
            again: a name under which the same counters may be drawn again, because they belong to one derived quantity.
            space: the name of the set of counters, if not the set of ``random.bits``.
            whole: whether all counters of the key are entered, since another generator uses it from now on.

        Returns:
            The indices to draw from: JAX would drop the entry of traced ones if its result were not used.

        Raises:
            OverlappingDraws: one of the counters is drawn twice.
        """
        name, callers = _call()
        if any(isinstance(caller, self._repeatable) for caller in callers):
            again = "repeatable"
        call = _Call(name, again, space, whole)
        if not any(map(_is_traced, (*key, index, lane))):
            self._enter(call, key[0], key[1], index, lane)
            return index
        import jax
        import jax.numpy as jnp

        def deliver(*numbers: Any) -> Any:
            if _active is not None:  # JAX may keep this function in its caches for later programs
                _active._deferred.setdefault(call, []).append(numbers)
            return np.asarray(numbers[2])

        numbers = jnp.broadcast_arrays(*(jnp.asarray(value, jnp.uint32) for value in (*key, index, lane)))
        result = jax.ShapeDtypeStruct(numbers[0].shape, jnp.uint32)  # type: ignore[no-untyped-call]
        return jax.pure_callback(deliver, result, *numbers, vmap_method="broadcast_all")

    def settle(self) -> None:
        """Raise the first overlap, including overlaps of traced draws, whose counters JAX has delivered by now.

        Raises:
            OverlappingDraws: one of the counters was drawn twice.
        """
        for call, values in self._deferred.items():
            columns = zip(*values, strict=True)
            high, low, index, lane = (np.concatenate([np.ravel(part) for part in column]) for column in columns)
            for key in set(zip(high.tolist(), low.tolist(), strict=True)):
                same = (high == key[0]) & (low == key[1])
                self._enter(call, key[0], key[1], index[same], lane[same])
        if self.overlap is not None:
            raise self.overlap

    def _enter(self, call: "_Call", high: Any, low: Any, index: Any, lane: Any) -> None:
        key = int(high), int(low), call.space
        if call.whole:
            self._add(key, _Draw(None, call))
            return
        counters = np.ravel(np.asarray(index).astype(np.uint64) * 2**32 + np.asarray(lane).astype(np.uint64))
        if (counters[1:] <= counters[:-1]).any():
            numbers, (counters, counts) = counters, np.unique(counters, return_counts=True)
            if len(counters) < len(numbers) and not call.again:
                fault = f"{call.name} uses {_counter(counters[counts > 1][0])} more than once"
                self._refuse(f"a draw must not use a counter twice: {fault}; give each number its own index or lane")
        self._add(key, _Draw(counters, call))

    def _add(self, key: tuple[Any, ...], draw: _Draw) -> None:
        for other in self._draws.setdefault(key, []):
            if not (draw.call.again and draw.call.again == other.call.again) and (shared := _shared(draw, other)):
                fault = f"{other.call.name} and later {draw.call.name} use {shared}"
                rule = "two draws from one key must not share a counter"
                self._refuse(f"{rule}: {fault}; make one of these draws from key.fold(1)")
        self._draws[key].append(draw)

    def _refuse(self, message: str) -> None:
        error = OverlappingDraws(message)
        self.overlap = self.overlap or error
        raise error


def _shared(draw: _Draw, other: _Draw) -> str:
    """Return in words a counter that two draws of one key share, or nothing."""
    if draw.counters is None or other.counters is None:
        return "the same counters"
    if not (len(draw.counters) and len(other.counters)):
        return ""
    if draw.counters[-1] < other.counters[0] or other.counters[-1] < draw.counters[0]:
        return ""
    common = np.intersect1d(draw.counters, other.counters, assume_unique=True)
    return _counter(common[0]) if len(common) else ""


_LEDGER: ContextVar[Ledger | None] = ContextVar("ledger", default=None)
_active: Ledger | None = None
"""The ledger of the one rehearsal that is under way: JAX delivers counters in threads of its own."""
_REHEARSING = threading.RLock()


def current() -> Ledger | None:
    """Return the ledger in which this thread's draws are entered, or None outside rehearsals."""
    return _LEDGER.get()


@contextmanager
def recorded(repeatable: tuple[type, ...] = ()) -> Iterator[Ledger]:
    """Record this thread's draws in a new ledger; see ``Ledger``."""
    global _active
    ledger = Ledger(repeatable)
    with _REHEARSING:
        token, _active = _LEDGER.set(ledger), ledger
        try:
            yield ledger
        finally:
            _LEDGER.reset(token)
            _active = None


def enter(key: Any, index: Any, lane: Any, again: str = "", space: str = "", whole: bool = False) -> Any:
    """Enter counters in the current ledger, if there is one, and return the indices; see ``Ledger.enter``."""
    ledger = _LEDGER.get()
    return index if ledger is None else ledger.enter(key, index, lane, again, space, whole)


def _call() -> tuple[str, list[Any]]:
    """Return the function of ``elegans.random`` being called, with the line that calls it, and the calling objects.

    The line is the nearest one in the user's own code or, if there is none, in elegans.
    """
    frame: Any = sys._getframe(1)
    function, nearest, is_users, callers = "", None, False, []
    while frame is not None and frame.f_globals.get("__name__") != "elegans.training.rehearsal":
        module = frame.f_globals.get("__name__", "")
        callers.append(frame.f_locals.get("self"))
        if module == "elegans.random":
            function = frame.f_code.co_name
        elif module != __name__ and not is_users:
            is_users = module.partition(".")[0] not in _LIBRARIES
            if is_users or (nearest is None and module.startswith("elegans")):
                nearest = frame
        frame = frame.f_back
    if nearest is not None:
        function = f"{function} ({printable(Path(nearest.f_code.co_filename).name)}, line {nearest.f_lineno})"
    return function, callers


def _counter(number: Any) -> str:
    return f"index {int(number) >> 32}, lane {int(number) & 0xFFFFFFFF}"


def _is_traced(value: Any) -> bool:
    if not type(value).__module__.startswith("jax"):
        return False
    import jax

    return isinstance(value, jax.core.Tracer)
