"""What the page offers to copy of a trial: Python, TOML and the command line."""

import json
import math
import shlex
from collections.abc import Mapping
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any

import tomli_w

from elegans.component import Component
from elegans.discovery import own_studies
from elegans.errors import ElegansError
from elegans.experiments.registry import entries
from elegans.training.trial import Trial

MORE = 20
"""The number of seeds in the command that trains more of them."""


def copies(template: Mapping[str, Any], seed: int) -> dict[str, str]:
    """Return a trial, given as the record of its cell and a seed, as ``python``, ``toml`` and ``command``."""
    record = {**template, "seed": seed}
    toml = tomli_w.dumps(_without_none(record))
    try:
        trial = Trial.parse(record)
    except (ElegansError, ValueError):  # of a class that is not imported here
        trial = None
    return {"python": _python(trial, toml), "toml": toml, "command": _command(record, trial)}


def more_seeds(template: Mapping[str, Any], store: str, cell: int, first: int) -> str:
    """Return the command that trains further seeds of a cell into its store."""
    file = f"cell-{cell}.toml"
    seeds = _inline(list(range(first, first + MORE)))
    return "\n".join(
        [
            f"cat > {file} <<'END'",
            f"seeds = {seeds}\n",
            tomli_w.dumps({"trial": _without_none(template)}).rstrip("\n"),
            "END",
            f"elegans sweep {file} --store {shlex.quote(store)}",
        ]
    )


def first_run(store: Path) -> str:
    """Return the command that makes a store that is not there yet.

    It runs the experiment by whose name the folder is called, or a quick one, at the smallest scale.
    """
    folder = store.parent.absolute()
    entry = entries().get(folder.name)
    if entry is None or entry.study in own_studies():
        words = ["success-frontier", "--scale", "smoke", "--store", str(folder / store.name)]
    else:
        words = [entry.name, "--scale", entry.scales[0], "--out", str(folder.parent)]
    return shlex.join(["elegans", "run", *words])


def _without_none(value: Any) -> Any:
    """Return a record without what is None, which TOML does not have."""
    if isinstance(value, Mapping):
        return {name: _without_none(member) for name, member in value.items() if member is not None}
    return [_without_none(member) for member in value] if isinstance(value, list | tuple) else value


def _python(trial: Trial | None, toml: str) -> str:
    imports = {"import elegans as el"}
    code = f"el.Trial.from_toml({toml!r})" if trial is None else _call(trial, imports, outermost=True)
    return "\n".join([*sorted(imports, reverse=True), "", f"trial = {code}", "outcome = el.train(trial)", ""])


def _name(kind: type[Component], imports: set[str]) -> str:
    """Return the shortest name of a component's class, and add the import that it needs."""
    packages = list(accumulate(kind.__module__.split("."), "{}.{}".format))[:-1]
    for package in packages if packages[:1] == ["elegans"] else []:
        if getattr(import_module(package), kind.__name__, None) is kind:
            return f"el{package.removeprefix('elegans')}.{kind.__name__}"
    imports.add(f"from {kind.__module__} import {kind.__name__}")
    return kind.__name__


def _set_fields(component: Component) -> list[str]:
    """Return the fields of a component that differ from their defaults."""
    return [
        name
        for name, field in type(component).model_fields.items()
        if field.is_required() or getattr(component, name) != field.get_default(call_default_factory=True)
    ]


def _call(component: Component, imports: set[str], outermost: bool = False) -> str:
    """Return a component as the call that makes it, without fields at their defaults."""
    fields = [f"{name}={_value(getattr(component, name), imports)}" for name in _set_fields(component)]
    inner = "".join(f"\n    {field}," for field in fields) + "\n" if outermost else ", ".join(fields)
    return f"{_name(type(component), imports)}({inner})"


def _value(value: Any, imports: set[str]) -> str:
    if isinstance(value, Component):
        return _call(value, imports)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_value(member, imports)}" for key, member in value.items()) + "}"
    if isinstance(value, tuple | list):
        inner = ", ".join(_value(member, imports) for member in value)
        return f"({inner},)" if isinstance(value, tuple) and len(value) == 1 else f"({inner})"
    return repr(value)


def _command(record: Mapping[str, Any], trial: Trial | None) -> str:
    """Return the command that trains a trial; each part of the trial is set as a whole."""
    parts = record if trial is None else {**_needed(trial), "seed": trial.seed}
    words = ["elegans", "train", "--model", str(record.get("model", {}).get("kind")), "--seed", str(record["seed"])]
    for name, part in parts.items():
        if part is not None and name != "seed":
            words += ["--set", f"{name}={_inline(part)}"]
    return shlex.join(words)


def _needed(component: Component) -> dict[str, Any]:
    """Return a component's record without the fields that have their default values."""
    record: dict[str, Any] = {"kind": component.kind} if hasattr(type(component), "_members") else {}
    dumped = component.model_dump(mode="json")
    for name in _set_fields(component):
        value = getattr(component, name)
        record[name] = _needed(value) if isinstance(value, Component) else dumped[name]
    return record


def _inline(value: Any) -> str:
    """Return a value as TOML has it on one line."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(k)} = {_inline(v)}' for k, v in value.items() if v is not None)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_inline, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value)
