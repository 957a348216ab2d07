"""Every experiment by its name, found in the studies' files and imported when it is first used."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from elegans import discovery
from elegans.component import suggest
from elegans.errors import ExperimentError

if TYPE_CHECKING:
    from elegans.experiments.base import Experiment


class Entry(NamedTuple):
    """What the text of an experiment's file says of it.

    Args:
        name: the experiment's name.
        study: the study that it belongs to.
        module: where it is defined.
        attribute: its name there.
        shows: its finding, in one line.
        source: the figure, table or theorem.
        times: for each scale, how long it takes.
        options: for each option, what it chooses.
    """

    name: str
    study: str
    module: str
    attribute: str
    shows: str
    source: str
    times: Mapping[str, str]
    options: Mapping[str, str]


@cache
def entries() -> dict[str, Entry]:
    """Return the entries of all experiments by name, study by study; no experiment is imported."""
    found = [
        entry
        for study in discovery.studies().values()
        for path in sorted(study.folder.glob("*.py"))
        for entry in _entries(study, f"{study.package}.{path.stem}", path.read_text())
    ]
    return {entry.name: entry for entry in found}


def _entries(study: discovery.Study, module: str, text: str) -> Iterator[Entry]:
    if "= Experiment(" not in text:
        return
    for node in ast.parse(text).body:
        if not (isinstance(node, ast.Assign) and _calls(node.value, "Experiment")):
            continue
        given = _keywords(node.value)
        texts = {name: ast.literal_eval(given[name]) for name in ("name", "shows", "source")}
        yield Entry(
            study=study.name,
            module=module,
            attribute=ast.unparse(node.targets[0]),
            times=_texts(given["scales"], "time"),
            options=_texts(given["options"], "chooses") if "options" in given else {},
            **texts,
        )


def _texts(dictionary: ast.expr, keyword: str) -> dict[str, str]:
    """Return one keyword argument, or else the first argument, of each call in a literal dictionary."""
    assert isinstance(dictionary, ast.Dict)
    found = {}
    for key, value in zip(dictionary.keys, dictionary.values, strict=True):
        assert key is not None and isinstance(value, ast.Call)
        given = _keywords(value)
        found[ast.literal_eval(key)] = ast.literal_eval(given[keyword] if keyword in given else value.args[0])
    return found


def _calls(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _keywords(node: ast.expr) -> dict[str | None, ast.expr]:
    assert isinstance(node, ast.Call)
    return {keyword.arg: keyword.value for keyword in node.keywords}


def find_entry(name: str, scale: str | None = None) -> Entry:
    """Return the entry of an experiment, and make sure that it has a scale where one is named."""
    if name not in entries():
        raise ExperimentError(f"unknown experiment {name!r}{suggest(name, list(entries()))}")
    entry = entries()[name]
    if scale is not None and scale not in entry.times:
        raise ExperimentError(f"{name} has no scale {scale!r}{suggest(scale, list(entry.times))}")
    return entry


def find(name: str) -> "Experiment":
    """Return an experiment by its name."""
    entry = find_entry(name)
    experiment: Experiment = discovery.load(entry.module, entry.attribute)
    return experiment


def cited(experiment: "Experiment") -> str:
    """Return an experiment's source with the title of its work."""
    entry = entries().get(experiment.name)
    return f"{discovery.studies()[entry.study].title()} {experiment.source}" if entry else experiment.source


class _Experiments(Mapping[str, "Experiment"]):
    def __getitem__(self, name: str) -> "Experiment":
        if name not in entries():
            raise KeyError(name)
        return find(name)

    def __iter__(self) -> Iterator[str]:
        return iter(entries())

    def __len__(self) -> int:
        return len(entries())


EXPERIMENTS: Mapping[str, "Experiment"] = _Experiments()
"""Every experiment by its name; each is imported when it is looked up."""
