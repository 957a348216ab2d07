"""Losses by their closed forms."""

import jax
import numpy as np
import pytest
from hypothesis import given, strategies as st

from elegans.errors import TrialError
from elegans.training.losses import CrossEntropy, Hinge, Logistic, Margin, OneHotSquare, Square
from elegans.training.mistakes import margins, wrong

FORMS = [
    (Hinge(), lambda f, y: max(1 - y * f, 0), lambda f, y: -y * (y * f < 1)),
    (Square(), lambda f, y: (f - y) ** 2 / 2, lambda f, y: f - y),
    (Logistic(), lambda f, y: np.log1p(np.exp(-y * f)), lambda f, y: -y / (1 + np.exp(y * f))),
]
GRADIENTS = {loss.kind: jax.jit(jax.grad(loss.value)) for loss, *_ in FORMS}  # each compiled once, not per example


@pytest.mark.parametrize(("loss", "value", "slope"), FORMS, ids=lambda form: getattr(form, "kind", ""))
@given(f=st.floats(-30, 30, width=32).filter(lambda f: abs(abs(f) - 1) > 1e-3), y=st.sampled_from([-1.0, 1.0]))
def test_values_and_slopes_are_the_closed_forms(loss, value, slope, f, y):
    assert float(loss.value(np.float32(f), np.float32(y))) == pytest.approx(value(f, y), rel=1e-5, abs=1e-6)
    assert float(GRADIENTS[loss.kind](f, y)) == pytest.approx(slope(f, y), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_the_hinge_pushes_by_minus_the_label_at_output_zero_and_not_at_margin_one(y):
    assert float(jax.grad(Hinge().value)(0.0, y)) == -y
    assert float(jax.grad(Hinge().value)(y, y)) == 0


@pytest.mark.parametrize("y", [0, 1])
@given(f=st.floats(-20, 20, width=32))
def test_a_smoothed_label_is_a_mixture_of_labels(y, f):
    """Half of the smoothing goes to either label; the logistic loss is the cross-entropy of f / 2 and -f / 2."""
    sign, output = np.float32(1 - 2 * y), np.float32(f)
    plain, smoothed = Logistic(), Logistic(smoothing=0.2)
    mixture = 0.9 * float(plain.value(output, sign)) + 0.1 * float(plain.value(output, -sign))
    assert float(smoothed.value(output, sign)) == pytest.approx(mixture, rel=1e-5, abs=1e-5)
    assert Logistic(scale=3, smoothing=0.2).value(output, sign) == pytest.approx(3 * mixture, rel=1e-5, abs=1e-5)
    both = jax.numpy.asarray([[f / 2, -f / 2]], np.float32)
    assert float(CrossEntropy(smoothing=0.2).value(both, np.array([y]))[0]) == pytest.approx(
        mixture, rel=1e-5, abs=1e-5
    )


def test_the_logistic_loss_does_not_overflow():
    assert float(Logistic().value(np.float32(-1e4), np.float32(1))) == 1e4


@given(
    output=st.lists(st.floats(-50, 50, width=32), min_size=3, max_size=3),
    y=st.integers(0, 2),
)
def test_cross_entropy_is_minus_the_log_of_the_softmax(output, y):
    f = np.array([output], np.float32)
    expected = np.log(np.exp(f[0].astype(np.float64) - f[0].max()).sum()) + f[0].max() - f[0, y]
    assert float(CrossEntropy().value(jax.numpy.asarray(f), np.array([y]))[0]) == pytest.approx(expected, abs=1e-4)


@given(
    output=st.lists(st.floats(-5, 5, width=32), min_size=4, max_size=4),
    y=st.integers(0, 3),
    delta=st.floats(0.125, 20, width=32),
)
def test_the_margin_loss_is_its_sum_over_wrong_classes_and_counts_its_inactive_hinges(output, y, delta):
    f, label = np.array([output], np.float32), np.array([y], np.int32)
    slack = [delta + f[0, c] - f[0, y] for c in range(4) if c != y]
    loss, linear = Margin(delta=delta), Margin(delta="linear")
    assert float(loss.value(f, label)[0]) == pytest.approx(sum(max(0, part) for part in slack) / 4, abs=1e-4)
    assert float(linear.value(f, label)[0]) == pytest.approx((sum(slack) - 3 * delta) / 4, abs=1e-4)
    assert int(loss.inactive(f, label)[0]) == int((f[0, y] - np.delete(f[0], y) >= delta).sum())
    assert int(linear.inactive(f, label)[0]) == 0


@pytest.mark.slow
@given(
    output=st.lists(st.floats(-5, 5, width=32), min_size=3, max_size=3),
    y=st.integers(0, 2),
    scale=st.floats(0.125, 8, width=32),
)
def test_the_square_loss_of_one_hot_targets_sums_over_classes(output, y, scale):
    f, target = np.array([output], np.float32), np.eye(3)[y]
    loss = OneHotSquare(scale=scale)
    expected = scale * sum((own - wanted) ** 2 for own, wanted in zip(output, target, strict=True)) / 2
    assert float(loss.value(f, np.array([y], np.int32))[0]) == pytest.approx(expected, rel=1e-5, abs=1e-6)
    slope = jax.grad(lambda f: loss.value(f, np.array([y], np.int32)).sum())(f)[0]
    assert np.allclose(slope, scale * (f[0] - target), atol=1e-5)


def test_with_active_hinges_the_margin_loss_has_the_gradient_of_the_linear_one():
    f, y = np.array([[1.0, -2.0, 0.5]], np.float32), np.array([1], np.int32)
    slopes = [jax.grad(lambda f, d=d: Margin(delta=d).value(f, y).sum())(f) for d in (3.5, "linear")]
    assert np.allclose(slopes[0], slopes[1]) and np.allclose(slopes[1], [[1 / 3, -2 / 3, 1 / 3]])


def test_the_margin_loss_is_written_with_its_delta_or_as_linear():
    assert Margin.parse("margin:linear").delta == "linear"
    assert Margin.parse("margin:2.5") == Margin(delta=2.5)
    with pytest.raises(TrialError, match="delta"):
        Margin(delta=0)


def test_of_two_outputs_the_first_answers_for_plus_one():
    f, y = np.array([[3.0, 1.0], [3.0, 1.0], [2.0, 2.0]], np.float32), np.array([1, -1, 1], np.float32)
    assert margins(f, y).tolist() == [2, -2, 0]
    losses = np.log1p(np.exp(-margins(f, y)))
    assert np.allclose(CrossEntropy().value(jax.numpy.asarray(f), y), losses)


def test_the_margin_of_classes_is_taken_to_the_best_other_one():
    f = np.array([[0.0, 5.0, 2.0], [0.0, 5.0, 2.0]], np.float32)
    assert margins(f, np.array([1, 2], np.int32)).tolist() == [3, -3]


def test_the_margin_of_one_output_is_its_product_with_the_label():
    assert margins(np.array([2.0, -1.0]), np.array([-1.0, -1.0])).tolist() == [-2, 1]


def test_a_sequence_is_wrong_by_its_last_position():
    f = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]], np.float32)
    assert wrong(f, np.array([[1, 1], [1, 1]], np.int32)).tolist() == [False, True]
    assert wrong(np.array([2.0, np.nan]), np.array([1.0, 1.0])).tolist() == [False, True]
