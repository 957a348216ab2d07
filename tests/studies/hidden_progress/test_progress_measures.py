"""Hidden progress is there: relevant weights lead before the loss moves, and random neurons have their gaps.

Error rates are for other seeds; seeds are fixed, so on one type of machine a test passes always or never.
"""

import math

import numpy as np
import pytest

import elegans as el
from elegans import theory
from elegans.analysis.prediction import HALF
from elegans.experiments import run_experiment
from elegans.probes import HeldOutLoss, WeightMovement, WeightTrajectory
from elegans.studies.hidden_progress import fourier_gaps as gaps
from elegans.studies.hidden_progress.settings import configuration
from elegans.training.engines import ENGINES

native = pytest.mark.skipif(ENGINES["fused"].unavailable() is not None, reason="minutes without the fused engine")


def run(name, out, **options):
    return run_experiment(name, "smoke", out=out, **options)


@pytest.mark.slow
@pytest.mark.compiles
@native
def test_hidden_progress_tells_what_half_of_the_time_looks_like(tmp_path):
    result = run("hidden-progress", tmp_path, seeds=2)
    weights, findings = result.tables["weights"], result.record["findings"]
    assert len(findings) == 2 and all(found["solved"] == 2 for found in findings.values())
    assert weights.groupby("panel", sort=False)["neuron"].nunique().tolist() == [1, 10]
    assert (weights.groupby(["panel", "relevant"])["coordinate"].nunique().unstack() == [17, 3]).all(axis=None)
    for found in findings.values():
        assert found["relevant"]["median"] <= found["movement"]["median"]
    assert len(result.experiment.plot(result.tables).axes) == 2 * 2


@pytest.mark.slow
@pytest.mark.compiles
@native
def test_predictors_are_correlated_with_the_remaining_time_at_every_moment(tmp_path):
    table = run("progress-prediction", tmp_path, seeds=5).tables["table"]
    assert table.groupby("network")["when"].nunique().tolist() == [2, 2, 2]
    at_half = table[(table["when"] == HALF) & (table["predictor"] == "steps taken")]
    assert at_half["correlation"].tolist() == pytest.approx([1, 1, 1])
    fixed = table[(table["when"] != HALF) & (table["predictor"] == "steps taken")]
    assert fixed["correlation"].isna().all()
    known = table[table["correlation"].notna()]
    assert (known["low"] <= known["correlation"] + 1e-9).all() and (known["correlation"] <= known["high"] + 1e-9).all()
    assert table.loc[table["predictor"] == "movement", "correlation"].notna().all()


@pytest.mark.slow
@pytest.mark.compiles
@native
def test_gaps_of_random_neurons_are_beside_those_of_one_that_learns(tmp_path):
    result = run("fourier-gaps", tmp_path, seeds=4)
    random, training = result.tables["random"], result.tables["training"]
    signs = random[(random["weights"] == "bernoulli") & (random["function"] == gaps.THRESHOLD)]
    np.testing.assert_allclose(signs["relaxed"], signs["majority"], rtol=1e-6)
    assert (training.groupby("seed")["step"].min() == 0).all()
    assert len(result.experiment.plot(result.tables).axes) == 3


@pytest.mark.slow
@pytest.mark.compiles
def test_recovery_is_drawn_beside_its_bound(tmp_path):
    result = run("one-step-recovery", tmp_path, seeds=3)
    assert result.tables["table"]["share"].max() == 1
    assert result.record["findings"]["(15, 2)"]["bound"] == 5476
    whole = result.tables["table"][result.tables["table"]["share"] == 1]
    assert (whole["solved"] == whole["trials"]).all()


