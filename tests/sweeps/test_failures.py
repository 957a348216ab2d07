"""What fails says so: a warning with the first traceback, the reason in the table, an error where nothing succeeded."""

import threading

import numpy as np
import pytest
from laboratory import TRIAL

import elegans as el
from elegans.errors import ElegansWarning, RunError
from elegans.store import Store
from elegans.store.tables import reason
from elegans.sweeps.threads import Threads


class UnluckyProbe(el.Probe):
    """Breaks for the seeds that it is told."""

    seeds: tuple[int, ...] = ()

    def measure(self, snapshot):
        if snapshot.key("test") in [el.random.stream(seed, "test") for seed in self.seeds]:
            raise ValueError("no such quantity\nand a second line")
        return {"x": 0.0}


def test_some_failed_trials_are_warned_of_with_their_number_and_the_first_traceback(tmp_path, place):
    sweep = el.grid(TRIAL, {"model.width": [10, 20]}, seeds=3)
    said = r"(?s)2 of 6 trials failed .*retry_failed.*seed 1.*Traceback.*in measure.*ValueError: no such quantity"
    for _ in range(2):  # also where an earlier run trained them
        with pytest.warns(ElegansWarning, match=said) as caught:
            table = el.run(sweep, place, probes=[UnluckyProbe(seeds=(1,))])
        assert caught[0].filename == __file__
    assert (table.state == "failed").tolist() == table["error"].notna().tolist() == [False, True, False] * 2
    assert set(table["error"].dropna()) == {"ValueError: no such quantity"}
    with Store(place) as store:
        assert store.outcome(sweep.trial(1)).error.endswith("ValueError: no such quantity\nand a second line\n")
        assert store.export(tmp_path / "table.csv") == 6
    assert "no such quantity" in (tmp_path / "table.csv").read_text()


def test_a_run_all_of_whose_trials_failed_raises_with_the_first_traceback():
    sweep = el.grid(TRIAL, {}, seeds=2)
    with pytest.raises(RunError, match=r"^2 of 2 trials failed .*: ValueError: no such quantity\n") as raised:
        el.run(sweep, probes=[UnluckyProbe(seeds=(0, 1))])
    assert "in measure" in raised.value.__notes__[0]


def test_a_traceback_is_quoted_once_and_only_with_frames_of_own_files():
    class Raising(el.Model, kind="raising-in-apply"):
        def initialise(self, key, task):
            return {"weight": el.random.uniform(key, np.arange(task.input_size, dtype=np.uint32))}

        def apply(self, parameters, x):
            raise ValueError("no such luck")

    sweep = el.grid(TRIAL.replace("model", Raising()), {}, seeds=2)  # the jax engine trains them side by side
    with pytest.raises(RunError, match="2 of 2 trials failed") as raised:
        el.run(sweep)
    quoted = raised.value.__notes__[0]
    assert quoted.count("Traceback") == quoted.count(' File "') == quoted.count(f'  File "{__file__}"') == 1


def test_a_table_without_failures_has_no_errors_and_a_probe_that_raises_in_train_raises():
    table = el.run(el.grid(TRIAL, {}, seeds=2), probes=[UnluckyProbe()])
    assert table["error"].isna().all() and list(table)[-1] == "error"
    with pytest.raises(ValueError, match="no such quantity"):
        el.train(TRIAL, probes=[UnluckyProbe(seeds=(0,))])


def test_the_first_round_of_a_traced_frontier_must_not_fail_altogether(toy):
    toy(broken=range(100))
    with pytest.raises(RunError, match=r"trials failed .*: RuntimeError: seed 0 is broken"):
        el.trace_frontier(TRIAL, x="model.width", y="regime.size", seeds=20, engine="toy")


@pytest.mark.parametrize(
    ("traceback", "line"),
    [
        (None, None),
        ("", None),
        (
            'Traceback:\n  File "a"\n    x\nKeyError: 3\n\nDuring\n\nT:\n  File "b"\n    y\n    ^\nOSError: no\n',
            "OSError: no",
        ),
        ("MemoryError\n", "MemoryError"),
    ],
)
def test_a_traceback_is_summed_up_by_its_last_exception(traceback, line):
    assert reason(traceback) == line


def test_the_end_of_a_run_is_no_signal_to_stop():
    """A run that a signal has stopped does not wait for its store's server; the last commit of any other does."""
    stop = threading.Event()
    workers = Threads(2, (), stop)
    workers.shutdown(10.0)
    assert not stop.is_set() and not any(thread.is_alive() for thread in workers._threads)
