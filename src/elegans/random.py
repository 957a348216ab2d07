"""The only source of randomness: Threefry-2x32 counters, keyed by (trial seed, stream).

A draw is a function of its key and its counter (index, lane), never of earlier draws, so the same trial gets the same
draws alone or in a batch, in any order, in any engine, before and after a resume. The generator is JAX's own:
``stream(seed, name)`` equals ``jax.random.fold_in(key(seed), s)`` with s the stream's number. All functions take NumPy
or JAX arrays (traced ones too) and return the same kind. Source: Salmon et al., "Parallel random numbers: as easy as 1,
2, 3" (SC 2011).

Every function takes a key first and, if it draws for given indices, these second; all else is named. Two draws of one
key must not share a counter, or their numbers are equal or correlated: draw the second from ``key.fold(1)``.
User-defined code that shares a counter is refused when it is first used.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from elegans import ledger
from elegans.errors import TrialError, shown, suggest

try:
    from elegans import _native
except ImportError:  # no native engine on this machine: `elegans doctor` says why
    _native = None  # type: ignore[assignment]

STREAMS = {
    "task": 0,
    "init": 1,
    "sample": 2,
    "batches": 3,
    "test": 4,
    "noise": 5,
    "probe": 6,
    "dropout": 7,
    "gradient": 8,
}
"""The streams of a trial, each an independent source of draws, and their numbers."""

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_NO_LANE = 0xFFFFFFFF
_ZERO = np.zeros(1, np.uint32)
_ON_HOST = frozenset({int, np.ndarray, np.uint32})
"""Types that are never JAX's."""


class Key(NamedTuple):
    """A Threefry key: two words of 32 bits, whole numbers or unsigned arrays of shape ()."""

    high: Any
    low: Any

    def fold(self, number: Any) -> "Key":
        """Return an independent key for a whole number from 0 to 2^32 - 1, as ``jax.random.fold_in`` does.

        Draws from the new key are independent of draws from this key and from keys folded with other numbers. For
        example, ``rademacher(key, index, 40)`` and ``uniform(key.fold(1), index)`` are independent.
        """
        if getattr(number, "ndim", 0):
            raise TrialError(f"the number of a key must be a single whole number: number={shown(number)}")
        if isinstance(number, np.integer):
            number = int(number)
        if type(number) is int:
            if not 0 <= number < 2**32:
                raise TrialError(f"the number of a key must be from 0 to 2^32 - 1: number={shown(number)}")
            if _native is not None and type(self.high) is int:
                return Key(*_native.fold(self, number))
        elif getattr(getattr(number, "dtype", None), "kind", "") not in ("i", "u"):
            raise TrialError(f"the number of a key must be a whole number: number={shown(number)}")
        high, low = _words(self, _ZERO, number)
        return Key(high[0], low[0]) if _is_jax(high) else Key(high.item(), low.item())

    def for_jax(self) -> Any:
        """Return this key as a typed JAX key for ``jax.random``, which must then be the only one to draw from it."""
        import jax

        ledger.enter(self, 0, 0, whole=True)

        data = jax.numpy.stack([jax.numpy.asarray(word, dtype="uint32") for word in self])
        return jax.random.wrap_key_data(data, impl="threefry2x32")


def stream(seed: int, name: str) -> Key:
    """Return the key of one of a trial's ``STREAMS`` by its name.

    Raises:
        TrialError: the name is unknown, or the seed is not a whole number from 0 to 2^64 - 1.
    """
    if not isinstance(name, str) or name not in STREAMS:
        raise TrialError(f"unknown stream {shown(name)}{suggest(str(name), STREAMS)}")
    return _stream(checked_seed(seed), name)


def checked_seed(seed: int) -> int:
    """Return a trial's seed as an integer; refuse anything but a whole number from 0 to 2^64 - 1."""
    if not isinstance(seed, Integral) or isinstance(seed, bool) or not 0 <= seed < 2**64:
        raise TrialError(f"a seed must be a whole number from 0 to 2^64 - 1: seed={shown(seed)}")
    return int(seed)


@lru_cache(maxsize=1024)
def _stream(seed: int, name: str) -> Key:
    return Key(seed >> 32, seed & 0xFFFFFFFF).fold(STREAMS[name])


def bits(key: Key, index: Any, *, lane: Any = 0) -> tuple[Any, Any]:
    """Return the two random words at each counter (index, lane).

    Args:
        key: the key.
        index: whole numbers below 2^32, such as example numbers.
        lane: whole numbers below 2^32 that broadcast with ``index``; they number the counters of an index, such as
            coordinates. One lane yields 64 signs or 4 half words; all other draws take one lane per number.

    Returns:
        Two uint32 arrays of the broadcast shape; JAX arrays if any argument is one.

    Raises:
        TrialError: the key is not a ``Key``, or index and lane are not whole numbers that broadcast.
        OverlappingDraws: on the first use of user-defined code, if one of the counters has already been drawn.
    """
    _refuse_other_keys(key)
    return _words(key, ledger.enter(key, index, lane), lane)


