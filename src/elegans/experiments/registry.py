"""Every experiment by name: the studies' experiments, imported on first use, and the experiments in a user's files."""

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from elegans import discovery
from elegans.errors import ClaimError, ExperimentError, printable, shown, suggest

if TYPE_CHECKING:
    from elegans.experiments.base import Experiment

_STATEMENT = re.compile(r"^(?:\w+(?:: .+)? = |@(?:\w+\.)*claim\().*\n(?:(?:[ \t)\]}].*)?\n)*", re.MULTILINE)
"""An assignment at the top level of a file, or a claim on its rule, so that it can be parsed without the rest."""
_MADE = re.compile(r"= (?:\w+\.)*Experiment\(")


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
    """An experiment, as read from the text of a study's file or from a user's imported file.

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


def entries() -> dict[str, Entry]:
    """Return the entries of all experiments by name, study by study; no study's experiment is imported.

    Experiments in a user's imported files come last.

    Raises:
        ExperimentError: two experiments have the same name.
    """
    by_name = dict(_of_studies())
    for entry in _own_entries():
        if entry.name in by_name:
            other = by_name[entry.name]
            where = f"{other.attribute} in {other.module}, {entry.attribute} in {entry.module}; rename one"
            raise ExperimentError(f"experiments must have different names: name={shown(entry.name)}, {where}")
        by_name[entry.name] = entry
    return by_name


@cache
def _of_studies() -> dict[str, Entry]:
    return {
        entry.name: entry
        for study in discovery.studies().values()
        for path in sorted(study.folder.glob("*.py"))
        for entry in _entries(study, f"{study.package}.{path.stem}", path)
    }


def _own_entries() -> Iterator[Entry]:
    """Yield the entries of the experiments that the user's own files define; those imported from studies are not."""
    for study in discovery.own_studies().values():
        from elegans.experiments.base import Experiment

        for attribute, value in vars(sys.modules[study.package]).items():
            shipped = _of_studies().get(value.name) if isinstance(value, Experiment) else None
            if not isinstance(value, Experiment) or (
                shipped and discovery.load(shipped.module, shipped.attribute) is value
            ):
                continue
            yield Entry(
                name=value.name,
                study=study.name,
                module=study.package,
                attribute=attribute,
                shows=value.shows,
                source=value.source,
                scales=tuple(value.scales),
                options={name: option.chooses for name, option in value.options.items()},
                claims=tuple(
                    ClaimEntry(claim.id, claim.statement, claim.source, value.name, study.name)
                    for claim in value.claims
                ),
                lines=tuple(value.lines),
            )


def _entries(study: discovery.Study, module: str, path: Path) -> Iterator[Entry]:
    """Yield the entries of a file's experiments.

    Raises:
        ExperimentError: something that is read from the text is not a literal.
    """
    text = path.read_text(encoding="utf-8")
    claims_file = path.with_stem(f"{path.stem}_claims")
    texts = (text, claims_file.read_text(encoding="utf-8")) if claims_file.exists() else (text,)
    for statement in filter(_MADE.search, _STATEMENT.findall(text)):
        try:
            yield _entry(study, module, statement, texts)
        except (AssertionError, AttributeError, KeyError, ValueError):  # of literals and their syntax
            rule = (
                "the name, shows and source of a study's experiment, the names of its scales, and the id, statement "
                "and source of its claims must be literals"
            )
            raise ExperimentError(f"{rule}: {printable(path.name)} of {study.name}") from None


def _entry(study: discovery.Study, module: str, statement: str, texts: Sequence[str]) -> Entry:
    node = ast.parse(statement).body[0]
    assert isinstance(node, ast.Assign)
    arguments = _keywords(node.value)
    literals = {name: ast.literal_eval(arguments[name]) for name in ("name", "shows", "source")}
    return Entry(
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
    for statement in _STATEMENT.findall(text):
        marked = "Claim(" in statement or statement.startswith("@")
        for node in ast.walk(ast.parse(statement.removeprefix("@"))) if marked else ():
            if not isinstance(node, ast.Call):
                continue
            if getattr(node.func, "attr", getattr(node.func, "id", "")) in ("Claim", "claim"):
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


def own_experiments(path: str | Path) -> list[Entry]:
    """Import a user's file and return the entries of its experiments; for a study's file, the study's entries.

    Raises:
        SweepError: there is no such file, or importing it raises.
        ExperimentError: it defines no experiment.
    """
    from elegans import extensions

    file = Path(path)
    of_study = [each for each in _of_studies().values() if each.module.rpartition(".")[2] == file.stem]
    if same := [each for each in of_study if (discovery.studies()[each.study].folder / file.name) == file.resolve()]:
        return same
    module = extensions.load(path).__name__
    defined = [entry for entry in entries().values() if entry.module == module]
    if not defined:
        rule = "a file of experiments must define an Experiment at its top level"
        raise ExperimentError(f"{rule}: {printable(str(path))}")
    return defined


def is_file(name: str | Path) -> bool:
    """Return whether an experiment is named by the path of its file."""
    return str(name).endswith(".py")


def find_entry(name: str | Path, scale: str | None = None) -> Entry:
    """Return the entry of an experiment, and check that it has a scale if one is named.

    Args:
        name: the experiment's name, or the path of a user's file that defines a single experiment.
        scale: the name of a scale.

    Raises:
        ExperimentError: there is no such experiment or scale, or the file does not define a single experiment.
        SweepError: the file cannot be imported.
    """
    if is_file(name):
        entry, *others = own_experiments(name)
        if others:
            file, names = printable(str(name)), ", ".join(other.name for other in (entry, *others))
            remedy = f"import it and name one: {names} ({entry.name} --import {file} in the shell)"
            raise ExperimentError(f"{file} has several experiments, {remedy}")
    elif name in entries():
        entry = entries()[str(name)]
    else:
        otherwise = "; `elegans list` lists all, and your own is named by its file, own.py, or needs --import own.py"
        raise ExperimentError(f"unknown experiment {shown(name)}{suggest(str(name), list(entries()), otherwise)}")
    if scale is not None and scale not in entry.scales:
        listed = f"; known: {', '.join(entry.scales)}"  # the smallest first
        raise ExperimentError(f"{name} has no scale {shown(scale)}{listed}")
    return entry


def claims() -> dict[str, ClaimEntry]:
    """Return the claims of all experiments by id."""
    return {claim.id: claim for entry in entries().values() for claim in entry.claims}


def find_claim(name: str) -> ClaimEntry:
    """Return a claim by its id, or by the part after the slash where that is unique."""
    matching = [claim for claim in claims().values() if name in (claim.id, claim.id.partition("/")[2])]
    if len(matching) != 1:
        near = suggest(name, list(claims()), "; `elegans claims` lists all")
        raise ClaimError(f"unknown claim {shown(name)}{near}")
    return matching[0]


def find(name: "str | Path | Experiment") -> "Experiment":
    """Return an experiment by its name, or by the path of a file that defines it; an experiment is returned itself.

    Raises:
        ExperimentError: there is no such experiment, or the file does not define a single one.
        SweepError: the file cannot be imported.
    """
    if not isinstance(name, str | Path):
        return name
    entry = find_entry(name)
    experiment: Experiment = discovery.load(entry.module, entry.attribute)
    return experiment


def cited(experiment: "Experiment") -> str:
    """Return an experiment's source with the title of its work."""
    entry = entries().get(experiment.name)
    return f"{discovery.study(entry.study).title()} {experiment.source}" if entry else experiment.source


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
