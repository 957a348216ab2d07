"""Searches over parities: counted exactly, as lucky as theory says, and in the same table as networks."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

import elegans as el
from elegans import theory
from elegans.errors import EngineError, TrialError
from elegans.learners import search as search_module
from elegans.learners.base import LearnerData
from elegans.learners.search import Sheet, SubsetSearch, unrank

TO_THE_END = el.StoppingRule(stop=False, every=2**31, examples=50)
SEARCH = el.Trial(task=el.SparseParity(n=12, k=2), regime=el.Sample(40), model=SubsetSearch())
NETWORK = el.Trial(
    task=el.SparseParity(n=12, k=2), regime=el.Sample(40), model=el.MLP(width=4), training=el.SGD(steps=10)
)


def search(n, k, m, seed=0, **fields):
    model = SubsetSearch(**{"stopping": TO_THE_END, **fields})
    return el.Trial(task=el.SparseParity(n=n, k=k), regime=el.Sample(m), model=model, seed=seed)


def support(trial):
    return trial.task.draw(trial.key("task")).tolist()


def lesson(trial):
    return LearnerData(trial.task, trial.regime, trial.task.draw(trial.key("task")), trial.key)


@given(n=st.integers(1, 9), data=st.data())
def test_every_subset_has_its_place(n, data):
    k = data.draw(st.integers(1, n))
    found = unrank(np.arange(math.comb(n, k)), n, k)
    assert (np.diff(found, axis=1) < 0).all()
    assert {frozenset(row) for row in found.tolist()} == {frozenset(s) for s in itertools.combinations(range(n), k)}


@given(n=st.integers(1, 70), m=st.integers(1, 200), k=st.integers(1, 4), noise=st.sampled_from([0.0, 0.3]))
def test_mistakes_are_counted_exactly(n, m, k, noise):
    k = min(k, n)
    trial = search(n, k, m).replace("task.noise", noise)
    supports = el.random.subsets(el.random.stream(1, "probe"), rows=5, n=n, size=k)
    x, y = lesson(trial).examples(np.arange(m, dtype=np.uint32))
    expected = [int((x[:, row].prod(axis=1) != y).sum()) for row in supports]
    assert Sheet(lesson(trial), 0, m).mistakes(supports).tolist() == expected


def test_a_random_order_holds_every_parity_once():
    course = search(9, 3, 10, order="random").model.begin(lesson(search(9, 3, 10)))
    found = {frozenset(row) for row in course._supports(np.arange(84)).tolist()}
    assert len(found) == 84


def test_a_random_order_is_the_same_kept_or_drawn_bit_by_bit(monkeypatch):
    trial = search(12, 3, 20, order="random", parallel=7, steps=20)
    kept = el.train(trial)
    monkeypatch.setattr(search_module, "KEPT", 0)
    assert el.train(trial).curve == kept.curve


@pytest.mark.parametrize(("parallel", "rounds"), [(1, 19600), (1000, 20), (19600, 1), (10**6, 1)])
def test_exhaustive_search_takes_all_its_rounds_and_finds_the_support(parallel, rounds):
    trial = search(50, 3, 100, parallel=parallel)
    assert trial.steps == rounds == theory.parallel_search(50, 3, parallel).steps
    outcome = el.train(trial)
    assert (outcome.state, outcome.steps, outcome.test_error) == ("solved", rounds, 0.0)
    assert outcome.parameters["support"].tolist() == support(trial)


def test_a_search_of_all_parities_of_four_among_fifty_is_no_burden():
    outcome = el.train(search(50, 4, 1000, parallel=1000))
    assert (outcome.steps, outcome.train_error) == (231, 0.0)
    assert outcome.parameters["support"].tolist() == support(outcome.trial)


def test_exhaustive_search_is_right_as_often_as_the_sample_allows():
    """At least 1 - 119 / 2^9 of 400 seeds; fails for one set of seeds in 10^4 at the most."""
    least = 1 - (math.comb(10, 3) - 1) * 2.0**-9
    right = 0
    for seed in range(400):
        outcome = el.train(search(10, 3, 9, seed))
        right += outcome.parameters["support"].tolist() == support(outcome.trial)
    assert stats.binom.cdf(right, 400, least) > 1e-4
    assert right < 400  # nine examples do leave others consistent: 23% of the time one at least, half of them earlier


@pytest.mark.slow
@pytest.mark.parametrize(("parallel", "steps"), [(1, 20), (4, 5)])
def test_random_search_is_as_lucky_as_its_share_of_all_parities(parallel, steps):
    """q / C(n, k) = 20 / 66 of 120 seeds; a two-sided test that fails for one set of seeds in 10^4."""
    luck = theory.random_subset_search(12, 2, parallel, steps).success
    assert luck == theory.random_subset_search(12, 2, 1, 20).success
    states = [
        el.train(search(12, 2, 60, seed, order="random", parallel=parallel, steps=steps)).solved for seed in range(120)
    ]
    assert stats.binomtest(sum(states), 120, float(luck)).pvalue > 1e-4


def test_a_random_search_of_everything_always_finds_the_support():
    assert all(el.train(search(12, 2, 60, seed, order="random", parallel=16)).solved for seed in range(20))


def test_a_search_stops_where_it_is_first_solved():
    fields = {"stopping": el.StoppingRule(every=1, examples=200), "order": "random"}
    outcome = el.train(search(12, 2, 60, **fields))
    assert outcome.solved_at == outcome.steps < 66
    assert outcome.curve.loss[-1] > 0  # the mean over rounds before the one that found it
    again = el.train(search(12, 2, 60, **{**fields, "steps": outcome.steps - 1}))
    assert (again.state, again.steps) == ("unsolved", outcome.steps - 1)


def test_a_search_online_draws_fresh_examples_each_round():
    trial = search(12, 2, 60, examples=64).replace("regime", "online")
    assert el.train(trial).parameters["support"].tolist() == support(trial)
    first = el.train(search(12, 2, 60, examples=64, steps=1).replace("regime", "online"))
    assert first.train_error is None and first.curve.loss == [1.0]


def test_examples_of_a_sample_are_its_first():
    few, all_of_it = search(12, 2, 30), search(12, 2, 500, examples=30)
    assert el.train(few).curve == el.train(all_of_it).curve


def test_searches_and_networks_land_in_one_table(tmp_path):
    sweep = el.grid(SEARCH, {"model.order": ["exhaustive", "random"], "model.parallel": [1, 8]}, seeds=2)
    sweep = sweep + el.grid(NETWORK, {"model.width": [4, 6]}, seeds=2)
    table = el.run(sweep, tmp_path / "both.db")
    assert len(table) == 12
    assert table[table.engine == "learner"]["state"].eq("solved").all()
    assert set(table["model"]) == {"subset-search:exhaustive", "subset-search:random", "mlp"}
    assert table["training"].isna().sum() == 8
    with el.Store(tmp_path / "both.db") as store:
        assert len(store.table(where={"model.parallel": 8})) == 4
        outcome = store.outcome(next(iter(sweep)))
        assert outcome.trial.training is None and outcome.solved
    again = el.run(sweep, tmp_path / "both.db")
    assert again.seconds.equals(table.seconds)


def test_a_trial_without_training_is_written_and_read():
    assert el.Trial.from_json(SEARCH.to_json()) == SEARCH
    assert el.Trial.from_toml(SEARCH.to_toml()) == SEARCH
    assert SEARCH.replace("model.parallel", 7).model.parallel == 7
    assert len({SEARCH.identity, SEARCH.replace("model", "subset-search:random").identity}) == 2


def test_trials_of_networks_keep_their_identities():
    assert NETWORK.cell == "17b34e4ebb395b4e62e6c95133a7b0fb57b451b1e61016cac887e8c5a12e1b1f"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: NETWORK.replace("training", None), "training must be given for a network: model='mlp', training=None"),
        (
            lambda: SEARCH.replace("training", el.SGD(steps=5)),
            "training must be None for a learner that is not a network: model='subset-search', training='sgd'",
        ),
        (
            lambda: NETWORK.replace("training.loss", "cross-entropy"),
            "the loss must fit the outputs: 'cross-entropy' takes an output for each class, outputs=1",
        ),
        (
            lambda: SEARCH.replace("regime", "split:0.5"),
            "a split must feed a network that trains by minibatches: model='subset-search'",
        ),
        (
            lambda: SEARCH.replace("regime", "online"),
            "examples of subset-search must be given without a sample: regime='online'",
        ),
        (
            lambda: SEARCH.replace("task", el.SparseParity(n=300, k=6)),
            "C(n, k) must be at most 2^30 for a search: n=300, k=6, C(n, k)=962822846700",
        ),
        (lambda: SEARCH.replace("training.steps", 5), "'training' of Trial has no fields of its own: 'training.steps'"),
        (lambda: SubsetSearch(order="rnadom"), "order must be one of exhaustive, random: order='rnadom'; did you"),
    ],
)
def test_bad_searches_are_refused_when_they_are_made(change, message):
    with pytest.raises(TrialError) as refused:
        change()
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("engine", "trial", "message"),
    [
        ("fused", SEARCH, "the fused engine takes no model 'subset-search'"),
        ("jax", SEARCH, "the jax engine takes no model 'subset-search'"),
        ("layerwise", SEARCH, "the layerwise engine takes no model 'subset-search'"),
        ("learner", NETWORK, "the learner engine takes no network 'mlp'"),
    ],
)
def test_engines_say_what_they_do_not_take(engine, trial, message):
    with pytest.raises(EngineError, match=message):
        el.train(trial, engine=engine)
