"""Sparse initialisation on small samples: the coverage of pairs, and pairs of trials."""

from itertools import combinations

import numpy as np
import pytest

from elegans import theory
from elegans.experiments import run_experiment
from elegans.studies.tabular_benchmark.sparse_small_samples import SIZES, analyse, pairs
from elegans.tabular.datasets import load_table


@pytest.mark.parametrize(("columns", "inputs"), [(2, 1), (5, 1), (4, 3)])
def test_the_coverage_of_a_pair_is_a_share_of_all_pairs_of_inputs(columns, inputs):
    owner = np.repeat(np.arange(columns), inputs)
    drawn = list(combinations(range(columns * inputs), 2))
    share = np.mean([{owner[first], owner[second]} == {0, 1} for first, second in drawn])
    for neurons in (0, 1, 7):
        assert theory.pair_coverage(columns, neurons, inputs) == pytest.approx(1 - (1 - share) ** neurons)


def test_the_drawn_tables_are_exclusive_ors_of_two_thresholds_with_a_twentieth_flipped():
    table = load_table("threshold-xor-10")
    errors = []
    for first, second in combinations(range(10), 2):
        above = table.x > np.median(table.x, axis=0)
        quadrants = above[:, first] ^ above[:, second]
        errors.append(min(np.mean(quadrants != table.y), np.mean(quadrants == table.y)))
    assert sorted(errors)[0] < 0.35 < 0.45 < sorted(errors)[1]


def test_pairs_differ_in_the_initialisation_only():
    first, second = (cell for cell, _ in pairs(2, ("noisy-parity",), (100,), (16,)).parts)
    assert first.model.init != second.model.init
    assert first.replace("model.init", second.model.init) == second


@pytest.mark.compiles
@pytest.mark.slow
def test_the_smoke_scale_has_a_pair_for_each_table_and_seed(tmp_path):
    run = run_experiment("sparse-small-samples", "smoke", out=tmp_path, store=tmp_path / "runs.db")
    table = run.tables["table"]
    assert len(table) == 4
    np.testing.assert_allclose(table["difference"], table["sparse"] - table["dense"])
    assert (table[["dense", "sparse"]] < 60).all(axis=None)
    assert max(SIZES) == 4000 and analyse.__doc__
