"""The overlap of one neuron as a Markov chain: against vectors, theory, and itself on other instruction sets."""

import math

import numpy as np
import pytest
from scipy.stats import ks_2samp

import elegans as el
from elegans import _native, theory
from elegans.errors import TrialError
from elegans.stopping import StoppingRule
from elegans.studies.staircases.chains import OverlapChain, SignNeuron
from elegans.studies.staircases.tasks import SingleIndex
from elegans.studies.staircases.theory.links import link_named

CASES = [("h2", "correlation", 0.5), ("h3", "correlation", 0.3), ("h3", "square", 0.02)]


def trial(n=1000, link="h2", seed=0, steps=10_000, every=100, **fields):
    stopping = StoppingRule(error=0, examples=1, every=every)
    model = OverlapChain(neuron=fields.pop("neuron", link), steps=steps, stopping=stopping, **fields)
    return el.Trial(task=SingleIndex(n=n, link=link), regime=el.Online(), model=model, seed=seed)


def end(one):
    return float(el.train(one).parameters["overlap"])


def by_vectors(link, loss, delta, n, steps, runs, start, reuse=0.0):
    """The overlaps of neurons that are vectors, all runs at once."""
    g = link_named(link)
    generator = np.random.default_rng(0)
    w = np.zeros((runs, n))
    w[:, 0], w[:, 1] = start, math.sqrt(1 - start**2)
    for _ in range(steps):
        x = generator.standard_normal((runs, n))
        y, z = g.value(x[:, 0]), (w * x).sum(axis=1)
        factor = lambda u: (y - g.value(u) if loss == "square" else y) * g.slope(u)  # noqa: B023, E731
        c = factor(z)
        if reuse:
            c = factor(z + reuse / n * c * (x**2).sum(axis=1))
        w += (delta / n * c)[:, None] * (x - z[:, None] * w)
        w /= np.linalg.norm(w, axis=1, keepdims=True)
    return w[:, 0]


def by_chains(link, loss, delta, n, steps, runs, start, reuse=0.0):
    fields = {"loss": loss, "rate": delta, "reuse": reuse, "start": start, "reach": 2.0}
    return [end(trial(n, link, seed, steps=steps, every=steps, **fields)) for seed in range(runs)]


@pytest.mark.parametrize(("link", "loss", "delta"), CASES)
@pytest.mark.parametrize("reuse", [0.0, 0.5])
def test_chains_have_the_distribution_of_vectors(link, loss, delta, reuse):
    """Kolmogorov-Smirnov tests of 400 runs each at p > 0.001: six of them fail a correct chain once in 160 times."""
    settings = (link, loss, delta, 30, 150, 400, 0.3, reuse)
    assert ks_2samp(by_vectors(*settings), by_chains(*settings)).pvalue > 1e-3


def test_a_chain_is_the_same_on_every_instruction_set_and_in_any_chunks():
    found = set()
    for name in _native.instruction_sets():
        try:
            _native.use_instruction_set(name)
            for every in (5000, 37):
                found.add(end(trial(steps=5000, every=every, reach=2.0)))
        finally:
            _native.use_instruction_set(_native.instruction_sets()[-1])
    assert len(found) == 1


def test_reuse_of_nothing_is_one_pass():
    one_pass = end(trial(link="h3", steps=3000, reach=2.0))
    assert end(trial(link="h3", steps=3000, reach=2.0, reuse=1e-300)) == one_pass
    assert end(trial(link="h3", steps=3000, reach=2.0, reuse=0.5)) != one_pass


def test_reuse_changes_nothing_where_labels_never_turn_the_neuron_off():
    """The labels z^2 exp(-z^2) are positive: the first step of a ReLU that is added leaves it on."""
    fields = {"neuron": "relu", "steps": 3000, "reach": 2.0, "rate": 2.0}
    added, subtracted = (
        [end(trial(100, "bump", output=output, reuse=reuse, **fields)) for reuse in (0.0, 0.35)] for output in (1, -1)
    )
    assert added[0] == added[1] and subtracted[0] != subtracted[1]


