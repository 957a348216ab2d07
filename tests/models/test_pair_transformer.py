"""The transformer on pairs: against naive causal attention over three tokens, in double precision."""

import numpy as np
import pytest
from one_query import compiled, drawn
from scipy import special, stats

import elegans as el
from elegans.errors import TrialError
from elegans.training.engines import choose

TASK = el.ModularAddition(p=7)
MODEL = el.PairTransformer(width=12, heads=3, head_size=4, mlp_width=10)
PAIRS = [(a, b) for a in range(7) for b in range(7)]
X, Y = TASK.member(None, np.arange(49, dtype=np.uint32))


@pytest.fixture(scope="module")
def parameters():
    return drawn(MODEL, TASK)


def naive(parameters, pair, activation=lambda z: np.maximum(z, 0)):
    """Outputs at the last token, and its attention: all three tokens are queries, and see none after themselves."""
    p = {layer: {name: np.asarray(a, np.float64) for name, a in arrays.items()} for layer, arrays in parameters.items()}
    e, a = p["embedding"], p["attention"]
    tokens = np.stack([e["number"][pair[0]], e["number"][pair[1]], e["equals"]]) + e["position"]
    z, attended = tokens.copy(), []
    for query, key, value, output in zip(a["query"], a["key"], a["value"], a["output"], strict=True):
        scores = (tokens @ query) @ (tokens @ key).T / np.sqrt(query.shape[1])
        scores[np.triu_indices(3, 1)] = -np.inf
        weights = special.softmax(scores, axis=1)
        z += weights @ (tokens @ value) @ output
        attended.append(weights[-1])
    inner = activation(z @ p["hidden"]["weight"].T + p["hidden"]["bias"])
    z = z + inner @ p["residual"]["weight"].T + p["residual"]["bias"]
    return (z @ p["output"]["weight"].T)[-1], attended


@pytest.mark.parametrize("activation", ["relu", "power:2"])
def test_outputs_are_those_of_naive_causal_attention(parameters, activation):
    model = MODEL.model_copy(update={"activation": el.PairTransformer(activation=activation).activation})
    sigma = {"relu": lambda z: np.maximum(z, 0), "power:2": np.square}[activation]
    expected = np.array([naive(parameters, pair, sigma)[0] for pair in PAIRS])
    assert np.asarray(compiled(model.apply)(parameters, X)) == pytest.approx(expected, rel=1e-5, abs=2e-4)


def test_attention_is_that_of_the_last_token(parameters):
    attention = np.asarray(compiled(MODEL.attention)(parameters, X))
    assert attention.shape == (49, 3, 3)
    assert attention == pytest.approx(np.array([naive(parameters, pair)[1] for pair in PAIRS]), abs=1e-5)
    assert attention.sum(axis=2) == pytest.approx(1, abs=1e-6)


def test_large_scores_do_not_overflow(parameters):
    scaled = {**parameters, "attention": {**parameters["attention"], "key": 1e4 * parameters["attention"]["key"]}}
    expected = np.array([naive(scaled, pair)[0] for pair in PAIRS])
    assert np.asarray(compiled(MODEL.apply)(scaled, X)) == pytest.approx(expected, rel=1e-5, abs=2e-4)


def test_gradients_are_those_of_differences(parameters):
    """Central differences of the mean loss in one random direction over all parameters."""
    import jax

    random = np.random.default_rng(3)
    direction = jax.tree.map(lambda leaf: random.normal(size=leaf.shape) / np.sqrt(leaf.size), parameters)

    def moved(step):
        shifted = jax.tree.map(lambda leaf, by: leaf.astype(np.float64) + step * by, parameters, direction)
        outputs = np.array([naive(shifted, pair)[0] for pair in PAIRS])
        return -special.log_softmax(outputs, axis=1)[np.arange(49), Y].mean()

    slope = (moved(1e-5) - moved(-1e-5)) / 2e-5
    gradient = jax.jit(jax.grad(lambda at: el.training.CrossEntropy().value(MODEL.apply(at, X), Y).mean()))(parameters)
    along = sum(np.vdot(leaf, by) for leaf, by in zip(*map(jax.tree.leaves, (gradient, direction)), strict=True))
    assert along == pytest.approx(slope, rel=1e-3)


def test_every_pair_has_its_own_outputs_whatever_the_batch(parameters):
    order = np.random.default_rng(4).permutation(49)
    apply = compiled(MODEL.apply)
    whole = np.asarray(apply(parameters, X))
    assert np.asarray(apply(parameters, X[order])) == pytest.approx(whole[order], abs=1e-5)
    assert np.asarray(apply(parameters, X[:5])) == pytest.approx(whole[:5], abs=1e-5)
    assert np.abs(whole[PAIRS.index((2, 5))] - whole[PAIRS.index((5, 2))]).max() > 0.01  # tokens have places


