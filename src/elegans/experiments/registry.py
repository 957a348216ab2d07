"""Every experiment by name, found in the studies' files and imported on first use."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from elegans import discovery
from elegans.errors import ClaimError, ExperimentError, shown, suggest

if TYPE_CHECKING:
    from elegans.experiments.base import Experiment

_ASSIGNMENT = re.compile(r"^\w+(?:: .+)? = .*\n(?:(?:[ \t)\]}].*)?\n)*", re.MULTILINE)
"""An assignment at the top level of a file, so that it can be parsed without the rest."""


class ClaimEntry(NamedTuple):
    """One of an experiment's claims, as read from the text of its file.

    Args:
        id: the claim's id.
        statement: what the work states.
        source: where it does so.
        experiment: the experiment whose tables decide it.
        study: the study that the experiment belongs to.
    """

    id: str
    statement: str
    source: str
    experiment: str
    study: str


class Entry(NamedTuple):
    """An experiment, as read from the text of its file.

    Args:
        name: the experiment's name.
        study: the study that it belongs to.
        module: where it is defined.
        attribute: its name there.
        shows: its finding, in one line.
        source: the figure, table or theorem.
        scales: the names of its scales.
        options: what each option chooses.
        claims: the claims that it decides.
        lines: the planes of two dotted columns that have lines of theory.
    """

    name: str
    study: str
    module: str
    attribute: str
    shows: str
    source: str
    scales: tuple[str, ...]
    options: Mapping[str, str]
    claims: tuple[ClaimEntry, ...]
    lines: tuple[tuple[str, str], ...]


@cache
def entries() -> dict[str, Entry]:
    """Return the entries of all experiments by name, study by study; no experiment is imported."""
    found = [
        entry
        for study in discovery.studies().values()
        for path in sorted(study.folder.glob("*.py"))
        for entry in _entries(study, f"{study.package}.{path.stem}", path)
    ]
    return {entry.name: entry for entry in found}


def _entries(study: discovery.Study, module: str, path: Path) -> Iterator[Entry]:
    text = path.read_text(encoding="utf-8")
    for statement in _ASSIGNMENT.findall(text):
        if "= Experiment(" not in statement:
            continue
        node = ast.parse(statement).body[0]
        assert isinstance(node, ast.Assign)
        given = _keywords(node.value)
        texts = {name: ast.literal_eval(given[name]) for name in ("name", "shows", "source")}
        beside = path.with_stem(f"{path.stem}_claims")
        files = (text, beside.read_text(encoding="utf-8")) if beside.exists() else (text,)
        yield Entry(
            study=study.name,
            module=module,
            attribute=ast.unparse(node.targets[0]),
            scales=_names(given["scales"]),
            options=_chosen(given["options"]) if "options" in given else {},
            lines=_names(given["lines"]) if "lines" in given else (),
            claims=tuple(claim for one in files for claim in _claims(one, texts["name"], study.name)),
            **texts,
        )


def _claims(text: str, experiment: str, study: str) -> Iterator[ClaimEntry]:
    for statement in _ASSIGNMENT.findall(text):
        for node in ast.walk(ast.parse(statement)) if "Claim(" in statement else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Claim":
                given = _keywords(node)
                texts = {name: ast.literal_eval(given[name]) for name in ("id", "statement", "source")}
                yield ClaimEntry(experiment=experiment, study=study, **texts)


def _names(dictionary: ast.expr) -> tuple[Any, ...]:
    assert isinstance(dictionary, ast.Dict)
    return tuple(ast.literal_eval(key) for key in dictionary.keys if key is not None)


def _chosen(options: ast.expr) -> dict[str, str]:
    """Return what each option chooses, from a literal dictionary."""
    assert isinstance(options, ast.Dict)
    found = {}
    for name, value in zip(_names(options), options.values, strict=True):
        assert isinstance(value, ast.Call)
        found[name] = ast.literal_eval(_keywords(value).get("chooses", *value.args[:1]))
    return found


def _keywords(node: ast.expr) -> dict[str | None, ast.expr]:
    assert isinstance(node, ast.Call)
    return {keyword.arg: keyword.value for keyword in node.keywords}


def find_entry(name: str, scale: str | None = None) -> Entry:
    """Return the entry of an experiment, and check that it has a scale if one is named."""
    if name not in entries():
        raise ExperimentError(f"unknown experiment {shown(name)}{suggest(name, list(entries()))}")
    entry = entries()[name]
    if scale is not None and scale not in entry.scales:
        raise ExperimentError(f"{name} has no scale {shown(scale)}{suggest(scale, list(entry.scales))}")
    return entry


def claims() -> dict[str, ClaimEntry]:
    """Return the claims of all experiments by id."""
    return {claim.id: claim for entry in entries().values() for claim in entry.claims}


def find_claim(name: str) -> ClaimEntry:
    """Return a claim by its id, or by the part after the slash where that is unique."""
    known = claims()
    matching = [one for one in known if name in (one, one.partition("/")[2])]
    if len(matching) != 1:
        near = suggest(name, list(known))
        raise ClaimError(f"unknown claim {name!r}{near if 'mean' in near else '; `elegans claims` lists all'}")
    return known[matching[0]]


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
"""Every experiment by name, imported when it is looked up."""
