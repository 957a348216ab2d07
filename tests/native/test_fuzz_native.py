"""Native entry points given any arrays and numbers: a result or a Python exception, never a crash.

``make test-native`` makes 100 000 calls under the sanitizers, which end the process at a bad read or write.
"""

import os
from itertools import cycle, pairwise

import numpy as np
import pytest
import test_bits
import test_native_attention
import test_pair_transformers

from elegans.tabular.descent import gemm

CALLS = int(os.environ.get("ELEGANS_NATIVE_CALLS", "3000"))
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
NUMBERS = (
    *(-1, 0, 1, 2, 3, 7, -(2**31), 2**32, 2**62, 2**63 - 1, 2**63, 2**64),
    *(0.5, -0.5, 1e30, float("nan"), float("inf"), None, "x", True),
)
EXTREMES = {"f": (np.nan, np.inf, -np.inf, 1e30, -0.0), "i": (-1, 2**31 - 1, 9), "u": (255, 9), "b": (True,)}
OPTIMISERS = ("sgd", "adam", "momentum", "nesterov")
LOSSES = ("hinge", "square", "logistic", "correlation")
READ = ("step", "loss", "error", "diverged_at")
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


def fitting(draw, shape, dtype=np.float32, below=2):
    """Return an array that an entry point takes; now and then one of another shape or with a value that is extreme."""
    if draw.random() < 0.06:
        return array(draw, dtype, len(shape))
    kind = np.dtype(dtype).kind
    values = draw.normal(size=shape) if kind == "f" else draw.integers(0, max(1, below), shape)
    values = np.asarray(values, dtype)
    if values.size and draw.random() < 0.1:
        values.flat[draw.integers(values.size)] = one_of(draw, EXTREMES[kind])
    return values


def one_of(draw, choices):
    return choices[draw.integers(len(choices))]


def size(draw, most):
    return int(draw.integers(1, most + 1))


def few(draw):
    return int(draw.integers(-1, 9)) if draw.random() < 0.8 else one_of(draw, NUMBERS)


def flag(draw):
    return bool(draw.random() < 0.5)


def key(draw):
    return (3, 5) if draw.random() < 0.97 else (one_of(draw, NUMBERS), one_of(draw, NUMBERS))


def odd(draw, options):
    """Return options, now and then with one that may break a rule."""
    if draw.random() < 0.3:
        name = one_of(draw, list(options))
        numbers = [one_of(draw, NUMBERS) for _ in range(draw.integers(5))]
        options[name] = numbers if isinstance(options[name], list | tuple) else one_of(draw, NUMBERS)
    return options


def some(draw, network, **calls):
    """Yield a few of a network's calls, by the names of its methods, and reads of what it knows."""
    name = type(network).__name__
    calls |= {"parameters": network.parameters}
    calls |= {known: lambda known=known: getattr(network, known) for known in READ}
    for _ in range(4):
        called = one_of(draw, list(calls))
        yield f"{name}.{called}", calls[called]


def draws(native, draw):
    count = size(draw, 40) - 1
    both = [fitting(draw, (count,), np.uint32, below=2**32) for _ in range(2)]
    yield "words", lambda: native.words(key(draw), *both)
    yield "fold", lambda: native.fold(key(draw), few(draw))
    options = {"batch_size": size(draw, 40), "sample_size": size(draw, 60), "order": order(draw)}
    yield "minibatches", lambda: native.minibatches(key(draw), few(draw), few(draw), **odd(draw, options))


def order(draw):
    return one_of(draw, (*("replacement", "epochs") * 6, "x"))


def machine(native, draw):
    yield "instruction_set", native.instruction_set
    yield "instruction_sets", native.instruction_sets
    yield "activations", native.activations
    activation = one_of(draw, (*native.activations(), "tabulated", "product"))
    neurons = {"activation": activation, "degree": few(draw), "scale": one_of(draw, (1.0, 0.5, -1.0)), **table(draw)}
    yield "activate", lambda: native.activate(fitting(draw, (size(draw, 70),)), **odd(draw, neurons))
    names = (*native.instruction_sets(), *NUMBERS)
    yield "use_instruction_set", lambda: native.use_instruction_set(one_of(draw, names))
    yield "fma_peak", lambda: native.fma_peak(one_of(draw, (1e-9, -1.0, 0, float("nan"), float("inf"), None)))


def table(draw):
    return {"table": fitting(draw, (9, 32)) if flag(draw) else None}