def _words(key: Key, index: Any, lane: Any) -> tuple[Any, Any]:
    _refuse_other_keys(key)
    values = *key, index, lane
    if not _ON_HOST.issuperset(map(type, values)) and (traced := [value for value in values if _is_jax(value)]):
        xp = traced[0].__array_namespace__()
        index, lane = _whole("index", index), _whole("lane", lane)
        _refuse_shapes(index, lane)
        index, lane = xp.broadcast_arrays(_uint32(xp, index), _uint32(xp, lane))
        return _compiled(_uint32(xp, key.high), _uint32(xp, key.low), index, lane)
    index, lane = _counted("index", index), _counted("lane", lane)
    if index.shape != lane.shape:
        _refuse_shapes(index, lane)
    if _native is None:
        high, low = np.asarray([key.high], np.uint32), np.asarray([key.low], np.uint32)
        index, lane = np.broadcast_arrays(index, lane)
        return threefry(high, low, np.atleast_1d(index), np.atleast_1d(lane))
    # every trial draws a little: additions broadcast at a fraction of the cost of np.broadcast_arrays
    zeros = (index & 0) + (lane & 0)
    counters = (index + zeros).ravel(), (lane + zeros).ravel()
    first, second = _native.words((int(key.high), int(key.low)), *counters)
    return first.reshape(zeros.shape), second.reshape(zeros.shape)


def threefry(key0: Any, key1: Any, counter0: Any, counter1: Any) -> tuple[Any, Any]:
    """Return the 20-round Threefry-2x32 block of uint32 arrays: two arrays of their broadcast shape."""
    _refuse_shapes(*(_whole("a word of a block", word) for word in (key0, key1, counter0, counter1)))
    keys = (key0, key1, key0 ^ key1 ^ _PARITY)
    x0, x1 = counter0 + key0, counter1 + key1
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = ((x1 << rotation) | (x1 >> (32 - rotation))) ^ x0
        x0 = x0 + keys[(group + 1) % 3]
        x1 = x1 + keys[(group + 2) % 3] + (group + 1)
    return x0, x1


def _compiled(*words: Any) -> tuple[Any, Any]:
    """Return ``threefry`` of JAX arrays; its hundred operations are traced once per shape, not in every call."""
    if ledger.current() is None:
        return _traced_once()(*words)
    import jax

    with jax.disable_jit(False):  # a rehearsal runs user-defined code step by step, but not this
        return _traced_once()(*words)


@lru_cache
def _traced_once() -> Callable[..., tuple[Any, Any]]:
    import jax

    return jax.jit(threefry)


def _looped_words(key: Key, index: Any, lane: Any) -> tuple[Any, Any]:
    """Return the same words as a JAX program that repeats one group of four rounds five times."""
    import jax
    import jax.numpy as jnp

    high, low = (_uint32(jnp, word) for word in key)
    keys, rotations = jnp.stack([high, low, high ^ low ^ _PARITY]), jnp.asarray(_ROTATIONS, jnp.uint32)

    def group(number: Any, x: Any) -> Any:
        x0, x1 = x
        for rotation in rotations[number % 2]:
            x0 = x0 + x1
            x1 = ((x1 << rotation) | (x1 >> (32 - rotation))) ^ x0
        return x0 + keys[(number + 1) % 3], x1 + keys[(number + 2) % 3] + (number + 1).astype(jnp.uint32)

    counter0, counter1 = jnp.broadcast_arrays(_uint32(jnp, index), _uint32(jnp, lane))
    words: tuple[Any, Any] = jax.lax.fori_loop(0, 5, group, (counter0 + high, counter1 + low))
    return words


def uniform(key: Key, index: Any, *, lane: Any = 0) -> Any:
    """Return float32 draws from 2^24 equally spaced values in [0, 1), one per counter; arguments as for ``bits``."""
    return _as_float(bits(key, index, lane=lane)[0] >> 8) * np.float32(2.0**-24)


def uniform_signed(key: Key, index: Any, *, lane: Any = 0) -> Any:
    """Return float32 draws from 2^24 equally spaced values in [-1, 1), one per counter; arguments as for ``bits``."""
    return _as_float(bits(key, index, lane=lane)[0] >> 8) * np.float32(2.0**-23) - np.float32(1)


