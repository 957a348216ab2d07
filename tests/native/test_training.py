"""Training and evaluation agree with the float64 reference, whatever the instruction set."""

import itertools
import os
import signal
import threading
import time

import numpy as np
import pytest
from native_reference import Problem, signs, trajectory

ONE = np.ones(1, np.float32)
# A step in float32 against the same step in float64: sums of up to 1000 terms of size below one.
TOLERANCE = {"rtol": 2e-5, "atol": 3e-6}


def assert_close(got, wanted):
    """Compare arrays in one comparison of all their numbers: those of NumPy take their time."""
    assert [np.shape(a) for a in got] == [np.shape(b) for b in wanted]
    np.testing.assert_allclose(*(np.concatenate([np.ravel(a) for a in side]) for side in (got, wanted)), **TOLERANCE)


def assert_equal(got, wanted):
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def assert_steps_agree(native, problem, factors):
    for step, (before, (after, loss, error)) in enumerate(trajectory(problem, factors)):
        network = problem.network(native, start=before, step=step)
        assert network.advance(np.full(1, factors[step], np.float32)) == 1
        assert network.step == step + 1
        assert_close([*network.parameters(), network.loss, network.error], [*after, loss, error])


SAMPLES = [(0, "replacement"), (100, "replacement"), (50, "epochs")]
PAIRED = [  # all pairs of a loss, a size n, a sample and a share of noise
    pytest.param(loss, *SAMPLES[(place + loss_place) % 3], (0.0, 0.2)[(place + loss_place) % 2], n)
    for loss_place, loss in enumerate(["hinge", "square", "logistic"])
    for place, n in enumerate([1, 7, 50, 301])
]


@pytest.mark.parametrize(("loss", "sample_size", "order", "noise", "n"), PAIRED)
def test_steps_agree_with_the_reference(native, loss, sample_size, order, noise, n):
    for width, batch_size in itertools.product((1, 10, 1000), (1, 32, 100)):
        problem = Problem(
            n=n,
            width=width,
            batch_size=batch_size,
            loss=loss,
            sample_size=sample_size,
            order=order,
            noise=noise,
            support=(0, n - 1) if n > 1 else (0,),
        )
        assert_steps_agree(native, problem, (1.0,) if width == 1000 else (1.0, 0.5))


@pytest.mark.parametrize("loss", ["hinge", "square", "logistic"])
@pytest.mark.parametrize("batch_size", [2, 3, 5, 7, 8, 9, 13, 31, 33, 64, 300])
def test_odd_batches_agree_with_the_reference(native, loss, batch_size):
    problem = Problem(n=70, width=33, loss=loss, batch_size=batch_size)
    assert_steps_agree(native, problem, (1.0, 1.0))


@pytest.mark.parametrize("loss", ["hinge", "square"])
@pytest.mark.parametrize(("n", "batch_size"), [(4096, 33), (20, 4096)])
def test_large_inputs_and_batches_agree_with_the_reference(native, loss, n, batch_size):
    problem = Problem(n=n, width=20, loss=loss, batch_size=batch_size, sample_size=10**6)
    assert_steps_agree(native, problem, (1.0,))


@pytest.mark.parametrize("activation", ["relu", "relu6"])
@pytest.mark.parametrize(("n", "batch_size"), [(7, 1), (70, 32), (64, 100)])
def test_biased_and_negated_parities_agree_with_the_reference(native, activation, n, batch_size):
    problem = Problem(n=n, batch_size=batch_size, support=(0, 2, 5), mix=0.5, label_sign=-1, activation=activation)
    assert_steps_agree(native, problem, (1.0, 1.0))


@pytest.mark.parametrize("loss", ["hinge", "square", "logistic"])
def test_parameters_have_their_own_rates_and_decays(native, loss):
    problem = Problem(loss=loss, learning_rates=(0.3, 0.2, 0.1, 0.05), decays=(0.5, 0.1, 0.2, 0.3), n=50)
    assert_steps_agree(native, problem, (1.0, 0.3, 2.0))


