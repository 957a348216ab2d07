"""Simulated runs on clusters: bounds that hold whatever the order of batches."""

import pytest

from elegans.errors import ExperimentError
from elegans.experiments import plan
from elegans.experiments.simulation import simulate
from elegans.sweeps.dask_client import BATCH_COST, TRIAL_COST


def grid(seconds, count):
    return [iter([[seconds] * count])]


@pytest.mark.parametrize("workers", [1, 7, 64])
def test_equal_trials_are_shared_out_equally(workers):
    found = simulate(grid(1.0, 100 * workers), workers)
    assert found.work == pytest.approx(100 * workers)
    assert 100 <= found.seconds <= 115
    assert 1 / 1.15 <= found.efficiency <= 1


def test_no_run_is_shorter_than_its_longest_trial_or_its_share_of_the_work():
    found = simulate([iter([[50.0, *[1.0] * 100]])], 10)
    assert 50 <= found.seconds <= 65
    assert found.seconds >= found.work / 10


@pytest.mark.parametrize("workers", [1, 1000])
def test_a_search_that_waits_for_each_answer_is_no_faster_on_more_workers(workers):
    found = simulate([iter([[2.0]] * 50)], workers)
    assert 100 <= found.seconds <= 103


def test_searches_that_do_not_wait_for_each_other_run_at_once():
    found = simulate([iter([[2.0]] * 50) for _ in range(20)], 20)
    assert 100 <= found.seconds <= 110


def test_short_trials_are_limited_by_the_one_process_that_records():
    found = simulate(grid(1e-6, 51_200), 512)
    assert found.seconds == pytest.approx(51_200 * TRIAL_COST + 100 * BATCH_COST, rel=0.5)
    assert found.writer > 0.9 > found.efficiency


def test_nothing_takes_no_time():
    assert simulate([], 8).seconds == 0 and simulate([iter([])], 8).efficiency == 1


def test_a_plan_for_a_cluster_says_how_busy_workers_and_writer_are():
    here, there = (plan("success-frontier", "smoke", workers=workers, budget=0.1) for workers in (1, 5000))
    assert here.efficiency is here.writer is None
    assert there.efficiency is not None and there.writer is not None and 0 < there.efficiency <= 1 and there.writer > 0
    traced = plan("success-frontier", "smoke", seeds=20, adaptive=True, workers=5000, budget=0.1)
    assert traced.efficiency is not None and traced.efficiency < 0.2 and traced.traced
    with pytest.raises(ExperimentError, match="workers must be at most 65536: workers=100000"):
        plan("success-frontier", "smoke", workers=100_000)