def normal(key: Key, index: Any, *, lane: Any = 0) -> Any:
    """Return float32 standard normal draws, one per counter; arguments as for ``bits``.

    They are Box-Muller transforms of uniform draws of 24 bits.
    """
    first, second = bits(key, index, lane=lane)
    xp = first.__array_namespace__()
    radius = xp.sqrt(-2 * xp.log((_as_float(first >> 8) + 1) * np.float32(2.0**-24)))
    return radius * xp.cos(_as_float(second >> 8) * np.float32(2 * math.pi * 2.0**-24))


def integers(key: Key, index: Any, *, bound: Any, lane: Any = 0) -> Any:
    """Return uint32 draws below a bound, one per counter (index, lane), uniform to within one part in 2^34.

    Takes the same arguments as ``bits``, and ``bound``: whole numbers up to 2^30 that broadcast with the counters.
    """
    first, second = bits(key, index, lane=lane)
    if type(bound) is not int:
        _refuse_shapes(first, _whole("bound", bound))
    low = first * bound
    return _multiply_high(first, bound) + (low + _multiply_high(second, bound) < low)


def _multiply_high(a: Any, b: Any) -> Any:
    """Return the upper 32 bits of the product of uint32 arrays; JAX has no wider numbers by default."""
    if not (_is_jax(a) or _is_jax(b)):
        return ((np.asarray(a, np.uint64) * b) >> 32).astype(np.uint32)
    a_high, a_low, b_high, b_low = a >> 16, a & 0xFFFF, b >> 16, b & 0xFFFF
    middle = a_high * b_low + ((a_low * b_low) >> 16)
    return a_high * b_high + (middle >> 16) + (((middle & 0xFFFF) + a_low * b_high) >> 16)


def rademacher(key: Key, index: Any, n: int) -> Any:
    """Return uniform vectors in {-1, +1}^n, float32 (count, n), from lanes 0 to ceil(n / 64) - 1 of indices (count,).

    Coordinate j is +1 where bit j mod 64 of the block (index, j // 64) is 0; the first word of a block holds its bits 0
    to 31, the second its bits 32 to 63.
    """
    index, blocks = _listed(index), (_size("n", n) + 63) // 64
    first, second = bits(key, index[:, None], lane=np.arange(blocks, dtype=np.uint32)[None, :])
    xp = first.__array_namespace__()
    pairs = xp.stack([first, second], axis=-1).reshape(len(index), 2 * blocks)
    signs = (pairs[:, :, None] >> np.arange(32, dtype=np.uint32)) & 1
    return 1 - 2 * _as_float(signs.reshape(len(index), 64 * blocks)[:, :n])


