"""Native entry points given any arrays and numbers: a result or a Python exception, never a crash.

``make test-native`` makes 100 000 calls under the sanitizers, which ends the process at a bad read or write.
"""

import os

import numpy as np
import test_bits
import test_native_attention
import test_pairs
from reference import Problem

CALLS = int(os.environ.get("ELEGANS_NATIVE_CALLS", "1500"))
DTYPES = (
    *(np.float32,) * 4,
    *(np.uint32,) * 3,
    *(np.int32,) * 3,
    np.uint8,
    np.bool_,
    np.float64,
    np.int64,
    np.complex64,
)
NUMBERS = (-1, 0, 1, 2, 3, 7, -(2**31), 2**63, 2**64, 0.5, -0.5, 1e30, float("nan"), float("inf"), None, "x", True)
REFUSED = (TypeError, ValueError, OverflowError, RuntimeError)


def array(draw, dtype=None, dimensions=None):
    """Return an array of a random shape, type and stride, most often of small numbers, some of them not finite."""
    dtype = DTYPES[draw.integers(len(DTYPES))] if dtype is None or draw.random() < 0.1 else dtype
    count = draw.integers(4) if dimensions is None or draw.random() < 0.1 else dimensions
    shape = tuple(int(size) for size in draw.integers(0, 9, count))
    with np.errstate(all="ignore"):
        values = (draw.normal(size=shape) * draw.choice([1, 3, 1e6, 1e30])).astype(dtype)
    if values.dtype.kind in "fc" and values.size and draw.random() < 0.3:
        values.flat[draw.integers(values.size)] = draw.choice([np.nan, np.inf, -np.inf])
    if values.dtype.kind in "ui" and draw.random() < 0.7:
        values = np.abs(values) % values.dtype.type(8)
    changes = (lambda x: x, lambda x: x, lambda x: x[::2], lambda x: x[::-1], lambda x: x.T)
    return changes[draw.integers(5)](values) if values.ndim else values


def number(draw):
    return NUMBERS[draw.integers(len(NUMBERS))]


def key(draw):
    return (3, 5) if draw.random() < 0.8 else (number(draw), number(draw))


def few(draw):
    return int(draw.integers(-1, 9)) if draw.random() < 0.8 else number(draw)


def one_of(draw, *calls):
    calls[draw.integers(len(calls))]()


def draws(native, draw):
    one_of(
        draw,
        lambda: native.words(key(draw), array(draw, np.uint32, 1), array(draw, np.uint32, 1)),
        lambda: native.fold(key(draw), few(draw)),
    )


def minibatches(native, draw):
    order = ("replacement", "epochs", "x")[draw.integers(3)]
    native.minibatches(key(draw), few(draw), few(draw), batch_size=few(draw), sample_size=few(draw), order=order)


def fused(native, draw):
    change = {name: number(draw) for name in ("noise", "mix", "sample_size", "degree", "scale") if draw.random() < 0.1}
    start = (*(array(draw, np.float32, size) for size in (2, 1, 1)), 0.5) if draw.random() < 0.3 else None
    problem = Problem()
    for name, value in change.items():
        object.__setattr__(problem, name, value)
    network = problem.network(native, start=start)
    counts = {name: few(draw) for name in ("every", "examples", "allowed")}
    one_of(
        draw,
        lambda: network.advance(array(draw, np.float32, 1)),
        lambda: network.advance_checked(array(draw, np.float32, 1), key=key(draw), seconds=0.01, **counts),
        lambda: network.wrong(key(draw), array(draw, np.uint32, 1), bool(draw.random() < 0.5)),
        lambda: network.predict(array(draw, np.float32, 2)),
    )


def pairs(native, draw):
    start = (array(draw, np.float32, 2), array(draw, np.float32, 2)) if draw.random() < 0.3 else None
    network = test_pairs.Problem().network(native, start=start)
    chosen = array(draw, np.uint32, 2) if draw.random() < 0.7 else None
    one_of(
        draw,
        lambda: network.advance(array(draw, np.float32, 1), chosen),
        lambda: network.outputs(array(draw, np.uint32, 1)),
        lambda: network.wrong(array(draw, np.uint32, 1)),
    )


def attention(native, draw):
    network = test_native_attention.Problem().network(native)
    tokens = [array(draw, np.int32, 2), array(draw, np.int32, 2)]
    steps = [array(draw, np.int32, 3), array(draw, np.int32, 3), array(draw, np.float32, 1)]
    one_of(
        draw,
        lambda: network.outputs(tokens[0]),
        lambda: network.wrong(*tokens),
        lambda: network.advance(*steps),
    )


def bits(native, draw):
    network = test_bits.Problem().network(native)
    steps = [array(draw, np.uint8, 2), array(draw, np.float32, 1)]
    steps += [array(draw, np.uint32, 2), array(draw, np.float32, 1)]
    one_of(draw, lambda: network.outputs(steps[0]), lambda: network.advance(*steps))


def test_no_arguments_crash_an_entry_point(native_module):
    entries = (draws, minibatches, fused, pairs, attention, bits)
    answered = 0
    for call in range(CALLS):
        draw = np.random.default_rng(call)
        try:
            entries[call % len(entries)](native_module, draw)
            answered += 1
        except REFUSED as error:
            assert str(error)
    assert 0 < answered < CALLS
