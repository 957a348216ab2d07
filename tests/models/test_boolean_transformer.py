"""The transformer read at a class token: against a direct implementation, example by example, with its dropout."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import elegans as el
from elegans.errors import TrialError
from elegans.models.boolean import SITES

TASK = el.SparseBoolean(n=6, k=3, function="and", support=(0, 2, 5))
X = np.random.default_rng(1).choice([-1, 1], (25, 6)).astype(np.float32)
MODELS = {
    "prenorm": el.BooleanTransformer(width=12, heads=3, dropout=0.25),
    "prenorm, fixed": el.BooleanTransformer(width=12, heads=2, head_size=5, encoding="fixed", mlp=(7, 9)),
    "prenorm, bag": el.BooleanTransformer(width=9, heads=1, encoding="bag", mlp=(8,)),
    "plain": el.BooleanTransformer(width=8, heads=2, form="plain"),
    "plain, fixed": el.BooleanTransformer(width=10, heads=1, head_size=3, form="plain", encoding="fixed"),
    "plain, bag": el.BooleanTransformer(width=9, heads=3, form="plain", encoding="bag", mlp=(5,)),
}
SLOW = pytest.mark.slow
FORMS = [
    "prenorm",
    "plain, fixed",
    *(pytest.param(name, marks=SLOW) for name in list(MODELS)[1:] if name != "plain, fixed"),
]
VANISHING = 1e-9
"""A dropout that is rounded to none, but goes through the tokens one by one."""


@lru_cache
def compiled(name):
    """Outputs and attention of one of the models: one compilation for all tests."""
    model = MODELS[name]
    return jax.jit(lambda parameters, x: (model.apply(parameters, x), model.attention(parameters, x)))


def random_parameters(model, scale=0.3, task=TASK):
    """Parameters with biases, shifts and scales that are not 0 and 1; fixed positions stay as they are."""
    random, drawn = np.random.default_rng(2), model.initialise(el.random.stream(0, "init"), task)
    for name, arrays in drawn.items():
        for part, values in arrays.items():
            if part != "position" or model.encoding == "trained":
                centre = 1 if part == "scale" else 0
                spread = 1.0 if name == "output" else scale
                arrays[part] = (centre + spread * random.normal(size=values.shape)).astype(np.float32)
    return drawn


def kept(model, key, site, example, shape):
    """What dropout multiplies the entries of one example by, from its counters."""
    count = int(np.prod(shape))
    if key is None:
        return 1.0
    rate, place = round(2**16 * model.dropout), np.arange(count)
    words = el.random.bits(key.fold(SITES[site]), np.uint32(example), lane=(place // 4).astype(np.uint32))
    half = np.where(place % 4 < 2, words[0], words[1]) >> np.where(place % 2, 16, 0) & 0xFFFF
    return ((half >= rate) / (1 - rate / 2**16)).reshape(shape)


def direct(model, parameters, x, key=None, example=0):
    """Output and attention of one input, in float64, token by token and head by head."""
    p = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), parameters)
    plain, e, a = model.form == "plain", p["embedding"], p["attention"]
    tokens = []
    for place, sign in enumerate(x):
        if model.encoding == "bag":
            tokens.append((sign > 0) * e["position"][place])
        else:
            tokens.append(e["token"][int(sign > 0)] + e["position"][place])
    tokens.append(e["class"] + (e["position"][-1] if model.encoding == "trained" else 0))
    tokens = np.array(tokens) * kept(model, key, "embedding", example, (len(x) + 1, model.width))

    def norm(number, z):
        if plain:
            return z
        centred = z - z.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt(centred.var(axis=-1, keepdims=True) + 1e-5)
        return scaled * p[f"norm{number}"]["scale"] + p[f"norm{number}"]["shift"]

    inner, merged, scores, attended = norm(1, tokens), np.zeros(model.width), [], []
    masks = kept(model, key, "attention", example, (model.heads, len(tokens))) * np.ones((model.heads, 1))
    for head in range(model.heads):
        read = [inner @ a[name][head] + (0 if plain else a[f"{name}_bias"][head]) for name in ("query", "key", "value")]
        scores.append(read[1] @ read[0][-1] / (1 if plain else np.sqrt(model.head_width)))
        attended.append(special.softmax(scores[-1]))
        merged += (masks[head] * attended[-1]) @ read[2] @ a["output"][head]
    if plain:
        for number in range(1, len(model.sizes) + 1):
            merged = np.maximum(p[f"hidden{number}"]["weight"] @ merged + p[f"hidden{number}"]["bias"], 0)
        return merged @ p["output"]["weight"], np.array(scores), np.array(attended)
    z = tokens[-1] + kept(model, key, "merged", example, model.width) * (merged + a["output_bias"])
    inner = norm(2, z)
    for number in range(1, len(model.sizes) + 1):
        inner = p[f"hidden{number}"]["weight"] @ inner + p[f"hidden{number}"]["bias"]
        inner = inner * (1 + special.erf(inner / np.sqrt(2))) / 2
    added = p["residual"]["weight"] @ inner + p["residual"]["bias"]
    z = z + kept(model, key, "mlp", example, model.width) * added
    logits = p["output"]["weight"] @ norm(3, z)
    return logits[1] - logits[0], np.array(scores), np.array(attended)


@pytest.mark.parametrize("name", FORMS)
def test_outputs_and_attention_are_those_of_a_direct_implementation(name):
    model = MODELS[name]
    parameters = random_parameters(model)
    outputs, scores, attended = zip(*[direct(model, parameters, x) for x in X], strict=True)
    found, seen = compiled(name)(parameters, X)
    assert np.asarray(found) == pytest.approx(np.array(outputs), abs=2e-5)
    assert np.asarray(seen.scores) == pytest.approx(np.array(scores), abs=1e-5)
    assert np.asarray(seen.weights) == pytest.approx(np.array(attended), abs=1e-5)
    assert seen.weights.shape == (25, model.heads, 7)
    assert np.asarray(seen.weights.sum(axis=2)) == pytest.approx(1, abs=1e-6)


def test_a_step_of_training_sees_the_masks_of_its_counters():
    model, key = MODELS["prenorm"], el.random.stream(3, "dropout").fold(17)
    parameters = random_parameters(model)
    train = jax.jit(lambda p, x, step: model.train(p, x, el.random.stream(3, "dropout").fold(step)))
    found = np.asarray(train(parameters, X, np.uint32(17)))
    assert found == pytest.approx([direct(model, parameters, x, key, i)[0] for i, x in enumerate(X)], abs=1e-4)
    assert np.array_equal(found, train(parameters, X, np.uint32(17)))
    assert np.abs(found - np.asarray(train(parameters, X, np.uint32(18)))).min() > 1e-4
    assert np.abs(found - np.asarray(compiled("prenorm")(parameters, X)[0])).min() > 1e-4


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_dropout_keeps_its_share_and_what_is_expected_of_an_entry(rate):
    """Two-sided binomial tests on 10^5 entries of each of four sites: fails for one key in 10^4."""
    model = el.BooleanTransformer(dropout=rate)
    for site in SITES:
        found = np.asarray(model._drop(np.ones((200, 500)), el.random.stream(5, "dropout"), site))
        true = round(2**16 * rate) / 2**16
        assert np.unique(found) == pytest.approx([0, 1 / (1 - true)], rel=1e-6)
        assert stats.binomtest(int((found > 0).sum()), found.size, 1 - true).pvalue > 1e-5
        assert found.mean() == pytest.approx(1, abs=4.5 * np.sqrt(true / (1 - true) / found.size))


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.02, 0.3, 3.0])
def test_the_path_by_tables_is_the_ordinary_forward_pass(scale):
    """In double precision to 1e-6 at any range of scores; in single to what exponents of that range have left."""
    model = el.BooleanTransformer(width=12, heads=3, dropout=VANISHING)
    single = random_parameters(model, scale)

    @jax.jit
    def forward(parameters):
        ordinary = model.train(parameters, X, el.random.stream(0, "dropout"))
        return model.apply(parameters, X), ordinary, model.attention(parameters, X).scores

    with jax.enable_x64(True):
        double = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), single)
        by_tables, ordinary, scores = (np.asarray(part) for part in forward(double))
    assert np.ptp(scores) > {0.02: 0, 0.3: 4, 3.0: 1000}[scale]
    assert by_tables == pytest.approx(ordinary, rel=1e-6)
    for found in forward(single)[:2]:
        assert np.asarray(found) == pytest.approx(ordinary, abs=1e-6 * (10 + np.ptp(scores)))


@pytest.mark.parametrize("name", ["prenorm", *(pytest.param(name, marks=SLOW) for name in list(MODELS)[1:])])
def test_gradients_are_those_of_differences(name):
    """Central differences in one random direction over all parameters, but for positions that are not trained."""
    model, random = MODELS[name], np.random.default_rng(3)
    parameters = random_parameters(model)
    direction = jax.tree.map(lambda leaf: random.normal(size=leaf.shape) / np.sqrt(leaf.size), parameters)
    if model.encoding != "trained":
        direction["embedding"]["position"][:] = 0

    def moved(step):
        shifted = jax.tree.map(lambda leaf, by: leaf.astype(np.float64) + step * by, parameters, direction)
        return np.mean([direct(model, shifted, x)[0] for x in X])

    slope = (moved(1e-5) - moved(-1e-5)) / 2e-5
    gradient = jax.jit(jax.grad(lambda at: model.apply(at, X).mean()))(parameters)
    along = sum(np.vdot(leaf, by) for leaf, by in zip(*map(jax.tree.leaves, (gradient, direction)), strict=True))
    assert along == pytest.approx(slope, rel=1e-3)
    assert model.encoding == "trained" or not np.asarray(gradient["embedding"]["position"]).any()


def test_the_number_of_parameters_is_the_published_architectures():
    for n, heads in ((10, 16), (50, 1), (300, 16)):
        task = el.SparseParity(n=n, k=3)
        drawn = el.BooleanTransformer(heads=heads).initialise(el.random.stream(0, "init"), task)
        count = sum(leaf.size for leaf in jax.tree.leaves(drawn))
        assert count == el.theory.transformer_parameters(n) == 50_432 + 64 * (n + 1)


def test_initial_arrays_have_their_laws():
    """Kolmogorov-Smirnov; fails for less than one seed in 10^3."""
    drawn = el.BooleanTransformer().initialise(el.random.stream(1, "init"), TASK)
    normal = [drawn[f"hidden{1}"]["weight"], drawn["residual"]["weight"], drawn["output"]["weight"]]
    normal += [*drawn["embedding"].values(), *(drawn["attention"][name] for name in ("query", "key", "value"))]
    for array in [*normal, drawn["attention"]["output"]]:
        assert stats.kstest(array.ravel(), stats.norm(0, 0.02).cdf).pvalue > 1e-4
    flat = np.concatenate([array.ravel() for array in normal])
    assert len(np.unique(flat)) > 0.99 * len(flat)  # no two arrays share their draws
    for layer, arrays in drawn.items():
        for name, values in arrays.items():
            if "bias" in name or name == "shift":
                assert not values.any(), (layer, name)
    assert all((drawn[f"norm{number}"]["scale"] == 1).all() for number in (1, 2, 3))


def test_key_biases_never_matter():
    model = MODELS["prenorm"]
    parameters = random_parameters(model)
    other = {**parameters, "attention": {**parameters["attention"]}}
    other["attention"]["key_bias"] = 5 + 3 * parameters["attention"]["key_bias"]
    forward = compiled("prenorm")
    assert np.asarray(forward(other, X)[0]) == pytest.approx(np.asarray(forward(parameters, X)[0]), abs=1e-4)


@pytest.mark.parametrize("name", FORMS)
def test_positions_and_their_embeddings_may_be_permuted_together(name):
    model, order = MODELS[name], np.array([4, 2, 0, 5, 1, 3])
    parameters = model.initialise(el.random.stream(0, "init"), TASK)
    moved = {**parameters, "embedding": {**parameters["embedding"]}}
    rows = np.append(order, 6)[: len(parameters["embedding"]["position"])]
    moved["embedding"]["position"] = parameters["embedding"]["position"][rows]
    forward = compiled(name)
    expected = np.asarray(forward(parameters, X)[0])
    assert np.asarray(forward(moved, X[:, order])[0]) == pytest.approx(expected, rel=1e-4, abs=1e-12)


@pytest.mark.parametrize(
    "name", ["plain, fixed", pytest.param("plain", marks=SLOW), pytest.param("plain, bag", marks=SLOW)]
)
def test_heads_without_scores_take_the_plain_mean(name):
    model = MODELS[name]
    parameters = random_parameters(model)
    for part in ("query", "key"):
        parameters["attention"][part][:] = 0
    found, seen = compiled(name)(parameters, X)
    assert np.asarray(seen.weights) == pytest.approx(1 / 7)
    e, a = parameters["embedding"], parameters["attention"]
    bits = (X > 0).astype(int)
    tokens = bits[:, :, None] * e["position"][:6] if model.encoding == "bag" else e["position"][:6] + e["token"][bits]
    own = e["class"] + (e["position"][6] if model.encoding == "trained" else 0)
    mean = (tokens.sum(axis=1) + own) / 7
    z = sum(mean @ value @ output for value, output in zip(a["value"], a["output"], strict=True))
    for number in range(1, len(model.sizes) + 1):
        arrays = parameters[f"hidden{number}"]
        z = np.maximum(z @ arrays["weight"].T + arrays["bias"], 0)
    assert np.asarray(found) == pytest.approx(z @ parameters["output"]["weight"], abs=1e-4)


def trial(model, **training):
    """A trial on a sample of 40, with the published decay."""
    layers = {name: {"weight_decay": 0} for name in model.undecayed}
    fields = {"batch_size": 40, "batches": "epochs", "loss": "logistic", "steps": 3, "layers": layers, **training}
    return el.Trial(task=TASK, regime=el.Sample(40), model=model, training=el.Adam(weight_decay=0.1, **fields), seed=4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["prenorm, fixed", "plain, bag"])
def test_positions_that_are_not_trained_stay(name):
    model = MODELS[name]
    after = el.train(trial(model)).parameters
    assert np.array_equal(after["embedding"]["position"], np.eye(6, model.width))
    before = model.initialise(el.random.stream(4, "init"), TASK)
    assert np.abs(after["embedding"]["class"] - before["embedding"]["class"]).max() > 1e-4


def test_what_is_named_undecayed_is_all_but_matrices():
    """Whatever is no matrix of a linear layer: the published training decays those alone."""
    for model in MODELS.values():
        names = model.parameter_names(TASK)
        decayed = [name for name in names if not any(name.startswith(own) for own in model.undecayed)]
        attention = [f"attention.{name}" for name in ("key", "output", "query", "value")]
        hidden = [f"hidden{number}.weight" for number in range(1, len(model.sizes) + 1)]
        residual = ["residual.weight"] if model.form == "prenorm" else []
        assert sorted(decayed) == sorted([*attention, *hidden, "output.weight", *residual])


@pytest.mark.slow
def test_an_engine_takes_the_gradient_with_the_dropout_of_its_step():
    one = trial(MODELS["prenorm"]).replace("training", el.SGD(steps=2, learning_rate=0.5, batch_size=40, loss="square"))
    one = one.replace("training.batches", "epochs")
    parameters = one.model.initialise(one.key("init"), TASK)

    def loss(at, step):
        index = one.regime.batch(one.task, one.key("batches"), step, 40, "epochs")
        x, y = TASK.examples(TASK.draw(one.key("task")), one.key("sample"), index)
        return ((one.model.train(at, x, one.key("dropout").fold(step)) - y) ** 2 / 2).mean()

    descend = jax.jit(jax.grad(loss))
    for step in (0, 1):
        gradient = descend(parameters, np.uint32(step))
        parameters = jax.tree.map(lambda leaf, by: leaf - 0.5 * by, parameters, gradient)
    found = el.train(one, engine="jax").parameters
    for leaf, other in zip(*map(jax.tree.leaves, (found, parameters)), strict=True):
        assert leaf == pytest.approx(np.asarray(other), abs=1e-5)


@pytest.mark.slow
def test_it_learns_a_conjunction_of_three_bits_of_twenty():
    """All of seeds 0 to 7 solve it within 300 steps."""
    function = el.tasks.And()
    task = el.SparseBoolean(n=20, k=3, function=function, p=function.balancing_bias(3))
    model = el.BooleanTransformer(dropout=0.1)
    one = trial(model, steps=500, batch_size=100, clip=1.0, stopping={"error": 0.01, "examples": 10_000, "every": 10})
    one = one.replace("task", task).replace("regime", el.Sample(100)).replace("training.weight_decay", 1e-4)
    assert el.train(one).state == "solved"


@pytest.mark.parametrize(
    ("fields", "task", "message"),
    [
        ({"width": 10, "heads": 3}, TASK, "heads must divide the width if there is no head_size: heads=3, width=10"),
        ({"form": "plain", "dropout": 0.1}, TASK, "dropout must be None in the plain form: dropout=0.1"),
        ({"dropout": 1.0}, TASK, "dropout must be less than 1: dropout=1.0"),
        ({"mlp": ()}, TASK, "mlp must have at least one hidden layer"),
        ({"width": 8, "heads": 1, "encoding": "fixed"}, TASK, "width must be at least n \\+ 3 = 9 .*: width=8, n=6"),
        ({"width": 8, "heads": 1, "encoding": "bag"}, TASK, "width must be at least n \\+ 3 = 9 .*: width=8, n=6"),
        ({}, el.ModularAddition(p=5), "must have a task of signs and one label: task='modular-addition'"),
        ({}, el.MarkovChains(k=2, length=8), "must have a task of signs and one label: task='markov-chains'"),
    ],
)
def test_what_does_not_fit_is_refused(fields, task, message):
    with pytest.raises(TrialError, match=message):
        el.Trial(
            task=task,
            regime="online",
            model=el.BooleanTransformer(**fields),
            training=el.Adam(steps=1, loss="logistic" if task is TASK else "cross-entropy"),
        )
