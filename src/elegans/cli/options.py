"""Turns arguments of ``elegans train`` into a trial, and arguments of ``elegans run`` into an experiment's options."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from elegans import discovery, records
from elegans.errors import ExperimentError, TrialError, shown, suggest
from elegans.experiments.registry import Entry, entries

FEW = 3
"""How many experiments a message names."""


def trial_from(record: dict[str, Any], extra: Sequence[str], changes: Sequence[str], options: Sequence[str]) -> Any:
    """Return the trial that the options of ``elegans train`` describe.

    Args:
        record: the part of the trial that named options set: ``task``, ``regime``, ``model``, ``training``, ``seed``.
        extra: the rest of the command line: the fields of the task.
        changes: ``path=value`` for any field, applied last.
        options: the names of the named options, for suggestions.

    Raises:
        TrialError: an option is unknown, or the trial breaks a rule.
    """
    from elegans.tasks import Task

    task = record["task"]["kind"]
    fields = Task.of_kind(task).model_fields if task in Task.kinds() else None
    for name, value in pairs(extra):
        if fields is not None and name not in fields:
            known = [*options, *(f"--{field.replace('_', '-')}" for field in fields)]
            raise TrialError(f"no such option: --{name.replace('_', '-')}{suggest(f'--{name}', known)}")
        record["task"][name] = value
    for change in changes:
        path, equals, text = change.partition("=")
        if not equals:
            raise TrialError(f"--set must be path=value, as in model.width=100: {change!r}")
        assign(record, path, literal(text))
    _refuse_missing(record["task"], fields or {})
    record["task"] = Task.parse(record["task"])
    from elegans.models import Model

    record["model"] = Model.parse(record["model"])
    from elegans.training import Trial  # late, so that input is refused without loading the training code

    return Trial.parse(record)


def _refuse_missing(record: Any, fields: Mapping[str, Any]) -> None:
    """Refuse a task without a field that it needs, in the words of the command line."""
    missing = [name for name, field in fields.items() if field.is_required() and name not in record]
    if missing:
        options = " and ".join(f"--{name.replace('_', '-')}" for name in missing)
        raise TrialError(
            f"the task {record['kind']} needs {options}, which {'is' if missing[1:] == [] else 'are'} missing"
        )


def own_options(experiment: Entry, extra: Sequence[str], options: Sequence[str]) -> dict[str, Any]:
    """Return the values of an experiment's own options by name.

    Args:
        experiment: its entry in the registry.
        extra: the rest of the command line.
        options: the names of the command's own options, for suggestions.

    Raises:
        ExperimentError: the experiment has no such option.
    """
    values = dict(pairs(extra))
    for name in values:
        if name not in experiment.options:
            owners = [entry.name for entry in entries().values() if name in entry.options]
            known = [*options, *(f"--{option}" for option in experiment.options)]
            more = [f"{len(owners) - FEW} more"] if len(owners) > FEW else []
            have = f"; {' and '.join([', '.join(owners[:FEW]), *more])} {'have' if owners[1:] else 'has'} it"
            near = have if owners else suggest(f"--{name}", known)
            raise ExperimentError(f"no such option of {experiment.name}: --{name.replace('_', '-')}{near}")
    return values


def is_learner(kind: str) -> bool:
    """Return whether a kind of model is not a network, and so has no training."""
    if kind in discovery.kinds("Model"):
        return kind in discovery.kinds("Learner")
    from elegans.models import Model

    if kind not in Model.kinds():
        return False
    from elegans.learners.base import Learner

    return issubclass(Model.of_kind(kind), Learner)


def pairs(arguments: Sequence[str]) -> list[tuple[str, Any]]:
    """Return the names and values of ``--name value`` and ``--name=value``.

    Raises:
        TrialError: an argument is not an option, or an option has no value.
    """
    options, remaining = [], list(arguments)
    while remaining:
        word = remaining.pop(0)
        if not word.startswith("--"):
            raise TrialError(f"an option must begin with two dashes: {word!r}")
        name, equals, text = word.removeprefix("--").partition("=")
        if not equals:
            if not remaining:
                raise TrialError(f"an option must have a value: {word!r}")
            text = remaining.pop(0)
        options.append((name.replace("-", "_"), literal(text)))
    return options


def literal(text: str) -> Any:
    """Return a value as TOML would read it (numbers, booleans, lists, records), or else the text itself.

    Unlike in TOML, a number may begin or end with its point: ``.5``.
    """
    if re.fullmatch(r"[+-]?([0-9]+\.|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return float(text)
    try:
        record = records.read(f"value = {text}", "TOML", "a value", TrialError)
    except TrialError:
        return text
    return record["value"] if len(record) == 1 else text  # further lines are not part of a value


def assign(record: dict[str, Any], path: str, value: Any) -> None:
    """Set the field at a dotted path of a nested record, creating records on the way.

    Raises:
        TrialError: a name on the path does not belong to a record.
    """
    *way, last = path.split(".")
    if len(way) >= records.DEEPEST:
        raise TrialError(f"a path must have at most {records.DEEPEST} names: {shown(path)}")
    for name in way:
        record = record.setdefault(name, {})
        if not isinstance(record, dict):
            raise TrialError(f"{name!r} has no fields of its own: {path!r}")
    record[last] = value
