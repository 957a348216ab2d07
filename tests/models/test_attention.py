"""Transformers of causal attention: against loops, against the closed forms, and against the future."""

from functools import lru_cache

import jax
import numpy as np
import pytest
from scipy import special

import elegans as el
from elegans import theory
from elegans.errors import TrialError
from elegans.models.attention import BLOCK, relative_shift

TASK = el.MarkovChains(k=3, length=9)
MODELS = [
    el.AttentionOnly(form="plain", width=6),
    el.AttentionOnly(width=8, heads=(2, 4)),
    el.AttentionOnly(layers=1, width=6, heads=3, mlp_width=5, positions="absolute"),
    el.AttentionOnly(form="plain", layers=3, width=4, mlp_width=7),
]


@lru_cache
def compiled(model):
    """Logits, attention and the last position's logits of a model, in one program for all sequences of a shape."""

    def outputs(parameters, x):
        attention = model.attention(parameters, x) if isinstance(model, el.AttentionOnly) else None
        return model.apply(parameters, x), attention, model.last(parameters, x)

    return jax.jit(outputs)


def tokens(count: int = 4, task: el.MarkovChains = TASK) -> np.ndarray:
    """The first examples of a task."""
    return task.examples(None, el.random.stream(0, "test"), np.arange(count, dtype=np.uint32))[0]


def random_parameters(model, scale, task=TASK):
    """Normal numbers in every array, norms and biases too."""
    generator = np.random.default_rng(3)
    initial = model.initialise(el.random.stream(0, "init"), task)
    return jax.tree.map(lambda leaf: (scale * generator.normal(size=leaf.shape)).astype(np.float32), initial)


def looped(model, parameters, sequence):
    """Logits and attention logits of one sequence in float64, query by query, key by key and head by head."""
    parameters = jax.tree.map(lambda leaf: leaf.astype(np.float64), parameters)
    z = np.array([parameters["embedding"]["token"][token] for token in sequence])
    if model.positions == "absolute":
        z = z + parameters["embedding"]["position"][: len(sequence)]
    attended = []
    for layer, heads in enumerate(model.layer_heads, 1):
        arrays, size = parameters[f"layer{layer}"], model.width // heads
        inner, change = normed(arrays, z), np.zeros_like(z)
        scores = np.full((heads, len(z), len(z)), -np.inf)
        for head in range(heads):
            own = slice(head * size, (head + 1) * size)
            for i in range(len(z)):
                query = inner[i] @ arrays["query"][:, own]
                for j in range(i + 1):
                    key = inner[j] @ arrays["key"][:, own]
                    if "relative" in arrays:
                        key = key + arrays["relative"][i - j, own]
                    scores[head, i, j] = query @ key / np.sqrt(size)
                weights = special.softmax(scores[head, i])
                change[i, own] = sum(weights[j] * inner[j] @ arrays["value"][:, own] for j in range(i + 1))
        attended.append(scores)
        z = z + (change @ arrays["merge"] if model.form == "prenorm" else change)
        if model.mlp_width:
            mlp = parameters[f"mlp{layer}"]
            hidden = normed(mlp, z) @ mlp["hidden"] + mlp["hidden_bias"]
            gelu = hidden / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (hidden + 0.044715 * hidden**3)))
            z = z + gelu @ mlp["residual"] + mlp["residual_bias"]
    return normed(parameters["output"], z) @ parameters["output"]["weight"], attended


def normed(arrays, z):
    """A layer norm, where there is one."""
    if "scale" not in arrays:
        return z
    spread = np.sqrt(z.var(axis=1, keepdims=True) + 1e-5)
    return (z - z.mean(axis=1, keepdims=True)) / spread * arrays["scale"] + arrays["shift"]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_logits_and_attention_are_those_of_loops_over_queries_keys_and_heads(model):
    parameters, x = random_parameters(model, 0.7), tokens()
    found, attention, _ = compiled(model)(parameters, x)
    assert np.asarray(found).shape == (4, 9, 3)
    for place, sequence in enumerate(x):
        logits, scores = looped(model, parameters, sequence)
        assert np.allclose(found[place], logits, rtol=1e-3, atol=1e-4)
        for layer, expected in enumerate(scores):
            assert np.allclose(attention.logits[layer][place], expected, rtol=1e-3, atol=1e-4)
            assert np.allclose(attention.weights[layer][place], special.softmax(expected, axis=-1), atol=1e-4)


def test_the_relative_shift_reads_every_query_at_the_distance_of_the_key():
    by_distance = np.random.default_rng(0).normal(size=(2, 3, 7, 7)).astype(np.float32)
    shifted = np.asarray(relative_shift(by_distance))
    for i in range(7):
        for j in range(i + 1):
            assert (shifted[..., i, j] == by_distance[..., i, 6 - (i - j)]).all()


@pytest.mark.parametrize("scale", [None, 3.0], ids=["at initialisation", "large random weights"])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_changed_token_changes_its_own_output_and_never_an_earlier_one(model, scale):
    if scale is None:
        parameters = model.initialise(el.random.stream(1, "init"), TASK)
    else:
        parameters = random_parameters(model, scale)
    x = np.repeat(tokens(1), TASK.length + 1, axis=0)
    places = np.arange(TASK.length)
    x[places, places] = (x[places, places] + 1) % TASK.k
    *after, before = np.asarray(compiled(model)(parameters, x)[0])
    for place, changed in enumerate(after):
        assert np.array_equal(changed[:place], before[:place])
        assert not np.array_equal(changed[place], before[place])