def fused(native, draw):
    n, width, degree = size(draw, 70), size(draw, 40), size(draw, 4)
    activation = one_of(draw, (*native.activations(), "tabulated", "product"))
    coefficients = list(draw.normal(size=degree + 1)) if activation == "oscillating-polynomial" else []
    options = {
        "support": draw.permutation(n)[: draw.integers(4)].tolist(),
        "label_sign": one_of(draw, (-1, 1)),
        "values": fitting(draw, (2 ** draw.integers(4),)) if draw.random() < 0.2 else None,
        **{name: one_of(draw, (0.0, 0.3, 1.0)) for name in ("mix", "noise")},
        "sample_size": int(draw.integers(50)),
        "order": order(draw),
        "batch_size": size(draw, 70),
        "activation": activation,
        "degree": degree,
        "scale": 1.0,
        "coefficients": coefficients,
        **table(draw),
        "loss": (one_of(draw, LOSSES), 1.0),
        "learning_rates": [0.1] * 4,
        "decays": [0.01] * 4,
        "decay_in_gradient": flag(draw),
        "clip": one_of(draw, (0.1, 1e30, float("inf"))),
        "present": [flag(draw) for _ in range(4)],
        "optimiser": one_of(draw, (*OPTIMISERS * 3, "x")),
        "step": max(0, int(draw.integers(-20, 20))),
        **{name: key(draw) for name in ("sample_key", "batches_key", "noise_key")},
    }
    if flag(draw):
        controls = size(draw, 9)
        options["cumulative"] = np.linspace(1 / controls, 1, controls, dtype=np.float32)
        options["supports"] = fitting(draw, (controls, size(draw, 3)), np.uint32, below=n)
        n += controls
    start = *(fitting(draw, shape) for shape in ((width, n), (width,), (width,))), 0.5
    network = yield "Network", lambda: native.Network(*start, **odd(draw, options))
    if network is None:
        return
    checks = {"key": key(draw), "every": size(draw, 4), "examples": int(draw.integers(900)), "allowed": few(draw)}
    checks |= {"record_every": one_of(draw, (0, 0, 0, 1, 2)), "seconds": 0.01}
    checks |= {"points": sorted(draw.integers(30, size=3).tolist()), "point_examples": size(draw, 400) - 1}
    chunks = []
    yield from some(
        draw,
        network,
        advance=lambda: network.advance(fitting(draw, (size(draw, 9) - 1,))),
        advance_checked=lambda: chunks.append(network.advance_checked(fitting(draw, (9,)), **odd(draw, dict(checks)))),
        begin_recording=network.begin_recording,
        wrong=lambda: network.wrong(key(draw), fitting(draw, (draw.integers(900),), np.uint32, 2**32), flag(draw)),
        predict=lambda: network.predict(fitting(draw, (draw.integers(900), n))),
    )
    for chunk in chunks[:1]:
        for name in CHUNK:
            yield f"Chunk.{name}", lambda name=name, chunk=chunk: getattr(chunk, name)


CHUNK = (
    *("ends", "loss", "error", "mistakes", "checking_seconds", "relevant", "irrelevant"),
    *("point_loss", "point_error", "point_mistakes", "since"),
)


def pairs(native, draw):
    order, width, population = size(draw, 12), size(draw, 140), flag(draw)
    batch = order**2 if population else size(draw, 110)
    arrays = [fitting(draw, (width, 2 * order)), fitting(draw, (order, width))]
    arrays.append(fitting(draw, (order, order), np.int32, below=order))
    options = {
        "activation": one_of(draw, ("relu", "power")),
        "degree": size(draw, 5),
        "population": population,
        "batch_size": batch,
        "learning_rates": [0.1, 0.1],
        "decays": [0.0, 0.1],
        "decay_in_gradient": flag(draw),
        "penalty": one_of(draw, (0.0, 0.1)),
        "penalty_norm": one_of(draw, (1.0, 2.0, 3.0)),
        "penalty_exponent": one_of(draw, (1.0, 2.0, 3.5)),
        "loss": one_of(draw, (("cross-entropy", 1.0), ("one-hot-square", 0.3))),
        "optimiser": one_of(draw, OPTIMISERS),
        "sample_key": key(draw),
        "step": one_of(draw, (0, size(draw, 9) - 1)),
    }
    network = yield "PairNetwork", lambda: native.PairNetwork(*arrays, **odd(draw, options))
    if network is None:
        return
    steps = size(draw, 3)
    numbers = lambda shape: fitting(draw, shape, np.uint32, below=order**2)  # noqa: E731
    yield from some(
        draw,
        network,
        advance=lambda: network.advance(fitting(draw, (steps,))),
        given=lambda: network.advance(fitting(draw, (steps,)), numbers((steps, batch))),  # a split's pairs
        outputs=lambda: network.outputs(numbers((draw.integers(200),))),
        wrong=lambda: network.wrong(numbers((draw.integers(200),))),
    )


