"""Losses by their closed forms."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elegans.training.losses import Hinge, Logistic, Square

FORMS = [
    (Hinge(), lambda f, y: max(1 - y * f, 0), lambda f, y: -y * (y * f < 1)),
    (Square(), lambda f, y: (f - y) ** 2 / 2, lambda f, y: f - y),
    (Logistic(), lambda f, y: np.log1p(np.exp(-y * f)), lambda f, y: -y / (1 + np.exp(y * f))),
]


@pytest.mark.parametrize(("loss", "value", "slope"), FORMS, ids=lambda form: getattr(form, "kind", ""))
@given(f=st.floats(-30, 30, width=32).filter(lambda f: abs(abs(f) - 1) > 1e-3), y=st.sampled_from([-1.0, 1.0]))
def test_values_and_slopes_are_the_closed_forms(loss, value, slope, f, y):
    assert float(loss.value(np.float32(f), np.float32(y))) == pytest.approx(value(f, y), rel=1e-5, abs=1e-6)
    assert float(jax.grad(loss.value)(f, y)) == pytest.approx(slope(f, y), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_the_hinge_pushes_by_minus_the_label_at_output_zero_and_not_at_margin_one(y):
    assert float(jax.grad(Hinge().value)(0.0, y)) == -y
    assert float(jax.grad(Hinge().value)(y, y)) == 0


def test_the_logistic_loss_does_not_overflow():
    assert float(Logistic().value(np.float32(-1e4), np.float32(1))) == 1e4
