"""Markov chains learned in context: phases, positional profiles, other distributions of chains.

Seeds are fixed, so on one type of machine a test passes always or never; what was measured of ten seeds, by the native
engine, stands with each test.
"""

import json

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from elegans.experiments import run_experiment
from elegans.studies.induction_heads import (
    induction_phases as phases,
    out_of_distribution as priors,
    positional_profile as positions,
)
from elegans.studies.induction_heads.encodings import encodings
from elegans.studies.induction_heads.plots import chain_distances, chain_losses
from elegans.studies.induction_heads.probes import AttentionScores, ChainLosses, PositionalProfile
from elegans.studies.induction_heads.settings import transformer
from elegans.studies.induction_heads.tables import curves, series_of, transitions, typical
from elegans.sweeps import Sweep
from elegans.training.engines import ENGINES

OTHERS = tuple(priors.OTHERS.values())
native = pytest.mark.skipif(ENGINES["attention"].unavailable() is not None, reason="minutes without the native engine")
STEPS = range(0, 1001, 100)


def made(moved=500, previous=16.0, seed=0, **changes):
    """A run by hand: unigrams from step 100, bigrams from ``moved`` on; its first layer ends at ``previous``."""
    step = np.array(STEPS)
    late = step >= moved
    loss = np.select([step == 0, late], [0.2, 0.02], 0.08)
    lines = {"line.uniform": 0.2, "line.unigram": 0.09, "line.bigram": 0.01}
    phase = np.select([step == 0, late], ["uniform", "bigram"], "unigram")
    masses = {"previous": np.where(late, previous, 1.0), "induction": np.where(late, 1.5, 1.0), "parity_bias": 0.1}
    named = {"trial": seed, "seed": seed, "cell": "k = 2", "series": "k = 2", "uniform_previous": 1.0}
    columns = {"step": step, "sequences": 64 * step, "loss": loss, "phase": phase, **named, **masses, **lines}
    distances = {f"distance.{name}": loss for name in ("uniform", "unigram", "bigram")}
    return pd.DataFrame(columns | distances | changes)


def test_what_a_run_shows_and_which_claims_hold():
    one = phases.stated(made())
    assert one["phases"] == ["uniform", "unigram", "bigram"] and one["changes"] == 2
    assert (one["uniform_at"], one["unigram_at"], one["bigram_at"], one["transition"]) == (0, 100, 500, 500)
    assert one["plateau_length"] == 400 and one["plateau_least"] == pytest.approx(0.08 / 0.09)
    assert one["final_unigram"] == pytest.approx(2 / 9) and one["final_bigram"] == pytest.approx(2)
    assert (one["previous_early"], one["previous_late"], one["parity_share"]) == (1, 16, 1)
    assert all(phases.claims(one).values())


@pytest.mark.parametrize(
    ("changes", "failing"),
    [
        ({"phase": ["uniform"] + ["bigram"] * 10}, {"order", "plateau", "parity"}),
        ({"line.bigram": 0.005}, {"learned"}),
        ({"line.unigram": 0.12}, {"plateau"}),
        ({"parity_bias": -0.1}, {"parity"}),
        ({"previous": 0.1}, {"previous"}),
    ],
)
def test_each_claim_fails_by_itself(changes, failing):
    held = phases.claims(phases.stated(made(**changes)))
    assert {name for name, holds in held.items() if not holds} == failing


def test_a_run_that_never_leaves_unigrams_has_no_transition():
    one = phases.stated(made(moved=2000))
    assert np.isnan(one["transition"]) and np.isnan(one["bigram_at"]) and one["plateau_length"] == 900
    held = phases.claims(one)
    assert held["plateau"] and not held["order"] and not held["learned"]


