"""Native and general engine train the same trials to the same parameters, step by step, within float tolerance.

The draws are bit-identical; the sums are taken in different orders, so trajectories part by rounding, and
a hinge or ReLU at its kink may once in a while fall to the other side. The tolerance is for 3 steps.
"""

import itertools

import jax
import numpy as np
import pytest

import elegans as el
from elegans.studies.hidden_progress.settings import CONFIGURATIONS, configuration
from elegans.training.engines import ENGINES, ChunkRequest, choose
from elegans.training.loop import train_together
from elegans.training.losses import Logistic, Square

LOSSES = ["hinge", "square", "logistic"]
INITS = ["dense", "sparse"]
REGIMES = [el.Online(), el.Sample(200)]
NOISES = [0.0, 0.3]
SIZES = [
    (1, 10, 32),
    (7, 1, 1),
    (7, 10, 100),
    (50, 1000, 32),
    (50, 10, 1),
    (301, 10, 32),
    (301, 1000, 100),
    (301, 1, 100),
]


def in_front(loss, init, regime, size):
    """Whether a case is fast: each size is once, and all pairs of a loss, an init and a regime meet."""
    place = SIZES.index(size)
    return (loss, init, regime) == (LOSSES[place % 3], INITS[place % 2], REGIMES[place // 2 % 2])


def in_third(*case):
    """Whether a case is in one third of all, in which any two of a loss, an init, a regime and a size still meet."""
    return sum(axis.index(value) for axis, value in zip((LOSSES, INITS, REGIMES, SIZES), case, strict=True)) % 3 == 0


TABLE = [
    pytest.param(*case, marks=[] if in_front(*case) else [pytest.mark.slow])
    for case in itertools.product(LOSSES, INITS, REGIMES, SIZES)
    if in_front(*case) or in_third(*case)
]
STEPS, ABSOLUTE, RELATIVE = 3, 2e-5, 2e-4


class Gated(el.Activation):
    """z tanh(z), which the native code does not know."""

    def value(self, z):
        return z * z.__array_namespace__().tanh(z)

    def derivative(self, z):
        tanh = z.__array_namespace__().tanh(z)
        return tanh + z * (1 - tanh**2)


class Odd(el.models.Power, kind="odd"):
    """An activation that the native code does not know, and that grows too fast for a table."""


def trial(loss, init, regime, noise, size, **training):
    n, width, batch_size = size
    return el.Trial(
        task=el.SparseParity(n=n, k=min(n, 3), noise=noise),
        regime=regime,
        model=el.MLP(width=width, init="dense" if init == "dense" else el.SparseInit(min(2, n), value=0.5)),
        training=el.SGD(
            steps=2**20, batch_size=batch_size, loss=loss, learning_rate=0.05, weight_decay=0.01, **training
        ),
        seed=sum(size) + 7 * LOSSES.index(loss),
    )


def assert_same_trajectory(trials, steps=STEPS, native="fused"):
    """Step native networks one by one and general ones side by side; return the last states of both."""
    fused, general = (ENGINES[name] for name in (native, "jax"))
    networks, together = [fused.init([trial]) for trial in trials], general.init(trials)
    for _ in range(steps):
        ours = [fused.advance(network, ChunkRequest.of(1))[1] for network in networks]
        together, theirs = general.advance(together, ChunkRequest.of(1))
        losses = [chunk.intervals[0].loss[0] for chunk in ours]
        assert losses == pytest.approx(theirs.intervals[0].loss, rel=1e-3, abs=1e-4)
        assert np.array_equal([chunk.diverged_at[0] for chunk in ours], theirs.diverged_at)
        for network, right in zip(networks, general.parameters(together), strict=True):
            leaves = jax.tree_util.tree_leaves_with_path(fused.parameters(network)[0])
            for (path, a), b in zip(leaves, jax.tree.leaves(right), strict=True):
                np.testing.assert_allclose(a, b, rtol=RELATIVE, atol=ABSOLUTE, err_msg=str(path))
    return networks, together


def assert_same_answers(states, native, x, count, differing=0.01, **tolerance):
    """Check that outputs agree, and mistakes but for a share of the examples; return the native ones' outputs."""
    (networks, together), (fused, general) = states, (ENGINES[name] for name in (native, "jax"))
    index = np.tile(np.arange(count, dtype=np.uint32), (len(networks), 1))
    for stream in ("test", "sample"):
        ours = np.concatenate([fused.wrong(network, stream, index[:1]) for network in networks])
        assert (ours != general.wrong(together, stream, index)).mean() < differing
    outputs = np.concatenate([fused.predict(network, x) for network in networks])
    np.testing.assert_allclose(outputs, general.predict(together, x), **tolerance)
    return outputs


def assert_grouping_does_not_matter(name, trial, groups):
    engine = ENGINES[name]
    whole, parts = engine.init([trial]), engine.init([trial])
    engine.advance(whole, ChunkRequest.of(sum(groups)))
    for steps in groups:
        engine.advance(parts, ChunkRequest.of(steps))
    pairs = zip(jax.tree.leaves(engine.parameters(whole)), jax.tree.leaves(engine.parameters(parts)), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize(("loss", "init", "regime", "size"), TABLE, ids=lambda part: getattr(part, "kind", str(part)))
def test_the_engines_agree_step_by_step(loss, init, regime, size):
    assert_same_trajectory([trial(loss, init, regime, noise, size) for noise in NOISES])


VARIANTS = {
    "epochs": {"batches": "epochs"},
    "piecewise": {"schedule": {"kind": "piecewise", "steps": [0, 1, 2], "values": [1, 0.5, 2]}},
    "cosine": {"schedule": "cosine:4"},
    "warm-up": {"schedule": {"kind": "warmup", "steps": 2, "then": "cosine:3"}},
    "layers": {
        "layers": {
            "hidden": {"learning_rate": 0.2},
            "hidden.bias": {"weight_decay": 0.5},
            "output.bias": {"learning_rate": 0},
        }
    },
}


@pytest.mark.parametrize("training", VARIANTS.values(), ids=VARIANTS)
def test_the_engines_agree_on_orders_schedules_and_layer_rates(training):
    assert_same_trajectory([trial("hinge", "dense", el.Sample(50), 0.1, (20, 30, 32), **training)], steps=5)


OPTIMISERS = {
    "momentum": {"momentum": 0.9},
    "nesterov": {"momentum": 0.8, "nesterov": True, "schedule": "cosine:8"},
    "momentum apart from decay": {"momentum": 0.9, "decay": "parameters", "layers": {"hidden": {"weight_decay": 0.1}}},
    "clip": {"clip": 0.2},
    "clip and momentum": {"clip": 0.2, "momentum": 0.9},
    "clip and adam": {"kind": "adamw", "epsilon": 1e-4, "learning_rate": 0.01, "clip": 0.2},
}
OPTIMISED = {  # each way in which gradients are summed up
    "counts": (el.SparseParity(n=20, k=3), el.MLP(width=30), {"loss": "hinge", "batch_size": 45}),
    "tables": (el.SparseParity(n=20, k=3), el.MLP(width=30, output_bias=False), {"loss": "square"}),
    "an activation": (el.SparseParity(n=50, k=3), el.MLP(width=10, activation="gelu"), {"loss": "logistic"}),
    "no bias": (el.XOR(n=20), el.MLP(width=17, hidden_bias=False, output_bias=False), {"loss": "logistic"}),
    "a product": (el.SparseParity(n=20, k=3), el.PolyNet(degree=3), {"loss": "hinge"}),
    "controls": (el.MultitaskParity(n=20, k=2, tasks=9), el.MLP(width=20), {"loss": "logistic"}),
}


OPTIMISER_CASES = [  # each optimiser meets half of the cases, and each case is once among the fast ones
    pytest.param(case, name, marks=[pytest.mark.slow] * (place != number))
    for number, name in enumerate(OPTIMISERS)
    for place, case in enumerate(OPTIMISED)
    if (place - number) % 6 in (0, 1, 3)
]


@pytest.mark.parametrize(("case", "name"), OPTIMISER_CASES)
def test_the_engines_agree_on_optimisers(case, name):
    task, model, settings = OPTIMISED[case]
    training = {"kind": "sgd", "learning_rate": 0.05, "weight_decay": 0.02, **settings, **OPTIMISERS[name]}
    one = el.Trial(task=task, regime="online", model=model, training={"steps": 100, **training})
    assert choose(one).name == "fused"
    assert_same_trajectory([one], steps=5)


@pytest.mark.slow
def test_momentum_on_scaled_inputs_and_on_means_agrees_and_clipping_is_left_to_the_general_engine():
    for name in ("biased", "mean field"):
        task, model = NEIGHBOURS[name]
        other = small_trial(model, "logistic", "gradient", (20, 32)).replace("task", task)
        assert_same_trajectory([other.replace("training.momentum", 0.9)], steps=5)
        with pytest.raises(el.errors.EngineError, match="takes clipping on inputs of size 1 and sums only"):
            choose(other.replace("training.clip", 1.0), "fused")


def test_optimisers_do_not_depend_on_how_steps_are_grouped():
    for options in OPTIMISERS.values():
        training = {"kind": "sgd", "steps": 2**16, "loss": "hinge", **options}
        trial = el.Trial(task=el.SparseParity(n=20, k=3), regime="online", model=el.MLP(width=30), training=training)
        assert_grouping_does_not_matter("fused", trial, (1, 2, 7, 30))


def test_trials_side_by_side_may_differ_in_every_traced_number():
    base = trial("logistic", "sparse", el.Sample(100), 0.0, (20, 30, 16))
    others = [
        ("regime.size", 7),
        ("task.noise", 0.4),
        ("training.learning_rate", 0.3),
        ("training.weight_decay", 0.2),
        ("seed", 99),
    ]
    trials = [base, *(base.replace(path, value) for path, value in others)]
    assert len({ENGINES["jax"].signature(other) for other in trials}) == 1
    assert_same_trajectory(trials)


@pytest.mark.parametrize(("width", "together"), [(10, 64), (1000, 5), (10_000, 1)])
def test_fewer_large_networks_than_small_ones_train_side_by_side(width, together):
    one = trial("hinge", "dense", el.Online(), 0.0, (50, width, 32))  # 52 parameters per neuron and one more
    assert ENGINES["jax"].together(one) == together


@pytest.mark.slow
def test_the_engines_agree_on_mistakes_and_predictions():
    states = assert_same_trajectory([trial("hinge", "sparse", el.Sample(60), 0.3, (30, 20, 32)) for _ in range(2)])
    x = np.random.default_rng(0).normal(size=(13, 30)).astype(np.float32)
    assert_same_answers(states, "fused", x, 60, differing=1e-9, rtol=1e-4, atol=1e-5)


# Inits without atoms: at a kink exactly, which signs times a number may hit, the engines take different slopes.
MODELS = {
    "relu": el.MLP(width=20),
    "relu6": el.MLP(width=20, activation="relu6", init=el.GaussianInit(std=1.5)),
    "power": el.MLP(width=10, activation="power:3"),
    "zigzag": el.MLP(width=1, activation="zigzag:3", init=el.GaussianInit(std=1.5)),
    "triangle wave": el.MLP(width=3, activation="triangle-wave:3", init=el.GaussianInit(std=1.5)),
    "oscillating polynomial": el.MLP(width=5, activation="oscillating-polynomial:4"),
    "sinusoid": el.MLP(width=20, activation="sinusoid:3"),
    "leaky relu": el.MLP(width=20, activation="leaky-relu:0.2", init="gaussian"),
    "elu": el.MLP(width=20, activation="elu:0.5", init="gaussian"),
    "tanh": el.MLP(width=20, activation="tanh", init=el.GaussianInit(std=1.5)),
    "sigmoid": el.MLP(width=20, activation="sigmoid"),
    "silu": el.MLP(width=20, activation="silu", init=el.GaussianInit(std=0.5)),
    "softplus": el.MLP(width=20, activation="softplus"),
    "gelu": el.MLP(width=20, activation="gelu", init=el.GaussianInit(std=0.5)),
    "gelu of tanh": el.MLP(width=20, activation="gelu:tanh", init=el.GaussianInit(std=0.5)),
    "sine": el.MLP(width=20, activation="sine:2", init=el.GaussianInit(std=1.5)),
    "own": el.MLP(width=20, activation=Gated(), init=el.GaussianInit(std=0.5)),
    "faster sinusoid": el.MLP(width=2, activation={"kind": "sinusoid", "degree": 4, "scale": 2}),
    "neuron": el.MLP(width=1, activation="sinusoid:3", readout=False),
    "neurons without a bias": el.MLP(width=40, activation="relu6", readout=False, hidden_bias=False),
    "no hidden bias": el.MLP(width=20, activation="zigzag:2", hidden_bias=False),
    "no output bias": el.MLP(width=20, output_bias=False, init="gaussian"),
    "no bias": el.MLP(width=20, hidden_bias=False, output_bias=False),
    "form": el.PolyNet(degree=1),
    "polynet": el.PolyNet(degree=3),
    "larger polynet": el.PolyNet(degree=7, init=el.GaussianInit(std=0.2)),
    "largest polynet": el.PolyNet(degree=64, init=el.GaussianInit(std=0.25)),
}
CONVENTIONS = ["gradient", "parameters"]
SMALL_SIZES = [(7, 1), (12, 32), (30, 50)]
CASES = list(itertools.product([*LOSSES, Square(scale=2), Logistic(scale=3), "correlation"], CONVENTIONS))


def small_trial(model, loss, decay, size):
    n, batch_size = size
    training = el.SGD(
        steps=100,
        batch_size=batch_size,
        loss=loss,
        decay=decay,
        learning_rate=0.02,
        weight_decay=0.05,
        schedule="cosine:10",
    )
    return el.Trial(
        task=el.SparseParity(n=n, k=3, noise=0.1), regime=el.Online(), model=model, training=training, seed=n
    )


EVERY_KIND = [  # the other activations are in tests/native, fast, with every loss
    *("relu6", "power", "zigzag", "sinusoid", "gelu", "own", "neuron", "neurons without a bias", "no hidden bias"),
    *("no bias", "polynet", "largest polynet"),
]
PAIRED = [  # each kind of network is once among the fast ones, with all losses, decays and sizes in turn
    pytest.param(
        number, loss, marks=[pytest.mark.slow] * (name not in EVERY_KIND or loss != (number + number // 3) % 6)
    )
    for number, name in enumerate(MODELS)
    for loss in range(6)
    if (loss - number - number // 3) % 3 == 0
]


@pytest.mark.parametrize(("number", "loss"), PAIRED)
def test_the_engines_agree_on_every_pair_of_a_network_a_loss_and_a_decay(number, loss):
    """Each network meets two of the losses, and each loss a third of the networks, with both conventions of decay."""
    case = CASES[2 * loss + (number + loss) % 2]
    assert_same_trajectory([small_trial(list(MODELS.values())[number], *case, SMALL_SIZES[(number + loss) % 3])])


def test_the_engines_agree_on_disjoint_parities():
    trial = small_trial(el.PolyNet(degree=3), "hinge", "gradient", (30, 32))
    assert_same_trajectory([trial.replace("task", el.DisjointParity(n=30, k=3)).with_seed(seed) for seed in range(3)])


NEIGHBOURS = {
    "biased": (el.BiasedParity(n=20, k=3), el.MLP(width=20, activation="relu6", output_bias=False)),
    "one way": (el.BiasedParity(n=70, k=5, mix=1.0), el.MLP(width=5)),
    "xor": (el.XOR(n=20), el.MLP(width=30, hidden_bias=False, output_bias=False)),
    "mean field": (
        el.XOR(n=20, noise=0.1),
        el.MLP(width=30, hidden_bias=False, output_bias=False, scaling="mean-field", init=el.models.SphereInit(0.5)),
    ),
    "biased mean field": (
        el.BiasedParity(n=20, k=3),
        el.MLP(width=7, output_bias=False, scaling="mean-field", activation="sinusoid:3"),
    ),
    "parity of three": (el.XOR(n=9, k=3), el.PolyNet(degree=3)),
}


@pytest.mark.parametrize("decay", ["gradient", pytest.param("parameters", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("task", "model"), NEIGHBOURS.values(), ids=NEIGHBOURS)
def test_the_engines_agree_on_neighbours_of_parities_and_on_means(task, model, decay):
    trial = small_trial(model, "logistic", decay, (20, 32)).replace("task", task)
    assert choose(trial).name == "fused"
    states = assert_same_trajectory([trial])
    if decay == "gradient":  # only steps depend on it: answers are compared once, which takes as long
        return
    x = np.random.default_rng(0).normal(size=(13, task.n)).astype(np.float32)
    assert_same_answers(states, "fused", x, 500, rtol=1e-4, atol=1e-5)


# Adam divides by the size of gradients: an epsilon above their rounding keeps what is none from becoming a direction.
ADAM = {"kind": "adam", "learning_rate": 0.01, "epsilon": 1e-4}
MULTITASK = {
    "as published": ("online", {"loss": "logistic", **ADAM}),
    "a sample in epochs": (el.Sample(50), {"loss": "logistic", "batches": "epochs", **ADAM}),
    "decay": ("online", {**ADAM, "kind": "adamw", "loss": "square", "weight_decay": 0.3, "schedule": "cosine:4"}),
    "a hinge": ("online", {"loss": "hinge", **ADAM}),
    "sgd": (el.Sample(30), {"loss": "hinge", "learning_rate": 0.05, "weight_decay": 0.1}),
    "a single example": ("online", {"loss": "logistic", "batch_size": 1, "learning_rate": 0.05}),
    "layers": ("online", {**ADAM, "loss": "logistic", "layers": {"output": {"learning_rate": 0.1}}}),
}
SHAPES = {
    "large": (el.MultitaskParity(n=100, k=3, tasks=70), el.MLP(width=40)),
    "small": (el.MultitaskParity(n=5, k=2, tasks=3, alpha=1.5), el.MLP(width=3, activation="relu6")),
    "smallest": (el.MultitaskParity(n=1, k=1, tasks=1), el.MLP(width=17, hidden_bias=False)),
}
FAST = {("large", "as published"), ("smallest", "decay"), ("small", "sgd")}
MULTITASK_CASES = [
    pytest.param(*pair, marks=[pytest.mark.slow] * (pair not in FAST))
    for place, pair in enumerate(itertools.product(SHAPES, MULTITASK))
    if pair in FAST or place % 2 == 0
]


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "case"), MULTITASK_CASES)
def test_the_engines_agree_on_many_parities_behind_control_bits(shape, case):
    (task, model), (regime, training) = SHAPES[shape], MULTITASK[case]
    given = {"kind": "sgd", "steps": 2**16, "batch_size": 45, **training}
    trial = el.Trial(task=task, regime=regime, model=model, training=given, seed=5)
    assert choose(trial).name == "fused"
    states = assert_same_trajectory([trial.with_seed(seed) for seed in range(2)])
    x = np.random.default_rng(0).normal(size=(13, task.input_size)).astype(np.float32)
    assert_same_answers(states, "fused", x, 500, rtol=1e-4, atol=1e-4)


def test_many_parities_do_not_depend_on_how_steps_are_grouped():
    trial = el.Trial(
        task=el.MultitaskParity(n=20, k=2, tasks=9),
        regime="online",
        model=el.MLP(width=40),
        training=el.Adam(steps=2**16, batch_size=45, loss="logistic"),
    )
    assert_grouping_does_not_matter("fused", trial, (1, 2, 7, 30))


@pytest.mark.slow
def test_the_engines_agree_on_adam_on_signs():
    for model, loss in ((el.MLP(width=20), "hinge"), (el.PolyNet(degree=3), "square"), (el.MLP(width=5), "logistic")):
        trial = small_trial(model, loss, "gradient", (20, 32))
        assert_same_trajectory([trial.replace("training", {**ADAM, "steps": 100, "loss": loss, "weight_decay": 0.1})])


def test_adam_on_scaled_inputs_and_on_means_is_left_to_the_general_engine():
    adam = {**ADAM, "steps": 3, "loss": "logistic"}
    for name in ("biased", "mean field"):
        task, model = NEIGHBOURS[name]
        other = small_trial(model, "logistic", "gradient", (20, 32)).replace("task", task).replace("training", adam)
        assert choose(other).name == "jax"
        with pytest.raises(
            el.errors.EngineError, match="the fused engine takes Adam on inputs of size 1 and sums only"
        ):
            choose(other, "fused")


def test_xors_beyond_signs_are_left_to_the_general_engine():
    network = el.MLP(width=3)
    for task in (el.XOR(n=5, basis="random"), el.XOR(n=5, inputs="gaussian"), el.XOR(n=5, function="table:0110")):
        assert choose(small_trial(network, "hinge", "gradient", (5, 2)).replace("task", task)).name == "jax"


def test_the_fused_engine_takes_every_configuration_of_the_hidden_progress_study_but_the_transformer():
    chosen = {identifier: choose(configuration(identifier, 20, 3)).name for identifier in CONFIGURATIONS}
    assert chosen == {identifier: "jax" if identifier == "*iii" else "fused" for identifier in CONFIGURATIONS}


@pytest.mark.parametrize("engine", ["fused", "jax"])
def test_an_exploding_learning_rate_diverges_at_the_same_step(engine):
    diverging = trial("square", "dense", el.Online(), 0.0, (50, 100, 32)).replace("training.learning_rate", 30.0)
    outcome = el.train(diverging.replace("training.steps", 1000), engine=engine)
    assert outcome.state == "diverged"
    assert outcome.steps == diverges_at(diverging)
    assert outcome.solved_at is None
    assert outcome.test_error is None


def diverges_at(diverging):
    """Step a JAX network singly until its outputs are not finite; other engines must agree."""
    engine = ENGINES["jax"]
    state = engine.init([diverging])
    for _ in range(200):
        state, chunk = engine.advance(state, ChunkRequest.of(1))
        if chunk.diverged_at[0] >= 0:
            return int(chunk.diverged_at[0])
    raise AssertionError("the trial was meant to diverge")


@pytest.mark.slow
def test_an_outcome_does_not_depend_on_what_trained_beside_it():
    """Draws alone are the same bits: the sums depend on the batch. Native engines train one network at a time."""
    base = trial("hinge", "sparse", el.Sample(400), 0.0, (20, 50, 32)).replace("training.steps", 300)
    trials = [base.with_seed(seed) for seed in range(3)]
    together = {outcome.trial.seed: outcome for outcome in train_together(trials, ENGINES["jax"])}
    for one in trials:
        alone = next(iter(train_together([one], ENGINES["jax"])))
        assert alone.solved_at == together[one.seed].solved_at
        assert alone.test_error == pytest.approx(together[one.seed].test_error, abs=0.02)
        assert alone.curve.loss == pytest.approx(together[one.seed].curve.loss, rel=0.02)


@pytest.mark.slow
def test_both_engines_tell_the_same_story():
    solving = el.Trial(
        task=el.SparseParity(n=20, k=2),
        regime=el.Online(),
        model=el.MLP(width=50, init="sparse:2"),
        training=el.SGD(steps=3000, weight_decay=0.01),
    )
    fused, general = (el.train(solving, engine=name) for name in ("fused", "jax"))
    assert fused.state == general.state == "solved"
    assert abs(fused.solved_at - general.solved_at) <= 200


def pair_trial(task="modular-addition:7", regime="population", batch_size=49, width=20, **change):
    model = {"kind": "mlp", "width": width, "activation": "power:2", "hidden_bias": False, "output_bias": False}
    training = {"kind": "sgd", "steps": 10**6, "batch_size": batch_size, "loss": "cross-entropy", "learning_rate": 0.5}
    trial = el.Trial(task=task, regime=regime, model=model, training=training, seed=3)
    for path, value in change.items():
        trial = trial.replace(path.replace("__", "."), value)
    return trial


DIVISION = {"kind": "modular-arithmetic", "p": 7, "operation": "x/y"}
TRANSFORMER = el.PairTransformer(width=12, heads=3, head_size=5, mlp_width=17)
PAIRS = {
    "a published penalty": {"training__penalty": "norm:0.01"},
    "shrunken parameters": {"training__weight_decay": 0.01, "training__decay": "parameters"},
    "another exponent, momentum": {
        "training__penalty": {"kind": "norm", "strength": 0.01, "outer": 2, "exponent": 3},
        "training__momentum": 0.9,
        "training__weight_decay": 0.01,
    },
    "another norm": {"training__penalty": {"kind": "norm", "strength": 0.01, "outer": 1, "exponent": 1}},
    "layers on a schedule": {
        "training__schedule": {"kind": "piecewise", "steps": [0, 1, 2], "values": [1, 2, 4]},
        "training__layers": {"hidden": {"learning_rate": 0.1}, "output.weight": {"weight_decay": 0.1}},
    },
    "relu": {"model__activation": "relu", "training__penalty": "norm:0.01"},
    "nesterov": {"training__momentum": 0.9, "training__nesterov": True, "training__decay": "parameters"},
    "a cube": {"model__activation": "power:3", "training__penalty": "norm:0.01"},
    "gaussian": {"model__init": {"kind": "gaussian", "std": 0.5}, "width": 45},
    "group": {"task": "group-composition:S4", "batch_size": 576, "width": 70, "training__penalty": "norm:0.001"},
    "a split in full batches": {
        "regime": el.Split(0.4),
        "batch_size": 20,
        "training__batches": "epochs",
        "training__weight_decay": 0.01,
    },
    "a split": {
        "task": "group-composition:D5",
        "regime": el.Split(0.7),
        "batch_size": 33,
        "training__penalty": "norm:0.01",
    },
    "adam": {
        "regime": el.Split(0.4),
        "batch_size": 20,
        "training": {"kind": "adamw", "steps": 10**6, "batch_size": 20, "batches": "epochs", "loss": "cross-entropy"},
        "training__learning_rate": 0.01,
        "training__weight_decay": 1.0,
        "training__beta2": 0.98,
        "training__layers": {"output": {"weight_decay": 0.5, "learning_rate": 0.02}},
    },
    "adam, a penalty": {
        "training": {"kind": "adam", "steps": 10**6, "batch_size": 49, "loss": "cross-entropy", "penalty": "norm:0.01"},
    },
    "another operation in a group": {
        "task": {"kind": "group-operation", "group": "S3", "operation": "xyx^-1"},
        "regime": el.Split(0.7),
        "batch_size": 25,
        "training__batches": "epochs",
    },
    "squares of one-hot targets": {"training__loss": {"kind": "one-hot-square", "scale": 0.3}},
    "division on a split": {"task": DIVISION, "regime": el.Split(0.7), "batch_size": 30},
    "fresh divisions": {"task": DIVISION, "regime": "online", "batch_size": 32},
    "another operation": {
        "task": {"kind": "modular-arithmetic", "p": 10, "operation": "x^3+xy^2+y"},
        "regime": el.Split(0.7),
        "training__loss": "one-hot-square",
    },
    "fresh pairs of a group": {"task": "group-composition:D5", "regime": "online", "batch_size": 101},
    "a transformer": {"model": TRANSFORMER, "training__learning_rate": 0.1},
    "a transformer, fresh pairs of a group": {
        "task": "group-composition:D5",
        "model": TRANSFORMER,
        "model__activation": "power:2",
        "regime": "online",
        "batch_size": 101,
        "training__learning_rate": 0.01,
    },
    "a transformer, division on a split": {
        "task": DIVISION,
        "model": TRANSFORMER,
        "regime": el.Split(0.7),
        "batch_size": 29,
        "training": {"kind": "adamw", "steps": 10**6, "batch_size": 29, "batches": "epochs", "loss": "cross-entropy"},
        "training__learning_rate": 0.001,
        "training__weight_decay": 1.0,
        "training__beta2": 0.98,
        "training__layers": {"output": {"weight_decay": 0.5, "learning_rate": 0.002}},
    },
    "a transformer, squares of one-hot targets": {
        "model": TRANSFORMER,
        "training__learning_rate": 0.01,
        "training__loss": "one-hot-square",
    },
}


QUICK = ("a published penalty", "group", "adam")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in PAIRS]
)
def test_the_engines_agree_on_networks_of_pairs(name):
    trial = pair_trial(**PAIRS[name])
    assert choose(trial).name == "pairs"
    states = assert_same_trajectory([trial.with_seed(seed) for seed in range(2)], native="pairs")
    x = np.random.default_rng(0).normal(size=(13, trial.task.input_size)).astype(np.float32)
    assert_same_answers(states, "pairs", x, 300, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("batches", ["replacement", "epochs"])
def test_a_split_does_not_depend_on_how_steps_are_grouped(batches, monkeypatch):
    monkeypatch.setattr("elegans.training.engines.pairs.GIVEN", 60)  # at most three steps are drawn ahead
    trial = pair_trial(regime=el.Split(0.5), batch_size=20, training__batches=batches)
    assert_grouping_does_not_matter("pairs", trial, (1, 2, 7))


def test_a_split_is_learned_by_heart_before_it_generalises():
    regime = el.Split(0.5)
    split = pair_trial(
        "modular-addition:11",
        regime,
        60,
        60,
        training__batches="epochs",
        training__steps=300,
        training__learning_rate=1.0,
        training__stopping=el.StoppingRule(error=0, examples=61),
    )
    assert regime.sample_size(split.task) == 60
    outcome = el.train(split)
    assert (outcome.engine, outcome.train_error) == ("pairs", 0)
    assert outcome.test_error > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["pairs", "jax"])
def test_a_network_of_pairs_solves_its_task_in_either_engine(engine):
    outcome = el.train(
        pair_trial(training__steps=2000, training__penalty="norm:1e-4", training__learning_rate=2.0), engine=engine
    )
    assert outcome.state == "solved"
    assert outcome.test_error == 0


def test_an_exploding_network_of_pairs_diverges_at_the_same_step():
    exploding = pair_trial(training__learning_rate=300.0, training__steps=500)
    outcome = el.train(exploding)
    assert (outcome.state, outcome.engine) == ("diverged", "pairs")
    assert outcome.steps == diverges_at(exploding)


def test_networks_of_pairs_that_the_native_code_does_not_know_are_left_to_the_general_engine():
    for change, reason in {
        "model.hidden_bias": (True, "takes no network with biases"),
        "model.output_bias": (True, "takes no network with biases"),
        "model.activation": ("relu6", "takes no activation 'relu6'"),
        "regime": (el.Sample(30), "takes no regime 'sample'"),
        "training.penalty": ({"kind": "norm", "strength": 0.1, "inner": 1}, "takes no norm penalty with inner=1"),
        "training": (
            el.training.AdaDelta(steps=3, loss="cross-entropy", batch_size=49),
            "takes no training 'adadelta'",
        ),
        "model": (el.PairTransformer(width=2**12, heads=2**10, head_size=1), "takes no transformer with an array of"),
    }.items():
        other = pair_trial().replace(change, reason[0])
        assert choose(other).name == "jax", change
        with pytest.raises(el.errors.EngineError, match=f"the pairs engine {reason[1]}"):
            choose(other, "pairs")
    with pytest.raises(el.errors.EngineError, match="the pairs engine takes not more than 4096 classes"):
        choose(pair_trial("modular-addition:4099", "online"), "pairs")


def attention_trial(k=2, length=10, batch_size=20, training=None, **model):
    descent = {"kind": "sgd", "learning_rate": 0.5, "weight_decay": 0.1, **(training or {})}
    return el.Trial(
        task=el.MarkovChains(k=k, length=length),
        regime="online",
        model={"kind": "attention-only", "width": 8, "std": 0.3, **model},
        training={"steps": 10**6, "batch_size": batch_size, "loss": "cross-entropy", **descent},
        seed=3,
    )


ATTENTION = {
    "plain": {"form": "plain"},
    "heads and layers, momentum": {
        "training": {"momentum": 0.9, "nesterov": True, "learning_rate": 0.1},
        "layers": 3,
        "heads": (2, 1, 4),
        "k": 3,
        "length": 13,
    },
    "adam on plain heads": {
        "training": {**ADAM, "beta1": 0.8, "schedule": "cosine:6"},
        "form": "plain",
        "layers": 1,
        "heads": 8,
        "k": 5,
        "length": 9,
        "batch_size": 3,
    },
    "layers": {  # normed, as all that are not plain
        "training": {
            "layers": {
                "layer1": {"learning_rate": 0.1},
                "layer1.relative": {"weight_decay": 0.0},
                "output.weight": {"learning_rate": 0.0},
            }
        }
    },
    "smallest": {"layers": 1, "width": 1, "length": 2, "batch_size": 1},
    "absolute, shrunken parameters": {"positions": "absolute", "heads": 2, "training": {"decay": "parameters"}},
    "with MLPs": {"mlp_width": 12, "training": ADAM, "heads": 2, "k": 3, "length": 23, "batch_size": 64},
    "absolute with an MLP, plain": {"form": "plain", "layers": 1, "mlp_width": 5, "positions": "absolute"},
}


@pytest.mark.parametrize(
    "name", [name if name == "smallest" else pytest.param(name, marks=pytest.mark.slow) for name in ATTENTION]
)
def test_the_engines_agree_on_attention(name):
    trial = attention_trial(**ATTENTION[name])
    assert choose(trial).name == "attention"
    states = assert_same_trajectory([trial.with_seed(seed) for seed in range(2)], native="attention", steps=5)
    x = np.random.default_rng(0).integers(0, trial.task.k, (21, trial.task.length)).astype(np.int32)
    outputs = assert_same_answers(states, "attention", x, 1500, rtol=1e-3, atol=1e-4)
    shorter = ENGINES["attention"].predict(states[0][0], x[:, :-1])
    assert np.array_equal(shorter, outputs[:1, :, :-1])


@pytest.mark.slow
def test_attention_on_a_sample_with_epochs_agrees():
    trial = attention_trial(training={"batches": "epochs"}).replace("regime", el.Sample(50))
    assert_same_trajectory([trial], native="attention", steps=5)


def test_attention_does_not_depend_on_how_steps_are_grouped():
    assert_grouping_does_not_matter("attention", attention_trial(batch_size=300), (1, 2, 9))


@pytest.mark.slow
def test_exploding_attention_diverges_at_the_same_step():
    exploding = attention_trial(form="plain").replace("training.learning_rate", 1e9)
    outcome = el.train(exploding.replace("training.steps", 100))
    assert (outcome.state, outcome.engine) == ("diverged", "attention")
    assert outcome.steps == diverges_at(exploding)


def test_attention_that_the_native_code_does_not_know_is_left_to_the_general_engine():
    adadelta = el.training.AdaDelta(steps=3, loss="cross-entropy")
    for change, reason in {
        "model.mlp_width": (1025, "takes no MLPs above width 1024: mlp_width=1025"),
        "model.width": (257, "takes not more than width 256"),
        "task.length": (4000, "takes not .*: width=8, heads x length\\^2=32000000"),
        "training": (adadelta, "takes no training 'adadelta'"),
        "training.loss": ("margin", "takes no loss 'margin'"),
    }.items():
        other = attention_trial().replace(change, reason[0])
        assert choose(other).name == "jax", change
        with pytest.raises(el.errors.EngineError, match=f"the attention engine {reason[1]}"):
            choose(other, "attention")


def test_native_engines_train_adamw_as_they_train_adam():
    settings = {"steps": 3, "weight_decay": 0.1, "batch_size": 8}
    for trial, name in ((attention_trial(), "attention"), (bits_trial(), "bits")):
        same = {**settings, "loss": trial.training.loss}
        outcomes = [el.train(trial.replace("training", kind(**same))) for kind in (el.Adam, el.AdamW)]
        assert [outcome.engine for outcome in outcomes] == [name, name]
        assert outcomes[0].curve == outcomes[1].curve


def bits_trial(training=None, regime="online", batch_size=20, n=11, dropout=0.1, **model):
    adam = {"kind": "adam", "epsilon": 1e-4} if "kind" not in (training or {}) else {}
    descent = {**adam, "learning_rate": 0.01, "weight_decay": 0.1, **(training or {})}
    return el.Trial(
        task=el.SparseParity(n=n, k=3, noise=0.1),
        regime=regime,
        model=el.BooleanTransformer(**{"width": 16, "heads": 4, "mlp": (24,), "std": 0.2, "dropout": dropout, **model}),
        training={"steps": 10**6, "batch_size": batch_size, "loss": "logistic", **descent},
        seed=3,
    )


NO_DECAY = {name: {"weight_decay": 0.0} for name in el.BooleanTransformer().undecayed}
BITS = {
    "a sample": {"regime": el.Sample(20), "training": {"batches": "epochs", "clip": 0.5, "layers": NO_DECAY}},
    "online, no dropout": {
        "dropout": None,
        "training": {"schedule": "cosine:9"},
        "batch_size": 70,
        "n": 40,
        "width": 18,
        "heads": 3,
        "head_size": 5,
    },
    "the population": {"n": 5, "batch_size": 32, "regime": "population", "encoding": "fixed"},
    "a split": {
        "n": 6,
        "regime": el.Split(0.6),
        "training": {"batches": "epochs", "kind": "sgd", "momentum": 0.9, "clip": 0.5},
    },
    "a bag": {"encoding": "bag", "training": {"loss": "hinge", "clip": 0.01}},
    "as published": {"width": 64, "heads": 16, "mlp": None, "n": 30, "std": 0.05},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BITS)
def test_the_engines_agree_on_transformers_on_bits(name):
    trial = bits_trial(**BITS[name])
    assert choose(trial).name == "bits"
    states = assert_same_trajectory([trial.with_seed(seed) for seed in range(2)], native="bits", steps=5)
    x = np.sign(np.random.default_rng(0).normal(size=(13, trial.task.n))).astype(np.float32)
    assert_same_answers(states, "bits", x, trial.training.batch_size, rtol=1e-3, atol=1e-4)


def test_transformers_on_bits_do_not_depend_on_how_steps_are_grouped():
    for regime in ("online", el.Sample(300)):
        assert_grouping_does_not_matter("bits", bits_trial(batch_size=300, regime=regime), (1, 2, 5))


def test_an_exploding_transformer_on_bits_ends_as_diverged():
    outcome = el.train(bits_trial().replace("training.learning_rate", 1e25).replace("training.steps", 50))
    assert (outcome.state, outcome.engine) == ("diverged", "bits")


def test_transformers_on_bits_that_the_native_code_does_not_know_are_left_to_the_general_engine():
    for change, reason in {
        "model": (el.BooleanTransformer(form="plain"), "takes prenorm transformers with one hidden layer only"),
        "model.mlp": ((8, 8), "takes prenorm transformers with one hidden layer only"),
        "model.width": (516, "takes not more than width 512"),
        "model.dropout": (1 - 2**-20, "takes no dropout that rounds to 1"),
        "training": (el.training.AdaDelta(steps=3), "takes no training 'adadelta'"),
    }.items():
        other = bits_trial().replace(change, reason[0])
        assert choose(other).name == "jax", change
        with pytest.raises(el.errors.EngineError, match=f"the bits engine {reason[1]}"):
            choose(other, "bits")


class Foreign(el.MLP):
    """A model that the native code does not know."""


def test_auto_prefers_the_fused_engine_and_falls_back_on_the_general_one():
    known = trial("hinge", "dense", el.Online(), 0.0, (5, 3, 2))
    foreign = known.replace("model", Foreign(width=3))
    assert choose(known).name == "fused"
    assert choose(foreign).name == "jax"
    with pytest.raises(el.errors.EngineError, match="the fused engine takes no model 'foreign'"):
        choose(foreign, "fused")
    unknown = known.replace("training", el.training.AdaDelta(steps=3))
    with pytest.raises(el.errors.EngineError, match="the fused engine takes no training 'adadelta'"):
        choose(unknown, "fused")
    odd = known.replace("model", el.MLP(width=3, activation=Odd(2)))
    with pytest.raises(
        el.errors.EngineError, match="the fused engine takes no activation 'odd': the .* of its table is off"
    ):
        choose(odd, "fused")
    with pytest.raises(el.errors.EngineError, match="unknown engine 'fusd'; did you mean 'fused'"):
        choose(known, "fusd")
