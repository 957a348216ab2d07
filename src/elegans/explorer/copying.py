"""What can be copied of a trial: Python, TOML and the command line."""

import json
import shlex
from collections.abc import Iterator, Mapping
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
    return {"python": _python(record, toml), "toml": toml, "command": _command(record)}


def more_seeds(template: Mapping[str, Any], place: str, cell: int, first: int) -> str:
    """Return the command that trains further seeds of a cell into its store."""
    file = f"cell-{cell}.toml"
    swept = {"seeds": list(range(first, first + MORE)), "trial": _told(template)}
    return "\n".join(
        [
            f"cat > {file} <<'END'",
            tomli_w.dumps(swept).rstrip("\n"),
            "END",
            f"elegans sweep {file} --store {shlex.quote(place)}",
        ]
    )


def _told(value: Any) -> Any:
    """Return a record without what is None, which TOML does not have."""
    if isinstance(value, Mapping):
        return {name: _told(one) for name, one in value.items() if one is not None}
    return [_told(one) for one in value] if isinstance(value, list | tuple) else value


def _python(record: Mapping[str, Any], toml: str) -> str:
    try:
        trial = Trial.parse(record)
        code = _written(trial, 0)
    except (ElegansError, ValueError):  # of a class that is not imported here
        code = f'el.Trial.from_toml("""\n{toml.replace(chr(92), chr(92) * 2).replace(chr(34) * 3, "")}""")'
    return f"import elegans as el\n\ntrial = {code}\noutcome = el.train(trial)\n"


def _written(component: Component, depth: int) -> str:
    """Return a component as the call that makes it, fields with their default values left out."""
    own = [
        f"{name}={_value(getattr(component, name), depth + 1)}"
        for name, field in type(component).model_fields.items()
        if field.is_required() or getattr(component, name) != field.default
    ]
    if depth:
        return f"el.{type(component).__name__}({', '.join(own)})"
    inner = "".join(f"    {one},\n" for one in own)
    return f"el.{type(component).__name__}(\n{inner})"


def _value(value: Any, depth: int) -> str:
    if isinstance(value, Component):
        return _written(value, depth)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_value(one, depth)}" for key, one in value.items()) + "}"
    if isinstance(value, tuple | list):
        inner = ", ".join(_value(one, depth) for one in value)
        return f"({inner},)" if isinstance(value, tuple) and len(value) == 1 else f"({inner})"
    return repr(value)


def _command(record: Mapping[str, Any]) -> str:
    """Return the command that trains a trial: the kinds as options, every other field set by its path."""
    words = ["elegans", "train"]
    for part in ("task", "model"):
        kind = record.get(part, {}).get("kind")
        words += [f"--{part}", str(kind)] if kind else []
    words += ["--seed", str(record["seed"])]
    for path, value in _fields(record):
        words += ["--set", f"{path}={_toml(value)}"]
    return shlex.join(words)


def _fields(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        path = f"{prefix}{name}"
        if value is None or path in ("seed", "task.kind", "model.kind"):
            continue
        if isinstance(value, Mapping) and value:
            yield from _fields(value, f"{path}.")
        else:
            yield path, value


def _toml(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
