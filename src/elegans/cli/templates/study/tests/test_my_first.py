"""Tests of the study; run them with pytest where it is installed."""

from itertools import combinations

import pytest

import elegans as el
from my_first.theory.bounds import my_first_majorities


def test_elegans_lists_the_experiment_and_it_runs(tmp_path):
    result = el.run_experiment("my-first-examples", "smoke", out=tmp_path, seeds=1)
    assert result.failed == 0
    assert result.files["figure"].exists()


@pytest.mark.parametrize("n", [3, 5, 8])
def test_a_calculator_agrees_with_counting(n):
    assert my_first_majorities(n) == len(list(combinations(range(n), 3)))
