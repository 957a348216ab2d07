"""Optimisers against traces by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

import elegans as el
from elegans.training.engines import choose


def trace(training, gradients, start=1.0):
    """Return the values of a parameter that meets these gradients one after the other."""
    parameters = {"output": {"bias": jnp.float32(start)}}
    state = training.optimiser(1.0).init(parameters)
    values = []
    for gradient in gradients:
        updates, state = training.optimiser(1.0).update({"output": {"bias": jnp.float32(gradient)}}, state, parameters)
        parameters = {"output": {"bias": parameters["output"]["bias"] + updates["output"]["bias"]}}
        values.append(float(parameters["output"]["bias"]))
    return values


def test_adam_is_its_formula():
    value, mean, square, expected = 1.0, 0.0, 0.0, []
    for step, gradient in enumerate([0.5, -1.0, 2.0], start=1):
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        direction = mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
        value -= 0.01 * (direction + 0.1 * value)
        expected.append(value)
    assert trace(el.Adam(steps=1, learning_rate=0.01, weight_decay=0.1), [0.5, -1.0, 2.0]) == pytest.approx(expected)


def test_adamw_is_adam_with_a_weight_decay_of_its_own():
    gradients = [0.5, -1.0, 2.0]
    settings = {"steps": 1, "learning_rate": 0.01}
    assert trace(el.AdamW(**settings), gradients) == trace(el.Adam(**settings, weight_decay=0.01), gradients)
    assert trace(el.AdamW(**settings, weight_decay=0), gradients) == trace(el.Adam(**settings), gradients)


def test_adadelta_is_its_formula():
    value, square, moved, expected = 1.0, 0.0, 0.0, []
    for gradient in [0.5, -1.0, 2.0]:
        square = 0.95 * square + 0.05 * gradient**2
        direction = np.sqrt(moved + 1e-6) / np.sqrt(square + 1e-6) * gradient
        moved = 0.95 * moved + 0.05 * direction**2
        value -= direction
        expected.append(value)
    assert trace(el.training.AdaDelta(steps=1), [0.5, -1.0, 2.0]) == pytest.approx(expected)


CLIPPED = [{"a": [3.0, 0.0], "b": 4.0}, {"a": [0.3, 0.0], "b": -0.4}, {"a": [-30.0, 40.0], "b": 0.0}]
"""Gradients of norms 5, 0.5 and 50."""


def clipped(gradient, largest):
    """Gradient entries (3,) scaled down by all of their norm together, as ``torch.nn.utils.clip_grad_norm_`` does."""
    flat = np.array([*gradient["a"], gradient["b"]])
    return flat * min(1, largest / (np.linalg.norm(flat) + 1e-6))


def steps(training, gradients):
    """The entries (3,) of two parameters after each of these gradients."""
    layers = {"layer": {"a": jnp.zeros(2), "b": jnp.float32(0)}}
    state, values = training.optimiser(1.0).init(layers), []
    for gradient in gradients:
        given = {"layer": {name: jnp.asarray(part, jnp.float32) for name, part in gradient.items()}}
        prepared = training.prepared(given, el.random.stream(0, "gradient"))
        updates, state = training.optimiser(1.0).update(prepared, state, layers)
        layers = {"layer": {name: part + updates["layer"][name] for name, part in layers["layer"].items()}}
        values.append([*np.asarray(layers["layer"]["a"]), float(layers["layer"]["b"])])
    return np.array(values)


def test_gradients_longer_than_the_clip_are_scaled_down_by_the_norm_of_all_parameters():
    """The first and the last are scaled, to norms of 1; the one between them stays."""
    scaled = np.array([clipped(gradient, 1.0) for gradient in CLIPPED])
    assert np.linalg.norm(scaled, axis=1) == pytest.approx([1, 0.5, 1], abs=1e-5)
    found = steps(el.SGD(steps=1, learning_rate=0.1, clip=1.0), CLIPPED)
    assert found == pytest.approx(-0.1 * scaled.cumsum(axis=0), abs=1e-6)
    assert steps(el.SGD(steps=1, learning_rate=0.1), CLIPPED)[0] == pytest.approx([-0.3, 0, -0.4])


def test_adam_takes_its_means_of_clipped_gradients_and_decay_is_not_clipped():
    value, mean, square, expected = np.zeros(3), np.zeros(3), np.zeros(3), []
    for step, gradient in enumerate(clipped(gradient, 1.0) for gradient in CLIPPED):
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        unbiased = mean / (1 - 0.9 ** (step + 1)), square / (1 - 0.999 ** (step + 1))
        value = value - 0.01 * (unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8) + 0.5 * value)
        expected.append(value)
    found = steps(el.Adam(steps=1, learning_rate=0.01, weight_decay=0.5, clip=1.0), CLIPPED)
    assert found == pytest.approx(np.array(expected), abs=1e-6)


def test_a_clip_must_be_positive():
    with pytest.raises(el.errors.TrialError, match="clip must be greater than 0: clip=0.0"):
        el.Adam(steps=1, clip=0.0)


def test_sgd_decays_through_the_gradient_or_the_parameters_themselves():
    rates = {"learning_rate": 0.1, "weight_decay": 0.01}
    assert trace(el.SGD(steps=1, **rates), [2.0]) == pytest.approx([1 - 0.1 * (2 + 0.01)])
    assert trace(el.SGD(steps=1, decay="parameters", **rates), [2.0]) == pytest.approx([0.99 - 0.1 * 2])


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("decay", ["gradient", "parameters"])
def test_momentum_is_its_formula(nesterov, decay):
    value, velocity, expected = 1.0, 0.0, []
    for gradient in [0.5, -1.0, 2.0]:
        if decay == "gradient":
            gradient += 0.01 * value
        velocity = 0.9 * velocity + gradient
        step = 0.1 * (gradient + 0.9 * velocity if nesterov else velocity)
        value = (1.0 if decay == "gradient" else 0.99) * value - step
        expected.append(value)
    training = el.SGD(steps=1, learning_rate=0.1, weight_decay=0.01, decay=decay, momentum=0.9, nesterov=nesterov)
    assert trace(training, [0.5, -1.0, 2.0]) == pytest.approx(expected)


PLAIN = el.Trial(
    task=el.SparseParity(n=6, k=2), regime="online", model=el.MLP(width=5), training=el.SGD(steps=3, loss="logistic")
)
OPTIONS = {"training.momentum": 0.9, "training.gradient_noise": 0.1, "training.loss.smoothing": 0.2}


@pytest.mark.slow
@pytest.mark.parametrize(("option", "value"), OPTIONS.items())
def test_an_option_that_is_off_is_as_if_it_did_not_exist(option, value):
    on = PLAIN.replace(option, value)
    assert option not in PLAIN.columns() and on.columns()[option] == value
    assert PLAIN.identity == el.Trial.parse(PLAIN.model_dump(mode="json")).identity != on.identity
    weights = [el.train(one, engine="jax").parameters["hidden"]["weight"] for one in (PLAIN, on)]
    assert np.abs(weights[0] - weights[1]).max() > 1e-4
    if option != "training.gradient_noise":
        assert PLAIN.replace(option, 0).identity == PLAIN.identity


def test_a_store_has_trials_with_and_without_an_option_side_by_side(tmp_path):
    sweep = el.grid(PLAIN, {"training.momentum": [None, 0.5]}, seeds=2)
    el.run(sweep, tmp_path / "runs.db", progress=False)
    with el.Store(tmp_path / "runs.db") as store:
        assert store.table()["training.momentum"].fillna(0).tolist() == [0, 0, 0.5, 0.5]
        assert len(store.table(where={"training.momentum": 0.5})) == 2


def test_bad_options_are_refused():
    plain = PLAIN
    with pytest.raises(el.errors.TrialError, match="nesterov=True must have a momentum"):
        plain.replace("training.nesterov", True)
    with pytest.raises(el.errors.TrialError, match="momentum must be less than 1: momentum=1.0"):
        el.SGD(steps=1, momentum=1.0)
    with pytest.raises(el.errors.TrialError, match="smoothing must be less than 1: smoothing=1.5"):
        el.training.Logistic(smoothing=1.5)
    for option in ("training.gradient_noise", "training.loss.smoothing"):
        with pytest.raises(el.errors.EngineError, match=f"the fused engine takes no {option.split('.')[-1]}"):
            choose(plain.replace(option, 0.1), "fused")


@pytest.mark.slow
def test_noise_of_gradients_has_its_size_is_new_at_each_step_and_the_same_in_each_run():
    training = el.SGD(steps=1, gradient_noise=0.5, clip=0.1)
    gradients = {"a": jnp.full((200, 100), 3.0), "b": jnp.full(5000, 4.0)}
    key = el.random.stream(3, "gradient")
    first, again, next_step = (training.prepared(gradients, key.fold(step)) for step in (0, 0, 1))
    norm = float(jnp.sqrt(20_000 * 9.0 + 5000 * 16.0))
    noise = np.concatenate([(first[name] - gradients[name] * 0.1 / norm).ravel() for name in gradients])
    # 25,000 draws: the bounds are five standard errors
    assert abs(noise.mean()) < 5 * 0.5 / len(noise) ** 0.5
    assert noise.std() == pytest.approx(0.5, rel=5 / (2 * len(noise)) ** 0.5)
    assert abs(np.corrcoef(first["a"].ravel()[:5000], first["b"])[0, 1]) < 5 / 5000**0.5
    assert all(np.array_equal(first[name], again[name]) for name in gradients)
    assert abs(np.corrcoef(first["b"], next_step["b"])[0, 1]) < 5 / 5000**0.5


@pytest.mark.slow
def test_the_cube_gives_the_population_gradient_of_a_parity():
    """One step of SGD on all inputs moves the weights of a square unit by k! times the other relevant weight."""
    task = el.SparseParity(n=6, k=2, support=(1, 4))
    model = el.MLP(width=1, activation=el.models.Power(2), readout=False)
    training = el.SGD(steps=1, learning_rate=0.5, batch_size=64, loss="correlation")
    trial = el.Trial(task=task, regime=el.Population(), model=model, training=training)
    before = model.initialise(trial.key("init"), task)["hidden"]["weight"][0]
    after = el.train(trial).parameters["hidden"]["weight"][0]
    expected = np.zeros(6)
    expected[[1, 4]] = 0.5 * 2 * before[[4, 1]]
    assert after - before == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 32}, "batch_size must be the number of inputs: batch_size=32, 64 inputs"),
        ({"n": 21}, "a population must have at most 2\\^20 inputs .*: 2097152 inputs"),
    ],
)
def test_the_cube_refuses_what_it_cannot_hold(changes, message):
    n = changes.pop("n", 6)
    with pytest.raises(el.errors.TrialError, match=message):
        el.Trial(
            task=el.SparseParity(n=n, k=2),
            regime=el.Population(),
            model=el.MLP(width=1),
            training=el.SGD(steps=1, **{"batch_size": 64, **changes}),
        )


def test_a_warm_up_increases_to_its_schedule_wherever_it_is_cut():
    schedule = el.training.Warmup(steps=4, then="cosine:10")
    whole = schedule.factors(0, 20)
    assert whole[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert np.array_equal(whole[4:], el.training.Cosine(steps=10).factors(0, 16))
    for first, count in ((0, 1), (3, 1), (2, 5), (4, 3), (9, 11)):
        assert np.array_equal(schedule.factors(first, count), whole[first : first + count])
    piecewise = el.training.Piecewise(steps=(0, 2), values=(0.5, 0.1))
    assert el.training.Warmup(steps=1, then=piecewise).factors(0, 4) == pytest.approx([0.25, 0.5, 0.5, 0.1])
    assert el.Trial.parse(PLAIN.replace("training.schedule", "warmup:9").model_dump(mode="json")).training.schedule == (
        el.training.Warmup(steps=9)
    )