@pytest.mark.parametrize("loss", ["hinge", "square", "logistic"])
def test_a_trajectory_agrees_with_the_reference(native, loss):
    problem = Problem(n=20, width=50, loss=loss, noise=0.1)
    network = problem.network(native)
    network.advance(np.ones(100, np.float32))
    parameters = problem.start()
    for step in range(100):
        parameters, _, _ = problem.step(parameters, step)
    for got, wanted in zip(network.parameters(), parameters, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("batch_size", [1, 32, 100])
def test_results_do_not_depend_on_how_steps_are_grouped(native, loss, batch_size):
    problem = Problem(n=50, width=100, loss=loss, batch_size=batch_size, order="epochs")
    factors = np.linspace(1, 0.1, 60, dtype=np.float32)
    whole = problem.network(native)
    whole.advance(factors)
    parts = problem.network(native)
    for part in np.split(factors, [1, 2, 20, 33]):
        parts.advance(part)
    assert_equal(whole.parameters(), parts.parameters())
    first = problem.network(native)
    first.advance(factors[:33])
    resumed = problem.network(native, start=first.parameters(), step=33)
    resumed.advance(factors[33:])
    assert_equal(whole.parameters(), resumed.parameters())


@pytest.mark.parametrize("batch_size", [1, 32])
def test_divergence_is_found_at_its_step_and_ends_training(native, batch_size):
    factors = np.ones(10, np.float32)
    factors[3] = np.inf
    network = Problem(batch_size=batch_size, loss="square").network(native)
    assert network.diverged_at == -1
    assert network.advance(factors) == 4
    assert network.diverged_at == network.step == 4
    assert network.advance(factors) == 0
    assert network.step == 4


@pytest.mark.parametrize("batch_size", [1, 32])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("array", range(4))
def test_a_network_that_is_not_finite_diverges_at_once(native, array, bad, batch_size):
    start = list(Problem(width=40).start())
    if array == 3:
        start[3] = bad
    else:
        start[array].flat[-1] = bad
    if array == 0:
        start[array][-1] = bad  # with every sign of inputs: inf - inf is not a number
    problem = Problem(width=40, batch_size=batch_size)
    network = problem.network(native, start=start)
    assert network.advance(np.ones(50, np.float32)) < 50
    assert network.diverged_at == network.step
    index = np.arange(200, dtype=np.uint32)
    f = problem.outputs(start, signs((1, 2), index, 7)) if not np.isinf(bad) else np.zeros(200)
    assert network.wrong((1, 2), index, False)[np.isnan(f)].all()


def test_subnormal_numbers_count_as_zero_inside_and_only_there(native):
    weight, bias, output, output_bias = Problem(width=200, n=50).start()
    tiny = np.float32(1e-39)
    start = (weight * tiny, bias * tiny, output * tiny, output_bias)
    problem = Problem(width=200, n=50)
    faded = problem.network(native, start=start)
    faded.advance(ONE)
    assert all((p == 0).all() for p in faded.parameters()[:3])
    assert tiny * np.float32(0.5) > 0


def test_a_network_that_has_faded_away_holds_no_subnormals(native):
    network = Problem(width=200, n=50, decays=(1.0, 1.0, 1.0, 0.0), loss="square").network(native)
    network.advance(np.ones(5000, np.float32))
    for array in network.parameters()[:3]:
        assert not ((array != 0) & (np.abs(array) < np.finfo(np.float32).tiny)).any()


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize(("n", "width"), [(1, 1), (7, 10), (50, 1000), (301, 100)])
@pytest.mark.parametrize("count", [0, 1, 3, 1000])
def test_wrong_agrees_with_the_reference(native, n, width, count, noisy):
    problem = Problem(n=n, width=width, support=(n - 1,), noise=0.2)
    index = np.random.default_rng(0).integers(0, 2**32, count, dtype=np.uint32)
    network = problem.network(native)
    margin = problem.outputs(problem.start(), signs((3, 4), index, n)) * problem.labels((3, 4), index, noisy)
    clear = abs(margin) > 1e-5  # signs that float32 cannot turn
    assert clear.sum() >= 0.99 * count
    np.testing.assert_array_equal(network.wrong((3, 4), index, noisy)[clear], margin[clear] <= 0)


def test_an_output_of_zero_is_wrong(native):
    start = [np.zeros_like(p) for p in Problem().start()[:3]] + [0.0]
    assert Problem().network(native, start=start).wrong((0, 0), np.arange(5, dtype="u4"), False).all()


@pytest.mark.parametrize(("n", "width"), [(1, 1), (7, 10), (50, 1000), (301, 100)])
@pytest.mark.parametrize("count", [0, 1, 3, 14, 300])
def test_predict_agrees_with_the_reference(native, n, width, count):
    problem = Problem(n=n, width=width, support=(0,))
    x = np.random.default_rng(0).normal(size=(count, n)).astype(np.float32)
    got = problem.network(native).predict(x)
    np.testing.assert_allclose(got, problem.outputs(problem.start(), x), rtol=1e-4, atol=1e-5)


def test_predict_and_wrong_agree_on_signs(native):
    problem = Problem(n=50, width=100)
    network = problem.network(native)
    index = np.arange(1000, dtype=np.uint32)
    f = network.predict(signs((3, 4), index, 50).astype(np.float32))
    y = problem.labels((3, 4), index, False)
    assert ((f * y <= 0) == network.wrong((3, 4), index, False)).mean() > 0.99


def test_parameters_come_back_as_they_went_in(native):
    for n, width in ((1, 1), (7, 10), (50, 33)):
        problem = Problem(n=n, width=width, support=(0,))
        assert_equal(problem.network(native).parameters(), problem.start())


@pytest.mark.parametrize("work", ["advance", "wrong"])
def test_ctrl_c_ends_work_in_the_main_thread(native, interruptible, work):
    network = Problem(n=50, width=100_000).network(native)
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        if work == "advance":
            network.advance(np.ones(2000, np.float32))
        else:
            network.wrong((0, 0), np.arange(200_000, dtype="u4"), False)
    if work == "advance":
        assert network.step > 0


def test_a_network_works_for_one_thread_at_a_time(native):
    network, steps, refused = Problem(n=50, width=1000).network(native), 0, False
    while not refused:  # on a busy machine the work may be over before this thread asks
        before, steps = steps, steps + 3000
        thread = threading.Thread(target=network.advance, args=(np.ones(3000, np.float32),))
        thread.start()
        while network.step == before:
            time.sleep(0.001)
        try:
            network.parameters()
            assert network.step == steps
        except RuntimeError as error:
            assert "in use by another thread" in str(error)
            refused = True
        thread.join()
    assert network.step == steps


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"support": (0, 7)}, "support must be in 0 ... n-1: 7 with n=7"),
        ({"support": (-1,)}, "support must be in 0 ... n-1: -1 with n=7"),
        ({"support": (2, 2)}, "support must be distinct: 2 twice"),
        ({"label_sign": 0}, "label_sign must be -1 or 1: label_sign=0"),
        ({"mix": 1.5}, "mix must be in 0 ... 1: mix=1.5"),
        ({"noise": 1.5}, "noise must be in 0 ... 1: noise=1.5"),
        ({"noise": float("nan")}, "noise must be in 0 ... 1: noise=nan"),
        ({"sample_size": -1}, "sample_size must be in 0 ... 2^30: sample_size=-1"),
        ({"sample_size": 2**30 + 1}, "sample_size must be in 0 ... 2^30: sample_size=1073741825"),
        ({"order": "random"}, "order must be one of replacement, epochs: got 'random'"),
        ({"batch_size": 0}, "batch_size must be in 1 ... 65536: batch_size=0"),
        ({"loss": "cross"}, "loss must be one of hinge, square, logistic, correlation: got 'cross'"),
        ({"loss_scale": 0.0}, "loss_scale must be positive: loss_scale=0"),
        (
            {"activation": "swish"},
            "activation must be one of relu, relu6, leaky-relu, elu, tanh, sigmoid, silu, softplus, gelu, gelu-tanh, "
            "sine, power, zigzag, triangle-wave, oscillating-polynomial, sinusoid, tabulated, product: got 'swish'",
        ),
        ({"degree": 33}, "degree must be in 1 ... 32: degree=33"),
        ({"scale": float("inf")}, "scale must be positive: scale=inf"),
        ({"activation": "product", "width": 65}, "a product must have at most 64 factors: width=65"),
        ({"learning_rates": (1.0,)}, "learning_rates must have length 4: got 1"),
        ({"decays": (0, 0, 0, float("inf"))}, "decays must be finite: got inf"),
    ],
)
def test_bad_options_are_refused_by_rule_and_value(native_module, change, message):
    with pytest.raises(ValueError) as caught:
        Problem().but(**change).network(native_module)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("cumulative", "supports", "message"),
    [
        ([0.5, 1], None, "cumulative and supports must be given together"),
        ([0.5, 1], [[0]], "supports must have length controls=2: got 1"),
        ([0.5, 0.2, 1], [[0]] * 3, "cumulative must not decrease in 0 ... 1: 0.2 after 0.5"),
        ([0.5, float("nan")], [[0]] * 2, "cumulative must not decrease in 0 ... 1: nan after 0.5"),
        ([0.5, 0.75], [[0]] * 2, "cumulative must end with 1: got 0.75"),
        ([0.5, 1], [[0], [5]], "supports must be in 0 ... n-1: 5 with n=5"),
        ([1] * 7, [[0]] * 7, "n must be in 1 ... 65536: n=0"),
    ],
)
def test_bad_controls_are_refused_by_rule_and_value(native_module, cumulative, supports, message):
    given = supports if supports is None else np.array(supports, np.uint32)
    with pytest.raises(ValueError) as caught:
        Problem().network(native_module, cumulative=np.array(cumulative, np.float32), supports=given)
    assert str(caught.value) == message


