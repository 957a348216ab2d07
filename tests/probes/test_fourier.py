"""The Fourier gap probe against exact values, and its estimators against each other."""

import itertools
import math

import numpy as np
import pytest

import elegans as el
from elegans.errors import TrialError
from elegans.probes import FourierGap
from elegans.tasks.base import corners


def snapshot_of(task, model, weight, bias, memory=None):
    hidden = {"weight": np.asarray(weight, np.float32)}
    if bias is not None:
        hidden["bias"] = np.asarray(bias, np.float32)
    return el.Snapshot(
        step=0,
        task=task,
        model=model,
        hidden=task.draw(el.random.stream(0, "task")),
        sample_size=None,
        key=lambda name: el.random.stream(0, name),
        read_parameters=lambda: {"hidden": hidden},
        wrong=lambda stream, index: np.zeros(len(index), bool),
        memory={} if memory is None else memory,
    )


def drawn(neurons, n, seed=0):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(neurons, n)) * 0.7, generator.normal(size=neurons)


def test_a_majority_neuron_has_half_of_the_gap_of_majority():
    """(n, k) = (15, 2): 0.0966796875 (half of |xi_1| - |xi_3|); estimated, to 5 standard errors."""
    snapshot = snapshot_of(el.SparseParity(n=15, k=2), el.MLP(width=1), np.ones((1, 15)), [0.0])
    exact = FourierGap(estimator="exact").measure(snapshot)
    assert exact == {"relaxed": 0.0966796875, "strict": 0.0966796875, "positive": 1}
    measured = FourierGap(examples=200_000).measure(snapshot)
    for name in ("relaxed", "strict"):
        assert measured[name] == pytest.approx(0.0966796875, abs=5 * 2 / math.sqrt(200_000))
    assert measured["positive"] == 1


def test_a_dead_neuron_has_no_gap():
    snapshot = snapshot_of(el.SparseParity(n=9, k=2), el.MLP(width=3), np.ones((3, 9)), [-10.0] * 3)
    for estimator in ("sample", "exact"):
        assert FourierGap(estimator=estimator).measure(snapshot) == {"relaxed": 0, "strict": 0, "positive": 0}


ACTIVATIONS = (
    el.models.ReLU(),
    el.models.Sinusoid(3),
    el.models.Sinusoid(4, scale=0.5),
    el.models.Power(3),
    el.models.Power(2),
    el.models.Zigzag(3),
)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda activation: activation.label())
@pytest.mark.parametrize("with_bias", [True, False])
def test_the_estimators_agree(activation, with_bias):
    """n = 9, k = 3: the mean over all inputs, given as the sample, is what the other two estimators return."""
    n, (weight, bias) = 9, drawn(4, 9)
    task = el.SparseParity(n=n, k=3)
    x = corners(np.arange(2**n, dtype=np.uint32), n)
    support = task.draw(el.random.stream(0, "task"))
    memory = {f"test:{2**n}": (x, task.target(support, x))}
    model = el.MLP(width=4, activation=activation, hidden_bias=with_bias)
    snapshot = snapshot_of(task, model, weight, bias if with_bias else None, memory)
    expected = FourierGap(examples=2**n).correlations(snapshot)
    closed = isinstance(activation, el.models.Sinusoid | el.models.Power)
    for estimator in ("exact", "closed form")[: 1 + closed]:
        probe = FourierGap(estimator=estimator)
        probe.check(task, model)
        np.testing.assert_allclose(probe.correlations(snapshot), expected, atol=2e-6)


def test_a_factor_of_a_polynet_sees_the_product_of_the_others():
    """E[y x_i prod_(l != j) w_l . x] is the permanent of the other factors' weights on the support without i."""
    n, k, (weight, bias) = 9, 3, drawn(3, 9)
    task = el.SparseParity(n=n, k=k)
    support = task.draw(el.random.stream(0, "task"))
    x = corners(np.arange(2**n, dtype=np.uint32), n)
    memory = {f"test:{2**n}": (x, task.target(support, x))}
    found = FourierGap(examples=2**n).correlations(snapshot_of(task, el.PolyNet(degree=3), weight, bias, memory))
    expected = np.zeros((k, n))
    for factor, place in itertools.product(range(k), support):
        others = np.delete(weight, factor, axis=0)[:, [i for i in support if i != place]]
        expected[factor, place] = others[0, 0] * others[1, 1] + others[0, 1] * others[1, 0]
    np.testing.assert_allclose(found, expected, atol=2e-6)


LAWS = {
    "signs": lambda generator, shape: generator.choice([-1.0, 1.0], shape),
    "normal": lambda generator, shape: generator.normal(size=shape),
    "uniform": lambda generator, shape: generator.uniform(-1, 1, shape),
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize(
    ("activation", "k"),
    [(el.models.ReLU(), 3), (el.models.Sinusoid(2, scale=0.3), 3), (el.models.Sinusoid(3, scale=0.3), 2)],
    ids=["threshold", "odd derivative", "even derivative"],
)
def test_without_a_bias_half_of_the_parities_have_no_gap(law, activation, k):
    """A threshold less 1/2 and a sine are odd: no coefficients of even degree; a cosine has none of odd degree."""
    weight = law(np.random.default_rng(1), (20, 9))
    model = el.MLP(width=20, activation=activation, hidden_bias=False)
    estimators = ("exact", "closed form") if isinstance(activation, el.models.Sinusoid) else ("exact",)
    for estimator in estimators:
        probe = FourierGap(estimator=estimator)
        measured = probe.measure(snapshot_of(el.SparseParity(n=9, k=k), model, weight, None))
        assert measured == pytest.approx({"relaxed": 0, "strict": 0, "positive": 0}, abs=1e-12)
        shifted = el.SparseParity(n=9, k=k + 1)
        assert probe.measure(snapshot_of(shifted, model, weight, None))["relaxed"] > 0.001


@pytest.mark.parametrize(
    ("n", "k", "model", "estimator", "message"),
    [
        (
            21,
            3,
            el.MLP(width=2),
            "exact",
            "the estimator must be one that works here, 'sample': estimator='exact', n=21, k=3, activation='relu'",
        ),
        (
            50,
            3,
            el.MLP(width=1, activation=el.models.Sinusoid(3)),
            "exact",
            "the estimator must be one that works here, 'sample' or 'closed form': estimator='exact', n=50, k=3",
        ),
        (
            9,
            2,
            el.MLP(width=1, activation=el.models.Power(3)),
            "closed form",
            "'sample' or 'exact': estimator='closed form'",
        ),
        (9, 2, el.PolyNet(degree=2), "exact", "'sample': estimator='exact', n=9, k=2, model='poly-net:2'"),
        (9, 9, el.MLP(width=2), "sample", "fourier-gap must have irrelevant inputs to compare with: k=9, n=9"),
    ],
)
def test_what_has_no_estimate_is_refused_with_those_that_work(n, k, model, estimator, message):
    trial = el.Trial(task=el.SparseParity(n=n, k=k), regime=el.Online(), model=model, training=el.SGD(steps=1))
    with pytest.raises(TrialError) as raised:
        el.train(trial, probes=[FourierGap(estimator=estimator)])
    assert message in str(raised.value)


def test_models_without_neurons_are_refused():
    trial = el.Trial(
        task=el.DisjointParity(n=9, k=3),
        regime=el.Online(),
        model=el.DisjointPolyNet(degree=3),
        training=el.SGD(steps=1),
    )
    message = "fourier-gap needs neurons on a sparse-parity: disjoint-poly-net on disjoint-parity"
    with pytest.raises(TrialError, match=message):
        el.train(trial, probes=[FourierGap()])
