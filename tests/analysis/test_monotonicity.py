"""Tests of monotonicity over width, all pairs at once."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import fisher_exact

from elegans.analysis import holm, monotonicity
from elegans.errors import AnalysisError, ExperimentError

WIDTHS = (10, 30, 100, 300)


def table(solved, trials=20):
    """Cells of a grid: rows of counts are sizes, columns widths."""
    return pd.DataFrame(
        [
            {"regime.size": size, "model.width": width, "trials": trials, "solved": count, "rate": count / trials}
            for size, row in zip((300, 1000, 3000), solved, strict=False)
            for width, count in zip(WIDTHS, row, strict=True)
        ]
    )


def test_intervals_and_quantiles_of_cells_are_no_parameters():
    cells = table([[3, 9, 4, 20]]).assign(failed=0)
    assert len(monotonicity(cells.assign(median_low=range(4), q9=range(4)))) == 6
    assert len(monotonicity(cells.assign(**{"task.n": range(4)}))) == 0


def test_every_pair_is_fishers_exact_test_adjusted_by_holm():
    found = monotonicity(table([[3, 9, 4, 20]]))
    assert len(found) == 6
    for row in found.itertuples():
        larger, smaller = row.solved_larger, row.solved_smaller
        exact = fisher_exact([[larger, 20 - larger], [smaller, 20 - smaller]], alternative="less").pvalue
        assert row.p == pytest.approx(exact)
    assert found["p_adjusted"].iloc[0] == pytest.approx(min(1, 6 * found["p"].iloc[0]))
    assert (found[["smaller", "larger"]].iloc[0].tolist()) == [30, 100]
    assert found["p_adjusted"].is_monotonic_increasing


def test_a_clear_fall_is_found_and_named():
    found = monotonicity(table([[0, 0, 10, 20], [20, 20, 2, 20]]))
    falls = found[found["falls"]]
    assert set(zip(falls["regime.size"], falls["smaller"], falls["larger"], strict=True)) == {
        (1000, 10, 100),
        (1000, 30, 100),
    }


def test_cells_of_which_a_parameter_is_missing_are_compared_too():
    cells = table([[0, 0, 10, 20], [20, 20, 2, 20]])
    assert len(monotonicity(cells.assign(**{"model.depth": np.nan}))) == len(monotonicity(cells))


@pytest.mark.slow
def test_the_familywise_error_is_held(monkeypatch):
    """300 grids of 3 sizes and 4 widths, equal rates, the hardest null: at most 5% false alarms, 5 standard errors."""
    monkeypatch.setattr("gc.collect", lambda: 0)  # statsmodels collects garbage in every call
    generator = np.random.default_rng(0)
    alarms = sum(monotonicity(table(generator.binomial(20, 0.5, (3, 4))))["falls"].any() for _ in range(300))
    assert alarms / 300 <= 0.05 + 5 * np.sqrt(0.05 * 0.95 / 300)


def test_cells_without_trials_and_grids_without_pairs_say_nothing():
    assert monotonicity(table([[3, 9, 4, 20]]).iloc[:1]).empty
    assert monotonicity(table([[0, 0, 0, 0]], trials=20).assign(trials=0)).empty


def test_what_is_missing_is_named():
    with pytest.raises(ExperimentError, match=r"must have a column 'model.depth'"):
        monotonicity(table([[3, 9, 4, 20]]), over="model.depth")
    for alpha in (0, 1):
        with pytest.raises(ValueError, match=f"alpha must lie between 0 and 1: alpha={alpha}"):
            monotonicity(table([[3, 9, 4, 20]]), alpha=alpha)
    with pytest.raises(ExperimentError) as raised:
        monotonicity(table([[3, 9, 4, 20]]), over="x" * 10**5)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize("p", [1.5, -0.1, np.nan, -np.inf])
def test_a_p_value_is_a_probability(p):
    with pytest.raises(AnalysisError, match=re.escape(f"a p-value must be from 0 to 1: p={p}")):
        holm([0.5, p])
    assert holm([0.0, 1.0]) == [0.0, 1.0]
