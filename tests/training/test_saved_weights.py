"""Weights are written with their trial, and read back as they were or refused."""

import json

import pytest
from click.testing import CliRunner
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import elegans as el
from elegans.cli.app import app
from elegans.errors import StoreError, TrialError

TRIAL = el.Trial(
    task=el.SparseParity(n=8, k=2),
    regime=el.Online(),
    model=el.MLP(width=5),
    training=el.SGD(steps=40, stopping=el.StoppingRule(examples=50, every=20, stop=False)),
)
OUTCOME = el.train(TRIAL)


def test_saved_weights_are_read_back_with_their_trial(tmp_path):
    file = OUTCOME.save(tmp_path / "network.safetensors")
    network = el.load_network(file)
    assert network.trial == TRIAL and network.weights.keys() == OUTCOME.weights.keys()
    assert all((network.weights[name] == array).all() for name, array in OUTCOME.weights.items())
    with safe_open(file, framework="numpy") as opened:
        metadata = opened.metadata()
    assert json.loads(metadata["trial"]) == json.loads(TRIAL.to_json())
    assert (metadata["identity"], metadata["steps"]) == (TRIAL.identity, "40")


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda tensors, metadata: tensors["hidden.bias"].__setitem__(0, 3), "the digest of a file of weights must be"),
        (
            lambda tensors, metadata: metadata.update(identity="0"),
            "the identity of a file of weights must be as written",
        ),
        (lambda tensors, metadata: metadata.pop("format"), "weights must come from a file that elegans wrote"),
    ],
    ids=["weights", "trial", "format"],
)
def test_a_changed_file_is_refused(change, rule, tmp_path):
    file = OUTCOME.save(tmp_path / "network.safetensors")
    with safe_open(file, framework="numpy") as opened:
        metadata = opened.metadata()
    tensors = load_file(file)
    change(tensors, metadata)
    save_file(tensors, file, metadata)
    with pytest.raises(TrialError, match=rule):
        el.load_network(file)


def test_a_file_of_another_format_is_refused(tmp_path):
    (tmp_path / "x").write_bytes(b"nothing")
    with pytest.raises(TrialError, match="weights must be read from a safetensors file"):
        el.load_network(tmp_path / "x")
    with pytest.raises(TrialError, match="an outcome must hold its parameters"):
        el.Outcome(TRIAL, "unsolved").save(tmp_path / "y")


@pytest.mark.parametrize("engine", ["fused", "jax"])
def test_checkpoints_are_taken_at_their_steps_and_exported(engine, tmp_path):
    """The shorter trials are trained two at a time too: on some processors XLA rounds a single one differently."""
    probes = [el.probes.Checkpoints(steps=(1, 7, 30)), el.probes.WeightMovement(every=15)]
    el.run(el.grid(TRIAL, {}, seeds=2), store=tmp_path / "runs.db", probes=probes, engine=engine, progress=False)
    folder = tmp_path / "weights"
    done = CliRunner().invoke(app, ["export", str(tmp_path / "runs.db"), str(folder), "--weights"])
    assert done.exit_code == 0 and "10 networks in" in done.output
    names = {
        f"{TRIAL.with_seed(seed).identity[:12]}-{step}.safetensors" for seed in (0, 1) for step in (0, 1, 7, 30, 40)
    }
    assert {file.name for file in folder.iterdir()} == names
    with el.Store(tmp_path / "runs.db") as store:
        assert store.outcome(TRIAL).measures["weight-movement"]["step"] == [0, 15, 30, 40]
    short, file = TRIAL.replace("training.steps", 7), tmp_path / "short.db"
    el.run(el.grid(short, {}, seeds=2), store=file, probes=probes[:1], engine=engine, progress=False)
    with el.Store(file) as store:
        store.export_weights(tmp_path / "short")
    at_seven = el.load_network(tmp_path / "short" / f"{short.identity[:12]}-7.safetensors").weights
    kept = el.load_network(folder / f"{TRIAL.identity[:12]}-7.safetensors").weights
    assert all((kept[name] == array).all() for name, array in at_seven.items())


def test_without_checkpoints_there_is_nothing_to_export(tmp_path):
    with el.Store(tmp_path / "runs.db") as store, pytest.raises(StoreError, match="no trial has checkpoints of all"):
        store.export_weights(tmp_path / "weights")
    with pytest.raises(TrialError, match=r"steps of checkpoints must increase: steps=\(3, 2\)"):
        el.probes.Checkpoints(steps=(3, 2))
