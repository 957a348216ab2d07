"""Tasks with real-valued targets of any width: which engines train them, and what their loss decides."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import elegans as el
from elegans import random
from elegans.cli.curve import chart, ending
from elegans.training.engines import ENGINES, ChunkRequest, choose, fallback
from elegans.training.losses import Square, example_losses

WEIGHTS = (1.0, 0.5, 2.0)


class LinearTargets(el.Task):
    """The first ``width`` of n Gaussian inputs, plus one."""

    n: int = 4
    width: int = 3
    weighted: bool = False

    @property
    def input_size(self):
        return self.n

    @property
    def targets(self):
        return self.width

    @property
    def target_weights(self):
        return WEIGHTS[: self.width] if self.weighted else None

    def examples(self, hidden, key, index):
        x = random.normal(key, index[:, None], lane=np.arange(self.n, dtype=np.uint32))
        return x, x[:, 0] + 1 if self.width == 1 else x[:, : self.width] + 1


class Misshapen(LinearTargets):
    """Labels with one number too many."""

    def examples(self, hidden, key, index):
        x, y = super().examples(hidden, key, index)
        return x, np.concatenate([y, y[:, :1]], axis=1)


def trial(seed=0, regime="online", model=None, **changes):
    stopping = {"examples": 300, "every": 50, **changes.pop("stopping", {})}
    task = changes.pop("task", LinearTargets())
    training = {"kind": "sgd", "steps": 400, "loss": "square", "learning_rate": 0.1, "stopping": stopping, **changes}
    model = model or el.DeepMLP(widths=(8,), activation="relu")
    return el.Trial(task=task, regime=regime, model=model, training=training, seed=seed)


def reference(one, steps):
    """Return the parameters after some steps of descent on the written-out loss."""
    task, model, training = one.task, one.model, one.training
    parameters = jax.tree.map(jnp.asarray, model.initialise(one.key("init"), task))
    weights = np.array(WEIGHTS if task.weighted else [1.0] * 3)[: task.width]

    def loss(parameters, x, y):
        differences = (model.apply(parameters, x) - y).reshape(len(y), -1)
        return (weights * differences**2 / 2).sum() / len(y)

    for step in range(steps):
        index = one.regime.batch(task, one.key("batches"), np.uint32(step), training.batch_size, training.batches)
        gradient = jax.grad(loss)(parameters, *task.examples(None, one.key("sample"), index))
        parameters = jax.tree.map(lambda old, slope: old - training.learning_rate * slope, parameters, gradient)
    return parameters


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "task", [LinearTargets(), LinearTargets(weighted=True), LinearTargets(width=1)], ids=["3", "weighted", "1"]
)
def test_an_engine_trains_on_targets_as_the_written_out_loss_does_or_refuses(engine, task):
    trials = [trial(task=task, seed=seed) for seed in range(2)]
    if not ENGINES[engine].takes_targets:
        message = f"the {engine} engine takes no task with real-valued targets: task="
        with pytest.raises(el.errors.EngineError, match=message):
            el.train(trials[0], engine=engine)
        return
    state = ENGINES[engine].init(trials)
    for _ in range(3):
        state, _ = ENGINES[engine].advance(state, ChunkRequest.of(1))
    for one, parameters in zip(trials, ENGINES[engine].parameters(state), strict=True):
        for got, wanted in zip(jax.tree.leaves(parameters), jax.tree.leaves(reference(one, 3)), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=1e-6)


def test_auto_leaves_targets_to_the_general_engine():
    assert choose(trial()).name == "jax"
    assert "no native engine takes model 'deep-mlp' on task 'linear-targets'" in fallback(trial())


def test_the_loss_of_an_example_is_the_weighted_sum_over_its_targets():
    output, label = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]]), np.array([[0.0, 2.0, 1.0], [1.0, 2.0, 1.0]])
    for task, wanted in [(LinearTargets(), [5, 5]), (LinearTargets(weighted=True), [9, 3])]:
        assert example_losses(Square(scale=2), task, output, label).tolist() == wanted


@pytest.mark.slow
@pytest.mark.parametrize("regime", ["online", "sample:100"])
def test_a_trial_is_solved_by_its_mean_held_out_loss(regime):
    outcome = el.train(trial(regime=regime, stopping={"loss": 0.05}))
    x, y = outcome.network.examples(300)
    mean = np.mean(((outcome.network(x) - y) ** 2).sum(axis=1) / 2)
    assert outcome.state == "solved" and outcome.test_loss <= 0.05
    assert outcome.test_loss == pytest.approx(mean, rel=1e-5)
    assert outcome.test_error is None and outcome.train_error is None
    assert (outcome.train_loss is None) == (regime == "online")
    assert outcome.errors.test_error[-1] == pytest.approx(mean, rel=0.5)
    assert f"test loss {outcome.test_loss:.4g}" in repr(outcome) and "test loss" in ending(outcome)
    assert "held-out loss" in chart(outcome)
    el.plots.learning_curve(outcome)
    stricter = el.train(trial(regime=regime, stopping={"loss": outcome.test_loss * 0.5}, steps=outcome.steps))
    assert stricter.state == "unsolved"


@pytest.mark.slow
def test_without_a_bound_a_trial_takes_all_its_steps():
    outcome = el.train(trial())
    assert (outcome.state, outcome.steps) == ("unsolved", 400)
    assert outcome.test_loss < 0.1


def test_a_bound_must_hold_at_consecutive_checks():
    first, third = (el.train(trial(stopping={"loss": 0.3, "consecutive": count})) for count in (1, 3))
    assert third.solved_at == first.solved_at + 100


def test_losses_are_stored_and_measured(tmp_path):
    sweep = el.grid(trial(stopping={"loss": 0.05}), {}, seeds=3)
    probe = el.probes.HeldOutErrorRate(every=100, examples=300)
    el.run(sweep, store=tmp_path / "runs.db", probes=[probe], progress=False)
    with el.Store(tmp_path / "runs.db") as store:
        outcomes = [store.outcome(one) for one in sweep]
        losses = store.measures(sweep, "final-loss")
    assert losses["test"].tolist() == [outcome.test_loss for outcome in outcomes]
    for one, outcome in zip(sweep, outcomes, strict=True):
        alone = el.train(one, probes=[probe])
        assert alone.solved_at == outcome.solved_at and alone.test_loss == pytest.approx(outcome.test_loss, rel=1e-5)
        assert outcome.measures["test-error"]["error"][-1] == pytest.approx(outcome.test_loss, rel=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: trial(model=el.PolyNet(degree=3)), "an output for each target: 1 outputs of 'poly-net', 3 targets"),
        (lambda: trial(loss="cross-entropy"), "the loss must take real labels"),
        (lambda: trial(task=el.SparseParity(n=4, k=2), stopping={"loss": 0.1}), "a bound on the loss must have a task"),
        (lambda: el.train(trial(task=Misshapen())), r"must have shape \(256, 3\) for 256 examples"),
        (lambda: el.train(trial(), probes=[el.probes.HeldOutLoss()]), "test-loss is the hinge loss of signs"),
    ],
)
def test_what_does_not_fit_targets_is_refused(make, message):
    with pytest.raises(el.errors.TrialError, match=message):
        make()