def test_bad_shapes_are_refused_by_rule_and_value(native_module):
    weight, bias, output, output_bias = Problem().start()
    with pytest.raises(ValueError, match="bias must have length width=10: got 9"):
        Problem().network(native_module, start=(weight, bias[1:], output, output_bias))
    with pytest.raises(ValueError, match="output_weight must have length width=10: got 9"):
        Problem().network(native_module, start=(weight, bias, output[1:], output_bias))
    with pytest.raises(ValueError, match="x must have n=7 columns: got 6"):
        Problem().network(native_module).predict(np.zeros((2, 6), np.float32))
    with pytest.raises(ValueError, match="c1 must have length of c0=3: got 2"):
        native_module.words((0, 0), np.zeros(3, np.uint32), np.zeros(2, np.uint32))


def test_instruction_sets_are_chosen_by_name(native_module):
    known = native_module.instruction_sets()
    assert known[0] == "baseline"
    assert native_module.instruction_set() in known
    with pytest.raises(ValueError, match="instruction set must be one of baseline.*: got 'mmx'"):
        native_module.use_instruction_set("mmx")


def test_the_peak_is_a_plausible_number(native):
    assert 0 < native.fma_peak(0.02) < 1000


def test_a_chunk_is_steps_and_checks_until_one_may_be_a_success(native):
    """The same steps one by one, and every check counted on all examples."""
    examples, every, key = np.arange(700, dtype=np.uint32), 7, (3, 9)
    alone, attended = (Problem(n=20, width=50, support=(3, 8), learning_rates=(0.5,) * 4).network(native) for _ in "ab")
    alone.begin_recording()
    before = attended.parameters()[0]
    allowed = 20
    for _ in range(30):  # on from each check that is one
        found = alone.advance_checked(
            np.ones(203, np.float32), key=key, every=every, examples=700, allowed=allowed, record_every=10, seconds=60
        )
        records = []
        for end, loss, error in zip(found.ends, found.loss, found.error, strict=True):
            seen = []
            while attended.step < end:
                attended.advance(ONE)
                seen.append((attended.loss, attended.error))
                if attended.step % 10 == 0:
                    moved = np.abs(attended.parameters()[0] - before).max(axis=0)
                    records.append((moved[[3, 8]].max(), np.delete(moved, [3, 8]).max()))
            np.testing.assert_allclose(np.mean(seen, axis=0), (loss, error))
            if end % every == 0:
                mistakes = attended.wrong(key, examples, False).sum()
                assert (mistakes <= allowed) == (end == found.ends[-1] and found.mistakes >= 0)
        if found.mistakes >= 0:
            assert found.mistakes == mistakes
        assert np.array_equal(np.transpose([found.relevant, found.irrelevant]), np.reshape(records, (-1, 2)))
        assert_equal(alone.parameters(), attended.parameters())
    assert found.mistakes >= 0


@pytest.mark.parametrize("allowed", [5, 2**31, 2**62, 2**63 - 1])
def test_a_check_that_allows_all_mistakes_counts_them_all(native, allowed):
    network, index = Problem().network(native), np.arange(5, dtype=np.uint32)
    found = network.advance_checked(ONE, key=(1, 2), every=1, examples=5, allowed=allowed, seconds=1)
    assert found.mistakes == network.wrong((1, 2), index, False).sum()


def test_a_chunk_refuses_what_it_cannot_do(native_module):
    network = Problem().network(native_module)
    rules = {"key": (1, 2), "every": 10, "examples": 5, "allowed": 0, "seconds": 1}
    for change, message in [
        ({"every": 0}, "every must be at least 1: every=0"),
        ({"examples": -1}, "examples must be in 0 ... 2\\^31: examples=-1"),
        ({"allowed": -1}, "allowed must not be negative: allowed=-1"),
        ({"record_every": -1}, "record_every must not be negative: record_every=-1"),
        ({"record_every": 1}, "begin_recording must come before a record: record_every=1"),
    ]:
        with pytest.raises(ValueError, match=message):
            network.advance_checked(ONE, **{**rules, **change})