def test_shorter_sequences_have_the_outputs_of_their_place_in_longer_ones():
    model, x = MODELS[1], tokens()
    parameters = random_parameters(model, 0.7)
    shorter, longer = (compiled(model)(parameters, sequences)[0] for sequences in (x[:, :4], x))
    assert np.allclose(shorter, longer[:, :4], atol=1e-4)


@pytest.mark.parametrize("model", [*MODELS, el.studies.MinimalAttention()], ids=str)
def test_the_last_position_alone_has_the_same_outputs(model):
    parameters, x = random_parameters(model, 0.7), tokens()
    logits, _, last = compiled(model)(parameters, x)
    assert np.allclose(last, logits[:, -1], atol=1e-4)


@pytest.mark.parametrize("model", [el.AttentionOnly(layers=1, width=4), el.studies.MinimalAttention(pair=0.3)], ids=str)
def test_many_sequences_go_through_block_by_block_to_the_same_outputs(model):
    x, apply = tokens(BLOCK + 5), jax.jit(model.apply)
    parameters = random_parameters(model, 1.0)
    assert np.allclose(apply(parameters, x)[-20:], apply(parameters, x[-20:]), rtol=1e-4, atol=1e-5)


def test_the_construction_of_proposition_8_2_runs_in_the_model():
    task = el.MarkovChains(k=3, length=20)
    network, x = theory.bigram_construction(3, 20, slope=2.5), tokens(30, task)
    model = el.AttentionOnly(form="plain", width=9)
    parameters, expected = theory.attention_parameters(network), theory.attention_pass(network, x)
    drawn = model.initialise(el.random.stream(0, "init"), task)
    assert jax.tree.map(np.shape, parameters) == jax.tree.map(np.shape, drawn)
    output, attention, _ = compiled(model)(parameters, x)
    assert np.allclose(output, expected.output, atol=1e-5)
    assert np.allclose(output, 2.5 * theory.construction_frequencies(x, 3), atol=1e-4)
    for found, weights in zip(attention.weights, expected.attention, strict=True):
        assert np.allclose(found[:, 0], weights, atol=1e-5)


def test_initial_arrays_have_their_deviations_and_draws_of_their_own():
    """Deviations of at least 512 normal draws: beyond 15% with probability below 3 x 10^-6 each (normal), 16 arrays."""
    model = el.AttentionOnly(layers=2, width=32, mlp_width=16)
    parameters = model.initialise(el.random.stream(0, "init"), el.MarkovChains(k=16, length=32))
    leaves = {
        jax.tree_util.keystr(path, simple=True, separator="."): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(parameters)
    }
    assert leaves["layer1.relative"].shape == (32, 32) and leaves["output.weight"].shape == (32, 16)
    drawn = {name: leaf for name, leaf in leaves.items() if leaf.ndim == 2}
    assert len(drawn) == 16
    for name, leaf in drawn.items():
        deviation = 0.01 if name.endswith(("merge", "residual")) else 0.02
        assert leaf.std() == pytest.approx(deviation, rel=0.15), name
        assert leaf.dtype == np.float32
    assert len({leaf.ravel()[0] for leaf in drawn.values()}) == 16
    for name, leaf in leaves.items():
        if leaf.ndim == 1:
            assert (leaf == name.endswith("scale")).all()


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_what_is_not_decayed_is_all_but_matrices_that_multiply(model):
    names = model.parameter_names(TASK)
    kept = [name for name in names if any(f"{name}.".startswith(f"{prefix}.") for prefix in model.undecayed)]
    endings = {name.split(".")[-1] for name in names} - {name.split(".")[-1] for name in kept}
    assert endings <= {"query", "key", "value", "merge", "hidden", "residual", "weight"}
    assert all(any(name == given or name.startswith(f"{given}.") for name in names) for given in model.undecayed)
    layers = {name: {"weight_decay": 0} for name in model.undecayed}
    training = el.Adam(steps=1, loss="cross-entropy", weight_decay=0.1, layers=layers)
    assert el.Trial(task=TASK, regime=el.Online(), model=model, training=training).training == training


def test_heads_of_each_layer_go_through_json():
    model = el.AttentionOnly(width=32, heads=(2, 1))
    training = el.Adam(steps=1, loss="cross-entropy")
    trial = el.Trial(task=el.MarkovChains(prior="ngram:3"), regime=el.Online(), model=model, training=training)
    again = el.Trial.model_validate_json(trial.model_dump_json())
    assert again == trial and again.identity == trial.identity and again.model.layer_heads == (2, 1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"heads": 3}, "heads must divide the width: heads=3, width=16"),
        ({"heads": (1, 2, 1)}, r"heads must be one number, or one per layer: heads=\(1, 2, 1\), layers=2"),
        ({"layers": 0}, "layers"),
        ({"mlp_width": 0}, "mlp_width"),
    ],
)
def test_fields_that_break_a_rule_are_named(fields, message):
    with pytest.raises(TrialError, match=message):
        el.AttentionOnly(**fields)


@pytest.mark.parametrize("model", [el.AttentionOnly(), el.studies.MinimalAttention()], ids=str)
def test_tasks_without_tokens_are_refused(model):
    with pytest.raises(TrialError, match="task of token sequences: 'sparse-parity' has symbols=None"):
        el.Trial(
            task=el.SparseParity(n=6, k=2),
            regime=el.Online(),
            model=model,
            training=el.Adam(steps=1, loss="cross-entropy"),
        )
