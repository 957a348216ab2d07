"""Heads that select, measured beside the construction: where both are known, and where they are trained."""

import numpy as np
import pytest

import elegans as el
from elegans import theory
from elegans.errors import TrialError
from elegans.studies.variable_creation.probes import ClassWeights, SelectionHeads, _attention, _heads

TASK = el.SparseBoolean(n=9, k=3, function="and", support=(1, 4, 6), p=0.7)


def snapshot(model, parameters=None, task=TASK, size=60, seed=3):
    """What a probe sees of a network with given parameters; its own initial ones by default."""

    def key(stream):
        return el.random.stream(seed, stream)

    drawn = model.initialise(key("init"), task) if parameters is None else parameters
    return el.Snapshot(0, task, model, task.draw(key("task")), size, key, lambda: drawn, lambda stream, index: index)


@pytest.fixture(scope="module")
def constructed():
    """The construction, looked at as if it were trained."""
    model = el.studies.ConstructedTransformer(width=12, head_size=4, encoding="fixed")
    return SelectionHeads(examples=200).measure(snapshot(model))


def test_the_construction_is_no_distance_from_itself(constructed):
    names = [name.removeprefix("construction.") for name in constructed if name.startswith("construction.")]
    assert set(constructed) == {*names, *(f"construction.{name}" for name in names)} and len(names) > 30
    for name in set(names) - {"capacity", "sample"}:  # there the spare dimensions count
        assert constructed[name] == pytest.approx(constructed[f"construction.{name}"], rel=1e-5, abs=1e-6), name


def test_its_measures_are_the_closed_forms(constructed):
    T, s = 9, 3
    gap = theory.selection_gap(T, s, 2 / 3)
    mass = s * np.exp(gap) / (s * np.exp(gap) + T + 1 - s)
    norms = theory.selection_norms(T, s, 2 / 3)
    expected = {
        "gap": gap,
        "implied_gap": gap,
        "support": mass,
        "on_zeros": mass / s,
        "on_ones": mass / s,
        "others": (1 - mass) * (T - s) / (T + 1 - s),
        "mean_other": (1 - mass) / (T + 1 - s),
        "largest_other": (1 - mass) / (T + 1 - s),
        "distance": 2 * (1 - mass),
        "query": norms.query,
        "key": norms.key,
        "value": norms.value,
        "output": norms.output,
        "merged": norms.query * norms.key,
        "mapped": norms.value,
    }
    for name, value in expected.items():
        assert constructed[name] == pytest.approx([value], rel=1e-4), name
    assert constructed["token_norm"] == pytest.approx(np.sqrt(2)) and constructed["uniform"] == 1 / (T + 1)
    head = theory.HeadNorms(*(float(constructed[name][0]) for name in ("mapped_rows", "mapped", "merged_rows")))
    capacity = theory.heads_capacity([head], 60 * (T + 1), d=12, input_norm=np.sqrt(2))
    assert constructed["capacity"] == pytest.approx(capacity, rel=1e-6)
    least, norm = int(constructed["sample"]), constructed["token_norm"]
    assert bound(head, norm, least) <= 0.1 < bound(head, norm, least - 1)


def bound(head, token_norm, m):
    """The bound on generalisation at m examples of 10 tokens, for what a unit vector reads of the head."""
    capacity = theory.heads_capacity([head], m * 10, d=12, input_norm=token_norm)
    return theory.generalisation_gap(capacity, head.value * token_norm, m)


