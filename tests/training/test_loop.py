"""Stop rules, curves, measures and interruption, in any engine."""

import itertools
import zlib

import numpy as np
import pytest

import elegans as el
from elegans.store.codec import pack_curves, read_curves
from elegans.training.engines import ENGINES
from elegans.training.evaluation import CURVE_EXAMPLES, CURVE_SHARE, curve_steps
from elegans.training.loop import train_together
from elegans.training.outcome import CURVE_POINTS, Curve, ErrorCurve

ENGINE_NAMES = ["fused", "jax"]
EASY = el.Trial(
    task=el.SparseParity(n=12, k=2),
    regime=el.Sample(300),
    model=el.MLP(width=40, init="sparse:2"),
    training=el.SGD(steps=2000, weight_decay=0.01, stopping=el.StoppingRule(every=50, examples=1000)),
    seed=1,
)
HOPELESS = EASY.replace("task", el.SparseParity(n=12, k=6)).replace("training.steps", 130)
ENDLESS = HOPELESS.replace("task", el.SparseParity(n=30, k=15)).replace("training.steps", 10**7)


@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_a_trial_stops_where_it_is_first_solved(engine):
    outcome = el.train(EASY, engine=engine, probes=[el.probes.HeldOutErrorRate(every=50, examples=1000)])
    assert outcome.state == "solved"
    assert outcome.solved_at == outcome.steps
    assert outcome.solved_at % 50 == 0
    errors = dict(zip(*outcome.measures["test-error"].values(), strict=True))
    assert errors[outcome.solved_at] == outcome.test_error <= 0.1
    assert all(error > 0.1 for step, error in errors.items() if step < outcome.solved_at)


def test_a_trial_may_train_on_after_it_is_solved():
    outcome = el.train(EASY.replace("training.stopping.stop", False))
    assert outcome.state == "solved"
    assert outcome.solved_at == el.train(EASY).solved_at
    assert outcome.steps == 2000


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_the_last_step_is_checked_and_an_unsolved_trial_has_no_solving_step(engine):
    outcome = el.train(HOPELESS, engine=engine)
    assert (outcome.state, outcome.solved_at, outcome.steps) == ("unsolved", None, 130)
    assert outcome.curve.step == [50, 100, 130]
    assert 0.1 < outcome.test_error < 0.9
    assert outcome.train_error is not None
    assert el.train(HOPELESS.replace("regime", "online"), engine=engine).train_error is None


@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_probes_look_before_the_first_step_at_their_cadence_and_at_the_end(engine):
    gap = el.probes.FourierGap(every=60, examples=500)
    outcome = el.train(HOPELESS, engine=engine, probes=[gap, el.probes.TrainErrorRate(every=50)])
    assert outcome.measures["fourier-gap"]["step"] == [0, 60, 120, 130]
    assert outcome.measures["train-error"]["step"] == [0, 50, 100, 130]
    assert outcome.measures["train-error"]["error"][-1] == pytest.approx(outcome.train_error)
    assert set(outcome.measures["fourier-gap"]) == {"step", "relaxed", "strict", "positive"}


def test_probes_change_nothing():
    plain, probed = el.train(EASY), el.train(EASY, probes=[el.probes.HeldOutErrorRate(every=7)])
    assert plain.solved_at == probed.solved_at
    assert plain.test_error == probed.test_error
    assert np.array_equal(plain.parameters["hidden"]["weight"], probed.parameters["hidden"]["weight"])


@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_an_interruption_ends_every_running_trial_as_interrupted(engine):
    asked, count = [], 3 if engine == "jax" else 1
    trials = [ENDLESS.with_seed(seed) for seed in range(count)]
    outcomes = list(train_together(trials, ENGINES[engine], stopped=lambda: bool(asked.append(None)) or len(asked) > 2))
    assert [outcome.state for outcome in outcomes] == ["interrupted"] * count
    assert all(0 < outcome.steps < 10**7 for outcome in outcomes)


@pytest.mark.slow
def test_trials_that_end_early_leave_the_batch_and_the_others_go_on():
    trials = [EASY.with_seed(seed) for seed in range(8)]
    together = list(train_together(trials, ENGINES["jax"]))
    assert sorted(outcome.trial.seed for outcome in together) == list(range(8))
    assert [outcome.solved_at for outcome in together] == sorted(outcome.solved_at for outcome in together)
    for outcome in together:
        assert outcome.curve.step[-1] == outcome.steps
        assert np.isfinite(outcome.curve.loss).all()


def test_a_watcher_sees_the_curve_grow():
    lengths = []
    el.train(HOPELESS, watch=lambda outcome: lengths.append(len(outcome.curve.step)))
    assert lengths == [1, 2, 3]


@pytest.mark.slow
def test_a_long_decay_drives_weights_to_zero_and_not_to_subnormals():
    decaying = HOPELESS.replace("training.weight_decay", 5.0).replace("training.steps", 3000)
    for engine in ENGINE_NAMES:
        weight = el.train(decaying, engine=engine).parameters["hidden"]["weight"]
        assert not ((weight != 0) & (np.abs(weight) < np.finfo(np.float32).tiny)).any()


