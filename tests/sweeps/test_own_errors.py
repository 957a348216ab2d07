"""Whatever a user's own class raises in a worker, the run ends: with failed trials, or with what was raised."""

import asyncio
import builtins

import pytest

import elegans as el
from elegans.errors import RunError
from elegans.store import Store

BUILTIN = [kind for kind in vars(builtins).values() if isinstance(kind, type) and issubclass(kind, BaseException)]
ARGUMENTS = {
    UnicodeDecodeError: ("utf-8", b"x", 0, 1, "bad"),
    UnicodeEncodeError: ("utf-8", "x", 0, 1, "bad"),
    UnicodeTranslateError: ("x", 0, 1, "bad"),
    ExceptionGroup: ("several", [ValueError("one")]),
    BaseExceptionGroup: ("several", [KeyboardInterrupt()]),
}
RAISED: list[BaseException] = []


class Raising(el.Probe, kind="raising"):
    """Raises at its second measurement what the test has prepared."""

    def measure(self, snapshot):
        if snapshot.step:
            raise RAISED[0]
        return {"there": 1.0}


def sweep():
    trial = el.Trial(
        task=el.SparseParity(n=5, k=1),
        regime=el.Online(),
        model=el.MLP(width=2),
        training=el.SGD(steps=4, stopping=el.StoppingRule(examples=10, every=2, stop=False)),
    )
    return el.grid(trial, {}, seeds=3)


@pytest.mark.filterwarnings("ignore:.* trials failed:elegans.errors.ElegansWarning")
@pytest.mark.parametrize("kind", [*BUILTIN, asyncio.CancelledError], ids=lambda kind: kind.__name__)
def test_any_error_of_a_probe_ends_the_run_or_fails_its_trial(kind, tmp_path, monkeypatch):
    error = kind(*ARGUMENTS.get(kind, ("raised",)))
    monkeypatch.setattr(f"{__name__}.RAISED", [error])
    counts_as_failed = isinstance(error, Exception | SystemExit)
    with pytest.raises(RunError if counts_as_failed else kind):
        el.run(sweep(), tmp_path / "runs.db", probes=[Raising(every=2)], workers=2)
    with Store(tmp_path / "runs.db") as store:
        states = store.table()["state"].tolist()
        assert all(not run.alive for run in store.status().runs)
    assert set(states) <= {"failed", "interrupted"}
    assert len(states) == 3 or not counts_as_failed
