"""Random numbers, inputs, labels and minibatches are those of the contract, bit for bit."""

import numpy as np
import pytest
from native_reference import Problem, signs, threefry

ORDERS = [(1, "replacement"), (1000, "replacement"), (2**30, "replacement")] + [
    (m, "epochs") for m in (1, 2, 3, 5, 31, 32, 33, 1000, 10**9)
]


@pytest.mark.parametrize(
    ("key", "counter", "words"),
    [  # Random123, kat_vectors: threefry2x32, 20 rounds
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((2**32 - 1, 2**32 - 1), (2**32 - 1, 2**32 - 1), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
@pytest.mark.parametrize("count", [1, 40])
def test_threefry_gives_the_published_words(native, key, counter, words, count):
    c0, c1 = (np.full(count, c, np.uint32) for c in counter)
    got = native.words(key, c0, c1)
    assert [set(map(int, w)) for w in got] == [{words[0]}, {words[1]}]
    assert tuple(map(int, threefry(key, *counter))) == words


def test_words_are_the_references(native):
    c0, c1 = np.random.default_rng(0).integers(0, 2**32, (2, 1003), dtype=np.uint32)
    for got, wanted in zip(native.words((7, 8), c0, c1), threefry((7, 8), c0, c1), strict=True):
        np.testing.assert_array_equal(got, wanted)


def constant(problem):
    """Parameters of the network whose output is always 1: it is wrong where the label is -1."""
    weight, bias, output, _ = problem.start()
    return 0 * weight, 0 * bias, 0 * output, 1.0


@pytest.mark.parametrize("n", [1, 7, 32, 64, 65, 301])
def test_signs_are_the_references(native, n):
    """Of a linear neuron that reads one input, where the label is always 1: it is wrong where the input is -1."""
    index = np.random.default_rng(n).integers(0, 2**32, 77, dtype=np.uint32)
    problem = Problem(n=n, width=1, support=(), activation="power")
    expected = signs((5, 6), index, n)
    for j in range(n):
        start = (np.eye(n, dtype=np.float32)[j : j + 1], np.zeros(1, np.float32), np.ones(1, np.float32), 0.0)
        found = problem.network(native, start=start).wrong((5, 6), index, False)
        np.testing.assert_array_equal(found, expected[:, j] < 0)


@pytest.mark.parametrize("noise", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("n", [7, 50, 301])
def test_labels_are_the_references(native, n, noise):
    problem = Problem(n=n, support=(0, 3, n - 1), noise=noise)
    index = np.random.default_rng(n).integers(0, 2**32, 333, dtype=np.uint32)
    for noisy in (False, True):
        got = problem.network(native, start=constant(problem)).wrong((5, 6), index, noisy)
        np.testing.assert_array_equal(got, problem.labels((5, 6), index, noisy) < 0)


@pytest.mark.parametrize("label_sign", [1, -1])
@pytest.mark.parametrize("mix", [0.25, 1.0])
@pytest.mark.parametrize("n", [3, 50, 64, 65, 301])
def test_labels_of_biased_and_negated_parities_are_the_references(native, n, mix, label_sign):
    problem = Problem(n=n, support=(0, 1, n - 1), noise=0.1, mix=mix, label_sign=label_sign)
    index = np.random.default_rng(n).integers(0, 2**32, 333, dtype=np.uint32)
    for noisy in (False, True):
        got = problem.network(native, start=constant(problem)).wrong((5, 6), index, noisy)
        np.testing.assert_array_equal(got, problem.labels((5, 6), index, noisy) < 0)


@pytest.mark.parametrize(("sample_size", "order"), ORDERS)
@pytest.mark.parametrize("batch_size", [1, 5, 32, 300])
def test_minibatches_are_the_references(native, sample_size, order, batch_size):
    problem = Problem(sample_size=sample_size, order=order, batch_size=batch_size)
    for step in (0, 1, 50) if batch_size < 300 else (0, 1):
        np.testing.assert_array_equal(minibatch(native, problem, step), problem.minibatch(step))


@pytest.mark.parametrize(("sample_size", "order"), [(0, "replacement"), *ORDERS])
@pytest.mark.parametrize("batch_size", [1, 5, 32, 300])
def test_training_takes_the_minibatches(native, sample_size, order, batch_size):
    """A step moves a linear neuron by the sum of label times inputs over the minibatch, in either order of steps."""
    problem = Problem(
        sample_size=sample_size, order=order, batch_size=batch_size, activation="power", width=1, loss="correlation"
    )
    network = problem.network(native)
    before = network.parameters()
    for step in (0, 1) if batch_size == 300 else (0, 1, 2):
        after = problem.step(before, step)[0]
        late = problem.network(native, start=before, step=step)
        for trained in (network, late):
            trained.advance(np.ones(1, np.float32))
            for got, wanted in zip(trained.parameters(), after, strict=True):
                np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=3e-6)
        before = network.parameters()
    late = problem.network(native, step=50)
    late.advance(np.ones(1, np.float32))
    for got, wanted in zip(late.parameters(), problem.step(problem.start(), 50)[0], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=3e-6)


def minibatch(native, problem, step):
    options = {"batch_size": problem.batch_size, "sample_size": problem.sample_size, "order": problem.order}
    return native.minibatches(problem.batches_key, step, 1, **options)[0]


def test_each_epoch_is_a_permutation(native):
    for m in range(1, 201):
        problem = Problem(sample_size=m, order="epochs", batch_size=m)
        for epoch in (0, 1, 2, 12345):
            assert sorted(minibatch(native, problem, epoch)) == list(range(m)), (m, epoch)


def test_epochs_put_each_example_everywhere_equally_often(native):
    # Chi-square of the table of position by example, (m-1)^2 degrees of freedom for permutations;
    # the threshold is that of an error rate of one in a million (Wilson-Hilferty).
    m, epochs = 13, 5000
    problem = Problem(sample_size=m, order="epochs", batch_size=m)
    counts = np.zeros((m, m))
    for order in native.minibatches(problem.batches_key, 0, epochs, batch_size=m, sample_size=m, order="epochs"):
        counts[np.arange(m), order] += 1
    expected = epochs / m
    statistic = ((counts - expected) ** 2 / expected).sum() * (m - 1) / m
    freedom = (m - 1) ** 2
    spread = 2 / (9 * freedom)
    assert statistic < freedom * (1 - spread + 4.75 * spread**0.5) ** 3


@pytest.mark.parametrize(
    ("sample_size", "order", "step", "message"),
    [
        (0, "replacement", 2**27, "online training has 2\\^32 examples"),
        (10, "replacement", 2**32, "step must be at most 2\\^32"),
        (1, "epochs", 2**27, "epochs must be fewer than 2\\^32"),
    ],
)
def test_draws_that_would_repeat_are_refused(native, sample_size, order, step, message):
    problem = Problem(sample_size=sample_size, order=order, batch_size=32)
    late = problem.network(native, step=step - 1)
    with pytest.raises(ValueError, match=message):
        late.advance(np.ones(2, np.float32))
