"""The house: what is discovered, that names are unique, and that each kind of addition touches the files it should."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

import elegans
from elegans import discovery
from elegans.component import Component
from elegans.experiments import EXPERIMENTS
from elegans.experiments.registry import entries

PACKAGE = Path(elegans.__file__).parent

TASK = '''
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from elegans import random
from elegans.tasks.base import Task


class FirstBit(Task):
    """The label is the first of n signs."""

    n: Annotated[int, Field(ge=1)]

    @property
    def input_size(self) -> int:
        """The number n of signs."""
        return self.n

    def draw(self, key: random.Key) -> np.ndarray:
        """Return the first coordinate."""
        return np.zeros(1, np.int64)

    def examples(self, hidden: Any, key: random.Key, index: Any) -> tuple[Any, Any]:
        """Return signs and the first of them."""
        x = random.rademacher(key, index, self.n)
        return x, x[:, 0]
'''

EXPERIMENT = """
import elegans as el
from elegans.analysis import summarise_cells
from elegans.experiments import Experiment, Scale
from elegans.experiments.results import one_table
from elegans.plots.style import panels


def smoke(trials):
    trial = el.Trial(
        task={"kind": "first-bit", "n": 8},
        regime=el.Online(),
        model=el.MLP(width=4),
        training=el.SGD(steps=200, stopping=el.StoppingRule(examples=100, every=50)),
    )
    return el.grid(trial, {"model.width": [2, 4]}, seeds=trials)


def plot(tables):
    figure, axes = panels(1, 1)
    axes.ravel()[0].plot(tables["table"]["model.width"], tables["table"]["rate"])
    return figure


EXPERIMENT = Experiment(
    name="first-bit-width",
    shows="The first bit is learned at every width",
    source="figure 1",
    scales={"smoke": Scale(smoke, trials=2)},
    analyse=one_table(summarise_cells),
    plot=plot,
)
"""


ACTIVATION = '''

class HardTanh(Activation):
    """max(-1, min(1, z))."""

    def value(self, z: Any) -> Any:
        return z * (abs(z) < 1) + (z >= 1) - 1.0 * (z <= -1)

    def derivative(self, z: Any) -> Any:
        return (abs(z) < 1).astype(z.dtype)
'''

NATIVE_ACTIVATION = """struct HardTanh {
  ELEGANS_INLINE Floats value(Floats z) const { return both(z).value; }
  ELEGANS_INLINE Both both(Floats z) const {
    const Floats inner = where((Ints)(magnitude(z) < 1.0f), spread(1.0f));
    return {z * inner + where((Ints)(z >= 1.0f), spread(1.0f)) - where((Ints)(z <= -1.0f), spread(1.0f)), inner};
  }
};

struct Power {"""

TRAINED = """
import sys
import numpy as np
import elegans as el

trial = el.Trial(
    task=el.SparseParity(n=12, k=2), regime=el.Online(), model=el.MLP(width=20, activation="hard-tanh"),
    training=el.SGD(learning_rate=0.1, batch_size=16, steps=50, loss="square"), seed=1,
)
weights = [el.train(trial, engine=engine).parameters["hidden"]["weight"] for engine in ENGINES]
assert np.isfinite(weights[0]).all() and np.abs(weights[0] - weights[-1]).max() < 1e-4
"""

LAUNCHER = """
import sys

# an editable installation finds its own package before any path is searched
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__]
if sys.argv[1] == "-c":
    exec(sys.argv[2])
