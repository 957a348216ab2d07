"""Activations by their tables, and their derivatives by differences and by JAX."""

from fractions import Fraction

import jax
import numpy as np
import pytest
from scipy.stats import norm

import elegans as el

OSCILLATIONS = [el.models.Zigzag, el.models.TriangleWave, el.models.OscillatingPolynomial, el.models.Sinusoid]
ALL = [
    el.models.ReLU(),
    el.models.ReLU6(),
    el.models.Power(3),
    el.models.Sinusoid(3, scale=2),
    el.models.Tanh(),
    el.models.Sigmoid(),
    el.models.SiLU(),
    el.models.Softplus(),
    el.models.GELU(),
    el.models.GELU(form="tanh"),
    el.models.LeakyReLU(slope=0.1),
    el.models.ELU(alpha=0.5),
    el.models.Sine(frequency=3),
    *(kind(k) for kind in OSCILLATIONS for k in (3, 4)),
]
DEGREES = range(1, 9)
AWAY_FROM_KINKS = np.linspace(-9.317, 9.131, 61)


@pytest.mark.parametrize("kind", OSCILLATIONS)
@pytest.mark.parametrize("k", DEGREES)
def test_one_neuron_of_an_oscillation_computes_a_parity(kind, k):
    sums = np.array([k - 2.0 * j for j in range(k + 1)])
    assert kind(k).value(sums) == pytest.approx((-1.0) ** np.arange(k + 1), abs=1e-12)


@pytest.mark.parametrize(
    ("k", "coefficients"),
    [
        (2, (-1, 0, Fraction(1, 2))),
        (3, (0, Fraction(-7, 6), 0, Fraction(1, 6))),
        (4, (1, 0, Fraction(-2, 3), 0, Fraction(1, 24))),
        (5, (0, Fraction(149, 120), 0, Fraction(-1, 4), 0, Fraction(1, 120))),
    ],
)
def test_the_oscillating_polynomial_has_its_exact_coefficients(k, coefficients):
    assert el.models.OscillatingPolynomial(k).coefficients == coefficients


@pytest.mark.parametrize("k", DEGREES)
def test_the_sinusoid_has_the_stated_frequency_and_phase(k):
    z = np.linspace(-5, 5, 41)
    sinusoid = el.models.Sinusoid(k, scale=1.5)
    assert sinusoid.value(z) == pytest.approx(np.sin(1.5 * np.pi * z / 2 + sinusoid.phase), abs=1e-12)


@pytest.mark.parametrize("k", DEGREES)
def test_the_zigzag_is_the_triangle_wave_between_the_outer_points_and_goes_straight_on_beyond(k):
    inside, beyond = np.linspace(-k, k, 33), np.linspace(0, 3, 7)
    assert el.models.Zigzag(k).value(inside) == pytest.approx(el.models.TriangleWave(k).value(inside))
    assert el.models.Zigzag(k).value(k + beyond) == pytest.approx(1 + beyond)
    assert el.models.Zigzag(k).value(-k - beyond) == pytest.approx((-1) ** k * (1 + beyond))


@pytest.mark.parametrize("activation", ALL, ids=repr)
def test_derivatives_are_differences_and_jaxs_own(activation):
    z, step = AWAY_FROM_KINKS, 1e-6
    differences = (activation.value(z + step) - activation.value(z - step)) / (2 * step)
    assert activation.derivative(z) == pytest.approx(differences, rel=1e-4, abs=1e-4)
    automatic = jax.vmap(jax.grad(activation.value))(z.astype(np.float32))
    assert np.asarray(automatic) == pytest.approx(activation.derivative(z.astype(np.float32)), rel=1e-4, abs=1e-4)


FORMULAS = {
    "tanh": lambda z: (1 - np.exp(-2 * z)) / (1 + np.exp(-2 * z)),
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "silu": lambda z: z / (1 + np.exp(-z)),
    "softplus": lambda z: np.log1p(np.exp(z)),
    "gelu": lambda z: z * norm.cdf(z),
    "leaky-relu": lambda z: np.maximum(z, 0.01 * z),
    "leaky-relu:0.2": lambda z: np.maximum(z, 0.2 * z),
    "elu": lambda z: np.where(z > 0, z, np.exp(z) - 1),
    "elu:2": lambda z: np.where(z > 0, z, 2 * np.exp(z) - 2),
    "sine": np.sin,
    "sine:2.5": lambda z: np.sin(2.5 * z),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_the_usual_activations_are_their_formulas_in_both_libraries(name):
    activation, z = el.MLP(width=1, activation=name).activation, AWAY_FROM_KINKS
    assert activation.value(z) == pytest.approx(FORMULAS[name](z), rel=1e-9, abs=1e-12)
    in_jax = np.asarray(jax.jit(activation.value)(z.astype(np.float32)))
    # preactivations up to 23 are rounded by at most 1.4e-6 in float32
    assert in_jax == pytest.approx(FORMULAS[name](z), rel=1e-5, abs=2e-6)


def test_both_forms_of_the_gelu_are_close_but_not_equal():
    z = np.linspace(-6, 6, 2401)
    off = np.abs(el.models.GELU().value(z) - el.models.GELU(form="tanh").value(z)).max()
    assert 3e-4 < off < 5e-4


@pytest.mark.parametrize("activation", ALL, ids=repr)
def test_large_preactivations_have_finite_values_and_gradients(activation):
    if isinstance(activation, el.models.Power | el.models.OscillatingPolynomial):
        pytest.skip("polynomials overflow")
    z = np.array([-1e4, -200, 200, 1e4], np.float32)
    for values in (activation.value(z), activation.derivative(z), jax.vmap(jax.grad(activation.value))(z)):
        assert np.isfinite(np.asarray(values)).all()


@pytest.mark.parametrize("k", DEGREES)
def test_a_product_of_unit_forms_is_the_parity(k):
    task = el.SparseParity(n=10, k=k, support=range(k))
    x, y = task.examples(task.draw(None), el.random.stream(0, "test"), np.arange(64, dtype=np.uint32))
    parameters = {"hidden": {"weight": np.eye(k, 10, dtype=np.float32), "bias": np.zeros(k, np.float32)}}
    assert np.array_equal(el.PolyNet(degree=k).apply(parameters, x), y)


def test_an_activation_is_written_by_its_name_and_degree():
    assert el.MLP(width=1, activation="zigzag:3").activation == el.models.Zigzag(3)
    assert el.MLP(width=1, activation={"kind": "sinusoid", "degree": 2, "scale": 2}).activation == el.models.Sinusoid(
        2, 2.0
    )
    with pytest.raises(el.errors.TrialError, match="degree must be greater than or equal to 1: degree=0"):
        el.models.Power(0)