@pytest.mark.slow
@pytest.mark.compiles
def test_reuse_on_the_third_hermite_polynomial_takes_160_examples_per_dimension():
    """The median of 64 runs from overlap 0 at the rate 0.05 / n, whose standard error is about 2."""
    n = 1024
    fields = {"neuron": "relu", "reuse": 1.0, "rate": 0.05, "start": 0.0, "every": n // 8, "steps": 400 * n}
    steps = [el.train(trial(n, "h3", seed, **fields)).solved_at for seed in range(64)]
    assert np.median(steps) / n == pytest.approx(160, abs=5)


def test_draws_have_the_moments_of_their_distributions():
    """10^5 points of the sphere: m^2 n has mean 1 and variance 2(n - 1)/(n + 2), within five standard errors."""
    for n in (4, 50, 10**6):
        m = np.array([_native.overlap_start((n, i), float(n)) for i in range(100_000)])
        square, variance = m**2 * n, 2 * (n - 1) / (n + 2)
        assert abs(square.mean() - 1) < 5 * math.sqrt(variance / 1e5)
        assert abs((m > 0).mean() - 0.5) < 5 * 0.5 / math.sqrt(1e5)
        assert abs(square.var() / variance - 1) < 0.15


@pytest.mark.compiles
@pytest.mark.slow
def test_a_chain_follows_its_differential_equation():
    """The mean of 16 runs at n = 20,000, whose standard error is at most 0.0025, is within 0.01 of the equation."""
    times = [1.0, 3.0]
    path = theory.overlap_path("h2", "h2", 0.1, times, 0.05)
    for time, expected in zip(times, path, strict=True):
        steps = int(time * 20_000 / 0.05)
        overlaps = [
            end(trial(20_000, "h2", seed, steps=steps, every=steps, rate=0.05, start=0.1, reach=2.0))
            for seed in range(16)
        ]
        assert np.mean(overlaps) == pytest.approx(expected, abs=0.01)


def test_a_chain_is_solved_when_its_overlap_has_reached_a_half():
    outcome = el.train(trial(n=300, rate=0.05, steps=500_000, every=500))
    assert outcome.solved_at is not None and outcome.solved_at % 500 == 0
    before = end(trial(n=300, rate=0.05, steps=outcome.solved_at - 500, every=500))
    assert abs(before) < 0.5 <= abs(end(trial(n=300, rate=0.05, steps=outcome.solved_at, every=500)))


def test_a_single_index_has_normal_inputs_and_labels_of_one_direction():
    task = SingleIndex(n=8, link="h2")
    key = el.random.stream(3, "task")
    direction = task.draw(key)
    x, y = task.examples(direction, key.fold(1), np.arange(5, dtype=np.uint32))
    assert np.linalg.norm(direction) == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(y, ((x @ direction) ** 2 - 1) / math.sqrt(2), rtol=1e-4, atol=1e-5)


E3 = [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]


def sign_trial(n=100, sets=E3, seed=0, steps=2000, every=100, **fields):
    task = el.MonomialSum(n=n, k=1 + max(max(members) for members in sets), sets=sets)
    model = SignNeuron(steps=steps, stopping=StoppingRule(error=0, examples=1, every=every), **fields)
    return el.Trial(task=task, regime=el.Online(), model=model, seed=seed)


@pytest.mark.parametrize(
    ("loss", "reuse", "output"), [("correlation", 0.35, 1), ("square", 0.0, 1), ("square", 0.5, -1)]
)
def test_a_neuron_on_signs_takes_the_steps_of_its_vectors_on_the_task_s_examples(loss, reuse, output):
    steps, bias, rate = 300, 0.5, 0.3
    fields = {"loss": loss, "reuse": reuse, "output": output, "bias": bias, "rate": rate, "reach": 2.0}
    one = sign_trial(steps=steps, **fields)
    hidden = one.task.draw(one.key("task"))
    x, y = one.task.examples(hidden, one.key("sample"), np.arange(steps, dtype=np.uint32))
    w = one.model.initialise(one.key("init"), one.task)["weights"].astype(float)
    relu = link_named("relu", bias)
    factor = lambda u, y: output * (y - output * relu.value(u) if loss == "square" else y) * relu.slope(u)  # noqa: E731
    for example, label in zip(x.astype(float), y, strict=True):
        z = w @ example
        c = factor(z, label)
        if reuse:
            c = factor((w + reuse / 100 * c * example) @ example, label)
        w += rate / 100 * c * (example - z * w)
        w /= np.linalg.norm(w)
    trained = el.train(one)
    np.testing.assert_allclose(trained.parameters["weights"], w, atol=2e-4)
    answers = one.model.apply({"weights": w}, x[:5])
    np.testing.assert_allclose(answers, output * np.maximum(x[:5] @ w + bias, 0), atol=1e-5)


def test_a_neuron_on_signs_is_the_same_on_every_instruction_set_and_in_any_chunks():
    found = set()
    for name in _native.instruction_sets():
        try:
            _native.use_instruction_set(name)
            for every in (2000, 37):
                fields = {"bias": 0.5, "rate": 0.3, "reach": 2.0, "reuse": 0.35}
                found.add(el.train(sign_trial(every=every, **fields)).parameters["weights"].tobytes())
        finally:
            _native.use_instruction_set(_native.instruction_sets()[-1])
    assert len(found) == 1


def test_a_neuron_on_signs_is_solved_when_its_support_has_half_of_its_length():
    outcome = el.train(sign_trial(n=128, steps=128 * 200, every=128, rate=0.3, reuse=0.35))
    weights, hidden = outcome.parameters["weights"], outcome.trial.task.draw(outcome.trial.key("task"))
    assert outcome.solved_at is not None and np.linalg.norm(weights[hidden]) >= 0.5
    assert np.linalg.norm(weights) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: trial(n=3), "greater than or equal to 4|at least 4"),
        (lambda: trial(link="h9", neuron="h2"), "link must be one of"),
        (lambda: trial(link="tanh", neuron="h2"), "must learn a link of"),
        (lambda: trial(neuron="tanh"), "neuron must be one of"),
        (lambda: trial(bias=0.5), "only relu has a bias"),
        (lambda: trial(steps=None), "steps of an overlap-chain must be given"),
        (lambda: trial().replace("regime", el.Sample(10)), "must learn online"),
        (lambda: trial().replace("task", el.SparseParity(n=10, k=2)), "must learn a single-index"),
        (lambda: trial(output=2), "output must be one of -1"),
        (lambda: sign_trial().replace("task", el.SparseParity(n=10, k=2)), "must learn a monomial-sum"),
    ],
)
def test_trials_that_do_not_fit_are_refused(make, message):
    with pytest.raises(TrialError, match=message):
        make()
