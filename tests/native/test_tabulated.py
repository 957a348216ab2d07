"""Own activations as tables: close to the function everywhere, or refused with the reason."""

import numpy as np
import pytest

import elegans as el
from elegans import _native
from elegans.errors import EngineError
from elegans.training.engines import choose
from elegans.training.engines.tabulated import TOLERANCE, tabulate


def own(name, value, derivative):
    """An activation from two functions of an array and its module."""
    methods = {
        "value": lambda self, z: value(z, z.__array_namespace__()),
        "derivative": lambda self, z: derivative(z, z.__array_namespace__()),
    }
    return type(name, (el.Activation,), {**methods, "__module__": __name__}, kind=f"own-{name.lower()}")()


GATED = own("Gate", lambda z, xp: z * xp.tanh(z), lambda z, xp: xp.tanh(z) + z * (1 - xp.tanh(z) ** 2))
SMOOTH = [
    GATED,
    own("Arctan", lambda z, xp: xp.arctan(z), lambda z, xp: 1 / (1 + z * z)),
    own("Softsign", lambda z, xp: z / (1 + abs(z)), lambda z, xp: (1 + abs(z)) ** -2),
    own("Bump", lambda z, xp: xp.exp(-z * z), lambda z, xp: -2 * z * xp.exp(-z * z)),
    own("Hyperbola", lambda z, xp: xp.sqrt(1 + z * z), lambda z, xp: z / xp.sqrt(1 + z * z)),
    own("Constant", lambda z, xp: 0 * z + 3, lambda z, xp: 0 * z),
    own("Threshold", lambda z, xp: 1.0 * (z > 0), lambda z, xp: 0 * z),
    own(
        "Hard",
        lambda z, xp: z * (abs(z) < 1) + (z >= 1) - 1.0 * (z <= -1),
        lambda z, xp: (abs(z) < 1).astype(z.dtype),
    ),
    el.models.Tanh(),
    el.models.Sigmoid(),
    el.models.SiLU(),
    el.models.Softplus(),
    el.models.GELU(),
    el.models.GELU(form="tanh"),
    el.models.ELU(alpha=0.5),
    el.models.LeakyReLU(),
]
ROUGH = {
    "grows too fast": (own("Square", lambda z, xp: z * z, lambda z, xp: 2 * z), "of its table is off by"),
    "never ends": (own("Wave", lambda z, xp: xp.sin(3 * z), lambda z, xp: 3 * xp.cos(3 * z)), "value .* off by"),
    "a kink elsewhere": (
        own("Kink", lambda z, xp: abs(z - 0.3), lambda z, xp: 1.0 - 2 * (z <= 0.3)),
        "derivative .* near z = 0.3",
    ),
    "too steep": (
        own("Steep", lambda z, xp: xp.tanh(20 * z), lambda z, xp: 20 * (1 - xp.tanh(20 * z) ** 2)),
        "derivative .* near z = -?0.0",
    ),
    "a derivative of something else": (
        own("Through", lambda z, xp: xp.tanh(z), lambda z, xp: 0 * z + 1),
        "derivative .* is off by 1",
    ),
    "not a number": (own("Root", lambda z, xp: z**0.5, lambda z, xp: 0.5 * z**-0.5), "off by inf"),
    "no array": (own("Branch", lambda z, xp: z if z > 0 else 0 * z, lambda z, xp: z), "cannot take a NumPy array"),
}


@pytest.mark.parametrize("activation", SMOOTH, ids=lambda activation: activation.kind)
def test_a_table_is_the_function_to_a_millionth_of_its_size(native, activation):
    random = np.random.default_rng(0)
    z = np.concatenate([random.uniform(-20, 20, 20_000), random.normal(size=2000) * 10.0 ** random.uniform(1, 5, 2000)])
    z = z.astype(np.float32)
    exact = z.astype(np.float64)
    got = native.activate(z, **tabulate(activation).arguments)
    for ours, wanted in zip(got, (activation.value(exact), activation.derivative(exact)), strict=True):
        wanted = np.broadcast_to(wanted, z.shape)
        scale = np.maximum(abs(wanted), abs(wanted[abs(z) <= 2]).max())
        assert (abs(ours - wanted) <= 1.5 * TOLERANCE * scale).all()  # checked before at other points


@pytest.mark.parametrize(("activation", "reason"), ROUGH.values(), ids=ROUGH)
def test_what_no_table_follows_is_left_to_the_general_engine_with_the_reason(activation, reason):
    with pytest.raises(EngineError, match=reason):
        tabulate(activation)
    trial = trial_of(activation)
    assert choose(trial).name == "jax"
    with pytest.raises(EngineError, match=f"the fused engine takes no activation '{activation.kind}': .*{reason}"):
        choose(trial, "fused")


def trial_of(activation, **changes):
    return el.Trial(
        task=el.SparseParity(n=10, k=2),
        regime="online",
        model=el.MLP(width=20, activation=activation),
        training=el.SGD(steps=2000, batch_size=16, learning_rate=0.1),
        **changes,
    )


def test_at_a_kink_on_a_border_the_derivative_is_the_one_on_the_left():
    hard = SMOOTH[7]
    values, derivatives = _native.activate(np.array([-1, 0, 1], np.float32), **tabulate(hard).arguments)
    assert values.tolist() == pytest.approx([-1, 0, 1])
    assert derivatives.tolist() == pytest.approx([0, 1, 1], abs=1e-6)


def test_sums_that_are_not_a_number_stay_so():
    values, derivatives = _native.activate(np.array([np.nan, np.inf], np.float32), **tabulate(GATED).arguments)
    assert np.isnan(values[0]) and np.isnan(derivatives[0]) and values[1] == np.inf


@pytest.mark.parametrize("table", [None, np.zeros((9, 31), np.float32), np.zeros((3, 32), np.float32)])
def test_a_table_of_another_shape_is_refused(table):
    with pytest.raises(ValueError, match=r"table must be \(9, 32\)|must have a table"):
        _native.activate(np.zeros(3, np.float32), activation="tabulated", table=table)


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["tanh", GATED], ids=["tanh", "own"])
def test_both_engines_find_the_same_success_rates(activation):
    """On 4 cells of 20 seeds.

    Networks part by rounding, so that single trials may differ: with 20 seeds the rates of a cell differ by more than
    0.3 with probability below 0.03 even if all were independent.
    """
    trial = trial_of(activation).replace("task", el.SparseParity(n=20, k=3)).replace("regime", el.Sample(300))
    sweep = el.grid(trial, {"model.width": [10, 40], "regime.size": [100, 400]}, seeds=20)
    rates = {}
    for engine in ("fused", "jax"):
        table = el.run(sweep, engine=engine, progress=False)
        assert set(table["engine"]) == {engine}
        rates[engine] = table["solved_at"].notna().groupby([table["model.width"], table["regime.size"]]).mean()
    assert abs(rates["fused"] - rates["jax"]).max() <= 0.3
