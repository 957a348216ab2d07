"""A ledger of the counters that have been drawn, in which a second draw of the same counter is refused.

Draws of one key at one counter are equal or correlated, without a symptom. While a user's own code is rehearsed (see
``elegans.training.rehearsal``), each function of ``elegans.random`` enters its counters here.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elegans.errors import OverlappingDraws, printable

_LIBRARIES = frozenset({"elegans", "jax", "equinox", "optax", "contextlib"})


class _Draw(NamedTuple):
    """The counters of one call as sorted numbers 2^32 index + lane, or None for all counters of a key."""

    counters: np.ndarray | None
    call: str
    again: str


class Ledger:
    """The draws of one rehearsal, by key.

    Args:
        repeatable: classes whose draws may be repeated: what a task draws for an example is that example each time.
    """

    def __init__(self, repeatable: tuple[type, ...] = ()) -> None:
        self._repeatable = repeatable
        self._draws: dict[tuple[Any, ...], list[_Draw]] = {}
        self._deferred: dict[tuple[str, str, str], list[Any]] = {}
        self.overlap: OverlappingDraws | None = None
        """The first overlap, for code that catches the error."""

    def enter(self, key: Any, index: Any, lane: Any, again: str = "", space: str = "") -> None:
        """Enter the counters (index, lane) of a call; refuse those that have been drawn.

        Args:
            key: the key.
            index: its indices, NumPy or JAX arrays, traced by ``vmap`` or ``grad`` too.
            lane: its lanes.
            again: a name under which the same counters may be drawn again: they belong to one derived quantity.
            space: the name of the counters, where they are not those of ``random.bits``.

        Raises:
            OverlappingDraws: one of the counters is drawn twice.
        """
        call, callers = _call()
        if any(isinstance(caller, self._repeatable) for caller in callers):
            again = "repeatable"
        if not any(map(_is_traced, (*key, index, lane))):
            self._enter(call, again, space, key[0], key[1], index, lane)
            return
        import jax
        import jax.numpy as jnp

        def deliver(*numbers: Any) -> Any:
            self._deferred.setdefault((call, again, space), []).append(numbers)
            return np.asarray(numbers[0])

        numbers = jnp.broadcast_arrays(*(jnp.asarray(value, jnp.uint32) for value in (*key, index, lane)))
        # once for all examples of `vmap`; a callback without results would be called for each
        result = jax.ShapeDtypeStruct(numbers[0].shape, jnp.uint32)  # type: ignore[no-untyped-call]
        jax.pure_callback(deliver, result, *numbers, vmap_method="broadcast_all")

    def settle(self) -> None:
        """Raise the first overlap, those of traced draws included, whose counters JAX has delivered since.

        Raises:
            OverlappingDraws: one of the counters was drawn twice.
        """
        for (call, again, space), values in self._deferred.items():
            high, low, index, lane = (
                np.concatenate(list(map(np.ravel, column))) for column in zip(*values, strict=True)
            )
            for key in set(zip(high.tolist(), low.tolist(), strict=True)):
                same = (high == key[0]) & (low == key[1])
                self._enter(call, again, space, key[0], key[1], index[same], lane[same])
        if self.overlap is not None:
            raise self.overlap

    def enter_whole(self, key: Any) -> None:
        """Enter all counters of a key: another generator uses it from now on.

        Raises:
            OverlappingDraws: some counter of the key has been drawn.
        """
        self._add((int(key[0]), int(key[1]), ""), _Draw(None, _call()[0], ""))

    def _enter(self, call: str, again: str, space: str, high: Any, low: Any, index: Any, lane: Any) -> None:
        numbers = np.ravel(np.asarray(index).astype(np.uint64) * 2**32 + np.asarray(lane).astype(np.uint64))
        counters = np.unique(numbers)
        if len(counters) < len(numbers) and not again:
            values, counts = np.unique(numbers, return_counts=True)
            again = _counter(values[counts > 1][0])
            rule = "a draw must not use a counter twice"
            self._refuse(f"{rule}: {call} draws {again} more than once; give each number its own index or lane")
        self._add((int(high), int(low), space), _Draw(counters, call, again))

    def _add(self, key: tuple[Any, ...], draw: _Draw) -> None:
        for other in self._draws.setdefault(key, []):
            if draw.again and draw.again == other.again:
                continue
            shared = "everything" if draw.counters is None or other.counters is None else ""
            if not shared:
                common = np.intersect1d(draw.counters, other.counters, assume_unique=True)  # type: ignore[arg-type]
                shared = _counter(common[0]) if len(common) else ""
            if shared:
                rule = "two draws must not share a counter of one key"
                both = f"{other.call} and then {draw.call} draw {shared}"
                self._refuse(f"{rule}: {both}; draw one of them from key.fold(1)")
        self._draws[key].append(draw)

    def _refuse(self, message: str) -> None:
        error = OverlappingDraws(message)
        self.overlap = self.overlap or error
        raise error


_LEDGER: ContextVar[Ledger | None] = ContextVar("ledger", default=None)


def current() -> Ledger | None:
    """Return the ledger that this thread's draws are entered in, or None, as in all but rehearsals."""
    return _LEDGER.get()


@contextmanager
def recorded(repeatable: tuple[type, ...] = ()) -> Iterator[Ledger]:
    """Enter the draws of this thread in a new ledger; see ``Ledger``."""
    ledger = Ledger(repeatable)
    token = _LEDGER.set(ledger)
    try:
        yield ledger
    finally:
        _LEDGER.reset(token)


def enter(key: Any, index: Any, lane: Any, again: str = "", space: str = "") -> None:
    """Enter counters in the current ledger, if there is one; see ``Ledger.enter``."""
    if (ledger := _LEDGER.get()) is not None:
        ledger.enter(key, index, lane, again, space)


def _call() -> tuple[str, list[Any]]:
    """Return the function of ``elegans.random`` that is being called, with its line, and the objects that call it.

    The line is the nearest one of a user's own code, or of elegans where there is none.
    """
    frame: Any = sys._getframe(1)
    function, nearest, is_own, callers = "", None, False, []
    while frame is not None and frame.f_globals.get("__name__") != "elegans.training.rehearsal":
        module = frame.f_globals.get("__name__", "")
        callers.append(frame.f_locals.get("self"))
        if module == "elegans.random":
            function = frame.f_code.co_name
        elif module != __name__ and not is_own:
            is_own = module.partition(".")[0] not in _LIBRARIES
            if is_own or (nearest is None and module.startswith("elegans")):
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
