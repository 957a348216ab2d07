"""Whatever a user's own class raises in a worker, the run ends: with failed trials, or with what was raised."""

import builtins
import importlib.util
from pathlib import Path

import pytest

import elegans as el
from elegans import extensions
from elegans.errors import RunError, TrialError
from elegans.store import Store
from elegans.training.engines import ENGINES

own = extensions.load(Path(__file__).parents[1] / "support" / "raising.py")
BUILTIN = sorted(
    {kind.__name__ for kind in vars(builtins).values() if isinstance(kind, type) and issubclass(kind, BaseException)}
)
for name in own.OWN:
    ENGINES.pop(name)  # they are known while a test uses them
pytestmark = pytest.mark.filterwarnings("ignore:.* trials failed:elegans.errors.ElegansWarning")


def ends(part, error, store, monkeypatch, **options):
    """Run three trials of which a part raises, and check how the run and its trials end."""
    trial, given = own.run_of(part, error)
    for name, engine in own.OWN.items():
        monkeypatch.setitem(ENGINES, name, engine)
    kind = own.kind_of(error)
    counts_as_failed = issubclass(kind, Exception | SystemExit)
    sent = "scheduler" in options and error == "Unsendable"
    with pytest.raises(RunError if counts_as_failed or sent else kind):
        el.run(el.grid(trial, {}, seeds=3), store, **given, **options)
    with Store(store) as opened:
        states = opened.table()["state"].tolist()
        assert all(not run.alive for run in opened.status().runs)
    assert set(states) <= {"failed", "interrupted"}
    assert states == ["failed"] * 3 or not counts_as_failed


@pytest.mark.parametrize("error", [*BUILTIN, "CancelledError", "Unsendable"])
def test_any_error_of_a_probe_ends_the_run_or_fails_its_trial(error, tmp_path, monkeypatch):
    ends("probe", error, tmp_path / "runs.db", monkeypatch, workers=2)


@pytest.mark.parametrize("error", own.FEW)
@pytest.mark.parametrize("part", own.PARTS[1:])
def test_so_does_any_error_of_another_part(part, error, tmp_path, monkeypatch):
    ends(part, error, tmp_path / "runs.db", monkeypatch, workers=2)


@pytest.fixture(scope="module")
def cluster():
    """Two workers on this machine."""
    if importlib.util.find_spec("distributed") is None:
        pytest.skip("Dask is not installed (the extra elegans[cluster])")
    from elegans.sweeps.dask_client import Cluster

    with Cluster("local:2") as connected:
        yield connected


@pytest.mark.slow
@pytest.mark.parametrize("error", [*own.FEW, "Unsendable", "ValueError"])
def test_so_does_any_error_of_a_probe_on_another_machine(error, cluster, tmp_path, monkeypatch):
    ends("probe", error, tmp_path / "runs.db", monkeypatch, scheduler=cluster)
    assert len(cluster.client.nthreads()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("part", own.PARTS[1:])
def test_so_does_a_keyboard_interrupt_of_another_part_there(part, cluster, tmp_path, monkeypatch):
    ends(part, "KeyboardInterrupt", tmp_path / "runs.db", monkeypatch, scheduler=cluster)
    assert len(cluster.client.nthreads()) == 2


class OddLabels(el.SparseParity, kind="odd-labels"):
    """A parity whose labels are multiplied and shifted."""

    factor: float = 1.0
    shift: float = 0.0

    def examples(self, hidden, key, index):
        x, y = super().examples(hidden, key, index)
        return x, self.factor * y + self.shift


@pytest.mark.parametrize(("factor", "shift", "label"), [(0.0, 0.0, "0.0"), (2.0, 0.0, "2.0"), (0.5, 0.5, "0.0")])
@pytest.mark.parametrize("loss", ["hinge", "logistic", "correlation"])
def test_labels_that_a_loss_cannot_take_are_refused_before_training(factor, shift, label, loss):
    task = OddLabels(n=5, k=1, factor=factor, shift=shift)
    trial = own.TRIAL.replace("task", task).replace("training.loss", loss)
    with pytest.raises(
        TrialError, match=f"labels of task 'odd-labels' must be -1 or .1 for loss '{loss}': label=-?{label}"
    ):
        el.run(el.grid(trial, {}))


@pytest.mark.slow
def test_labels_that_a_loss_takes_are_trained_on():
    for task, loss in ((OddLabels(n=5, k=1), "hinge"), (OddLabels(n=5, k=1, factor=2.0), "square")):
        assert len(el.run(el.grid(own.TRIAL.replace("task", task).replace("training.loss", loss), {}))) == 1
