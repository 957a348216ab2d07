"""A question of one's own in one file, with an own activation, task and probe: run, killed, continued, judged."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from elegans.errors import StoreError
from elegans.store import Store

FILE = '''"""Does the gate x tanh(x) learn from fewer examples than ReLU when a distractor stands beside the signs?"""

from typing import Any

import numpy as np

import elegans as el
from elegans.experiments import Claim, Results, Scale, Tables, Verdict, rules
from elegans.plots.style import panels


class Gate(el.Activation, kind="x-tanh-x"):
    """x tanh(x)."""

    def value(self, z: Any) -> Any:
        return z * z.__array_namespace__().tanh(z)

    def derivative(self, z: Any) -> Any:
        t = z.__array_namespace__().tanh(z)
        return t + z * (1 - t * t)


class DistractedMajority(el.Task):
    """The majority of the first three of n inputs, all signs but the last one, which is uniform noise."""

    n: int = 12
    input_size = property(lambda self: self.n)

    def examples(self, hidden: Any, key: el.random.Key, index: Any) -> tuple[Any, Any]:
        x = el.random.rademacher(key, index, self.n)
        noise = 4 * el.random.uniform_signed(key.fold(1), index)
        last = (np.arange(self.n) == self.n - 1).astype(np.float32)
        return x + (noise[:, None] - x) * last, 2.0 * (x[:, :3].sum(axis=1) > 0) - 1


class EffectiveRank(el.Probe):
    """The exponential of the entropy of the normalised singular values of the hidden weights."""

    def measure(self, snapshot: el.Snapshot) -> dict[str, float]:
        values = np.linalg.svd(snapshot.weights["hidden.weight"], compute_uv=False)
        shares = values / values.sum()
        return {"rank": float(np.exp(-(shares * np.log(shares)).sum()))}


def grid(seeds: int) -> el.Sweep:
    training = el.SGD(steps=600)
    trial = el.Trial(task=DistractedMajority(), regime=el.Sample(100), model=el.MLP(width=32), training=training)
    return el.grid(trial, {"model.activation": ["relu", "x-tanh-x"], "regime.size": [50, 200]}, seeds=seeds)


def analyse(results: Results) -> Tables:
    names = ["model.activation", "regime.size"]
    rank = results.measures["effective-rank"].groupby("trial")["rank"].last()
    ranks = results.trials.assign(rank=rank).groupby(names, as_index=False)["rank"].mean()
    return {"cells": el.analysis.summarise_cells(results.trials, by=names).merge(ranks)}


def plot(tables: Tables) -> Any:
    figure, ((left, right),) = panels(1, 2)
    for name, cells in tables["cells"].groupby("model.activation"):
        left.plot(cells["regime.size"], cells["rate"], marker="o", label=name)
        right.plot(cells["regime.size"], cells["rank"], marker="o", label=name)
    left.set(xlabel="examples", ylabel="success rate")
    right.set(xlabel="examples", ylabel="effective rank")
    left.legend()
    return figure


def fewer(tables: Any) -> Verdict:
    cells = rules.table(tables, "cells", "trials of both activations", regime__size=50).set_index("model.activation")
    gate, relu = ((int(cells.solved[name]), int(cells.trials[name])) for name in ("x-tanh-x", "relu"))
    p = [rules.higher(*pair) for pair in ((gate, relu), (relu, gate))]
    return rules.decided(p[0] < 0.05, p[1] < 0.05, f"gate {gate}, ReLU {relu}", {"p": p}, 0.05, "more trials")


CLAIM = Claim(id="gate/fewer-examples", statement="It does.", source="mine", rule="Fisher's test.", decide=fewer)
EXPERIMENT = el.Experiment(
    name="gate", shows="The gate against ReLU", source="mine", scales={"smoke": Scale(grid, trials=12)},
    analyse=analyse, plot=plot, probes=[EffectiveRank(every=100)], claims=[CLAIM],
)
'''


def test_the_file_has_at_most_80_lines():
    assert len(FILE.splitlines()) <= 80


@pytest.mark.slow
def test_a_killed_run_of_an_own_file_is_continued_explored_and_judged(tmp_path: Path) -> None:
    (tmp_path / "gate.py").write_text(FILE)

    def elegans(*arguments: str) -> str:
        command = [sys.executable, "-m", "elegans", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    store, command = tmp_path / "results" / "gate" / "runs.db", [sys.executable, "-m", "elegans", "run", "gate.py"]
    with subprocess.Popen([*command, "--workers", "1"], cwd=tmp_path, stdout=subprocess.DEVNULL) as running:
        while not (done := _done(store)) and running.poll() is None:  # the other activation has yet to be compiled
            time.sleep(0.05)
        running.kill()
    assert 0 < done < 48
    out = elegans("run", "gate.py", "--evidence")
    done, trained = map(int, re.findall(r"^(\d+) of 48 trials done \((\d+) of them by this run", out, re.MULTILINE)[0])
    assert done == 48 and 0 < trained < 48
    assert re.search("^(holds|fails|undecided) +gate/fewer-examples: ", out, re.MULTILINE)
    assert "1 equal, 0 differ" in elegans("rejudge", "gate.py")
    page = tmp_path / "report.html"
    elegans("report", "results/gate", "-o", str(page))
    assert "x-tanh-x" in page.read_text()


def _done(place: Path) -> int:
    try:
        with Store(place, create=False) as store:
            return len(store.table())
    except StoreError:  # it does not exist yet
        return 0
