"""Repeating a recorded run, and what differs."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, ValidationError

from elegans.component import explain
from elegans.errors import ExperimentError, brief, printable, shown
from elegans.experiments.base import Result
from elegans.experiments.registry import find
from elegans.experiments.run import run_experiment
from elegans.files import readable

TIMES = ("seconds",)
"""Endings of the names of columns that differ from run to run."""


class Arguments(BaseModel, extra="forbid", strict=True):
    """The arguments of ``run_experiment`` that a record keeps."""

    seeds: int | None = None
    adaptive: bool = False
    engine: str = "auto"
    options: dict[str, Any] = {}


class Record(BaseModel, strict=True):
    """What a record must have, so that its run can be repeated and compared."""

    experiment: str
    scale: str
    first_seed: int
    arguments: Arguments = Arguments()
    verdicts: dict[str, dict[str, Any]] = {}


@dataclass(frozen=True)
class Rerun:
    """A repeated run.

    Args:
        result: the run.
        around: what differs in what the runs were made with: versions, build, machine; by name, before and now.
        within: what differs in their results, in words; empty if nothing does.
    """

    result: Result
    around: Mapping[str, tuple[Any, Any]]
    within: tuple[str, ...]


def read(path: str | Path) -> dict[str, Any]:
    """Return a run's record from its ``record.json``, or from the JSON file of evidence.

    Raises:
        ExperimentError: there is no such file, or it is not the record of a run that can be repeated.
    """
    file, named = readable(path, "a record", ExperimentError), printable(str(path))
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        record = {**found["record"], "verdicts": found["verdicts"]} if "record" in found else {**found}
        if "record" in found:
            record["arguments"] = {**record.get("arguments", {}), "options": found["options"]}
    except OSError as error:
        raise ExperimentError(f"a record must be readable: {named} ({error.strerror})") from None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ExperimentError(
            f"a record must be JSON that a run has written: {named}: {type(error).__name__}"
        ) from None
    if "--draw-only" in str(record.get("command")):
        raise ExperimentError(f"a record must be that of a run: {named}: {shown(record['command'])}")
    try:
        record |= Record.model_validate(record).model_dump()
    except ValidationError as error:
        raise ExperimentError(f"a record must be that of a run: {named}: {explain(error, Record)}") from None
    return record


def rerun(path: str | Path, *, out: str | Path, watch: Any = None, **given: Any) -> Rerun:
    """Run again what a record says, and compare.

    Args:
        path: ``record.json`` of a run, with its tables beside it, or the JSON file of evidence.
        out: the folder for the new run.
        watch: called with the progress, as in ``elegans.run``.
        given: ``workers``, ``scheduler``, ``instruction_set`` and ``command`` of ``run_experiment``.

    Raises:
        ExperimentError: the record is not that of a run that can be repeated, or the new run would be written over it.
    """
    record, folder = read(path), Path(path).resolve().parent
    find(record["experiment"])  # before its name becomes that of a folder
    if (Path(out) / record["experiment"]).resolve() == folder:
        raise ExperimentError(f"out must be another folder than that of the record: out={printable(str(out))}")
    given |= {name: value for name, value in record["arguments"].items() if value is not None}
    given |= {"first_seed": record["first_seed"], "watch": watch}
    result = run_experiment(record["experiment"], record["scale"], out=out, **given)
    around = {
        f"{part} {name}": (record[part].get(name), value)
        for part in ("build", "versions", "machine")
        for name, value in result.record[part].items()
        if isinstance(record.get(part), dict) and record[part].get(name) != value
    }
    return Rerun(result, around, tuple(_differences(record, result, folder)))


def _differences(record: Mapping[str, Any], result: Result, folder: Path) -> Iterator[str]:
    """Yield in words how results differ: trials, how they ended, verdicts, tables."""
    now = json.loads(json.dumps(result.record))
    for what in ("identities", "trials", "states"):
        if what in record and record[what] != now[what]:
            yield f"{what}: {_shown(record[what])} before, {_shown(now[what])} now"
    for claim, verdict in record["verdicts"].items():
        other = now["verdicts"].get(claim, {}).get("verdict", "none")
        if (known := verdict.get("verdict")) != other:
            yield f"verdict of {claim}: {known} before, {other} now"
    for name in result.tables:
        file = folder / f"{name}.csv"
        if file.exists():
            try:
                before = pd.read_csv(file)
            except (OSError, ValueError) as error:  # an empty or damaged file
                yield f"table {name}: {printable(file.name)} cannot be read: {brief(str(error))}"
            else:
                yield from _columns(name, before, pd.read_csv(result.files[name]))


def _columns(name: str, before: pd.DataFrame, now: pd.DataFrame) -> Iterator[str]:
    if list(before) != list(now) or len(before) != len(now):
        sizes = (f"{len(table)} rows of {len(table.columns)} columns" for table in (before, now))
        yield "table {}: {} before, {} now".format(name, *sizes)
        return
    for column in now:
        one, other = before[column], now[column]
        if str(column).endswith(TIMES) or one.equals(other):
            continue
        rows = int((~((one == other) | (one.isna() & other.isna()))).sum())
        if rows and pd.api.types.is_numeric_dtype(one) and pd.api.types.is_numeric_dtype(other):
            largest = np.nanmax(np.abs(one.to_numpy(float) - other.to_numpy(float)))
            yield f"table {name}: {column} in {rows} of {len(now)} rows, by at most {largest:.3g}"
        elif rows:
            yield f"table {name}: {column} in {rows} of {len(now)} rows"


def _shown(value: Any) -> str:
    return value[:12] if isinstance(value, str) else json.dumps(value)
