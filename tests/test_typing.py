"""The types of the public names as a user's checker sees them."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest

import elegans as el

PROJECT = '''
from typing import Any, assert_type

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import elegans as el

task, model = el.SparseParity(n=20, k=2), el.MLP(width=10)
trial = el.Trial(task=task, regime=el.Sample(100), model=model, training=el.SGD(steps=9))
assert_type(trial, el.Trial)
assert_type(trial.seed, int)
assert_type(trial.with_seed(3), el.Trial)
outcome = el.train(trial)
assert_type(outcome, el.Outcome)
assert_type(outcome.solved_at, int | None)
sweep = el.grid(trial, {"model.width": [10, 30]}, seeds=4)
assert_type(sweep, el.Sweep)
assert_type(el.run(sweep, "runs.db"), pd.DataFrame)
assert_type(el.trace_frontier(trial, xs=[10, 20], ys=[4]), el.sweeps.Contour)
with el.Store("runs.db") as store:
    assert_type(store, el.Store)
    assert_type(store.table(), pd.DataFrame)
assert_type(el.analysis.summarise_cells(store.table()), pd.DataFrame)
rows, targets = np.zeros((4, 2)), np.arange(4)
classifier, regressor = el.SparseMLPClassifier(width=10), el.SparseMLPRegressor(width=10)
assert_type(classifier, el.SparseMLPClassifier)
assert_type(classifier.fit(rows, targets), el.SparseMLPClassifier)
assert_type(classifier.partial_fit(rows, targets, classes=[0, 1]), el.SparseMLPClassifier)
assert_type(classifier.n_iter_, int)
assert_type(regressor.fit(rows, targets, validation=(rows, targets)), el.SparseMLPRegressor)
assert_type(regressor.partial_fit(rows, targets), el.SparseMLPRegressor)
assert_type(classifier.predict(rows), NDArray[Any])
assert_type(classifier.predict_proba(rows), NDArray[Any])
assert_type(regressor.predict(rows), NDArray[Any])
assert_type(classifier.score(rows, targets), float)
assert_type(regressor.score(rows, targets, sample_weight=targets), float)
assert_type(classifier.set_params(width=20), el.SparseMLPClassifier)
assert_type(regressor.set_fit_request(sample_weight=True), el.SparseMLPRegressor)
assert_type(classifier.get_params(), dict[str, Any])
assert_type(classifier.n_features_in_, int)


class Share(el.Probe):
    """A probe of one's own."""

    def measure(self, snapshot: el.Snapshot) -> dict[str, float]:
        return {"share": float(snapshot.step)}


el.run(sweep, probes=[Share(every=2)], workers=2)
'''
WRONG = {
    "el.Sample(size='many')": 'Argument "size" to "Sample" has incompatible type "str"; expected "int"',
    "el.run(3)": 'Argument 1 to "run" has incompatible type "int"; expected "Sweep"',
    "el.nothing": 'Module has no attribute "nothing"',
}


pytestmark = [
    pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is not installed (the group check)"),
    pytest.mark.slow,  # the checker reads all that elegans imports
]


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """Return what a user's checker says about a project, line by line."""
    folder = tmp_path_factory.mktemp("project")  # shared, with what mypy keeps there: the first check takes long

    def check(text):
        (folder / "project.py").write_text(text)
        options = ["--strict", "--no-error-summary", "--python-executable", sys.executable]
        found = subprocess.run(
            [sys.executable, "-m", "mypy", *options, "project.py"],
            cwd=folder,
            capture_output=True,
            text=True,
            env={"MYPYPATH": str(Path(__file__).parents[1] / "src"), "PATH": ""},
        ).stdout
        return [line for line in found.splitlines() if line.startswith("project.py")]  # not of libraries without types

    return check


def test_public_names_have_their_types_for_a_users_checker(checked):
    assert checked(PROJECT) == []
    found = checked("import elegans as el\n" + "\n".join(WRONG))
    assert len(found) == len(WRONG)
    for line, message in zip(found, WRONG.values(), strict=True):
        assert message in line


def test_a_users_checker_knows_the_type_of_all_that_an_estimator_has(checked):
    names = []
    for estimator in (el.SparseMLPClassifier, el.SparseMLPRegressor):
        fitted = estimator(width=4, epochs=1).fit(pd.DataFrame({"a": [0.0, 1.0], "b": [1.0, 0.0]}), [0, 1])
        public = {name for name in {*dir(estimator), *vars(fitted)} if not name.startswith("_")}
        assert {"fit", "score", "set_params", "feature_names_in_", "n_iter_"} <= public
        names += [f"el.{estimator.__name__}().{name}" for name in sorted(public)]
    found = checked("import elegans as el\n" + "\n".join(f"reveal_type({name})" for name in names))
    assert len(found) == len(names)
    unknown = [name for name, line in zip(names, found, strict=True) if line.endswith('Revealed type is "Any"')]
    assert [name.rpartition(".")[2] for name in unknown] == [
        "random_state"
    ] * 2  # an integer, a generator of NumPy or nothing, as everywhere in scikit-learn
