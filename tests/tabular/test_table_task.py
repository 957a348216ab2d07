"""Tables as tasks: the split of every trial, standardisation, what learns them, exact errors, and stores."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import elegans as el
from elegans.errors import RunError, TrialError
from elegans.tabular import datasets
from elegans.tabular.datasets import load_table
from elegans.tabular.learners import Forest, TabularNetwork, exact
from elegans.tabular.network import fit
from elegans.tabular.probes import ValidationErrorRate
from elegans.tabular.table import Table

TASK = Table(name="random-tree")
KEY = el.random.stream(0, "task")


def everything(task, hidden):
    """Return the inputs and labels of a part, one row each."""
    count = len(hidden["rows"])
    return task.examples(hidden, KEY, np.arange(count, dtype=np.uint32))


def trial(size=100, task=TASK, seed=0, learner=Forest, **fields):
    given = {"hidden": (20, 10), "epochs": 5} if learner is TabularNetwork else {"n_estimators": 5}
    model = learner(**{**given, **fields, "stopping": exact(task)})
    return el.Trial(task=task, regime=el.Sample(size), model=model, seed=seed)


@pytest.fixture
def table(tmp_path):
    """A table of 50 rows whose first feature numbers the rows, whose second is constant, and whose third is far off."""
    number = np.arange(50)
    x = np.stack([number, np.full(50, 7), 1e4 + number % 3], axis=1)
    names = {"feature_names": ["number", "seven", "third"], "class_names": ["no", "yes"]}
    np.savez(tmp_path / "own.npz", X=x, y=number % 2, **names)
    return str(tmp_path / "own.npz")


def test_a_trial_splits_all_rows_into_test_pool_and_validation():
    hidden = TASK.draw(KEY)
    sizes = TASK.held_out_rows, TASK.pool_rows, TASK.validation_rows, TASK.training_rows
    assert sizes == (400, 3600, 400, 3200)
    assert (len(hidden["others"]), len(hidden["rows"])) == sizes[:2]
    assert np.array_equal(np.sort(np.concatenate([hidden["others"], hidden["rows"]])), np.arange(4000))


def test_the_split_is_drawn_anew_in_every_trial_and_alike_for_every_model():
    drawn = [trial(seed=seed).task.draw(trial(seed=seed).key("task"))["rows"] for seed in (0, 1)]
    assert not np.array_equal(*drawn)
    other = trial(learner=TabularNetwork)
    assert np.array_equal(other.task.draw(other.key("task"))["rows"], drawn[0])


def test_every_row_is_equally_likely_in_the_test_part():
    """200 splits of 4000 rows into 10% and 90%: counts are binomial, and their largest deviation has a chance of
    4000 x 2 x exp(-2 x 200 x 0.2^2) = 0.001 to exceed 40."""
    counts = np.zeros(4000)
    for seed in range(200):
        counts[TASK.draw(el.random.stream(seed, "task"))["others"]] += 1
    assert abs(counts - 20).max() < 40 and counts.sum() == 200 * 400


def test_examples_are_the_tables_rows_standardised_with_their_classes(table):
    task = Table(name=table)
    hidden = task.draw(KEY)
    x, y = everything(task, hidden)
    number = np.rint(x[:, 0] * np.arange(50).std() + 24.5).astype(int)
    assert np.array_equal(number, hidden["rows"]) and np.array_equal(y, 2 * (number % 2) - 1)
    assert (x[:, 1] == 0).all()
    held_out = everything(task, task.held_out(hidden))[0]
    whole = np.concatenate([x, held_out])
    assert (x.dtype, y.dtype) == (np.float32, np.float32)
    np.testing.assert_allclose(whole[:, [0, 2]].mean(axis=0), 0, atol=2e-3)  # the third in float32 is coarse
    np.testing.assert_allclose(whole[:, [0, 2]].std(axis=0), 1, atol=2e-3)


def test_the_pool_may_be_what_features_are_standardised_by():
    task = Table(name="random-tree", standardised_by="pool")
    hidden = task.draw(KEY)
    x, held_out = everything(task, hidden)[0], everything(task, task.held_out(hidden))[0]
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(x.std(axis=0), 1, atol=1e-5)
    assert abs(held_out.mean(axis=0)).max() > 0.01


def test_what_goes_beyond_a_part_begins_again():
    hidden = TASK.held_out(TASK.draw(KEY))
    index = np.arange(800, dtype=np.uint32)
    x, y = TASK.examples(hidden, KEY, index)
    assert np.array_equal(x[:400], x[400:]) and np.array_equal(y[:400], y[400:])


def test_compiled_programs_see_the_same_rows():
    hidden = TASK.draw(KEY)
    index = np.arange(50, dtype=np.uint32)
    for ours, theirs in zip(
        TASK.examples(hidden, KEY, index),
        jax.jit(lambda index: TASK.examples(hidden, KEY, index))(index),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_networks_of_the_other_engines_learn_tables_too():
    training = el.SGD(learning_rate=0.1, batch_size=32, steps=300, stopping=exact(Table(name="breast-cancer")))
    one = el.Trial(task=Table(name="breast-cancer"), regime=el.Sample(300), model=el.MLP(width=20), training=training)
    assert el.train(one).test_error < 0.2


def test_a_forest_is_the_librarys_and_its_errors_are_exact():
    one = trial(500, n_estimators=7, max_depth=4, max_features=3)
    outcome = el.train(one, probes=[ValidationErrorRate(every=10**6)])
    hidden = TASK.draw(one.key("task"))
    data = load_table("random-tree")
    x = ((data.x - hidden["mean"]) / hidden["deviation"]).astype(np.float32)
    forest = RandomForestClassifier(7, max_depth=4, max_features=3, random_state=int(one.key("init").low))
    forest.fit(x[hidden["rows"][:500]], data.y[hidden["rows"][:500]])

    def error(rows):
        return (forest.predict(x[rows]) != data.y[rows]).mean()

    assert outcome.test_error == error(hidden["others"])
    assert outcome.train_error == error(hidden["rows"][:400])  # as many as are held out
    assert outcome.measures["validation-error"]["error"][-1] == error(hidden["rows"][3200:])


def test_a_network_is_that_of_a_fit_without_trials():
    one = trial(300, learner=TabularNetwork, init="sparse:3", optimiser="adamw", learning_rate=0.01)
    outcome = el.train(one)
    hidden = TASK.draw(one.key("task"))
    data = load_table("random-tree")
    x = ((data.x - hidden["mean"]) / hidden["deviation"]).astype(np.float32)
    rows, key = hidden["rows"][:300], one.key("init")
    alone = fit(x[rows], data.y[rows], one.model.settings, [key.high << 32 | key.low])
    for ours, theirs in zip(outcome.parameters["layers"], alone.layers, strict=True):
        np.testing.assert_allclose(ours, theirs[0], atol=1e-6)
    wrong = (alone.outputs(x[hidden["others"]])[0, :, 0] > 0) != data.y[hidden["others"]]
    assert outcome.test_error == pytest.approx(wrong.mean(), abs=1e-9)
    assert outcome.steps == 5 and outcome.curve.step[-1] == 5


def test_adamw_learns_what_the_sample_says():
    one = trial(300, Table(name="breast-cancer"), learner=TabularNetwork, optimiser="adamw", epochs=60)
    outcome = el.train(one)
    assert outcome.train_error < 0.05 and outcome.test_error < 0.15


@pytest.mark.slow
def test_trials_on_tables_are_read_back_from_a_store_in_another_process(tmp_path):
    """The kinds are known wherever trials are, without a further import."""
    import subprocess
    import sys

    trials = [trial(60), trial(60, learner=TabularNetwork)]
    store = tmp_path / "runs.db"
    table = el.run(el.Sweep(tuple((one, range(2)) for one in trials)), store, probes=[ValidationErrorRate(every=10**6)])
    assert set(table["model"]) == {"forest:5", "tabular-network"} and table["test_error"].between(0, 1).all()
    program = (
        "import elegans as el\n"
        f"store = el.Store({str(store)!r})\n"
        f"found = el.Trial.from_json({trials[1].to_json()!r})\n"
        "print(found.identity, store.outcome(found).measures['validation-error']['step'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == trials[1].identity and "5]" in done.stdout


OTHER = el.SparseParity(n=10, k=2)
REFUSED = [
    (TASK, el.Sample(3201), {}, "a sample of random-tree must have from 2 rows to 3200, which excludes its validation"),
    (TASK, el.Sample(1), {}, "a sample of random-tree must have from 2 rows to 3200"),
    (TASK, el.Online(), {}, "forest must have a sample: regime='online'"),
    (TASK, el.Sample(9), {"stopping": {"examples": 100}}, "stopping.examples must be the 400 held-out rows"),
    (TASK, el.Sample(9), {"max_features": 21}, "max_features must be at most the number of features: max_features=21"),
    (OTHER, el.Sample(9), {}, "forest must learn a table: task='sparse-parity'"),
]


@pytest.mark.parametrize(("task", "regime", "fields", "message"), REFUSED)
def test_what_does_not_fit_is_refused_before_anything_runs(task, regime, fields, message):
    with pytest.raises(TrialError, match=message):
        el.Trial(task=task, regime=regime, model=Forest(**{"stopping": exact(TASK), **fields}))


def test_more_non_zeros_than_features_are_refused():
    with pytest.raises(TrialError, match="nonzeros of a sparse init must be at most n: nonzeros=21, n=20"):
        trial(learner=TabularNetwork, init="sparse:21")


def test_tables_too_small_to_split_are_refused(tmp_path):
    names = {"feature_names": ["a"], "class_names": ["no", "yes"]}
    np.savez(tmp_path / "tiny.npz", X=np.ones((4, 1)), y=[0, 1, 0, 1], **names)
    with pytest.raises(TrialError, match="every part of a table must have a row"):
        Table(name=str(tmp_path / "tiny.npz"))


def test_a_table_that_does_not_exist_is_refused_when_its_rows_are_asked_for(monkeypatch):
    monkeypatch.delenv(datasets.FOLDER, raising=False)
    with pytest.raises(TrialError, match="did you mean 'random-tree'"):
        _ = Table(name="random-trees").input_size


def test_a_sample_of_one_class_fails_with_the_rule(table):
    task = Table(name=table)
    seed = next(seed for seed in range(100) if len(set(task.draw(el.random.stream(seed, "task"))["rows"][:2] % 2)) == 1)
    with pytest.raises(TrialError, match="a sample must have rows of both classes: size=2, of the second"):
        el.train(trial(2, task, seed=seed))
    with pytest.raises(RunError, match="1 of 1 trial failed .*a sample must have rows of both classes"):
        el.run(el.Sweep(((trial(2, task), (seed,)),)))


def test_the_validation_error_needs_a_table():
    one = el.Trial(task=OTHER, regime=el.Sample(9), model=el.learners.SubsetSearch())
    with pytest.raises(TrialError, match="validation-error needs a learner of a table"):
        el.train(one, probes=[ValidationErrorRate()])


SWEEP = """
from threadpoolctl import threadpool_info
import elegans as el
from elegans import _native
from elegans.tabular.learners import exact

epoch, seen = _native.dense_epoch, set()

def watched(*args, **options):
    seen.update(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")
    return epoch(*args, **options)

_native.dense_epoch = watched
task = el.tabular.Table(name="breast-cancer")
model = el.tabular.TabularNetwork(hidden=(20,), epochs=3, stopping=exact(task))
trial = el.Trial(task=task, regime=el.Sample(100), model=model)
for workers in (2, 1):
    seen.clear()
    table = el.run(el.grid(trial, {}, seeds=6), "sqlite:///:memory:", workers=workers)
    print(len(table), *seen)
"""


@pytest.mark.slow
def test_small_networks_of_a_sweep_use_one_thread_each(tmp_path):
    """In a new process, since a library that is loaded after its threads were limited would use all of them."""
    command = [sys.executable, "-c", SWEEP]
    variables = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120, env=variables)
    assert (done.stdout.splitlines(), done.returncode) == (["6 1"] * 2, 0), done.stderr
