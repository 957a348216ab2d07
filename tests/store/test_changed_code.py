"""Outcomes of code that has changed since: noticed, and trained again when asked."""

import importlib
import linecache
import sys
import warnings
from dataclasses import replace

import pytest
from laboratory import TRIAL

import elegans as el
from elegans.errors import ElegansWarning, RunError, SweepError
from elegans.extensions import code_of, own_classes
from elegans.store import Store

CODE = """
import elegans as el

FACTOR = 1.0

def scaled(weights):
    return weights * FACTOR

class Sloped(el.MLP):
    "A network."
    def initialise(self, key, task):
        parameters = super().initialise(key, task)
        parameters["output"]["weight"] = scaled(parameters["output"]["weight"])
        return parameters

class Size(el.Probe):
    def measure(self, snapshot):
        return {"size": snapshot.task.n}
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Returns a function that writes a user's file and imports it anew, as a later process would."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def written(*changes):
        code = CODE
        for old, new in changes:
            assert old in code
            code = code.replace(old, new)
        (tmp_path / "sloped_networks.py").write_text(code)
        sys.modules.pop("sloped_networks", None)
        linecache.clearcache()
        importlib.invalidate_caches()
        return importlib.import_module("sloped_networks")

    yield written
    sys.modules.pop("sloped_networks", None)
    for family, kind in ((el.Model, "sloped"), (el.Probe, "size")):
        family._members.pop(kind, None)


@pytest.fixture(autouse=True)
def quick(toy):
    toy()


def sweep(module, seeds=2):
    return replace(el.grid(TRIAL.replace("model", module.Sloped(width=3)), {}, seeds=seeds), engine="toy")


def silent(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return el.run(*arguments, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "noticed"),
    [
        (("FACTOR = 1.0", "FACTOR = 2.0"), True),
        (("weights * FACTOR", "weights / FACTOR"), True),
        (('parameters["output"]["weight"] =', 'parameters["output"]["weight"] = 2 *'), True),
        (('"A network."', '"Another description."  # and a comment'), False),
        (("\ndef scaled", "\nUNUSED = 3\n\ndef scaled"), False),
    ],
)
def test_a_changed_class_is_noticed_and_its_trials_are_trained_again_when_asked(write, place, change, noticed):
    store = place
    first = silent(sweep(write()), store)
    silent(sweep(write()), store)  # the same code in another process
    changed = write(change)
    if not noticed:
        silent(sweep(changed), store)
        return
    for _ in range(2):
        with pytest.warns(ElegansWarning, match=r'2 of 2 trials .* model \'sloped\' .* retrain="changed"') as caught:
            again = el.run(sweep(changed), store)
        assert caught[0].filename == __file__
        assert again["seconds"].equals(first["seconds"])
    with pytest.raises(SweepError, match=r"2 of 2 trials .* --retrain-changed"):
        el.run(sweep(changed, seeds=2), store, retrain="refuse")
    assert not silent(sweep(changed), store, retrain="changed")["seconds"].equals(first["seconds"])
    silent(sweep(changed), store)
    with pytest.warns(ElegansWarning, match="2 of 3 trials"):
        el.run(sweep(write(), seeds=3), store)
    with pytest.warns(ElegansWarning, match="2 of 3 trials"):  # the third is of the code as it is now
        el.run(sweep(write(), seeds=3), store)


def test_a_changed_probe_is_noticed_even_where_another_one_measured_after_it(write, place):
    store, module = place, write()
    silent(sweep(module), store, probes=[module.Size()])
    silent(sweep(module), store, probes=[el.probes.HeldOutErrorRate()])
    changed = write(("snapshot.task.n", "2 * snapshot.task.n"))
    with pytest.warns(ElegansWarning, match="probe 'size'"):
        el.run(sweep(changed), store, probes=[changed.Size()])
    silent(sweep(changed), store)  # whoever does not ask for the probe's measures need not know
    table = silent(sweep(changed), store, probes=[changed.Size()], retrain="changed")
    with Store(store) as opened:
        trial = sweep(changed).trial(0)
        assert opened.outcome(trial).measures["size"]["size"][0] == 2 * trial.task.n
    assert len(table) == 2


def test_a_trial_that_failed_is_trained_again_once_its_code_has_changed(write, place):
    def trained(run, *changes, **options):
        module = write(*changes)
        return run(sweep(module), place, probes=[module.Size()], **options)

    broken = ("snapshot.task.n", "missing")
    with pytest.raises(RunError, match="2 of 2 trials failed"):
        trained(el.run, broken)
    with pytest.raises(RunError, match="2 of 2 trials failed"):  # the code is the same: nothing is trained
        trained(el.run, broken)
    corrected = trained(silent, retrain="refuse")
    assert not (corrected["state"] == "failed").any()
    with pytest.warns(ElegansWarning, match="2 of 2 trials were trained before"):
        assert trained(el.run, broken)["state"].equals(corrected["state"])


def test_progress_counts_no_outcome_that_is_to_be_replaced(write, place):
    silent(sweep(write()), place)
    seen = []
    silent(
        sweep(write(("FACTOR = 1.0", "FACTOR = 2.0")), seeds=4), place, retrain="changed", workers=1, watch=seen.append
    )
    assert seen[-1].done == seen[-1].this_run == 4
    for progress in seen:
        assert progress.done == progress.this_run == progress.solved + progress.unsolved


def test_a_trial_that_fails_again_is_done(write, place):
    module = write(("snapshot.task.n", "missing"))
    for _ in range(2):
        seen = []
        with pytest.raises(RunError, match="2 of 2 trials failed"):
            el.run(sweep(module), place, probes=[module.Size()], retry_failed=True, watch=seen.append)
        assert (seen[-1].done, seen[-1].failed, seen[-1].this_run) == (2, 2, 2)


def test_only_trials_of_user_defined_classes_can_be_of_changed_code():
    assert own_classes([TRIAL]) == {}
    with pytest.raises(SweepError, match="retrain must be missing, changed or refuse: retrain='all'"):
        el.run(el.grid(TRIAL, {}), retrain="all")


def test_the_code_of_a_class_made_in_a_notebook_or_a_function_counts_too():
    def made(factor):
        class Made(el.Probe, kind=f"made-{factor}"):
            def measure(self, snapshot):
                return {"x": factor * 1.0}

        return Made

    namespace = {"el": el, "__name__": "__main__"}
    cell = "class Cell(el.Probe):\n    def measure(self, snapshot):\n        return {'x': %s}"
    found = []
    for value in ("1", "2", "{*'abc'}"):
        exec(cell % value, namespace)
        found.append(code_of(own_classes([namespace["Cell"]()])["probe 'cell'"]))
    assert len(set(found)) == 3
    assert code_of(made(1)) != code_of(made(2))
    el.Probe._members.pop("cell")


@pytest.mark.slow
def test_a_program_compiled_for_a_class_is_not_used_for_another_one_of_its_name():
    def activation(sign):
        class Kinked(el.Activation, kind="kinked"):
            def value(self, z):
                return sign * abs(z)

            def derivative(self, z):
                return sign * z / abs(z)

        return Kinked()

    def outputs(sign):
        el.Activation._members.pop("kinked", None)
        model = el.MLP(width=3, activation=activation(sign))
        training = el.SGD(steps=1, stopping=el.StoppingRule(examples=10))
        trial = el.Trial(task=el.SparseParity(n=5, k=1), regime=el.Online(), model=model, training=training)
        return el.train(trial, engine="jax").curve.loss

    assert outputs(1.0) != outputs(-1.0)
    el.Activation._members.pop("kinked")
