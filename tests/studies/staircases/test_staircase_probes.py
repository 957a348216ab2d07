"""Coefficients of sets against closed forms and Monte Carlo."""

import numpy as np
import pytest

import elegans as el
from elegans.errors import TrialError
from elegans.probes.base import Snapshot
from elegans.studies.staircases.probes import SetCoefficients

SETS = ((0,), (0, 1), (0, 1, 2))
TASK = el.MonomialSum(n=20, k=3, sets=SETS, coefficients=(1.0, -0.5, 2.0))


def snapshot(model, parameters=None, seed=0):
    key = lambda name: el.random.stream(seed, name)  # noqa: E731
    initial = model.initialise(key("init"), TASK)
    return Snapshot(
        step=0,
        task=TASK,
        model=model,
        hidden=TASK.draw(key("task")),
        sample_size=None,
        key=key,
        read_parameters=lambda: initial if parameters is None else parameters,
        wrong=lambda stream, index: np.zeros(len(index), bool),
    )


def test_a_network_that_reads_one_coordinate_has_its_coefficient_exactly():
    """relu(x) - relu(-x) = x."""
    model = el.MLP(width=2)
    taken = snapshot(model)
    weight = np.zeros((2, 20), np.float32)
    weight[:, taken.hidden[0]] = 1, -1
    parameters = {
        "hidden": {"weight": weight, "bias": np.zeros(2, np.float32)},
        "output": {"weight": np.array([1, -1], np.float32), "bias": np.float32(0)},
    }
    found = SetCoefficients(draws=3).measure(snapshot(model, parameters))
    assert found == pytest.approx({"set0": 1, "set1": 0, "set2": 0, "loss": (0.5**2 + 2**2) / 2})


def test_coefficients_are_those_of_monte_carlo():
    """65,536 examples, and 4096 draws of the other coordinates: within five standard errors of their sum."""
    model = el.MLP(width=30, init=el.models.DenseInit())
    taken = snapshot(model)
    found = SetCoefficients(draws=4096).measure(taken)
    x, y = taken.examples("sample", 2**16)
    outputs = model.apply(taken.parameters, x).astype(float)
    for number, members in enumerate(SETS):
        products = outputs * x[:, taken.hidden[list(members)]].prod(axis=1)
        assert found[f"set{number}"] == pytest.approx(products.mean(), abs=5 * products.std() / 2**6)
    losses = (outputs - y) ** 2 / 2
    assert found["loss"] == pytest.approx(losses.mean(), abs=5 * losses.std() / 2**6)


def test_training_on_a_staircase_learns_its_sets():
    training = el.SGD(learning_rate=0.05, batch_size=32, steps=4000, loss="square")
    one = el.Trial(task=TASK, regime=el.Online(), model=el.MLP(width=100), training=training)
    measures = el.train(one, probes=[SetCoefficients(every=1000)]).measures["set-coefficients"]
    for number, coefficient in enumerate(TASK.coefficients):
        assert measures[f"set{number}"][-1] == pytest.approx(coefficient, abs=0.1)
    assert measures["loss"][-1] < 0.1 * measures["loss"][0]


def test_other_tasks_are_refused():
    with pytest.raises((TrialError, ValueError), match="must measure on a monomial-sum"):
        SetCoefficients().check(el.SparseParity(n=5, k=2), el.MLP(width=3))


@pytest.mark.compiles
@pytest.mark.slow
def test_the_phenomenon_learns_products_in_their_order():
    """In 16 dimensions instead of 64."""
    from elegans.phenomena.showing import watched
    from elegans.studies.staircases.phenomena import story_of

    story = story_of(watched(), 0, n=16)
    halves = [moment.step for moment in story.moments[1:]]
    assert len(halves) == 5 and halves == sorted(halves) and halves[2] > 2 * halves[0]
    assert story.panels[0].frames.shape == (len(story.steps), 16)
