"""From a table's row to its trial, and from there to its network."""

import numpy as np
import pandas as pd
import pytest

import elegans as el
from elegans.errors import ElegansWarning, StoreError, SweepError
from elegans.store import Store
from elegans.store.cells import StoredCells, columns_of, read_columns
from elegans.store.tables import as_record, cell_frame
from elegans.sweeps.retrain import trial_of

STOPPING = el.StoppingRule(examples=200, every=50)
TRIAL = el.Trial(
    task=el.SparseParity(n=20, k=2),
    regime=el.Sample(100),
    model=el.MLP(width=10),
    training=el.SGD(steps=400, learning_rate=0.1, stopping=STOPPING),
)
ADAM = el.Adam(steps=3, loss="cross-entropy", stopping=STOPPING)
OTHERS = [
    TRIAL.replace("regime", "online").replace("model.init", "sparse:2").replace("task.support", (3, 5)),
    TRIAL.replace("model", el.DeepMLP(widths=(4, 3))).replace("training.schedule", "cosine:400"),
    el.Trial(task=el.MarkovChains(k=2, length=6), regime="online", model=el.AttentionOnly(heads=(1, 2)), training=ADAM),
    TRIAL.replace("model", el.MLP(width=10, init=el.models.SeededInit(of="sparse:2", seed=2**31))),
]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def swept(request, tmp_path_factory):
    postgres = request.param == "postgresql"
    place = request.getfixturevalue("server").new() if postgres else tmp_path_factory.mktemp("rows") / "runs.db"
    sweep = el.grid(TRIAL, {"regime": ["sample:100", "online"], "model.init": ["dense", "sparse:2"]}, seeds=3)
    return place, sweep, el.run(sweep, place)


def test_the_trial_of_a_row_is_the_one_that_was_trained(swept):
    place, sweep, table = swept
    shuffled = table.sample(frac=1, random_state=0)
    with Store(place, create=False) as store:
        for index, row in shuffled.iterrows():
            assert store.trial(row) == sweep.trial(index)
        assert store.trial(table[table.index == 4]) == sweep.trial(4)
        assert store.trial(table.iloc[5].to_dict()) == sweep.trial(5)
        few = {"regime": "online", "model.init": "sparse:2", "seed": 2}
        assert store.trial(few) == sweep.trial(11)
        for row, message in [
            ({"regime": "online", "seed": 2}, "one cell of the store: it matches 2 of 4"),
            ({"regime": "sample:7", "seed": 2}, "it matches 0 of 4"),
            ({"regime": "online"}, "must have a seed"),
        ]:
            with pytest.raises(StoreError, match=message):
                store.trial(row)


def test_a_row_is_trained_again_bit_for_bit(swept):
    place, sweep, table = swept
    row = table.sort_values("steps").iloc[-1]
    again = el.retrain(row)
    first = el.train(sweep.trial(row.name))
    for name, array in first.network.weights.items():
        np.testing.assert_array_equal(again.network.weights[name], array)
    assert (again.trial, again.engine, again.test_error) == (first.trial, row["engine"], row["test_error"])
    with Store(place, create=False) as store:
        recorded = store.outcome(first.trial)
        with pytest.raises(el.errors.TrialError, match=r"parameters=None; el.retrain\(outcome\) trains it again"):
            recorded.network  # noqa: B018
        assert el.retrain(recorded).parameters["output"]["bias"] == first.parameters["output"]["bias"]
    assert el.retrain(first.trial, engine="jax").engine == "jax"


def test_a_trial_that_ends_otherwise_than_recorded_is_warned_of(swept):
    row = swept[2].iloc[0].to_dict() | {"test_error": 0.25}
    with pytest.warns(ElegansWarning, match=r"not reproduce the recorded outcome: test_error 0\.\d+ instead of 0.25"):
        el.retrain(row)


@pytest.mark.parametrize("trial", [TRIAL, *OTHERS], ids=lambda trial: trial.model.label())
def test_columns_say_all_of_a_trial(trial):
    columns = read_columns([columns_of(each) for each in (trial, *OTHERS)])  # with gaps, as in a table of other cells
    table = cell_frame(StoredCells([*range(1 + len(OTHERS))], columns, {})).assign(seed=7)
    assert trial_of(as_record(table.iloc[0])) == trial.with_seed(7)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda row: row.drop("model.width"), "'model.width' is missing"),
        (lambda row: row.drop("training.decay"), "training.decay=None would be"),
        (lambda row: pd.concat([row.to_frame().T] * 2), "one row of a table, as table.iloc.0.: got 2"),
        (lambda row: 3, "must be a row of a table, as table.iloc.0.: got a int"),
    ],
)
def test_what_is_no_row_of_a_trial_is_refused(swept, change, message):
    with pytest.raises(SweepError, match=message):
        el.retrain(change(swept[2].iloc[0]))