def pair_transformers(native, draw):
    batch = size(draw, 110)
    problem = test_pair_transformers.Transformer(
        order=size(draw, 12),
        width=size(draw, 40),
        heads=size(draw, 4),
        head_size=size(draw, 20),
        mlp_width=size(draw, 40),
    )
    options = {name: getattr(problem, name) for name in ("width", "heads", "head_size", "mlp_width")}
    options |= {
        "activation": one_of(draw, ("relu", "power")),
        "degree": size(draw, 5),
        "population": flag(draw),
        "batch_size": one_of(draw, (batch, problem.order**2)),
        "decay_in_gradient": flag(draw),
        "loss": one_of(draw, (("cross-entropy", 1.0), ("one-hot-square", 0.3))),
        "optimiser": one_of(draw, OPTIMISERS),
        "sample_key": key(draw),
    }
    arrays = [fitting(draw, (len(problem.start()),)) for _ in range(3)]
    arrays.append(fitting(draw, (problem.order, problem.order), np.int32, below=problem.order))
    network = yield "PairTransformer", lambda: native.PairTransformer(*arrays, **odd(draw, options))
    if network is None:
        return
    count = draw.integers(200)
    numbers = lambda: fitting(draw, (count,), np.uint32, below=problem.order**2)  # noqa: E731
    yield from some(
        draw,
        network,
        advance=lambda: network.advance(fitting(draw, (size(draw, 3),))),
        outputs=lambda: network.outputs(numbers()),
        wrong=lambda: network.wrong(numbers()),
    )


def attention(native, draw):
    width, symbols, length = one_of(draw, (1, 2, 6, 15, 16)), size(draw, 5), size(draw, 19)
    divisors = [each for each in range(1, width + 1) if width % each == 0]
    problem = test_native_attention.Problem(
        symbols=symbols,
        width=width,
        length=length,
        normed=flag(draw),
        absolute=flag(draw),
        heads=tuple(one_of(draw, divisors) for _ in range(size(draw, 3))),
        mlp_width=one_of(draw, (0, 1, 7, 17)),
        batch_size=size(draw, 20),
        optimiser=one_of(draw, OPTIMISERS),
    )
    batch = problem.batch_size
    network = yield "AttentionNetwork", lambda: row_network(native.AttentionNetwork, draw, problem)
    if network is None:
        return
    sequences = lambda *shape: fitting(draw, (*shape, length), np.int32, below=symbols)  # noqa: E731
    steps, count = size(draw, 3), size(draw, 40) - 1
    yield from some(
        draw,
        network,
        advance=lambda: network.advance(sequences(steps, batch), sequences(steps, batch), fitting(draw, (steps,))),
        outputs=lambda: network.outputs(sequences(count)),
        wrong=lambda: network.wrong(sequences(count), sequences(count)),
    )


def bits(native, draw):
    problem = test_bits.Problem(
        n=size(draw, 20),
        width=size(draw, 20),
        heads=size(draw, 5),
        head_size=size(draw, 5),
        hidden=size(draw, 20),
        encoding=one_of(draw, ("trained", "fixed", "bag")),
        drop=one_of(draw, (0, 1, 20000, 65535)),
        loss=one_of(draw, LOSSES),
        batch_size=size(draw, 40),
    )
    more = {"optimiser": one_of(draw, OPTIMISERS), "clip": one_of(draw, (0.1, float("inf")))}
    network = yield "BitsNetwork", lambda: row_network(native.BitsNetwork, draw, problem, dropout_key=key(draw), **more)
    if network is None:
        return
    rows, steps = size(draw, 30) - 1, size(draw, 3)
    inputs = lambda: fitting(draw, (rows, problem.n), np.uint8)  # noqa: E731
    index = lambda: fitting(draw, (steps, problem.batch_size), np.uint32, below=rows)  # noqa: E731
    yield from some(
        draw,
        network,
        advance=lambda: network.advance(inputs(), fitting(draw, (rows,)), index(), fitting(draw, (steps,))),
        outputs=lambda: network.outputs(inputs()),
    )