def test_initial_arrays_have_the_published_distributions():
    """Kolmogorov-Smirnov of ten arrays; fails for less than one seed in 10^4."""
    model, task = el.PairTransformer(width=64, heads=2, head_size=8, mlp_width=48), el.ModularAddition(p=31)
    drawn = model.initialise(el.random.stream(1, "init"), task)
    biases = [drawn[layer].pop("bias") for layer in ("hidden", "residual")]
    assert not any(bias.any() for bias in biases)
    output = drawn.pop("output")["weight"]
    arrays = [array for layer in drawn.values() for array in layer.values()]
    for array, deviation in [(output, 32**-0.5), *((array, 1 / 8) for array in arrays)]:
        assert array.dtype == np.float32
        assert stats.kstest(array.ravel(), stats.norm(0, deviation).cdf).pvalue > 1e-5
    flat = [array.ravel()[:64] for array in (*arrays, output)]
    assert len({part.tobytes() for part in flat}) == len(flat)


def test_parameters_are_counted_exactly_and_drawn_alike_for_a_key():
    import jax

    first, second = (MODEL.initialise(el.random.stream(5, "init"), TASK) for _ in range(2))
    leaves = jax.tree.leaves(first)
    assert MODEL.parameter_count(TASK) == sum(leaf.size for leaf in leaves)
    assert all(np.array_equal(a, b) for a, b in zip(leaves, jax.tree.leaves(second), strict=True))


def trial(task=TASK, model=MODEL, **training):
    fields = {"learning_rate": 0.003, "weight_decay": 1.0, "beta2": 0.98, "batches": "epochs", "loss": "cross-entropy"}
    size = el.Split(0.8).sample_size(task)
    return el.Trial(
        task=task, regime=el.Split(0.8), model=model, training=el.AdamW(batch_size=size, **{**fields, **training})
    )


@pytest.mark.slow
def test_a_step_of_adamw_is_the_published_one_for_every_array():
    """Against PyTorch's formula in double precision, biases and embeddings included; two steps, lr 1e-3, wd 1."""
    import jax

    one = trial(steps=2, learning_rate=1e-3)
    outcome = el.train(one)
    x, y = one.regime.evaluated(TASK, None, one.key, "sample", np.arange(one.training.batch_size, dtype=np.uint32))
    slope = jax.jit(jax.grad(lambda at: el.training.CrossEntropy().value(MODEL.apply(at, x), y).mean()))
    now = jax.tree.map(lambda leaf: leaf.astype(np.float64), MODEL.initialise(one.key("init"), TASK))
    m = v = jax.tree.map(np.zeros_like, now)
    for step in (1, 2):
        gradient = jax.tree.map(np.float64, slope(jax.tree.map(np.float32, now)))
        m = jax.tree.map(lambda kept, new: 0.9 * kept + 0.1 * new, m, gradient)
        v = jax.tree.map(lambda kept, new: 0.98 * kept + 0.02 * new**2, v, gradient)

        def move(at, mean, square, step=step):
            direction = mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.98**step)) + 1e-8)
            return at - 1e-3 * (direction + 1.0 * at)

        now = jax.tree.map(move, now, m, v)
    for (path, found), expected in zip(
        jax.tree_util.tree_leaves_with_path(outcome.parameters), jax.tree.leaves(now), strict=True
    ):
        assert np.mean(np.abs(found - expected) > 2e-5) < 0.01, path  # a gradient near epsilon has a free direction


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["pairs", "jax"])
def test_a_trial_trains_the_same_way_again(engine):
    one = trial(steps=20)
    assert choose(one).name == "pairs"
    first, second = el.train(one, engine=engine), el.train(one, engine=engine)
    for layer, arrays in first.parameters.items():
        assert all(np.array_equal(array, second.parameters[layer][name]) for name, array in arrays.items())


@pytest.mark.slow
def test_a_transformer_fits_its_training_set():
    """Seeds 0 to 9 all do within 150 steps."""
    model = el.PairTransformer(width=32, heads=4, head_size=8, mlp_width=64)
    assert el.train(trial(model=model, steps=300)).train_error == 0


@pytest.mark.slow
def test_any_task_on_pairs_will_do_and_no_other():
    group = trial(task=el.GroupComposition(group="S3"), steps=2)
    assert el.train(group).parameters["embedding"]["number"].shape == (6, 12)
    with pytest.raises(ValueError, match="a pair-transformer must have a task on pairs: task="):
        MODEL.check(el.SparseParity(n=6, k=2))


@pytest.mark.parametrize("field", ["width", "heads", "head_size", "mlp_width"])
def test_sizes_are_checked(field):
    with pytest.raises(TrialError, match=f"{field} must be greater than or equal to 1: {field}=0"):
        el.PairTransformer(**{field: 0})
