"""Products of linear forms of blocks of inputs."""

import numpy as np
import pytest

import elegans as el
from elegans import theory
from elegans.errors import TrialError

TASK = el.DisjointParity(n=12, k=3, support=(1, 6, 8))


def initial(model, seed=0):
    return model.initialise(el.random.stream(seed, "init"), TASK)["hidden"]["weight"]


def every_input(n):
    return np.asarray(1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1), np.float32)


def test_outputs_are_products_over_blocks():
    model = el.DisjointPolyNet(degree=3)
    weight = initial(model)
    x = every_input(12)[::37]
    expected = (x[:, :4] @ weight[0]) * (x[:, 4:8] @ weight[1]) * (x[:, 8:] @ weight[2])
    assert model.apply({"hidden": {"weight": weight}}, x) == pytest.approx(expected, abs=1e-5)
    assert model.parameter_names(TASK) == el.Model.parameter_names(model, TASK) == ["hidden.weight"]


def test_unit_vectors_of_the_support_are_the_parity():
    weight = np.zeros((3, 4), np.float32)
    weight.ravel()[list(TASK.support)] = 1
    x = every_input(12)
    assert np.array_equal(
        el.DisjointPolyNet(degree=3).apply({"hidden": {"weight": weight}}, x), TASK.target([1, 6, 8], x)
    )


def test_the_exact_error_of_theory_is_the_enumerated_one():
    """Ties count as errors; relevant weights of all signs."""
    x, task = every_input(12), el.DisjointParity(n=12, k=3, support=(0, 4, 8))
    for seed in range(6):
        model = el.DisjointPolyNet(degree=3, init=el.BernoulliInit(size=1))
        weight = np.round(initial(model, seed) * np.linspace(1, 2, 12).reshape(3, 4))
        wrong = ~(task.target([0, 4, 8], x) * model.apply({"hidden": {"weight": weight}}, x) > 0)
        assert theory.disjoint_error(weight.astype(int).tolist()) == wrong.mean()


def test_laws_of_the_blocks():
    assert set(np.unique(initial(el.DisjointPolyNet(degree=3, init=el.BernoulliInit(size=1))))) == {-1.0, 1.0}
    assert (initial(el.DisjointPolyNet(degree=3, init="constant:1")) == 1).all()
    assert np.abs(initial(el.DisjointPolyNet(degree=3))).max() <= 0.5


@pytest.mark.parametrize("init", [el.BernoulliInit(size=1), el.GaussianInit(std=1)])
def test_a_positive_product_changes_one_block_where_it_must(init):
    flipped = []
    for seed in range(40):
        free, positive = (
            initial(el.DisjointPolyNet(degree=3, init=init, positive=either), seed) for either in (False, True)
        )
        sign = np.sign(free.ravel()[list(TASK.support)].prod())
        assert positive.ravel()[list(TASK.support)].prod() > 0
        assert np.array_equal(positive[0], sign * free[0]) and np.array_equal(positive[1:], free[1:])
        flipped.append(sign < 0)
    assert 8 <= sum(flipped) <= 32  # binomial(40, 1/2): outside for one seed in 10^4


@pytest.mark.parametrize(
    ("degree", "task", "positive", "message"),
    [
        (5, TASK, False, "must divide n: degree=5, n=12"),
        (3, el.DisjointParity(n=12, k=3), True, "support=None"),
        (
            3,
            el.SparseParity(n=12, k=3, support=(0, 1, 8)),
            True,
            r"one named coordinate per block: support=\(0, 1, 8\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused(degree, task, positive, message):
    model = el.DisjointPolyNet(degree=degree, positive=positive)
    with pytest.raises(TrialError, match=message):
        el.Trial(task=task, regime="online", model=model, training=el.SGD(steps=10))


def test_the_population_step_is_the_theorys():
    """One step on the whole cube with the correlation loss moves relevant weights only, as in closed form."""
    trial = el.Trial(
        task=el.DisjointParity(n=12, k=3, support=(0, 4, 8)),
        regime="population",
        model=el.DisjointPolyNet(degree=3, init=el.GaussianInit(std=1)),
        training=el.SGD(learning_rate=0.5, batch_size=4096, loss="correlation", steps=1),
    )
    before = trial.model.initialise(trial.key("init"), trial.task)["hidden"]["weight"]
    after = el.train(trial).parameters["hidden"]["weight"]
    assert after == pytest.approx(before - 0.5 * theory.disjoint_gradient(before), abs=1e-5)