def row_network(make, draw, problem, **more):
    """Return a network whose parameters are one row."""
    count = len(problem.start())
    options = {name: getattr(problem, name) for name in vars(problem) if name not in ("seed", "loss_scale")}
    if "loss" in options:
        options["loss"] = (problem.loss, 1.0)
    options |= {"decay_in_gradient": flag(draw), "beta1": 0.8, "beta2": 0.9, "epsilon": 1e-8, **more}
    return make(*(fitting(draw, (count,)) for _ in range(3)), **odd(draw, options))


def tables(native, draw):
    dtype, head = one_of(draw, (np.float32, np.float64)), one_of(draw, ("logistic", "softmax", "square", "x"))
    layers, rows, seen = size(draw, 3), size(draw, 40), size(draw, 60) - 1
    sizes = [int(each) for each in draw.integers(1, 20, layers + 1)]
    moments = flag(draw)

    def weights(there=True):
        shapes = [(above, below + 1) for below, above in pairwise(sizes)] if there else []
        return [fitting(draw, shape, dtype) for shape in shapes]

    options = {
        "inputs": fitting(draw, (rows, sizes[0] + 1), dtype),
        "targets": fitting(draw, (rows, sizes[-1]), dtype),
        "row_weights": fitting(draw, (rows,), dtype) if flag(draw) else None,
        "order": fitting(draw, (seen,), np.int64, below=rows),
        "stop": fitting(draw, (1,), np.bool_, below=1),
        "row_weight_scale": 1.0,
        "batch": size(draw, 20),
        "head": head,
        "learning_rate": 0.1,
        "weight_decay": 0.01,
        "step": size(draw, 9),
        "seconds": one_of(draw, (None, 1.0, -1.0)),
    }
    arrays = weights(), weights(moments), weights(moments)
    product = gemm(np.dtype(dtype).name)
    yield "dense_epoch", lambda: native.dense_epoch(product, *arrays, **odd(draw, options))


def overlaps(native, draw):
    yield "overlap_start", lambda: native.overlap_start(key(draw), float(size(draw, 60)))
    links = {
        "target": one_of(draw, ("polynomial", "bump", "relu", "x")),
        "target_coefficients": [1.0] * (size(draw, 12) - 1),
        "neuron": one_of(draw, ("polynomial", "bump", "relu")),
        "neuron_coefficients": [0.5] * (size(draw, 9) - 1),
        "bias": 0.5,
        "output": one_of(draw, (-1, 1)),
        "square": flag(draw),
    }
    options = {"first": size(draw, 9), "steps": size(draw, 600), "overlap": 0.25, "reach": 0.5, "rate": 0.01}
    options |= {"dimension": float(size(draw, 60)), "reuse": one_of(draw, (0.0, 0.5))}
    yield "overlap_steps", lambda: native.overlap_steps(key(draw), **odd(draw, links | options))
    n, places = size(draw, 150), size(draw, 4)
    names = ("neuron", "neuron_coefficients", "bias", "output", "square", "first", "steps", "reach", "rate", "reuse")
    options = {name: (links | options)[name] for name in names}
    options |= {"support": draw.integers(0, n, places).tolist(), "values": fitting(draw, (2**places,))}
    options |= {"weights": fitting(draw, (n,))}
    yield "sphere_steps", lambda: native.sphere_steps(key(draw), **odd(draw, options))


