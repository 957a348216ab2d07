"""The delay between fitting the sample and generalising."""

import math

import pandas as pd
import pytest

import elegans as el
from elegans.analysis import error_courses, grokking_delay, grokking_delays, grokking_summary, kaplan_meier


def outcome(train, test, seed=0):
    trial = el.Trial(
        task=el.SparseParity(n=10, k=2),
        regime=el.Sample(100),
        model=el.MLP(width=4),
        training=el.SGD(steps=300),
        seed=seed,
    )
    measures = {
        name: {"step": [100 * i for i in range(len(errors))], "error": errors}
        for name, errors in (("train-error", train), ("test-error", test))
    }
    return el.Outcome(trial, "unsolved", measures=measures)


@pytest.mark.parametrize(
    ("train", "test", "delay", "known"),
    [
        ([0.5, 0.01, 0.0, 0.0], [0.5, 0.5, 0.5, 0.1], 200, "exactly"),
        ([0.5, 0.4, 0.1, 0.01], [0.5, 0.1, 0.1, 0.1], -200, "exactly"),
        ([0.5, 0.0, 0.0, 0.0], [0.5, 0.5, 0.5, 0.11], 200, "at least"),
        ([0.5, 0.4, 0.3, 0.02], [0.5, 0.0, 0.0, 0.0], -200, "at most"),
        ([0.5, 0.4, 0.3, 0.02], [0.5, 0.5, 0.4, 0.4], math.nan, "not at all"),
    ],
)
def test_a_delay_is_known_exactly_or_as_a_bound(train, test, delay, known):
    found = grokking_delay(outcome(train, test))
    assert found.delay == pytest.approx(delay, nan_ok=True)
    assert (found.known, found.last) == (known, 300)


def test_delays_of_many_trials_go_into_a_survival_estimate():
    found = grokking_delays(
        outcome([0.5, 0.0, 0.0, 0.0], test, seed)
        for seed, test in enumerate([[0.5, 0.5, 0.0, 0.0], [0.5, 0.5, 0.5, 0.0], [0.5, 0.5, 0.5, 0.5]])
    )
    assert found["known"].tolist() == ["exactly", "exactly", "at least"]
    assert kaplan_meier(found["delay"].where(found["known"] == "exactly"), found["delay"]).median == 200


FITTED, NEVER = [0.5, 0.01, 0.0, 0.0], [0.5, 0.4, 0.3, 0.02]
LEARNED, LATE, UNLEARNED = [0.5, 0.4, 0.1, 0.0], [0.5, 0.4, 0.5, 0.1], [0.5, 0.4, 0.5, 0.5]


def test_long_tables_of_errors_give_the_same_delays_and_their_summary():
    courses = [(FITTED, LEARNED), (FITTED, LATE), (FITTED, UNLEARNED), (NEVER, LEARNED)]
    outcomes = [outcome(train, test, seed) for seed, (train, test) in enumerate(courses)]
    trials = pd.DataFrame({"seed": range(4), "width": 4}, index=range(4))
    measures = {
        kind: pd.concat(
            [pd.DataFrame({"trial": one.trial.seed, "seed": one.trial.seed, **one.measures[kind]}) for one in outcomes]
        )
        for kind in ("train-error", "test-error")
    }
    found = error_courses(trials, measures, ["width", "seed"])
    kept = ["step", "train_error", "test_error", "width", "seed", "train_at", "test_at", "delay", "known"]
    assert list(found) == kept and len(found) == 16
    assert found["test_error"].tolist() == [error for _, test in courses for error in test]
    delays = grokking_delays(outcomes)
    last = found.groupby("seed").last()
    for name in ("train_at", "test_at", "delay"):
        assert last[name].tolist() == pytest.approx(delays[name].astype(float).tolist(), nan_ok=True)
    assert last["known"].tolist() == delays["known"].tolist()
    stated = grokking_summary(found)
    assert stated == {
        "trials": 4, "fitted": 3, "solved": 3, "fitted_at": 100.0, "solved_at": 300.0, "test_error_when_fitted": 0.4,
        "delay": 200.0, "delay_interval": [0.0, None], "censored": 1,
    }  # fmt: skip
    assert grokking_summary(found[found["seed"] == 3]) == {"trials": 1, "fitted": 0, "solved": 1}


def test_a_real_trial_has_a_delay():
    trial = el.Trial(
        task=el.SparseParity(n=20, k=2),
        regime=el.Sample(100),
        model=el.MLP(width=100, init="sparse:2"),
        training=el.SGD(steps=2000, weight_decay=0.01),
    )
    probes = [el.probes.TrainErrorRate(every=50, examples=100), el.probes.HeldOutErrorRate(every=50, examples=500)]
    found = grokking_delay(el.train(trial, probes=probes))
    assert found.known == "exactly" and found.delay >= 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"train": -0.1}, "from 0 to 1: train=-0.1"), ({"test": 2}, "from 0 to 1: test=2")],
)
def test_a_threshold_is_a_rate(arguments, message):
    with pytest.raises(ValueError, match=message):
        grokking_delay(outcome([0.5], [0.5]), **arguments)


def test_measures_are_needed():
    trial = outcome([0.5], [0.5]).trial
    with pytest.raises(ValueError, match="needs the measures of the probe 'train-error': measures=none"):
        grokking_delay(el.Outcome(trial, "unsolved"))
