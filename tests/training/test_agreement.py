"""Both engines train the same trials to the same parameters, step by step, within float tolerance.

The draws are bit-identical; the sums are taken in different orders, so trajectories part by rounding, and
a hinge or ReLU at its kink may once in a while fall to the other side. The tolerance is for 3 steps.
"""

import itertools

import jax
import numpy as np
import pytest

import elegans as el
from elegans.training.engines import ENGINES, choose
from elegans.training.loop import train_together

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
TABLE = list(itertools.product(LOSSES, INITS, REGIMES, SIZES))
STEPS, ABSOLUTE, RELATIVE = 3, 2e-5, 2e-4


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


def assert_same_trajectory(trials, steps=STEPS):
    fused, general = (ENGINES[name] for name in ("fused", "jax"))
    states = fused.init(trials), general.init(trials)
    for _ in range(steps):
        states = fused.advance(states[0], 1), general.advance(states[1], 1)
        ours, theirs = fused.progress(states[0]), general.progress(states[1])
        assert ours.loss == pytest.approx(theirs.loss, rel=1e-3, abs=1e-4)
        assert np.array_equal(ours.diverged_at, theirs.diverged_at)
        pairs = zip(fused.parameters(states[0]), general.parameters(states[1]), strict=True)
        for left, right in pairs:
            for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(left), jax.tree.leaves(right), strict=True):
                np.testing.assert_allclose(a, b, rtol=RELATIVE, atol=ABSOLUTE, err_msg=str(path))
    return states


@pytest.mark.parametrize(("loss", "init", "regime", "size"), TABLE, ids=lambda part: getattr(part, "kind", str(part)))
def test_the_engines_agree_step_by_step(loss, init, regime, size):
    assert_same_trajectory([trial(loss, init, regime, noise, size) for noise in NOISES])


VARIANTS = {
    "epochs": {"batches": "epochs"},
    "piecewise": {"schedule": {"kind": "piecewise", "steps": [0, 1, 2], "values": [1, 0.5, 2]}},
    "cosine": {"schedule": "cosine:4"},
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


def test_the_engines_agree_on_mistakes_and_predictions():
    states = assert_same_trajectory([trial("hinge", "sparse", el.Sample(60), 0.3, (30, 20, 32)) for _ in range(2)])
    index = np.tile(np.arange(60, dtype=np.uint32), (2, 1))
    fused, general = (ENGINES[name] for name in ("fused", "jax"))
    for stream in ("test", "sample"):
        assert np.array_equal(fused.wrong(states[0], stream, index), general.wrong(states[1], stream, index))
    x = np.random.default_rng(0).normal(size=(13, 30)).astype(np.float32)
    np.testing.assert_allclose(fused.predict(states[0], x), general.predict(states[1], x), rtol=1e-4, atol=1e-5)


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
        state = engine.advance(state, 1)
        if engine.progress(state).diverged_at[0] >= 0:
            return int(engine.progress(state).diverged_at[0])
    raise AssertionError("the trial was meant to diverge")


@pytest.mark.parametrize("engine", ["fused", "jax"])
def test_an_outcome_does_not_depend_on_what_trained_beside_it(engine):
    """Bit for bit on the fused engine; draws alone on the JAX engine, whose sums depend on the batch."""
    base = trial("hinge", "sparse", el.Sample(400), 0.0, (20, 50, 32)).replace("training.steps", 300)
    trials = [base.with_seed(seed) for seed in range(3)]
    together = {outcome.trial.seed: outcome for outcome in train_together(trials, ENGINES[engine])}
    for one in trials:
        alone = next(iter(train_together([one], ENGINES[engine])))
        assert alone.solved_at == together[one.seed].solved_at
        tolerance = 0 if engine == "fused" else 0.02
        assert alone.test_error == pytest.approx(together[one.seed].test_error, abs=tolerance)
        assert alone.curve.loss == pytest.approx(together[one.seed].curve.loss, rel=tolerance)


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


class Foreign(el.MLP):
    """A model that the native code does not know."""


def test_auto_prefers_the_fused_engine_and_falls_back_on_the_general_one():
    known = trial("hinge", "dense", el.Online(), 0.0, (5, 3, 2))
    foreign = known.replace("model", Foreign(width=3))
    assert choose(known).name == "fused"
    assert choose(foreign).name == "jax"
    with pytest.raises(el.EngineError, match="the fused engine takes no model 'foreign'"):
        choose(foreign, "fused")
    with pytest.raises(el.EngineError, match="unknown engine 'fusd'; did you mean 'fused'"):
        choose(known, "fusd")
