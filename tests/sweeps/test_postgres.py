"""Stores in PostgreSQL, on a real server."""

from collections import Counter

from laboratory import PROCESSES, TRIAL, process, run_toy, untimed, wait_for_outcomes
from pandas.testing import assert_frame_equal
from sqlalchemy import select

import elegans as el
from elegans.sweeps import Store
from elegans.sweeps.schema import TRIALS

SEEDS = 30
SWEEP = el.grid(TRIAL, {"model.width": [10, 20]}, seeds=SEEDS)


def attempts(store):
    with store.connected() as connection:
        return Counter(connection.scalars(select(TRIALS.c.attempts)))


def same(store):
    assert_frame_equal(untimed(store.table(SWEEP)), untimed(el.run(SWEEP, engine="toy")))


def test_six_runs_at_once_begin_one_store_and_train_every_trial_once(toy, postgres):
    toy()
    report, together = PROCESSES.Queue(), PROCESSES.Barrier(6)
    children = [process(run_toy, postgres, SEEDS, 0.01, report, together) for _ in range(6)]
    assert [report.get(timeout=600) for _ in children] == ["complete"] * 6
    for child in children:
        child.join()
    with Store(postgres) as store:
        assert attempts(store) == {1: 2 * SEEDS}
        assert len(store.status().runs) == 6
        same(store)


def test_a_killed_run_loses_what_it_was_training_and_another_trains_that(toy, postgres):
    toy()
    child = process(run_toy, postgres, SEEDS, 0.05)
    wait_for_outcomes(postgres, 3, child)
    child.kill()
    child.join()
    with Store(postgres) as store:
        kept = store.table()
        assert 3 <= len(kept) < 2 * SEEDS
        el.run(SWEEP, store, engine="toy")
        assert attempts(store) == {1: 2 * SEEDS}
        same(store)
        on = store.table().merge(kept[["model.width", "seed", "seconds"]])
        assert len(on) == len(kept)
