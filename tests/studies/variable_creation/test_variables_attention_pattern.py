"""attention-pattern: what is made of its trials, and the published pattern itself."""

import numpy as np
import pandas as pd
import pytest

import elegans as el
from elegans import theory
from elegans.experiments import EXPERIMENTS
from elegans.experiments.results import Results, StoredResults
from elegans.studies.variable_creation import attention_pattern as pattern
from elegans.studies.variable_creation.probes import ClassWeights, IrrelevantBits, SelectionHeads
from elegans.training.engines import ENGINES

NATIVE = ENGINES["bits"].unavailable() is None


def untrained(one, place, steps):
    """What the probes measure of a trial that has not moved: its initial weights, at two steps."""
    parameters = one.model.initialise(one.key("init"), one.task)
    memory = {}

    def snapshot(step):
        hidden = one.task.draw(one.key("task"))
        return el.Snapshot(step, one.task, one.model, hidden, 40, one.key, lambda: parameters, lambda *_: 0, memory)

    def measured(probe):
        rows = [{"trial": place, "seed": one.seed, "step": step, **probe.measure(snapshot(step))} for step in steps]
        return pd.DataFrame(rows)

    probes = (SelectionHeads(examples=300), ClassWeights(examples=20), IrrelevantBits(examples=500))
    return {probe.kind: measured(probe) for probe in probes}


@pytest.fixture(scope="module")
def tables():
    """The tables of three trials that have not moved."""
    sweep = el.Sweep.of(pattern.arms(12, 40, (1, 5, 8), steps=40, width=16))
    taken = [untrained(one, place, (0, 40)) for place, one in enumerate(sweep)]
    measures = {kind: pd.concat([own[kind] for own in taken], ignore_index=True) for kind in taken[0]}
    trials = pd.DataFrame({"state": 3 * ["unsolved"], "solved_at": np.nan, "test_error": 0.25})
    return pattern.analyse(Results(trials, measures, sweep))


def test_the_laptop_scale_is_the_published_size_and_begins_as_it_says():
    cells = pattern.published()
    assert [pattern._arm(cell) for cell in cells] == list(pattern.ARMS)
    for cell in cells:
        assert (cell.task.n, cell.task.k, cell.task.support) == (50, 3, (5, 20, 30))
        assert (cell.regime.size, cell.training.steps, cell.training.batch_size) == (300, 500, 300)
        assert (cell.model.width, cell.model.heads, cell.model.head_width) == (64, 1, 64)
    assert [cell.model.dropout for cell in cells] == [0.1, None, None]


def test_the_tables_have_the_measures_of_each_trial_and_single_weights_of_each_arm(tables):
    heads, weights = tables["heads"], tables["weights"]
    assert heads.groupby("arm").size().to_dict() == dict.fromkeys(pattern.ARMS, 2)
    assert weights.groupby("arm").size().to_dict() == dict.fromkeys([*pattern.ARMS, "construction"], 20 * 13)
    assert weights.groupby(["arm", "example"])["weight"].sum().to_numpy() == pytest.approx(1, abs=1e-5)
    one = pattern.EXPERIMENT.scales["smoke"].cells(1).cells[0]
    x, y = one.task.examples(np.array([1, 5, 8]), one.key("test"), np.arange(20, dtype=np.uint32))
    bits = weights[(weights["arm"] == pattern.TRAINED) & (weights["place"] < 12)]["bit"].to_numpy(int).reshape(20, 12)
    assert np.array_equal(2 * bits - 1, x) and set(weights.loc[weights["relevant"] == 1, "place"]) == {1, 5, 8}
    assert np.array_equal(bits[:, [1, 5, 8]].all(axis=1), y > 0)
    single = weights[(weights["arm"] == pattern.TRAINED)]["weight"].to_numpy(float).reshape(20, 13)
    own = heads[heads["arm"] == pattern.TRAINED].iloc[0]
    assert own["support_positive"] == pytest.approx(single[y > 0][:, [1, 5, 8]].sum(axis=1).mean())
    assert own["mean_other_negative"] == pytest.approx(np.delete(single[y < 0], [1, 5, 8, 12], axis=1).mean())


def test_bits_off_the_support_change_nothing_of_the_construction_and_much_of_other_networks(tables):
    last = tables["heads"].groupby("arm").last()
    assert last.loc[pattern.BEGUN, "changed"] == 0
    assert last.loc[pattern.BEGUN, "explained"] == pytest.approx(1, abs=1e-5)
    assert last.loc[pattern.PLAIN, "explained"] < 0.9
    assert (last["other_95"] >= last["mean_other"]).all()


def test_the_construction_is_what_theory_says_and_the_trial_begun_there_is_at_it(tables):
    found = pattern.findings(tables)
    gap = theory.selection_gap(12, 3, 2 / 3)
    below = (3 * np.exp(gap) + 10) / 13
    begun = found[pattern.BEGUN]
    for name in ("uniform_over_mean_other", "uniform_over_mean_other_most", "uniform_over_mean_other_on_negatives"):
        assert begun[name]["median"] == pytest.approx(below, rel=1e-3)
        assert (begun["at_least_5_below"][name], found[pattern.TRAINED]["at_least_5_below"][name]) == (1, 0)
    assert begun["gap"]["median"] == pytest.approx(gap, rel=1e-3)
    for arm in pattern.ARMS:
        assert found[arm]["construction"]["distance"] == pytest.approx(begun["distance"]["median"], rel=1e-3)
        assert (found[arm]["trials"], found[arm]["solved"], found[arm]["solved_at"]["reached"]) == (1, 0, "0 of 1")
        assert found[arm]["test_error"]["range"][1] == 0.25


def test_the_figure_has_a_panel_for_each_network_and_three_for_all(tables):
    drawn = pattern.plot(tables).axes
    names = [ax.get_title(loc="left").partition("  ")[2].partition(":")[0].lower() for ax in drawn[:3]]
    assert names == [pattern.TRAINED, pattern.PLAIN, "construction"]
    alone = {kind: table[table["arm"] == pattern.TRAINED] for kind, table in tables.items()}
    assert len(drawn) == 6 and len(pattern.plot(alone).axes) == 4


@pytest.mark.slow
@pytest.mark.skipif(not NATIVE, reason="its error rate is that of the bits engine")
def test_the_pattern_appears_at_the_published_size():
    """Seeds 0 to 9 had 45 and 492 at the least, .78 against .15, and .998.

    The average weight of an irrelevant position falls far below a fifth of uniform; at the end it is so small where a
    condition is violated, and not where none is, since there nothing has to be attended to.
    """
    cell = pattern.published()[0]
    sweep = el.grid(cell, {}, seeds=(100, 101))
    with el.Store() as store:
        el.run(sweep, store, probes=pattern.probes(cell))
        found = pattern.findings(pattern.analyse(StoredResults(store, sweep)))[pattern.TRAINED]
    assert found["solved"] == 2 and found["test_error"]["range"][1] == 0
    assert found["uniform_over_mean_other_most"]["range"][0] > 9
    assert found["uniform_over_mean_other_on_negatives"]["range"][0] > 50
    assert found["on_zeros"]["range"][0] > 3 * found["on_ones"]["range"][1]
    assert found["support_negative"]["range"][0] > 0.98


def test_it_is_registered():
    assert EXPERIMENTS["attention-pattern"] is pattern.EXPERIMENT