def test_typical_trials_have_the_median_transition_and_mirrored_ones_are_told_apart():
    table = pd.concat([made(moved=moved, seed=seed) for seed, moved in enumerate((300, 900, 2000, 500))])
    assert table["seed"][typical(table, transitions(table))].unique() == [3]
    found = series_of(pd.concat([table, made(previous=0.2, seed=4)]).reset_index())
    assert found.groupby(found.index // len(STEPS)).unique().str[0].tolist() == ["k = 2"] * 4 + ["k = 2, mirrored"]


@pytest.fixture(scope="module")
def results(trained):
    """A short training of a small network, measured at steps 0, 20 and 40."""
    others = ChainLosses(every=20, examples=64, priors=OTHERS)
    probes = [others, AttentionScores(every=20, examples=16), PositionalProfile(every=20)]
    return trained(Sweep.of((transformer(3, 12, batch_size=8, steps=40, width=8),), 1), probes)


def test_curves_have_the_losses_on_every_distribution_of_chains(results):
    own, other = curves(results), curves(results, "unigram")
    taken = results.measures["chain-losses"]
    assert own["sequences"].tolist() == [0, 160, 320] and own["phase"].iloc[0] == "uniform"
    assert own["loss"].tolist() == taken["loss"].tolist() and other["loss"].tolist() == taken["unigram.loss"].tolist()
    assert other["line.unigram"].iloc[0] == taken["unigram.line.unigram"][0] != own["line.unigram"].iloc[0]
    assert set(own) == set(other) and not any("." in name.partition(".")[2] for name in own)
    assert transitions(own).isna().all()


def test_trials_that_did_not_run_to_their_end_have_no_curves(results):
    assert curves(type(results)(results.trials.assign(state="interrupted"), results.measures, results.sweep)).empty


def test_encodings_are_of_the_beginning_before_the_transition_and_of_the_end(results):
    profiles = results.measures["positional-profile"]
    found = encodings(profiles, 40)
    assert found.groupby("moment", sort=False)["step"].first().to_dict() == {
        "start": 0,
        "plateau": 20,
        "before": 20,
        "end": 40,
    }
    assert found.groupby(["moment", "symbol"])["encoding"].sum().tolist() == pytest.approx([1] * 12)
    mean = found[found["moment"] == "end"].groupby("distance")["encoding"].mean()
    assert mean.tolist() == pytest.approx(profiles["encoding"][2][0])


def test_profiles_are_those_that_were_measured(results):
    found = positions.analyse(results)["profiles"].pivot(index="step", columns="distance", values="profile")
    assert np.array_equal(found, np.stack(list(results.measures["positional-profile"]["profile"]))[:, 0])


def test_analyses_make_their_figures_of_any_training(results):
    for experiment in (phases.EXPERIMENT, positions.EXPERIMENT, priors.EXPERIMENT):
        tables = experiment.analyse(results)
        json.dumps(experiment.findings(tables))
        assert experiment.plot(tables).axes


def test_losses_have_a_line_a_strategy_and_distances_the_shade_of_the_closest():
    left, right = Figure().subplots(1, 2)
    chain_losses(left, made())
    assert sorted(line.get_ydata()[0] for line in left.lines[1:]) == [0.01, 0.09]
    chain_distances(right, made())
    assert [round(span.get_x() + span.get_width()) for span in right.patches] == [6400, 32000, 64000]


@pytest.fixture(scope="module")
def short(trained):
    """Three trainings on three symbols and 50 tokens, 1200 steps of 32 sequences."""
    every = 16
    probes = [ChainLosses(every=every, priors=OTHERS), AttentionScores(every=every), PositionalProfile(every=every)]
    return trained(Sweep.of((transformer(3, 50, batch_size=32, steps=1200),), 3), probes)


@native
@pytest.mark.slow
def test_phases_come_in_order_and_claims_hold(short):
    """All five claims held of ten seeds of ten, so that they fail of fewer than 26% of seeds at 95% confidence.

    Measured: unigram closest from steps 32 to 48, the transition at 560 to 944; on the plateau a least loss of 0.92 to
    1.00 of unigram's (asked: 0.75 to 1.25) and a positive parity bias at 85% of measurements or more; at the end 0.37
    to 0.42 of unigram's loss (asked: 0.5) and 1.38 to 1.55 of bigram's (2.5); on the previous token 1.04 to 1.08 of
    uniform mass at 60% of the transition (1.5) and 8.2 to 8.6 at the end (5)."""
    for _, run in phases.analyse(short)["curves"].groupby("seed"):
        one = phases.stated(run)
        assert all(phases.claims(one).values()), one
        assert one["unigram_at"] <= 100 and 400 < one["transition"] < 1150


@native
@pytest.mark.slow
def test_odd_numbers_of_tokens_back_are_favoured_before_the_drop(short):
    """Of ten seeds of ten 1, 3 and 5 tokens back have more than their neighbours at 90% of the time to the transition.

    The bias was 0.138 to 0.435 there, and had a tenth of its size at the transition earlier by 14% to 23% of that."""
    for _, run in positions.analyse(short)["curves"].groupby("seed"):
        one = positions.stated(run)
        assert one["odd"] == 1 and one["parity_bias"] > 0.05
        assert one["lead_tenth"] > 0.05


@native
@pytest.mark.slow
def test_other_distributions_of_chains_tell_unigrams_from_bigrams(short):
    """All five claims held of ten seeds of ten, so that they fail of fewer than 26% of seeds at 95% confidence.

    Measured: at unigram's loss by steps 48 to 72, transitions at 552 to 936; on the plateau 0.25 to 0.27 of uniform
    guesses' loss on independent tokens (asked: 0.5) and 1.00 to 1.04 of it on doubly stochastic chains (0.8), which
    falls below half at 1.00 to 1.04 of the transition (0.7 to 1.3) and ends at 0.94 to 1.03 of that on
    the own distribution (1.25)."""
    for _, run in priors.analyse(short)["curves"].groupby("seed"):
        one = priors.stated(run)
        assert all(priors.claims(one).values()), one


@pytest.mark.slow
@pytest.mark.compiles
@pytest.mark.parametrize("name", ["induction-phases", "positional-profile", "out-of-distribution"])
def test_each_experiment_writes_figure_tables_and_findings(name, tmp_path):
    result = run_experiment(name, "smoke", out=tmp_path)
    assert all(path.stat().st_size > 0 for path in result.files.values())
    record = json.loads(result.files["record"].read_text())
    assert record["findings"] and record["failed"] == 0
    assert len(pd.read_csv(result.files["curves"])) == len(result.tables["curves"]) > 0
