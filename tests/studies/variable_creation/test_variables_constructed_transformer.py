"""Constructed weights run in the transformer that is trained, and training begun at them stays there."""

import jax
import numpy as np
import pytest

import elegans as el
from elegans.errors import TheoryError, TrialError

GATES = ["and", "or", "symmetric:1110", "parity", "majority", "threshold:2", "table:10010110", "table:01001101"]
SLOW = pytest.mark.slow
KINDS = [(encoding, target) for encoding in ("fixed", "trained", "bag") for target in ("scalar", "vector")]


def every(T):
    """All 2^T inputs as bits."""
    return (np.arange(2**T)[:, None] >> np.arange(T)) & 1


def signs(bits):
    return (2 * bits - 1).astype(np.float32)


@pytest.mark.parametrize(("encoding", "target"), KINDS)
def test_every_gate_runs_in_the_model_on_all_inputs(encoding, target):
    """Single precision: the largest error is below 10^-4. Gates share one compilation: only ``output`` differs."""
    T, support = 9, (1, 4, 6)
    symmetric = [name for name in GATES if el.tasks.BooleanFunction.parse(name).by_count(3) is not None]
    names = symmetric if target == "scalar" else GATES
    models = set()
    for name in names:
        made = el.theory.selecting_transformer(name, T, support, encoding=encoding, target=target)
        models.add(made.model)
        if name == names[0]:
            apply = jax.jit(made.model.apply)
        outputs = np.asarray(apply(made.parameters, signs(every(T))))
        labels = 2 * el.tasks.BooleanFunction.parse(name).value(every(T)[:, support]) - 1
        assert np.abs(outputs - labels).max() < 1e-4, name
    assert len(models) == 1 and len(symmetric) == 7


@pytest.mark.parametrize("encoding", ["fixed", pytest.param("trained", marks=SLOW), pytest.param("bag", marks=SLOW)])
def test_real_values_run_in_a_larger_model_too_and_what_is_attended_to_is_the_same(encoding):
    """A random real-valued function of four bits: a table of 16 values."""
    T, support = 8, (0, 3, 4, 7)
    values = np.asarray(el.random.normal(el.random.stream(6, "probe"), np.arange(16)), float)
    made = el.theory.selecting_transformer(values, T, support, encoding=encoding)
    larger = made.model.replace("width", 20).replace("heads", 6).replace("mlp", (300, 50))
    larger = larger.replace("head_size", 7)
    patterns = every(T)[:, support] @ 2 ** np.arange(4)
    for model in (made.model, larger):
        parameters = made.parameters_of(model)
        outputs, seen = jax.jit(lambda p, x, m=model: (m.apply(p, x), m.attention(p, x)))(parameters, signs(every(T)))
        assert np.abs(np.asarray(outputs) - values[patterns]).max() < 2e-4
        heads = len(made.selection.query)
        assert np.asarray(seen.weights)[:, :heads] == pytest.approx(made.selection.attention(every(T)), abs=1e-5)
        assert np.asarray(seen.scores)[:, :heads] == pytest.approx(made.selection.scores(every(T)), abs=1e-4)
    task = el.SparseBoolean(n=T, k=4, function="and")
    fresh = larger.initialise(el.random.stream(0, "init"), task)
    assert jax.tree.map(np.shape, fresh) == jax.tree.map(np.shape, parameters)
    assert {leaf.dtype for leaf in jax.tree.leaves(parameters)} == {np.dtype(np.float32)}


def test_measures_of_a_trained_head_are_those_of_the_construction_on_its_weights():
    T, support = 12, (2, 3, 9)
    made = el.theory.selecting_transformer("parity", T, support)
    looked = made.model.attention(made.parameters, signs(every(T)[:50]))
    gap = el.theory.selection_gap(T, 3, 2 / 3)
    assert el.theory.score_gap(looked.scores, support) == pytest.approx(gap, abs=1e-5)
    share = el.theory.attention_share(looked.weights, support)
    assert share.distance == pytest.approx(
        el.theory.attention_share(made.selection.attention(every(T)[:50]), support).distance, abs=1e-5
    )
    assert el.theory.implied_score_gap(float(share.support[0, 0]), T, 3) == pytest.approx(gap, abs=1e-4)
    found = el.theory.attention_norms(
        *(made.parameters["attention"][name] for name in ("query", "key", "value", "output"))
    )
    exact = el.theory.selection_norms(T, 3, 2 / 3)
    assert [found.query, found.key, found.value, found.output] == pytest.approx(list(exact[:4]), rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"form": "prenorm"}, "form must be plain: .*form=prenorm"),
        ({"encoding": "bag"}, "encoding must be fixed: encoding=bag"),
        ({"width": 10}, "width, heads, head_size and mlp must be at least \\(11, 1, 1, 16, 8\\): given=\\(10, "),
        ({"mlp": (16, 7)}, "must be at least \\(11, 1, 1, 16, 8\\): given=\\(11, 1, 1, 16, 7\\)"),
        ({"mlp": (16,)}, "the MLP must have two hidden layers: mlp=\\(16,\\)"),
    ],
)
def test_models_that_do_not_hold_it_are_refused(changes, message):
    made = el.theory.selecting_transformer("and", 8, (1, 2, 3))
    model = made.model
    for name, value in changes.items():
        model = model.replace(name, value)
    with pytest.raises(TheoryError, match=message):
        made.parameters_of(model)