@pytest.mark.parametrize(
    ("law", "median_2", "median_4", "positive_4", "strict_4"),
    [("uniform", 0.11, 0.0047, 0.86, 0.18), ("gaussian", 0.10, 0.0021, 0.74, 0.03)],
)
def test_random_thresholds_have_gaps_of_the_majoritys_order(law, median_2, median_4, positive_4, strict_4):
    """n = 15, 300 neurons, exact. Medians within 25% (k = 2; 4 standard errors) and 50% (k = 4), shares within 0.1 (4
    standard errors) of those of 300 other neurons: each fails with probability below 1e-4."""
    generator = np.random.default_rng(7)
    weight = generator.uniform(-1, 1, (300, 15)) if law == "uniform" else generator.normal(size=(300, 15))
    found = {}
    for k in (2, 4):
        correlations = theory.neuron_correlations(lambda sums: (sums > 0).astype(float), weight, 0.0, range(k))
        found[k] = theory.relaxed_gap(correlations, range(k)), theory.strict_gap(correlations, range(k))
    assert np.median(found[2][0]) == pytest.approx(median_2, rel=0.25)
    assert np.median(found[4][0]) == pytest.approx(median_4, rel=0.5)
    assert (found[2][0] > 0).mean() > 0.9
    assert (found[4][0] > 0).mean() == pytest.approx(positive_4, abs=0.1)
    assert (found[4][1] > 0).mean() == pytest.approx(strict_4, abs=0.1)


@pytest.mark.parametrize(("k", "gap"), [(2, 0.14817), (4, 0.010334)])
def test_sines_of_sign_weights_have_one_gap(k, gap):
    """sin(w . x / sqrt(n)), n = 15, s and c the sine and cosine of 1 / sqrt(n): s^(k-1) c^(16-k) - s^(k+1) c^(14-k)."""
    weight = np.random.default_rng(0).choice([-1.0, 1.0], (5, 15))
    scale = 1 / math.sqrt(15)
    correlations = theory.sinusoid_correlations(weight, 0.0, range(k), (scale, -math.pi / 2)) / scale
    sine, cosine = math.sin(scale), math.cos(scale)
    expected = sine ** (k - 1) * cosine ** (16 - k) - sine ** (k + 1) * cosine ** (14 - k)
    assert theory.relaxed_gap(correlations, range(k)) == pytest.approx([expected] * 5)
    assert expected == pytest.approx(gap, rel=1e-4)


@native
@pytest.mark.slow
def test_relevant_weights_lead_while_the_network_is_at_chance():
    """A sinusoidal neuron at (30, 3), 40 trials. At half of the time to solve the median accuracy is at most 60%, and
    relevant weights have moved at least 1.5 times as far in the mean as the others (median of 40 trials 4.4, quartiles
    2.4 and 5.7); so they have at three quarters. The weight that has moved most is relevant in at least 20 trials at
    half of the time (by chance: 10%; measured 75% of 40 others: fewer than 20 with probability 3e-4).

    The largest of three relevant changes over the largest of 27 others is a stricter ratio: in the median of 400 trials
    1.40 at half of the time, below 1.5, and 2.6 at three quarters, where at least 1.5 is asked here (quartiles of 40
    others 1.8 and 4.1). At k = 4 it is 0.8 and 1.2, far from 0.236 against 0.041 in another program's only trial.
    """
    with el.Store() as store:
        sweep = el.grid(configuration("xiv", 30, 3, steps=40_000), {}, seeds=range(100, 140))
        probes = [WeightMovement(every=10), WeightTrajectory(every=10), HeldOutLoss(every=10, examples=2048)]
        el.run(sweep, store, probes=probes)
        outcomes = [outcome for outcome in store.outcomes(sweep) if outcome.solved]
    assert len(outcomes) >= 38
    error, leads, ratio, means = [], 0, [], []
    for outcome in outcomes:
        moved, wrong = outcome.measures["weight-movement"], outcome.measures["test-loss"]["error"]
        half, late = (int(share * outcome.solved_at) // 10 for share in (0.5, 0.75))
        error.append(wrong[half])
        leads += moved["leader"][half] == 1
        ratio.append(moved["relevant"][late] / moved["irrelevant"][late])
        weight = np.array(outcome.measures["weight-trajectory"]["weight"]).reshape(-1, 30)
        relevant = np.isin(np.arange(30), outcome.trial.task.draw(outcome.trial.key("task")))
        change = np.abs(weight[[half, late]] - weight[0])
        means.append(change[:, relevant].mean(axis=1) / change[:, ~relevant].mean(axis=1))
    assert np.median(error) >= 0.4
    assert leads >= 20
    assert np.median(ratio) >= 1.5
    assert (np.median(means, axis=0) >= 1.5).all()
