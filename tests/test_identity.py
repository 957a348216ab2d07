"""A trial keeps its identity for good, whatever fields are added later to its classes."""

import json
import shutil
from pathlib import Path
from typing import Annotated

import pytest

import elegans as el
from elegans.component import Later

IDENTITIES = Path(__file__).with_name("identities.json")
PINNED = json.loads(IDENTITIES.read_text())
SOURCE = Path(el.__file__).parent
LATER = {  # a class of each family, the parts of parts, and the bases from which many inherit
    "tasks/parity.py": ("SparseParity", "Supported"),
    "tasks/base.py": ("NoisyLabels",),
    "tasks/regimes.py": ("Sample", "Split"),
    "models/mlp.py": ("MLP",),
    "models/inits.py": ("BoundedInit", "SparseInit"),
    "models/activations.py": ("Power",),
    "learners/search.py": ("SubsetSearch",),
    "stopping.py": ("StoppingRule",),
    "training/losses.py": ("Hinge", "OneHotSquare"),
    "training/schedules.py": ("Cosine",),
    "training/penalties.py": ("NormPenalty",),
    "training/optimisers.py": ("LayerRates", "Training", "Descent", "Adam"),
    "training/trial.py": ("Trial",),
}
COMPARE = """
import json, pathlib, sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "ScikitBuild" not in type(finder).__name__]
sys.path.insert(0, sys.argv[1])
import elegans as el
assert el.__file__.startswith(sys.argv[1]), el.__file__
pinned = json.loads(pathlib.Path(sys.argv[2]).read_text())
trials = [el.Trial.parse(one["trial"]) for one in pinned]
fields = [trial.training for trial in trials if trial.training] + [trials[0].task, trials[0].model.init]
assert all(field.patience is None for field in fields)
changed = [one["what"] for one, trial in zip(pinned, trials) if trial.identity != one["identity"]]
moved = trials[0].replace("training.stopping.patience", 3)
print(json.dumps([changed, moved.identity != trials[0].identity]))
if len(sys.argv) > 3:
    table = el.run(el.grid(trials[-1], {"training.steps": [2, 3]}, seeds=2), sys.argv[3], progress=False)
    with el.Store(sys.argv[3]) as store:
        print(json.dumps([sorted(table["seconds"]), "training.patience" in store.table()]))
"""


@pytest.mark.parametrize("pinned", PINNED, ids=lambda one: one["what"])
def test_identities_are_pinned_for_good(pinned):
    trial = el.Trial.parse(pinned["trial"])
    assert trial.identity == pinned["identity"]
    assert el.Trial.from_json(trial.to_json()).identity == pinned["identity"]


def with_field(folder, field):
    """Copy the package, with what Python has compiled of it, and add a field to each class of ``LATER``."""
    shutil.copytree(SOURCE, folder / "elegans", ignore=shutil.ignore_patterns("evidence"))
    for name, classes in LATER.items():
        file = folder / "elegans" / name
        lines = file.read_text().splitlines()
        for cls in classes:
            starts = [place for place, line in enumerate(lines) if line.startswith(f"class {cls}(")]
            assert starts, f"{name} has no class {cls}"
            for start in starts:
                ends = (place for place in range(start + 1, len(lines)) if lines[place].endswith('"""'))
                lines.insert(next(ends) + 1, f"    patience: {field}")
        text = "\n".join(lines) + "\n"
        imported = "from typing import Annotated\nfrom elegans.component import Later\n"
        place = text.rindex("\n", 0, text.index("\nfrom elegans") + 1) + 1
        file.write_text(text[:place] + imported + text[place:])
    return folder


@pytest.fixture
def compared(run_apart, tmp_path):
    """Returns a function that compares the identities of a copy of the package with those that are pinned."""

    def compare(folder, *arguments):
        (tmp_path / "compare.py").write_text(COMPARE)
        ended = run_apart(tmp_path, "compare.py", str(folder), str(IDENTITIES), *arguments)
        assert ended.code == 0, ended.err
        return [json.loads(line) for line in ended.out.splitlines()]

    return compare


@pytest.mark.slow
def test_a_later_field_changes_no_identity_at_its_default(compared, tmp_path):
    """In a copy of the package, the classes of ``LATER`` have a further field; a store made before stays whole."""
    trial = el.Trial.parse(PINNED[-1]["trial"])
    store = tmp_path / "runs.db"
    before = el.run(el.grid(trial, {"training.steps": [2, 3]}, seeds=2), store)
    (changed, moved), (seconds, patience) = compared(
        with_field(tmp_path, "Annotated[int | None, Later] = None"), str(store)
    )
    assert (changed, moved) == ([], True)
    assert seconds == sorted(before["seconds"])  # nothing was trained again
    assert not patience


@pytest.mark.slow
def test_a_field_without_the_mark_changes_them(compared, tmp_path):
    """Else the copies would not be those that are compared."""
    (changed, _), *_ = compared(with_field(tmp_path, "int | None = None"))
    assert len(changed) == len(PINNED)


@pytest.mark.parametrize("default", [{}, {"patience": 0}])
def test_a_later_field_must_be_none_by_default(default):
    fields = {"__annotations__": {"patience": Annotated[int | None, Later]}, "__module__": __name__, **default}
    with pytest.raises(
        el.errors.TrialError, match="a field that is marked as later must be None by default: Unbounded.patience"
    ):
        type("Unbounded", (el.Loss,), fields)
