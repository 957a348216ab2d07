"""What can be copied of a trial: Python, TOML and the command line."""

import json
import math
import shlex
from collections.abc import Mapping
from typing import Any

import tomli_w

from elegans.component import Component
from elegans.errors import ElegansError
from elegans.training.trial import Trial

MORE = 20
"""Seeds of the command for more of them."""


def copies(template: Mapping[str, Any], seed: int) -> dict[str, str]:
    """Return a trial, given as the record of its cell and a seed, as ``python``, ``toml`` and ``command``."""
    record = {**template, "seed": seed}
    toml = tomli_w.dumps(_told(record))
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
            tomli_w.dumps({"trial": _told(template)}).rstrip("\n"),
            "END",
            f"elegans sweep {file} --store {shlex.quote(store)}",
        ]
    )


def _told(value: Any) -> Any:
    """Return a record without what is None, which TOML does not have."""
    if isinstance(value, Mapping):
        return {name: _told(entry) for name, entry in value.items() if entry is not None}
    return [_told(entry) for entry in value] if isinstance(value, list | tuple) else value


def _python(trial: Trial | None, toml: str) -> str:
    code = f"el.Trial.from_toml({toml!r})" if trial is None else _written(trial, outermost=True)
    return f"import elegans as el\n\ntrial = {code}\noutcome = el.train(trial)\n"


def _own(component: Component) -> list[str]:
    """Return the fields of a component that have not their default values."""
    return [
        name
        for name, field in type(component).model_fields.items()
        if field.is_required() or getattr(component, name) != field.get_default(call_default_factory=True)
    ]


def _written(component: Component, outermost: bool = False) -> str:
    """Return a component as the call that makes it, fields with their default values left out."""
    arguments = [f"{name}={_value(getattr(component, name))}" for name in _own(component)]
    inner = "".join(f"\n    {argument}," for argument in arguments) + "\n" if outermost else ", ".join(arguments)
    return f"el.{type(component).__name__}({inner})"


def _value(value: Any) -> str:
    if isinstance(value, Component):
        return _written(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_value(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, tuple | list):
        inner = ", ".join(_value(entry) for entry in value)
        return f"({inner},)" if isinstance(value, tuple) and len(value) == 1 else f"({inner})"
    return repr(value)


def _command(record: Mapping[str, Any], trial: Trial | None) -> str:
    """Return the command that trains a trial, each part of which is set as a whole."""
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
    for name in _own(component):
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
