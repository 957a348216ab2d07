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
    return {
        entry.name: entry
        for study in discovery.studies().values()
        for path in sorted(study.folder.glob("*.py"))
        for entry in _entries(study, f"{study.package}.{path.stem}", path)
    }


def _entries(study: discovery.Study, module: str, path: Path) -> Iterator[Entry]:
    text = path.read_text(encoding="utf-8")
    for statement in _ASSIGNMENT.findall(text):
        if "= Experiment(" not in statement:
            continue
        node = ast.parse(statement).body[0]
        assert isinstance(node, ast.Assign)
        arguments = _keywords(node.value)
        literals = {name: ast.literal_eval(arguments[name]) for name in ("name", "shows", "source")}
        claims_file = path.with_stem(f"{path.stem}_claims")
        texts = (text, claims_file.read_text(encoding="utf-8")) if claims_file.exists() else (text,)
        yield Entry(
            study=study.name,
            module=module,
            attribute=ast.unparse(node.targets[0]),
            scales=_keys(arguments["scales"]),
            options=_choices(arguments["options"]) if "options" in arguments else {},
            lines=_keys(arguments["lines"]) if "lines" in arguments else (),
            claims=tuple(claim for source in texts for claim in _claims(source, literals["name"], study.name)),
            **literals,
        )


def _claims(text: str, experiment: str, study: str) -> Iterator[ClaimEntry]:
    for statement in _ASSIGNMENT.findall(text):
        for node in ast.walk(ast.parse(statement)) if "Claim(" in statement else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Claim":
                arguments = _keywords(node)
                literals = {name: ast.literal_eval(arguments[name]) for name in ("id", "statement", "source")}
                yield ClaimEntry(experiment=experiment, study=study, **literals)


def _keys(dictionary: ast.expr) -> tuple[Any, ...]:
    assert isinstance(dictionary, ast.Dict)
    return tuple(ast.literal_eval(key) for key in dictionary.keys if key is not None)


def _choices(options: ast.expr) -> dict[str, str]:
    assert isinstance(options, ast.Dict)
    choices = {}
    for name, value in zip(_keys(options), options.values, strict=True):
        assert isinstance(value, ast.Call)
        choices[name] = ast.literal_eval(_keywords(value).get("chooses", *value.args[:1]))
    return choices


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
    matching = [claim for claim in claims().values() if name in (claim.id, claim.id.partition("/")[2])]
    if len(matching) != 1:
        near = suggest(name, list(claims()))
        raise ClaimError(f"unknown claim {name!r}{near if 'mean' in near else '; `elegans claims` lists all'}")
    return matching[0]


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