def test_a_full_curve_merges_neighbours_and_keeps_the_averages_and_even_spacing():
    curve, steps = Curve(), np.arange(1, 1001)
    for step in steps:
        curve.add(int(step), float(step), 2.0 * step)
    assert len(curve.step) < CURVE_POINTS
    assert curve.step[-1] == 1000
    spans = np.diff([0, *curve.step])
    assert (spans[:-1] == spans[0]).all() and spans[-1] <= spans[0]
    assert spans @ np.array(curve.loss) == pytest.approx(steps.sum())
    assert spans @ np.array(curve.error) == pytest.approx(2 * steps.sum())


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINE_NAMES)
@pytest.mark.parametrize("one", [EASY, HOPELESS], ids=["solved", "unsolved"])
def test_errors_are_recorded_on_logarithmic_steps_up_to_the_last(one, engine):
    outcome = el.train(one, engine=engine)
    errors = outcome.errors
    planned = curve_steps(one.steps, one.training.batch_size, ENGINES[engine].point_cost)
    reached = [step for step in planned if step < outcome.steps]
    assert errors.step == [*reached, outcome.steps]
    assert len({len(values) for values in vars(errors).values()}) == 1
    probe = el.probes.HeldOutErrorRate(every=1, examples=CURVE_EXAMPLES)
    measured = el.train(one, engine=engine, probes=[probe]).measures["test-error"]
    at = dict(zip(measured["step"], measured["error"], strict=True))
    assert errors.test_error == [at[step] for step in errors.step]
    spans = np.diff([0, *errors.step])
    whole = np.diff([0, *outcome.curve.step]) @ np.array(outcome.curve.error)
    assert spans @ np.array(errors.train_error) == pytest.approx(whole, rel=1e-6)  # the same minibatches


def test_errors_do_not_depend_on_who_evaluates_them_and_change_nothing():
    watched = el.train(EASY, watch=lambda outcome: None)
    alone = el.train(EASY)
    assert alone.errors.step == watched.errors.step and alone.errors.test_error == watched.errors.test_error
    assert alone.errors.train_error == pytest.approx(watched.errors.train_error)
    assert alone.solved_at == watched.solved_at
    for layer, arrays in alone.parameters.items():
        assert all(np.array_equal(array, watched.parameters[layer][name]) for name, array in arrays.items())


def test_short_trainings_have_fewer_points():
    assert len(curve_steps(20_000, 32)) > 80 and len(curve_steps(10**6, 1)) > 80
    assert len(curve_steps(200, 4)) <= 10
    for steps in (1, 2, 7, 1000):
        points = curve_steps(steps, 32)
        assert points[0] == 1 and points[-1] == steps and list(points) == sorted(set(points))


@pytest.mark.parametrize(("steps", "batch_size", "cost"), [(10**4, 32, 64), (10**6, 32, 64), (10**5, 4, 2048)])
def test_a_curve_costs_little_wherever_the_training_ends(steps, batch_size, cost):
    """Beyond eight points on the whole way, evenly spaced on the logarithmic axis."""
    points = curve_steps(steps, batch_size, cost)
    for end in points:
        reached = sum(step <= end for step in points)
        assert (reached - 1 - 7 * np.log(end) / np.log(steps) - 1) * cost <= CURVE_SHARE * end * batch_size


def test_curves_are_packed_and_read_back_and_old_ones_are_read():
    curve = Curve([10, 20], [0.5, 0.25], [0.5, 0.0])
    errors = ErrorCurve([1, 3, 20], [1.0, 0.5, 0.25], [0.5, 0.25, 0.0], [0.5, 0.5, 0.25])
    for first, second in itertools.product((curve, Curve()), (errors, ErrorCurve())):
        packed = pack_curves(first, second)
        assert (packed is None) == (not first.step and not second.step)
        assert read_curves(packed) == (first, second)
    old = zlib.compress(np.array([10, 20], "<u4").tobytes() + np.array([[0.5, 0.25], [0.5, 0.0]], "<f4").tobytes())
    assert read_curves(old) == (curve, ErrorCurve())


def test_a_point_of_errors_takes_at_most_40_bytes_in_a_store():
    random = np.random.default_rng(0)  # nothing to compress
    steps = curve_steps(20_000, 32)
    errors = ErrorCurve(steps, *random.random((3, len(steps))).tolist())
    assert len(pack_curves(Curve(), errors)) <= 40 * len(steps)


def test_a_probe_refuses_what_it_cannot_look_into():
    everything = EASY.replace("task", el.SparseParity(n=5, k=5))
    with pytest.raises(el.errors.TrialError, match="fourier-gap must have irrelevant inputs to compare with: k=5, n=5"):
        el.train(everything, probes=[el.probes.FourierGap()])


def test_measures_are_found_by_kind_and_by_class():
    trial = HOPELESS.replace("training.steps", 4)
    outcome = el.train(trial, probes=[el.probes.WeightMovement(every=2)])
    assert outcome.measures[el.probes.WeightMovement] is outcome.measures["weight-movement"]
    assert outcome.measures[el.probes.WeightMovement(every=5)]["step"] == [0, 2, 4]
    with pytest.raises(KeyError, match="must come from a probe of the trial: 'fourier-gap', not weight-movement"):
        outcome.measures[el.probes.FourierGap]
    with pytest.raises(KeyError, match="'weights', not weight-movement"):
        outcome.measures["weights"]
