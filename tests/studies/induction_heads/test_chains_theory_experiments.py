"""Markov chains learned in context: more symbols, three-grams, the first two steps, the curriculum.

Seeds are fixed, so on one type of machine a test passes always or never; what was measured of other seeds, by the
native engine, stands with each test.
"""

import json

import jax
import numpy as np
import pandas as pd
import pytest

from elegans import theory
from elegans.experiments import run_experiment
from elegans.studies.induction_heads import (
    curriculum,
    first_steps,
    induction_theory,
    more_symbols as symbols,
    steps,
    three_grams as trigrams,
)
from elegans.studies.induction_heads.plots import chain_stages
from elegans.studies.induction_heads.predictors import worth
from elegans.studies.induction_heads.settings import transformer
from elegans.studies.induction_heads.tables import typical
from elegans.sweeps import Sweep
from elegans.training import Margin
from elegans.training.engines import ENGINES

native = pytest.mark.skipif(ENGINES["attention"].unavailable() is not None, reason="minutes without the native engine")
STRATEGIES = ("uniform", "unigram", "bigram", "trigram")
STEPS = np.arange(0, 1501, 20)


def made(phases, losses, lines, **changes):
    """A run by hand, of as many equal parts as there are phases, each with its loss."""
    part = np.minimum(len(phases) * STEPS // STEPS[-1], len(phases) - 1)
    named = {"trial": 0, "seed": 0, "series": "3 and 3 heads", "typical": True}
    columns = {"step": STEPS, "sequences": 64 * STEPS, **named}
    columns |= {"phase": np.array(phases)[part], "loss": np.array(losses, float)[part]}
    for name, line in zip(STRATEGIES, lines, strict=False):
        columns |= {f"line.{name}": line, f"distance.{name}": columns["loss"]}
    return pd.DataFrame(columns | changes)


def staged(**changes):
    """A run through all four stages."""
    return made(STRATEGIES, (0.22, 0.14, 0.09, 0.02), (0.22, 0.14, 0.085, 0.018), **changes)


def test_what_a_run_on_three_grams_shows():
    one = trigrams.stated(staged())
    assert one["stages"] == list(STRATEGIES)
    assert (one["unigram_at"], one["bigram_at"], one["trigram_at"]) == (380, 760, 1140)
    assert (one["bigram_reached"], one["trigram_reached"], one["bigram_length"]) == (760, 1140, 380)
    assert one["fall"] == pytest.approx(0.07 / 0.067)
    assert one["final_bigram"] == pytest.approx(0.02 / 0.085) and one["final_trigram"] == pytest.approx(0.02 / 0.018)
    assert trigrams.claims(one) == {"stages": True, "trigrams": True, "stalled": False}


def test_a_run_that_stays_at_bigrams_has_stalled():
    one = trigrams.stated(made(STRATEGIES[:3], (0.22, 0.14, 0.09), (0.22, 0.14, 0.085, 0.018)))
    assert np.isnan(one["trigram_at"]) and np.isnan(one["trigram_reached"])
    assert trigrams.claims(one) == {"stages": False, "trigrams": False, "stalled": True}


def test_what_a_run_with_more_symbols_shows_and_each_claim_fails_by_itself():
    run = made(STRATEGIES[:3], (0.36, 0.32, 0.14), (0.36, 0.32, 0.1), linear=0.13)
    one = symbols.stated(run)
    assert (one["transition"], one["plateau_length"], one["plateau"]) == (1000, 500, 1)
    assert one["excess"] == pytest.approx(0.04) and one["linear_excess"] == pytest.approx(0.03)
    assert all(symbols.claims(one).values())
    changed = {"order": {"phase": "bigram"}, "plateau": {"line.unigram": 0.4}, "linear": {"linear": 0.1}}
    for name, changes in changed.items():
        held = symbols.claims(symbols.stated(run.assign(**changes)))
        assert not held[name]
    assert not symbols.claims(symbols.stated(run.assign(loss=0.3)))["learned"]


def test_linear_logits_lose_the_more_beside_bigrams_the_more_symbols_there_are():
    """On 1000 sequences of 100 tokens: 0.0149 and 0.0399 nats in the thesis' sizes, k = 2 and 3."""
    found = {k: symbols.linear_logits(transformer(k)) for k in (2, 3, 8)}
    assert found[2].loss == pytest.approx(0.0149, abs=0.002) and found[2].slope == pytest.approx(2.5, abs=0.2)
    assert found[3].loss == pytest.approx(0.0399, abs=0.004) and found[3].slope == pytest.approx(2.9, abs=0.2)
    assert found[2].loss < found[3].loss < found[8].loss


def test_of_three_grams_the_middle_one_of_those_that_reach_trigrams_is_shown():
    runs = [staged(trial=i, seed=i, loss=loss) for i, loss in enumerate((0.03, 0.01, 0.02, 0.04))]
    stalled = [made(STRATEGIES[:3], (0.22, 0.14, loss), (0.22,), trial=i, seed=i) for i, loss in ((4, 0.005), (5, 0.2))]
    table = pd.concat([*runs, *stalled], ignore_index=True)
    assert table["seed"][typical(table, trigrams.candidates(table))].unique() == [2]
    table = pd.concat(stalled, ignore_index=True)
    assert table["seed"][typical(table, trigrams.candidates(table))].unique() == [4]


def test_figures_of_stages_have_two_panels_a_series_and_lines_of_all_strategies():
    table = pd.concat([staged(), staged(trial=1, seed=1, typical=False), staged(trial=2, series="1 and 1 heads")])
    axes = chain_stages(table, "Finding", "Task").axes
    assert len(axes) == 4
    assert {text.get_text() for text in axes[0].texts} == {"unigram", "bigram", "trigram"}
    assert "linear logits" in {text.get_text() for text in chain_stages(table.assign(linear=0.1), "", "").axes[2].texts}
    assert axes[0].get_title(loc="left").endswith("3 and 3 heads: 2 trials, median")
    assert len(chain_stages(pd.concat([staged(trial=i, series=f"{i}") for i in range(4)]), "", "").axes) == 6


def test_intervals_of_means_are_student_s():
    found = steps.mean_interval(np.array([[1.0], [2.0], [3.0]]))
    assert (found["measured"], found["error"]) == (2, pytest.approx(1 / np.sqrt(3)))
    assert found["high"] - found["measured"] == pytest.approx(4.30265 / np.sqrt(3), rel=1e-5)
    assert np.isnan(steps.mean_interval(np.ones((1, 2)))["low"]).all()


def test_every_hinge_is_active_from_the_thesis_start_so_that_the_margin_loss_is_linear():
    """No logit is above c^2 t (t + 1) / 2 = 2.02 at first; a sequence of one symbol has that."""
    one = steps.one_step()
    tokens, following = one.task.examples(None, one.key("test"), np.arange(100, dtype=np.uint32))
    parameters = one.model.initialise(one.key("init"), one.task)
    logits = jax.jit(one.model.apply)(parameters, tokens)
    assert Margin(delta=2.0201).inactive(logits, following).sum() == 0
    assert Margin(delta=1.0).inactive(logits, following).sum() > 0


def test_without_unigrams_v_1_keeps_no_lead():
    """Corollary E.2, at the thesis' sizes: after a step v_1 leads v_2 by 0.115 c eta on flat rows, and by 0.0097 c eta
    on symmetric chains; after two steps v_2 has grown by 7% more than v_1, and by 118% more."""
    leads, ahead = {}, {}
    for prior in ("flat", "symmetric"):
        tensor = first_steps.tensor_of(prior, 100)
        first = theory.minimal_step(tensor, theory.minimal_constant(2, 100, 0.02, 0.02), 0.03)
        second = theory.minimal_step(tensor, first, 0.03).position
        leads[prior] = (first.position[0] - first.position[1]) / (0.02 * 0.03)
        ahead[prior] = (second[1] - second[0]) / (second[0] - 0.02)
    assert leads["flat"] == pytest.approx(0.115, abs=0.001)
    assert leads["symmetric"] < 0.15 * leads["flat"]
    assert ahead["symmetric"] > 4 * ahead["flat"] > 0


def test_what_stands_beside_v_2_grows_with_the_same_power_of_epsilon():
    """Proposition 8.5 says that it is of the sixth order; of v_4 that is so where t is far above 1 / epsilon^2."""
    rows = pd.DataFrame([curriculum.exact_weights(200, epsilon) for epsilon in (0.01, 0.02)])
    products = {name: rows["diagonal"] * rows[name] for name in ("v_2", "v_4", "v_4_alone", "others")}
    powers = {name: curriculum.slope(rows.assign(product=value), "product") for name, value in products.items()}
    assert powers == pytest.approx({"v_2": 4, "v_4": 4, "v_4_alone": 6, "others": 4}, abs=0.15)
    assert (rows["others"] > rows["v_2"]).all() and (rows["largest_other"] < 0.1 * rows["v_2"]).all()


def test_a_curriculum_s_predictor_lies_between_bigrams_and_unigrams():
    """At 50 tokens, exactly but for 1000 sequences on which it is evaluated; keeping v or a large W leaves unigrams."""
    plain, kept, large = (worth(curriculum.after(50, 0.25, *more)) for more in ((), (0.0, True), (3.0,)))
    assert plain["bigram_loss"] < plain["loss"] < 0.65 * plain["unigram_loss"]
    assert plain["bigram"] > 0.97 > plain["unigram"] > plain["counts"]
    assert kept["loss"] > 0.9 * kept["unigram_loss"] and large["loss"] > 1.3 * plain["loss"]


@pytest.mark.slow
@pytest.mark.compiles
@pytest.mark.parametrize("name", ["more-symbols", "three-grams", "first-steps", "curriculum"])
def test_each_experiment_writes_figure_tables_and_findings(name, tmp_path):
    result = run_experiment(name, "smoke", out=tmp_path)
    assert all(path.stat().st_size > 0 for path in result.files.values())
    record = json.loads(result.files["record"].read_text())
    assert record["findings"] and record["failed"] == 0
    for name, table in result.tables.items():
        assert len(pd.read_csv(result.files[name])) == len(table) > 0


def error_of(rows):
    """Errors of measured values, in standard errors."""
    return ((rows["measured"] - rows["exact"]) / rows["error"]).abs()


@pytest.mark.slow
def test_steps_on_sequences_are_the_exact_ones(trained):
    """3200 sequences of 100 tokens in 32 minibatches, 516 values: 6 standard errors are exceeded by one of them with
    probability 0.001 (Student's distribution with 31 degrees of freedom), were they independent; they rise and fall
    together. After two steps v_2 is the largest, exactly and as measured."""
    sweep = first_steps.steps(32, 100, 100)
    tables = first_steps.analyse(trained(sweep, first_steps.EXPERIMENT.probes))
    for name in ("pair", "position", "diagonal"):
        assert error_of(tables[name]).max() < 6
        known = tables[name].dropna(subset=["sampled"])
        known = known[known["sampled_error"] > steps.ROUNDING]
        assert ((known["sampled"] - known["exact"]) / known["sampled_error"]).abs().max() < 5
    for prior in ("flat", "symmetric"):
        last = tables["position"].query(f"prior == '{prior}' and step == 2")
        assert last["exact"].to_numpy().argmax() == last["measured"].to_numpy().argmax() == 1
    diagonal = tables["diagonal"]["measured"].to_numpy()
    assert diagonal[1] > diagonal[0] and diagonal[1] > diagonal[2] < diagonal[3] > diagonal[4]


@pytest.mark.compiles
@pytest.mark.slow
def test_a_curriculum_on_sequences_ends_at_the_exact_weights(trained):
    """8192 sequences of 20 tokens in 64 minibatches: 5 standard errors are exceeded by one of 24 values with
    probability 0.0001."""
    one = curriculum.second_step(20, 0.25, 128)
    tables = curriculum.analyse(trained(Sweep.of((one,), 64), curriculum.EXPERIMENT.probes))
    errors = pd.concat([error_of(tables[name]) for name in ("pair", "position")])
    assert len(errors) == 24 and errors.max() < 5
    pair = tables["pair"].set_index("entry")["measured"]
    assert pair[["11", "22"]].min() > 10 * pair[["12", "21"]].abs().max()


@pytest.mark.compiles
@pytest.mark.slow
def test_either_order_of_learning_rates_gives_good_predictors():
    """Of ``two_step_curriculum``: 8.3.2 needs the first to be ten times the second, E.1 the opposite."""
    rates = induction_theory.rate_grid(100, induction_theory.DECADES["smoke"])
    over = induction_theory.findings({"rates": rates})["first_over_second_learning_rate"]
    assert over["least"] < 0.1 and over["most"] > 10