def half_bits(key: Key, index: Any, n: int) -> Any:
    """Return uniform whole numbers below 2^16, uint32 (count, n), from lanes 0 to ceil(n / 4) - 1 of indices (count,).

    Number j is the half word j mod 4 of the block (index, j // 4), the lower half of its first word being the first.
    """
    _refuse_other_keys(key)
    index = _listed(index)
    counters = index[:, None], np.arange((_size("n", n) + 3) // 4, dtype=np.uint32)[None, :]
    # four numbers per word: without a loop, XLA would unroll and compile the rounds four times
    looped = any(_is_jax(value) for value in (*key, index))
    first, second = (_looped_words if looped else _words)(key, ledger.enter(key, *counters), counters[1])
    xp = first.__array_namespace__()
    halves = xp.stack([first & 0xFFFF, first >> 16, second & 0xFFFF, second >> 16], axis=-1)
    return halves.reshape(len(index), -1)[:, :n]


def subsets(key: Key, *, rows: int, n: int, size: int) -> Any:
    """Return uniform subsets of {0, …, n-1}, one per row, by Floyd's algorithm.

    Row i uses the counters (i, 0) to (i, size - 1).

    Args:
        key: the key.
        rows: the number of subsets.
        n: the size of the ground set.
        size: the number of elements in each subset, at most n.

    Returns:
        int64 of shape (rows, size); each row has distinct elements in increasing order.
    """
    if _size("size", size) > _size("n", n):
        raise TrialError(f"size must be at most n: size={size}, n={n}")
    index, column = np.arange(_size("rows", rows), dtype=np.uint32)[:, None], np.arange(size, dtype=np.uint32)
    chosen = integers(key, index, lane=column, bound=column + np.uint32(n - size + 1)).astype(np.int64)
    for position in range(1, size):
        elements = chosen[:, position]
        duplicate = (chosen[:, :position] == elements[:, None]).any(axis=1)
        elements[duplicate] = n - size + position
    chosen.sort(axis=1)
    return chosen


def permuted(key: Key, *, epoch: Any, position: Any, size: Any) -> Any:
    """Return the number at each position in an epoch's random order of {0, …, size-1}, without storing the order.

    An unbalanced Feistel network of eight rounds on the bits of size - 1, applied until the result is below the size.

    Args:
        key: the key of the batches.
        epoch: the epoch of each position: uint32 of shape (count,).
        position: uint32 of shape (count,), below ``size``.
        size: the number of positions: uint32, at most 2^30.

    Returns:
        uint32 of shape (count,): a permutation, for one epoch and all positions.
    """
    position = _listed(position, "position")
    _refuse_shapes(_whole("epoch", epoch), position, _whole("size", size))
    xp = position.__array_namespace__()
    epoch = ledger.enter(key, epoch, position, space="permuted")
    epoch_key = Key(*_words(key, ledger.enter(key, epoch, np.uint32(_NO_LANE), again="permuted"), np.uint32(_NO_LANE)))
    length = sum((size - 1) >> shift > 0 for shift in range(31))
    length = xp.maximum(length, 2).astype(np.uint32)
    low_bits = length >> 1
    low_mask, high_mask = (1 << low_bits) - 1, (1 << (length - low_bits)) - 1
    double_rounds = 4

    def row_word(number: Any, half: Any) -> Any:
        """Return the first random word at (number, half), each row with the key of its epoch."""
        block = _compiled if any(_is_jax(value) for value in (*epoch_key, half)) else threefry
        return block(epoch_key.high, epoch_key.low, number + 0 * half, half)[0]

    def two_rounds(number: Any, halves: Any) -> Any:
        low, high = halves
        low = low ^ (row_word(2 * number, high) & low_mask)
        return low, high ^ (row_word(2 * number + 1, low) & high_mask)

    def step(value: Any) -> Any:
        halves = value & low_mask, value >> low_bits
        if _is_jax(value):
            import jax

            low, high = jax.lax.fori_loop(np.uint32(0), np.uint32(double_rounds), two_rounds, halves)
        else:
            low, high = halves
            for number in range(double_rounds):
                low, high = two_rounds(np.uint32(number), (low, high))
        return (high << low_bits) | low

    return _walk(step, position, size)


def _walk(step: Any, start: Any, size: Any) -> Any:
    if _is_jax(start) or _is_jax(size):
        import jax

        # the loop takes the first step too: outside it, the step would be traced and compiled twice
        def walk(state: Any) -> Any:
            value, outside = state
            value = jax.numpy.where(outside, step(value), value)
            return value, value >= size

        return jax.lax.while_loop(lambda state: state[1].any(), walk, (start, start == start))[0]
    value = step(start)
    while (value >= size).any():
        value = np.where(value >= size, step(value), value)
    return value


def _refuse_other_keys(key: Any) -> None:
    if type(key) is not Key:
        raise TrialError(f"a key must be a Key, as stream(seed, name) and fold give it: key={shown(key)}")


def _whole(name: str, value: Any) -> Any:
    """Return a whole number, or an array of them of any kind, as it is; nothing is converted inside JAX."""
    kind = "i" if type(value) is int else getattr(getattr(value, "dtype", None), "kind", "")
    if kind not in ("i", "u"):
        raise TrialError(f"{name} must be a whole number or an array of them: {name}={shown(value)}")
    return value


def _counted(name: str, value: Any) -> np.ndarray:
    if type(value) is int and 0 <= value < 2**32:
        return np.array(value, np.uint32)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        array = np.zeros(1)
    if array.dtype == np.uint32:
        return array
    if array.dtype.kind not in ("i", "u") and array.size:
        raise TrialError(f"{name} must be a whole number or an array of them: {name}={shown(value)}")
    if array.size and not (array.min() >= 0 and array.max() < 2**32):
        raise TrialError(f"{name} must be from 0 to 2^32 - 1: {name}={shown(value)}")
    return array.astype(np.uint32)


def _listed(index: Any, name: str = "index") -> Any:
    """Return an array of counters with one axis, as it is if it is an array."""
    counters = _whole(name, index) if hasattr(index, "ndim") else _counted(name, index)
    if counters.ndim != 1:
        raise TrialError(f"{name} must have one axis: {name}={shown(index)}")
    return counters


def _size(name: str, value: Any) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or not 0 <= int(value) < 2**32:
        raise TrialError(f"{name} must be a whole number from 0 to 2^32 - 1: {name}={shown(value)}")
    return int(value)


def _refuse_shapes(*arrays: Any) -> None:
    try:
        np.broadcast_shapes(*map(np.shape, arrays))
    except ValueError:
        shapes = ", ".join(str(np.shape(array)) for array in arrays)
        raise TrialError(f"the counters of draws must broadcast: shapes {shapes}") from None


def _as_float(values: Any) -> Any:
    return values.astype(np.float32)


def _uint32(xp: Any, value: Any) -> Any:
    return xp.asarray(value, dtype=np.uint32)


def _is_jax(value: Any) -> bool:
    return type(value).__module__.startswith("jax")