def trial(task, model, **training):
    fields = {
        "steps": 200,
        "batch_size": 64,
        "loss": "square",
        "stopping": {"error": 0, "every": 50, "stop": False},
        **training,
    }
    return el.Trial(task=task, regime="online", model=model, training=el.Adam(learning_rate=1e-3, **fields), seed=1)


@pytest.mark.parametrize("encoding", ["fixed", pytest.param("trained", marks=SLOW), pytest.param("bag", marks=SLOW)])
def test_a_trial_begins_at_the_construction_of_its_own_function(encoding):
    for task in (
        el.SparseBoolean(n=7, k=3, support=(0, 4, 5), function="table:01001101"),
        el.SparseParity(n=7, k=2, support=(3, 6)),
        el.SparseParity(n=7, k=3, support=(1, 3, 6)),
    ):
        heads = 3 if task.kind == "sparse-boolean" else 1
        model = el.studies.ConstructedTransformer(width=12, heads=heads, head_size=4, encoding=encoding, mlp=(100, 20))
        parameters = trial(task, model).model.initialise(el.random.stream(0, "init"), task)
        found = np.asarray(jax.jit(model.apply)(parameters, signs(every(7))))
        assert np.abs(found - task.target(np.array(task.support), signs(every(7)))).max() < 1e-4


def test_noise_moves_all_that_is_trained_but_biases():
    task = el.SparseBoolean(n=7, k=3, support=(0, 4, 5), function="and")
    exact, noisy = (el.studies.ConstructedTransformer(width=12, encoding="fixed", std=d) for d in (0.0, 0.1))
    key = el.random.stream(0, "init")
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), exact.initialise(key, task), noisy.initialise(key, task))
    still = {f"{layer}.{name}" for layer, parts in moved.items() for name, by in parts.items() if by == 0}
    assert still == {"embedding.position", "hidden1.bias", "hidden2.bias"}
    spread = noisy.initialise(key, task)["hidden1"]["weight"] - exact.initialise(key, task)["hidden1"]["weight"]
    assert spread.std() == pytest.approx(0.1, rel=0.1)  # of 576 normal draws: 3.4 standard errors


@pytest.mark.compiles
@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["fixed", "trained", "bag"])
def test_training_from_the_construction_stays_solved(encoding):
    """The loss is 0 but for rounding, and Adam's steps of 0.001 along rounding errors break nothing in 200."""
    task = el.SparseBoolean(n=7, k=3, support=(0, 4, 5), function="parity")
    model = el.studies.ConstructedTransformer(width=12, head_size=4, encoding=encoding)
    outcome = el.train(trial(task, model))
    assert (outcome.solved_at, outcome.test_error) == (50, 0)


@pytest.mark.parametrize(
    ("task", "fields", "message"),
    [
        (
            el.SparseBoolean(n=5, k=2, function="and"),
            {},
            "must have a task with a support of its own: task='sparse-boolean'",
        ),
        (
            el.BiasedParity(n=5, k=3, support=(0, 1, 2)),
            {},
            "task must be a boolean function or a parity of signs: task=biased-parity",
        ),
        (
            el.SparseBoolean(n=5, k=2, support=(0, 1), function="table:0100"),
            {"width": 12},
            "must be at least \\(8, 2, 1, 32, 8\\)",
        ),
        (
            el.SparseBoolean(n=5, k=2, support=(0, 1), function="and"),
            {"form": "prenorm"},
            "form must be 'plain'|form must be one of plain",
        ),
        (
            el.SparseBoolean(n=9, k=2, support=(0, 1), function="and"),
            {"width": 11, "encoding": "bag"},
            "width must be at least n \\+ 3 = 12",
        ),
    ],
)
def test_trials_that_cannot_begin_there_are_refused(task, fields, message):
    with pytest.raises((TheoryError, TrialError), match=message):
        trial(task, el.studies.ConstructedTransformer(**{"encoding": "fixed", "width": 16, **fields}))