else:
    from elegans.cli import main

    sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def run(run_apart, copy):
    """Run a command of the copy, or after ``-c`` a line of Python, and return what it prints."""
    (copy / "launcher.py").write_text(LAUNCHER)

    def call(*arguments):
        ended = run_apart(copy, "launcher.py", *arguments)
        assert ended.code == 0, ended.out + ended.err
        return ended.out

    return call


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the package, with what Python has compiled of it, to which files are added."""
    folder = tmp_path_factory.mktemp("house")
    shutil.copytree(PACKAGE, folder / "elegans")
    if find_spec("elegans._native"):
        shutil.copy(find_spec("elegans._native").origin, folder / "elegans")
    return folder


@pytest.mark.slow
def test_a_task_is_one_file_and_an_experiment_is_its_file(copy, run):
    (copy / "elegans" / "tasks" / "first_bit.py").write_text(TASK)
    (copy / "elegans" / "studies" / "pareto_frontiers" / "first_bit_width.py").write_text(EXPERIMENT)
    assert "first-bit-width" in run("list")
    run("run", "first-bit-width", "--scale", "smoke", "--workers", "1")
    written = {path.name for path in (copy / "results" / "first-bit-width" / "smoke").iterdir()}
    assert {"figure.png", "figure.pdf", "table.csv", "record.json"} <= written


@pytest.mark.slow
def test_a_study_is_its_folder_inside_the_package_or_in_another_distribution(copy, run):
    inside = copy / "elegans" / "studies" / "bits"
    outside = copy / "my_bits"
    for place, name in ((inside, "bits-inside"), (outside, "bits-outside")):
        (place / "theory").mkdir(parents=True)
        (place / "__init__.py").write_text(f'"""On {name}."""\n')
        (place / "theory" / "__init__.py").write_text("")
        calculator = f"twice_{place.name}"
        text = (
            f'def {calculator}(n: int) -> int:\n    """Return 2n.\n\n    Formula: 2n.\n    Source: Lemma 1.\n    """\n'
        )
        (place / "theory" / "bounds.py").write_text(text + "    return 2 * n\n")
        (place / "tasks.py").write_text(TASK.replace("FirstBit", f"FirstBit{place.name.title().replace('_', '')}"))
        made = "= el.Experiment(" if place == outside else "= Experiment("
        (place / "width.py").write_text(EXPERIMENT.replace("first-bit-width", name).replace("= Experiment(", made))
    information = copy / "my_bits-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: my-bits\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[elegans.studies]\nmy_bits = my_bits\n")
    listed = run("list")
    assert "bits-inside" in listed and "bits-outside" in listed
    assert run("theory", "twice_my_bits", "n=4").strip() == "8"
    assert run("theory", "twice_bits", "n=3").strip() == "6"
    kinds = run("-c", "import elegans as el; print(el.Task.of_kind('first-bit-my-bits').__module__)")
    assert kinds.strip() == "my_bits.tasks"


def add(file: Path, **changes: str) -> None:
    """Replace texts, each of which a file has once; ``end`` is put at its end."""
    text = file.read_text() + changes.pop("end", "")
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    file.write_text(text)


@pytest.fixture(scope="module")
def with_activation(copy):
    """The copy with another activation, whose public name is in the stub of its package."""
    add(copy / "elegans" / "models" / "activations.py", end=ACTIVATION)
    stub = copy / "elegans" / "models" / "__init__.pyi"
    stub.write_text(stub.read_text() + "from .activations import HardTanh as HardTanh\n")
    return copy


@pytest.mark.slow
def test_an_activation_is_its_class(with_activation, run):
    run("-c", "import elegans as el; assert el.models.HardTanh().kind == 'hard-tanh'")
    run("-c", TRAINED.replace("ENGINES", "['jax']"))


@pytest.mark.slow
@pytest.mark.skipif(not all(map(shutil.which, ("cmake", "ninja"))), reason="cmake and ninja are not installed")
def test_an_activation_of_the_native_engine_changes_two_files_more(with_activation, run, tmp_path):
    root = Path(__file__).parents[1]
    shutil.copytree(root / "native", tmp_path / "native")
    shutil.copy(root / "CMakeLists.txt", tmp_path)
    # one instruction set, no optimisations, and all but the kernels in one piece: a tenth of the time
    apart = {"PROPERTIES POSITION_INDEPENDENT_CODE": "PROPERTIES UNITY_BUILD OFF POSITION_INDEPENDENT_CODE"}
    plain = {"PRIVATE -O3": "PRIVATE -O0", "if(CMAKE_SYSTEM_PROCESSOR MATCHES": "if(FALSE AND"}
    add(tmp_path / "CMakeLists.txt", **plain, **apart)
    add(tmp_path / "native" / "dispatch.cpp", **{"#if defined(__x86_64__)": "#if 0"})
    add(
        tmp_path / "native" / "types.hpp",
        **{
            "  sinusoid,\n": "  sinusoid,\n  hard_tanh,\n",
            '    {"sinusoid", Activation::sinusoid},\n': '    {"sinusoid", Activation::sinusoid},\n'
            '    {"hard-tanh", Activation::hard_tanh},\n',
        },
    )
    add(
        tmp_path / "native" / "activations.hpp",
        **{
            "struct Power {": NATIVE_ACTIVATION,
            "    case Activation::power:\n": "    case Activation::hard_tanh:\n"
            "      return function(HardTanh{});\n    case Activation::power:\n",
        },
    )
    options = ["-DCMAKE_BUILD_TYPE=None", "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=0"]
    options += [f"-DPython_EXECUTABLE={sys.executable}"]
    configure = ["cmake", "-S", ".", "-B", "build", "-G", "Ninja", *options]
    for command in (configure, ["cmake", "--build", "build", "--target", "_native"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    for built in (tmp_path / "build").glob("_native*.so"):
        shutil.copy(built, with_activation / "elegans")
    run("-c", TRAINED.replace("ENGINES", "['fused', 'jax']"))


def test_every_experiment_is_known_by_what_its_file_says():
    for name, experiment in EXPERIMENTS.items():
        entry = entries()[name]
        assert (experiment.name, experiment.shows, experiment.source) == (name, entry.shows, entry.source)
        assert tuple(experiment.scales) == entry.scales
        assert {option: made.chooses for option, made in experiment.options.items()} == dict(entry.options)
        trained = any(len(scale.cells(1)) for scale in experiment.scales.values())
        assert set(experiment.scales) >= {"smoke", "paper", *(["laptop"] if trained else [])}, name


def test_an_experiment_lies_in_the_file_that_has_its_name():
    for name, entry in entries().items():
        assert entry.module.rpartition(".")[2] == name.replace("-", "_").replace(".", "_")
        assert entry.attribute == "EXPERIMENT"


def test_public_classes_and_calculators_have_names_of_their_own():
    named = Counter(one.name for one in discovery.classes() if not one.name.startswith("_"))
    assert [name for name, count in named.items() if count > 1] == []
    calculators = Counter(
        node.name
        for _, path in discovery.calculator_modules()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
        if isinstance(node, ast.ClassDef) or "Formula: " in (ast.get_docstring(node) or "")
    )
    assert [name for name, count in calculators.items() if count > 1] == []


def test_every_component_is_found_by_its_kind():
    for defined in discovery.classes():
        if defined.module == "elegans.training.torch_modules":  # has no components, and needs PyTorch
            continue
        found = discovery.load(defined.module, defined.name)
        family = next((base for base in getattr(found, "__mro__", ()) if vars(base).get("_is_family")), None)
        if isinstance(found, type) and issubclass(found, Component) and hasattr(found, "_members"):
            assert family is not None
            if not found._is_family:
                assert family.of_kind(found.kind) is found


def test_the_architecture_page_names_files_that_exist():
    root = Path(__file__).parents[1]
    page = (root / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`((?:[a-z_]+/)*\w+\.(?:pyi?|cpp|hpp|md))`", page))
    assert len(named) > 30
    assert [
        name for name in named if not any((place / name).exists() for place in (root, PACKAGE, root / "docs"))
    ] == []


def test_no_text_is_cut_off_after_a_line():
    """A second line of a text that is assigned without parentheses is a statement that does nothing."""
    cut = re.compile(r'^ *\w[^\n"]* = f?"(?!"")[^\n]*"\n *f?"(?!"")', re.MULTILINE)
    assert cut.search('A = "a "\n"b"\n')
    assert [path.name for path in PACKAGE.rglob("*.py") if cut.search(path.read_text("utf-8"))] == []


@pytest.mark.slow
def test_text_files_are_read_and_written_as_utf_8_whatever_the_locale():
    """Each call of `read_text` and `write_text` in the package names its encoding; figures of the text are ASCII."""
    bare = []
    methods = ("read_text", "write_text")
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if any(map(text.__contains__, methods)) else ():
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in methods:
                given = [*node.args[node.func.attr == "write_text" :], *(one.arg for one in node.keywords)]
                if not ("encoding" in given or any(isinstance(one, ast.Constant) for one in given)):
                    bare.append(f"{path.name}:{node.lineno}")
    assert bare == []


@pytest.mark.slow
def test_commands_work_in_a_locale_of_ascii():
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    commands = (["claims"], ["claims", "margins/theorem-7.7"], ["list"], ["theory"])
    program = f"from elegans.cli import main\nassert all(main(command) == 0 for command in {commands})"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