@pytest.mark.slow
def test_several_heads_are_measured_one_by_one_and_on_average():
    """Weights by hand: scores of tokens alone, in float64."""
    model = el.BooleanTransformer(width=8, heads=2, std=0.5)
    parameters = model.initialise(el.random.stream(0, "init"), TASK)
    random = np.random.default_rng(0)
    for name in ("query_bias", "key_bias", "value_bias"):
        parameters["attention"][name] = random.normal(size=(2, 4)).astype(np.float32)
    seen = snapshot(model, parameters)
    found = SelectionHeads(examples=50).measure(seen)
    x = seen.examples("test", 50)[0]
    weights = np.asarray(model.attention(parameters, x).weights, float)
    bits, support = x[:, TASK.support] > 0, list(TASK.support)
    for head in (0, 1):
        relevant = weights[:, head][:, support]
        assert found["support"][head] == pytest.approx(relevant.sum(axis=1).mean(), rel=1e-5)
        assert found["on_zeros"][head] == pytest.approx(relevant[~bits].mean(), rel=1e-5)
        assert found["on_ones"][head] == pytest.approx(relevant[bits].mean(), rel=1e-5)
    assert found["best"] == np.argmax(found["support"])
    average = theory.attention_share(weights.mean(axis=1), support)
    assert found["average.distance"] == pytest.approx(average.distance.mean(), rel=1e-5)
    assert found["average.largest_other"] == pytest.approx(average.largest_other.max(), rel=1e-5)
    scores = np.log(weights)
    assert found["gap"] == pytest.approx(theory.score_gap(scores, support).mean(axis=0), rel=1e-4)
    a = parameters["attention"]
    with_bias = [np.concatenate([a[name], a[f"{name}_bias"][:, None]], axis=1) for name in ("query", "key")]
    merged = np.einsum("hak,hbk->hab", *with_bias) / np.sqrt(4)
    assert found["merged"] == pytest.approx(np.linalg.norm(merged, 2, axis=(1, 2)), rel=1e-5)
    assert found["query"] == pytest.approx(np.linalg.norm(with_bias[0], axis=(1, 2)) / 2, rel=1e-5)
    tokens = [np.asarray(table) for table in model.tables(parameters)]
    longest = max(np.linalg.norm(table, axis=1).max() for table in tokens)
    assert found["token_norm"] == pytest.approx(np.hypot(longest, 1), rel=1e-5)


def test_norms_with_biases_as_rows_give_the_scores():
    """On tokens with a 1 at their end the merged matrix makes the model's scores: bounds on it hold for the model."""
    model = el.BooleanTransformer(width=8, heads=2, std=0.5)
    parameters = model.initialise(el.random.stream(0, "init"), TASK)
    parameters["attention"]["query_bias"] += 1.5
    matrices = _heads(model, parameters)
    zeros, ones, own = (
        np.pad(np.asarray(t, float), ((0, 0), (0, 1)), constant_values=1) for t in model.tables(parameters)
    )
    x = np.where(np.arange(9) % 2, 1, -1).astype(np.float32)[None]
    found = _attention(model)(parameters, x)
    assert found.token_norm == pytest.approx(max(np.linalg.norm(t, axis=1).max() for t in (zeros, ones, own)))
    tokens = np.concatenate([np.where(x[0][:, None] > 0, ones, zeros), own])
    scores = [tokens @ key @ query.T @ own[0] for query, key in zip(matrices["query"], matrices["key"], strict=True)]
    assert np.asarray(found.scores)[0] == pytest.approx(np.array(scores), abs=1e-5)


@pytest.mark.slow
def test_the_transformer_of_parities_is_measured_too():
    task = el.SparseParity(n=7, k=2, support=(0, 3))
    model = el.ParityTransformer(width=16, heads=3, head_size=4)
    seen = snapshot(model, task=task, size=None)
    found = SelectionHeads(examples=30).measure(seen)
    weights = np.asarray(model.attention(seen.parameters, seen.examples("test", 30)[0]))
    assert found["support"] == pytest.approx(weights[:, :, [0, 3]].sum(axis=2).mean(axis=0), rel=1e-5)
    assert found["construction.gap"] == pytest.approx([theory.selection_gap(7, 2, 1.0)], rel=1e-5)
    assert np.isfinite(found["capacity"]) and found["query"].shape == (3,)
    assert ClassWeights(examples=5).measure(seen)["weights"] == pytest.approx(weights[:5], abs=1e-6)


def test_dropout_is_off_where_attention_is_measured():
    model = el.BooleanTransformer(width=8, heads=2, dropout=0.5)
    seen = snapshot(model)
    weights = ClassWeights(examples=40).measure(seen)["weights"]
    assert weights.sum(axis=2) == pytest.approx(1, abs=1e-5)
    plain = ClassWeights(examples=40).measure(snapshot(model.replace("dropout", None), seen.parameters))["weights"]
    assert np.array_equal(weights, plain)


@pytest.mark.parametrize("probe", [SelectionHeads(), ClassWeights()])
@pytest.mark.parametrize(
    ("task", "model", "message"),
    [
        (TASK, el.MLP(width=4), "needs a transformer with a class token: mlp"),
        (
            el.BiasedParity(n=5, k=3),
            el.ParityTransformer(width=8, heads=1, head_size=4),
            "sparse function of signs: biased",
        ),
    ],
)
def test_what_has_no_such_heads_is_refused(probe, task, model, message):
    with pytest.raises((TrialError, ValueError), match=message):
        probe.check(task, model)
