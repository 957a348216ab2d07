"""The cache of compiled programs: it changes how long a training takes, and nothing else."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from elegans import compilation
from elegans.cli import main

TRAIN = """
import hashlib, json, math
import jax
import elegans as el
from elegans.training import loop

# losses are summed chunk by chunk in single precision, and the time that one chunk takes decides how long the next is
loop.PACE = math.inf
el.compilation.MIN_SECONDS = 0.0  # every program is kept, however fast this machine compiles
loaded = []
jax.monitoring.register_event_listener(lambda event, **_: loaded.append(event.endswith("cache_hits")))
trial = el.Trial(
    task=el.SparseParity(n=12, k=2), regime=el.Sample(200), model=el.MLP(width=24),
    training=el.SGD(learning_rate=0.1, batch_size=16, steps=200), seed=7,
)
outcome = el.train(trial, engine="jax", probes=[el.probes.HeldOutErrorRate(every=50)])
parameters = b"".join(leaf.tobytes() for leaf in jax.tree.leaves(outcome.parameters))
measured = json.dumps([outcome.measures["test-error"]["error"], outcome.curve.loss, outcome.curve.error])
results = hashlib.sha256(parameters + measured.encode()).hexdigest()
print(json.dumps({"results": results, "loaded": sum(loaded)}))
"""


@pytest.fixture
def trained(run_apart, tmp_path_factory):
    """Train in a process of its own; return a hash of the results and how many programs it loaded."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "train.py").write_text(TRAIN)

    def train(setting):
        ended = run_apart(folder, "train.py", **{compilation.VARIABLE: str(setting)})
        assert (ended.code, ended.err) == (0, "")
        return json.loads(ended.out)

    return train


def programs(folder):
    return [path for path in folder.rglob("*") if path.name.endswith("-cache")]


@pytest.mark.slow
def test_results_are_identical_with_the_cache_off_cold_warm_and_damaged(trained, tmp_path):
    off, cold = trained("off"), trained(tmp_path)
    kept = programs(tmp_path)
    assert off["loaded"] == cold["loaded"] == 0 and kept
    warm = trained(tmp_path)
    assert warm["loaded"] > 0
    for path in kept:
        path.write_bytes(path.read_bytes()[:100])
    damaged = trained(tmp_path)
    assert damaged["loaded"] < warm["loaded"]
    assert off["results"] == cold["results"] == warm["results"] == damaged["results"]


def test_the_folder_is_named_by_what_machine_code_depends_on(monkeypatch, tmp_path):
    monkeypatch.setenv(compilation.VARIABLE, str(tmp_path))
    here = compilation.folder()
    assert here.parent == tmp_path
    monkeypatch.setattr(compilation, "features", lambda: "a processor with other instructions")
    elsewhere = compilation.folder()
    monkeypatch.setattr(compilation, "versions", lambda: {"python": "3.11.0", "jax": "99.0", "jaxlib": "99.0"})
    assert len({here, elsewhere, compilation.folder()}) == 3


def test_the_folder_is_the_users_cache_unless_the_variable_names_another(monkeypatch):
    monkeypatch.delenv(compilation.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    if sys.platform == "linux":
        assert compilation.folder().parent == Path("/somewhere/elegans")
    monkeypatch.setenv(compilation.VARIABLE, "~/programs")
    assert compilation.folder().parent == Path.home() / "programs"
    monkeypatch.setenv(compilation.VARIABLE, "off")
    assert compilation.folder() is None


@pytest.fixture
def configured(monkeypatch):
    """Configure JAX as the first use does; return the settings that were made."""
    import jax

    def configure(setting):
        made = {}
        monkeypatch.setenv(compilation.VARIABLE, str(setting))
        monkeypatch.setattr(type(jax.config), "jax_compilation_cache_dir", None, raising=False)
        monkeypatch.setattr(jax.config, "update", made.__setitem__)
        compilation._configure()
        return made

    return configure


def test_the_size_of_the_cache_is_bounded(configured, tmp_path):
    made = configured(tmp_path)
    assert made["jax_compilation_cache_max_size"] == compilation.MAX_BYTES
    assert made["jax_compilation_cache_dir"] == str(compilation.folder())


def test_a_folder_that_cannot_be_made_or_is_off_means_no_cache(configured, tmp_path):
    (tmp_path / "file").write_text("")
    assert configured(tmp_path / "file") == configured("off") == {}


def test_unfinished_programs_and_folders_that_nothing_uses_are_removed(configured, tmp_path, monkeypatch):
    monkeypatch.setenv(compilation.VARIABLE, str(tmp_path))
    place, long_ago = compilation.folder(), time.time() - 86400 * (compilation.UNUSED_DAYS + 1)
    for name in ("finished-cache", "finished-atime", "killed-cache", "being_written-cache"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("")
    os.utime(place / "finished-cache", (long_ago, long_ago))
    os.utime(place / "killed-cache", (long_ago, long_ago))
    for name in ("jax-unused", "jax-used", "other"):
        (tmp_path / name).mkdir()
        if name != "jax-used":
            os.utime(tmp_path / name, (long_ago, long_ago))
    os.utime(place, (long_ago, long_ago))
    configured(tmp_path)
    assert {path.name for path in place.iterdir()} == {"finished-cache", "finished-atime", "being_written-cache"}
    assert {path.name for path in tmp_path.iterdir()} == {place.name, "jax-used", "other"}


def test_no_cache_turns_it_off_for_the_process_and_those_that_it_starts(monkeypatch, tmp_path):
    monkeypatch.setenv(compilation.VARIABLE, str(tmp_path))
    assert main(["train", "--no-cache", "--n", "5", "--k", "6"]) == 2
    assert os.environ[compilation.VARIABLE] == "off"


def test_doctor_tells_folder_and_size(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv(compilation.VARIABLE, str(tmp_path))
    place = compilation.folder()
    place.mkdir()
    (place / "one-cache").write_bytes(bytes(3 * 2**20))
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert str(place) in out and "3.0 MiB in 1 programs, at most 256 MiB" in out
