"""Which parameters matter: shuffling finds the ones that do, and says how well cells are predicted at all."""

import json
from dataclasses import replace

import numpy as np
import pytest
from exploring import filled, outcome
from laboratory import TRIAL

import elegans as el
from elegans.errors import ExperimentError
from elegans.explorer import parameters
from elegans.explorer.cells import Cells
from elegans.explorer.parameters import Parallel, parameters_record, permutation_importance
from elegans.store import Store

AXES = {"model.width": [10, 20, 40, 80], "regime.size": [100, 300, 1000, 3000], "training.learning_rate": [0.05, 0.1]}


@pytest.fixture
def wide(tmp_path):
    """Cells whose test error is decided by the sample, and a little by the width."""

    def end(trial):
        error = {100: 0.4, 300: 0.3, 1000: 0.1, 3000: 0.05}[trial.regime.size] + trial.model.width / 2000
        return replace(outcome(trial.with_seed(trial.seed % 6)), trial=trial, test_error=error)

    with Store(filled(tmp_path / "runs.db", el.grid(TRIAL, AXES, seeds=2), end), create=False) as store:
        cells = Cells(store)
        yield cells
        cells.close()


def record(cells, stat="test_error", shown=None):
    return parameters_record(cells, stat, np.ones(len(cells.numbers), bool) if shown is None else shown)


def test_parameters_are_ranked_by_what_they_decide(wide):
    found = json.loads(json.dumps(record(wide), allow_nan=False))
    assert found["ranked"] == ["m", "width", "learning rate"]
    (bars,) = found["importance"]["data"]
    assert bars["y"] == found["ranked"][::-1] and bars["x"] == sorted(bars["x"])
    assert bars["x"][-1] > 8 and bars["x"][0] < 0.5  # percentage points
    assert found["explained"] > 0.9 and f"explains {found['explained']:.0%} of the variance" in found["explanation"][0]


def test_the_same_cells_give_the_same_numbers(wide):
    assert record(wide) == record(wide)


def test_a_statistic_that_parameters_do_not_decide_is_said_to_be_predicted_poorly():
    generator = np.random.default_rng(3)
    growth, explained = permutation_importance(generator.integers(0, 4, (200, 3)), generator.normal(size=200))
    assert explained < parameters.POOR and np.abs(growth.mean(0)).max() < 0.2


def test_large_stores_are_sampled_and_the_sample_is_stated(wide, monkeypatch):
    monkeypatch.setattr(parameters, "MOST", 20)
    found = record(wide)
    assert "20 of 32 cells, chosen at random" in found["explanation"][0]
    points = sum(len(one["x"]) for one in found["parallel"]["data"])
    assert points == 20 * (len(AXES) + 2)


@pytest.mark.parametrize(
    ("stat", "some", "message"),
    [
        ("test_error", 5, "at least 12 cells with a mean test error are needed: 5"),
        ("rate", 32, "must differ between cells"),
    ],
)
def test_cells_that_say_nothing_are_refused(wide, stat, some, message):
    with pytest.raises(ExperimentError, match=message):
        record(wide, stat, np.arange(32) < some)


def test_each_cell_is_a_line_through_its_values_that_ends_at_its_statistic(wide):
    codes, values = wide.codes, wide.column("test_error")
    heights = Parallel(wide, wide.axes, codes, []).heights(values)
    for place, axis in enumerate(wide.axes):
        assert (np.floor(heights[:, place] * len(axis.values)) == codes[:, place]).all()
    assert np.array_equal(np.argsort(heights[:, -1], kind="stable"), np.argsort(values, kind="stable"))
    assert (heights.min(), heights.max()) == (0, 1)
