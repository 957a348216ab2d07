"""An engine that evaluates checks by itself leaves the outcomes as they were."""

import numpy as np
import pytest

import elegans as el
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.settings import configuration
from elegans.training import SGD, Piecewise
from elegans.training.engines import ENGINES
from elegans.training.engines.single import SequentialEngine, SingleNetwork
from elegans.training.loop import train_together

NETWORK = ENGINES["fused"].network
HIDDEN_PROGRESS = configuration("ii", 30, 3, steps=1000)
SAMPLED = el.Trial(
    task=el.SparseParity(n=12, k=2, noise=0.05),
    regime=el.Sample(300),
    model=el.MLP(width=40, init="sparse:2"),
    training=SGD(steps=730, weight_decay=0.01, batches="epochs", stopping=StoppingRule(every=20, examples=1000)),
)


class Attended(NETWORK):
    """The same network, held to the loop's own checks and measurements."""

    advance = SingleNetwork.advance


def outcomes_of(engine, trial, seeds, probes, **options):
    return [
        next(iter(train_together([trial.with_seed(seed)], engine, probes=probes, keep_parameters=True, **options)))
        for seed in range(seeds)
    ]


def assert_same(one, other):
    for name in ("state", "solved_at", "test_error", "train_error", "steps"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.curve.step == other.curve.step
    assert one.curve.loss == pytest.approx(other.curve.loss, rel=1e-12, nan_ok=True)
    assert one.curve.error == pytest.approx(other.curve.error, rel=1e-12, nan_ok=True)
    assert one.measures.keys() == other.measures.keys()
    for kind, columns in one.measures.items():
        assert columns.keys() == other.measures[kind].keys()
        for name, values in columns.items():
            np.testing.assert_allclose(values, other.measures[kind][name], rtol=1e-6, atol=0, err_msg=f"{kind} {name}")
    for layer, arrays in one.parameters.items():
        for name, array in arrays.items():
            assert np.array_equal(array, other.parameters[layer][name], equal_nan=True), (layer, name)


def with_success(trial, **changes):
    return trial.replace("training.stopping", trial.training.stopping.model_copy(update=changes))


DIVERGING = SAMPLED.replace("training.learning_rate", 1e3).replace("training.loss", "square")
TRIALS = {
    "no mistake is allowed": (HIDDEN_PROGRESS, 12),
    "a tenth of mistakes is allowed": (SAMPLED, 12),
    "half of mistakes is allowed": (with_success(SAMPLED, error=0.5, every=7), 6),
    "a polynomial": (configuration("xv", 20, 3, steps=1000), 8),
    "three checks in a row": (with_success(HIDDEN_PROGRESS, consecutive=3, error=0.05, every=3), 8),
    "three checks in a row, few mistakes": (with_success(SAMPLED, consecutive=3, error=0.02), 8),
    "trained on": (with_success(HIDDEN_PROGRESS, stop=False), 4),
    "trained on, checks in a row": (with_success(SAMPLED, stop=False, consecutive=2), 4),
    "an end between two checks": (with_success(HIDDEN_PROGRESS, every=300), 4),
    "a check at every step": (with_success(SAMPLED, every=1), 3),
    "one check, at the end": (with_success(SAMPLED, every=10_000), 3),
    "few examples": (with_success(SAMPLED, examples=1, error=0.0), 6),
    "a schedule": (SAMPLED.replace("training.schedule", Piecewise(steps=(0, 100), values=(1.0, 0.3))), 4),
    "divergence": (DIVERGING, 6),
    "an infinite rate after a while": (
        DIVERGING.replace("training.schedule", Piecewise(steps=(0, 57), values=(1e-5, 1e6))),
        6,
    ),
    "hopeless": (SAMPLED.replace("task", el.SparseParity(n=12, k=6)), 3),
    "every input relevant": (SAMPLED.replace("task", el.SparseParity(n=2, k=2)), 3),
}


@pytest.mark.parametrize("name", TRIALS)
@pytest.mark.parametrize("probed", [False, True], ids=["plain", "probed"])
def test_outcomes_are_those_of_a_loop_that_evaluates_every_check(name, probed):
    trial, seeds = TRIALS[name]
    probes = [el.probes.WeightMovement(every=13), el.probes.HeldOutErrorRate(every=170, examples=50)] if probed else []
    alone, attended = (
        outcomes_of(engine, trial, seeds, probes) for engine in (ENGINES["fused"], SequentialEngine(Attended))
    )
    for one, other in zip(alone, attended, strict=True):
        assert_same(one, other)
    if name == "no mistake is allowed":
        assert all(outcome.state == "solved" for outcome in alone)
    if "diverge" in name or "infinite" in name:
        assert all(outcome.state == "diverged" for outcome in alone)


def test_the_movement_of_weights_is_recorded_in_the_engine_and_not_read_from_copies(monkeypatch):
    copies = []
    monkeypatch.setattr(
        SequentialEngine, "parameters", lambda self, state: copies.append(state.native.step) or [state.parameters]
    )
    outcome = el.train(HIDDEN_PROGRESS, probes=[el.probes.WeightMovement(every=10)])
    assert outcome.measures["weight-movement"]["step"] == list(range(0, outcome.steps + 1, 10))
    assert copies == [0, outcome.steps]  # before the first step, and the parameters of the outcome


def test_two_probes_of_one_kind_are_both_measured():
    probes = [el.probes.WeightMovement(every=20), el.probes.WeightMovement(every=30)]
    outcome = el.train(HIDDEN_PROGRESS.replace("training.steps", 60), probes=probes)
    assert outcome.measures["weight-movement"]["step"] == [0, 20, 30, 40, 60]


def test_long_chunks_end_from_time_to_time():
    asked = []
    slow = configuration("ii", 30, 8, steps=10**6).replace("model.width", 1000)
    stopped = lambda: bool(asked.append(None)) or len(asked) > 2  # noqa: E731
    outcome = next(iter(train_together([slow], ENGINES["fused"], stopped=stopped)))
    assert outcome.state == "interrupted"
    assert 0 < outcome.steps < 10**6


def test_a_watcher_sees_every_check():
    seen = []
    el.train(HIDDEN_PROGRESS, watch=lambda outcome: seen.append(outcome.curve.step[-1]))
    assert seen == list(range(10, seen[-1] + 1, 10))
