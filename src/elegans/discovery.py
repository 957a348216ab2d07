"""Finds what the package and its studies define from their source text: nothing is imported until it is used.

A *study* is a folder below ``elegans.studies``, or a package of another distribution that registers itself under the
entry point group ``elegans.studies``. Components are found by kind, experiments and calculators by name.
"""

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

_ROOT = Path(__file__).parent
_CLASS = re.compile(r"\nclass (\w+)(?:\(([^)]*)\))?:")  # a literal first character makes the search fast
_PUBLIC = re.compile(r"^(class|def) ([A-Za-z]\w*)[(:]", re.MULTILINE)
_KIND = re.compile(r'\bkind="([^"]+)"')


class Study(NamedTuple):
    """A published work and the package that holds all of its code.

    Args:
        name: the package's last name: ``pareto_frontiers``.
        package: the package's full name.
        folder: the folder of its files.
        file: the file whose docstring has the title, if it is not the package's ``__init__.py``.
    """

    name: str
    package: str
    folder: Path
    file: Path | None = None

    def modules(self) -> Iterator[tuple[str, Path]]:
        """Yield the full name and the file of each of its modules."""
        return _modules(self.package, self.folder)

    def title(self) -> str:
        """Return the first line of the package's docstring."""
        text = (self.file or self.folder / "__init__.py").read_text(encoding="utf-8")
        return (ast.get_docstring(ast.parse(text)) or self.name).splitlines()[0]


class Defined(NamedTuple):
    """A class, as read from its ``class`` statement.

    Args:
        module: where it is defined.
        name: the class's name.
        bases: the names of its bases.
        kind: the kind given in its statement, or else its name in kebab case.
    """

    module: str
    name: str
    bases: tuple[str, ...]
    kind: str


@cache
def studies() -> dict[str, Study]:
    """Return every study by its name."""
    folders = sorted(path.parent for path in (_ROOT / "studies").glob("*/__init__.py"))
    by_name = {folder.name: Study(folder.name, f"elegans.studies.{folder.name}", folder) for folder in folders}
    for point in entry_points(group="elegans.studies"):
        spec = find_spec(point.value)
        if spec is not None and spec.submodule_search_locations:
            by_name[point.name] = Study(point.name, point.value, Path(spec.submodule_search_locations[0]))
    return by_name


LOADED: dict[str, tuple[str, bytes]] = {}
"""The paths and contents of a user's own files that have been imported, by the names of their modules."""


def own_studies() -> dict[str, Study]:
    """Return each of a user's own files as a study of one module, by its stem, or by its path where that is taken."""
    by_name = dict[str, Study]()
    for module, (path, _) in LOADED.items():
        file = Path(path)
        name = str(file) if file.stem in {*studies(), *by_name} else file.stem
        by_name[name] = Study(name, module, file.parent, file)
    return by_name


def study(name: str) -> Study:
    """Return a study, or a user's own file, by its name."""
    return {**own_studies(), **studies()}[name]


@cache
def classes() -> tuple[Defined, ...]:
    """Return all classes of the package and of all studies."""
    definitions = []
    others = ("elegans.studies.", "elegans.cli.templates.")
    of_lab = (pair for pair in _modules("elegans", _ROOT) if not pair[0].startswith(others))
    of_studies = chain.from_iterable(study.modules() for study in studies().values())
    for module, path in chain(of_lab, of_studies):
        for name, arguments in _CLASS.findall(path.read_text(encoding="utf-8")):
            kind = _KIND.search(arguments)
            bases = tuple(base.strip().rpartition(".")[2] for base in arguments.split(",") if "=" not in base)
            definitions.append(Defined(module, name, bases, kind[1] if kind else kebab(name)))
    return tuple(definitions)


def kebab(name: str) -> str:
    """Return a class name in kebab case: ``SparseParity`` becomes ``sparse-parity``, ``MLP`` ``mlp``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()


def below(base: str) -> list[Defined]:
    """Return the classes that inherit from a class of a given name, directly or indirectly."""
    names = {base}
    while more := {cls.name for cls in classes() if names.intersection(cls.bases)} - names:
        names |= more
    return [cls for cls in classes() if cls.name in names and cls.name != base]


def kinds(base: str) -> set[str]:
    """Return the kinds of the classes that inherit from a class of a given name."""
    return {cls.kind for cls in below(base)}


@cache
def homes() -> dict[str, str]:
    """Return the module of each public class of the studies, by name."""
    modules = {module for study in studies().values() for module, _ in study.modules()}
    return {cls.name: cls.module for cls in classes() if cls.module in modules and not cls.name.startswith("_")}


@cache
def calculator_homes() -> dict[str, str]:
    """Return the module of each calculator and public class of the ``theory`` folders and of ``elegans.boolean``.

    A calculator is a public function whose docstring states a formula.
    """
    return {
        name: module
        for module, path in calculator_modules()
        for name, text in definitions(path)
        if text.startswith("class") or "\n    Formula: " in text
    }


def definitions(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the name of each public class and function of a file, and the text from its statement to the next one's."""
    text = path.read_text(encoding="utf-8")
    for match, following in pairwise([*_PUBLIC.finditer(text), None]):
        assert match is not None
        yield match[2], text[match.start() : following.start() if following else None]


def calculator_modules() -> Iterator[tuple[str, Path]]:
    """Yield the modules that hold calculators, in ``elegans.boolean`` and in the studies' ``theory`` folders."""
    yield from _modules("elegans.boolean", _ROOT / "boolean")
    for study in studies().values():
        yield from _modules(f"{study.package}.theory", study.folder / "theory")


def load(module: str, name: str) -> Any:
    """Import a module and return its attribute of a given name."""
    return getattr(importlib.import_module(module), name)


def _modules(package: str, folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        if parts[-1] != "__init__":
            yield ".".join((package, *parts)), path