def shared_tables(native, draw):
    dtype, head = one_of(draw, (np.float32, np.float64)), one_of(draw, ("logistic", "softmax", "square", "x"))
    members, columns, heads, levels, rows = (size(draw, most) for most in (4, 5, 3, 6, 30))
    widths = [16 * size(draw, 6) for _ in range(size(draw, 3))]
    looks = np.c_[draw.integers(0, columns, 3), draw.integers(1, 6, 3), draw.integers(0, 3, 3)].astype(np.int32)
    columns_of = {
        "look_ups": looks,
        "static_columns": fitting(draw, (2,), np.int32, below=columns),
        "embedded_columns": fitting(draw, (1,), np.int32, below=columns),
        "levels": levels,
    }
    layout = yield "SharedLayout", lambda: native.SharedLayout(widths, members, columns, heads, **odd(draw, columns_of))
    if layout is None or layout.size > 10**6:
        return
    for name in ("size", "decayed"):
        yield f"SharedLayout.{name}", lambda name=name: getattr(layout, name)
    product, values = gemm(np.dtype(dtype).name), fitting(draw, (layout.size,), dtype)
    data = {
        "codes": fitting(draw, (rows, 3), np.uint16, below=1),
        "positions": fitting(draw, (rows, 3), dtype),
        "inputs": fitting(draw, (rows, 2), dtype),
        "levels": fitting(draw, (rows, 1), np.int32, below=levels),
    }
    options = {"learning_rate": 0.1, "weight_decay": 0.01, "clip": 1.0, "dropout": one_of(draw, (0.0, 0.4))}
    options |= {"adaptive": flag(draw), "cycles": flag(draw), "step": size(draw, 9), "cycle": (0, size(draw, 90))}
    options |= {"time": one_of(draw, (None, (0.0, 1.0), (2.0, 1.0)))}
    descent = yield "SharedDescent", lambda: native.SharedDescent(**odd(draw, options))
    targets = fitting(draw, (rows, 1 if head == "softmax" else heads), dtype)
    targets = np.floor(np.abs(targets) / 4) if head == "softmax" else targets
    weighted = {"targets": targets, "row_weights": fitting(draw, (rows,), dtype) if flag(draw) else None, "head": head}
    training = {
        "order": fitting(draw, (members, rows), np.int32, below=rows),
        "batch": size(draw, 20),
        "descent": descent,
        "dropout_key": key(draw),
        "stop": fitting(draw, (1,), np.bool_, below=1),
        "threads": size(draw, 3),
    }
    moments = [np.abs(fitting(draw, (layout.size,), dtype)) for _ in range(2)]
    whole = odd(draw, data | weighted | training)
    yield "shared_epoch", lambda: native.shared_epoch(product, layout, values, *moments, **whole)
    yield "shared_outputs", lambda: native.shared_outputs(product, layout, values, **data)
    yield "shared_gradient", lambda: native.shared_gradient(product, layout, values, **odd(draw, data | weighted))
    yield "learning_rate", lambda: native.learning_rate(0.3, 1.0, flag(draw))


ENTRIES = (draws, machine, overlaps, *(fused, pairs, pair_transformers, attention, bits, tables, shared_tables) * 3)


def offered(native):
    """Return the names of all that the module has: functions, classes, methods and properties."""
    public = lambda of: [name for name in dir(of) if not name.startswith("_")]  # noqa: E731
    classes = {name for name in public(native) if isinstance(getattr(native, name), type)}
    inner = {f"{name}.{each}" for name in classes for each in public(getattr(native, name))}
    return ({*public(native)} - {"Chunk"}) | inner


@pytest.fixture
def native_in_turn(native_module):
    """The extension, of which the instruction set is changed all the time."""
    before = native_module.instruction_set()
    yield native_module
    native_module.use_instruction_set(before)


def test_no_arguments_crash_an_entry_point(native_in_turn):
    native, made, answered = native_in_turn, 0, dict[str, int]()
    for number, entry in enumerate(cycle(ENTRIES)):
        draw, result = np.random.default_rng(number), None
        native.use_instruction_set(one_of(draw, native.instruction_sets()))
        calls = entry(native, draw)
        while True:
            try:
                name, call = calls.send(result)
            except StopIteration:
                break
            made, result = made + 1, None
            try:
                result = call()
                answered[name] = answered.get(name, 0) + 1
            except REFUSED as error:
                assert str(error)
        if made >= CALLS:
            break
    assert 0 < sum(answered.values()) < made
    assert answered.keys() - {"PairNetwork.given"} == offered(native)


def test_more_draws_than_there_are_counters_or_than_fit_into_memory_are_refused(native_module):
    options = {"batch_size": 4, "sample_size": 10, "order": "epochs"}
    for place, change, message in (
        ((0, 2**62), {}, r"steps\*batch_size must be in 0 ... 2\^30: steps=4611686018427387904, batch_size=4"),
        ((0, 1), {"batch_size": 2**63 - 1}, "batch_size must be in 1 ... 1073741824: batch_size=9223372036854775807"),
        ((2**63 - 1, 2), {}, "step must be in 0 ... 4294967296: step=9223372036854775807"),
        ((2**32 - 1, 2), {}, r"step must be at most 2\^32: step=4294967297"),
        ((2**32 - 3, 2), {"sample_size": 1}, r"epochs must be fewer than 2\^32: epochs=17179869180"),
    ):
        with pytest.raises(ValueError, match=message):
            native_module.minibatches((1, 2), *place, **options | change)
