"""Polynomials of several directions of normal inputs."""

import numpy as np
import pytest
from numpy.polynomial import hermite_e

import elegans as el
from elegans import random
from elegans.studies.staircases.tasks import MultiIndex, SingleIndex

DEGREES = ((1, 0), (1, 1), (0, 3))
KEY = random.Key(1, 2)


def drawn(task, count):
    hidden = task.draw(KEY.fold(0))
    return hidden, *task.examples(hidden, KEY.fold(1), np.arange(count, dtype=np.uint32))


def test_labels_are_products_of_hermite_polynomials_of_orthonormal_directions():
    hidden, x, y = drawn(MultiIndex(n=20, degrees=DEGREES, coefficients=(1.0, -2.0, 0.5)), 1000)
    assert hidden.shape == (20, 2) and np.allclose(hidden.T @ hidden, np.eye(2), atol=1e-6)
    a, b = (x @ hidden).T.astype(float)
    expected = a - 2 * a * b + 0.5 * hermite_e.hermeval(b, [0, 0, 0, 1]) / 6**0.5
    assert y == pytest.approx(expected, abs=1e-4)


def test_terms_are_uncorrelated_and_of_variance_one():
    """10^5 examples: second moments within five standard errors."""
    terms = [drawn(MultiIndex(n=5, degrees=(term,)), 10**5)[2].astype(float) for term in DEGREES]
    for i, one in enumerate(terms):
        for j, other in enumerate(terms):
            product = one * other
            assert abs(product.mean() - (i == j)) < 5 * product.std() / len(product) ** 0.5


def test_one_direction_is_a_single_index():
    single, several = SingleIndex(n=30, link="h3"), MultiIndex(n=30, degrees=((3,),))
    assert several.draw(KEY)[:, 0] == pytest.approx(single.draw(KEY), abs=1e-6)
    assert drawn(several, 50)[2] == pytest.approx(drawn(single, 50)[2], abs=1e-4)


@pytest.mark.compiles
@pytest.mark.slow
@pytest.mark.compiles
def test_a_network_learns_a_staircase_of_normal_inputs():
    """The held-out loss starts at half of the variance, which is 2, and falls below a tenth of it."""
    task = MultiIndex(n=8, degrees=((1, 0), (1, 1)))
    stopping = el.StoppingRule(every=250, loss=0.1)
    training = el.SGD(learning_rate=0.05, batch_size=64, steps=4000, loss="square", stopping=stopping)
    outcome = el.train(el.Trial(task=task, regime=el.Online(), model=el.MLP(width=100), training=training))
    assert outcome.solved and outcome.test_loss <= 0.1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"degrees": ()}, "at least 1 item"),
        ({"degrees": ((1, 0), (1,))}, "every term must have one degree per direction: 1 and 2 degrees"),
        ({"degrees": ((1, 1, 1),)}, "n must be at least the number of directions: n=2, directions=3"),
        ({"degrees": ((1, 0), (1, 0))}, "terms must differ"),
        ({"degrees": ((13,),)}, "less than or equal to 12"),
        ({"degrees": ((1,),), "coefficients": (1.0, 2.0)}, "one coefficient per term: 2 for 1 terms"),
        ({"degrees": ((1,),), "coefficients": (float("nan"),)}, "finite"),
    ],
)
def test_targets_that_are_not_polynomials_of_directions_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        MultiIndex(n=2, **fields)
