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
    file, text = readable(path, "a record", ExperimentError), printable(str(path))
    try:
        record = {**json.loads(file.read_text(encoding="utf-8"))}
        if "record" in record:  # of evidence
            arguments = {**record["record"].get("arguments", {}), "options": record["options"]}
            record = {**record["record"], "verdicts": record["verdicts"], "arguments": arguments}
    except OSError as error:
        raise ExperimentError(f"a record must be readable: {text} ({error.strerror})") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        rule = "a record must be JSON written by a run"
        raise ExperimentError(f"{rule}: {text}: {type(error).__name__}") from None
    if "--draw-only" in str(record.get("command")):
        raise ExperimentError(f"a record must come from a run: {text}: {shown(record['command'])}")
    try:
        record |= Record.model_validate(record).model_dump()
    except ValidationError as error:
        raise ExperimentError(f"a record must come from a run: {text}: {explain(error, Record)}") from None
    return record


def rerun(path: str | Path, *, out: str | Path, watch: Any = None, **settings: Any) -> Rerun:
    """Run again what a record says, and compare.

    Args:
        path: ``record.json`` of a run, with its tables beside it, or the JSON file of evidence.
        out: the folder for the new run.
        watch: called with the progress, as in ``elegans.run``.
        settings: ``workers``, ``scheduler``, ``instruction_set`` and ``command`` of ``run_experiment``.

    Raises:
        ExperimentError: the record's run cannot be repeated, or the new run would be written over it.
    """
    record, folder = read(path), Path(path).resolve().parent
    find(record["experiment"])  # before its name becomes that of a folder
    if (Path(out) / record["experiment"]).resolve() in (folder, folder.parent):
        raise ExperimentError(f"out must not be the folder of the record: out={printable(str(out))}")
    settings |= {name: value for name, value in record["arguments"].items() if value is not None}
    settings |= {"first_seed": record["first_seed"], "watch": watch}
    result = run_experiment(record["experiment"], record["scale"], out=out, **settings)
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
    for key in ("identities", "trials", "states"):
        if key in record and record[key] != now[key]:
            texts = (value[:12] if isinstance(value, str) else json.dumps(value) for value in (record[key], now[key]))
            yield "{}: {} before, {} now".format(key, *texts)
    for claim, verdict in record["verdicts"].items():
        before, after = verdict.get("verdict"), now["verdicts"].get(claim, {}).get("verdict", "none")
        if before != after:
            yield f"verdict of {claim}: {before} before, {after} now"
    for name in result.tables:
        file = folder / f"{name}.csv"
        if file.exists():
            try:
                table = pd.read_csv(file)
            except (OSError, ValueError) as error:  # an empty or damaged file
                yield f"table {name}: {printable(file.name)} cannot be read: {brief(str(error))}"
            else:
                yield from _columns(name, table, pd.read_csv(result.files[name]))


def _columns(name: str, before: pd.DataFrame, now: pd.DataFrame) -> Iterator[str]:
    if list(before) != list(now) or len(before) != len(now):
        sizes = (f"{len(table)} rows of {len(table.columns)} columns" for table in (before, now))
        yield "table {}: {} before, {} now".format(name, *sizes)
        return
    for column in now:
        old, new = before[column], now[column]
        rows = int((~((old == new) | (old.isna() & new.isna()))).sum())
        if str(column).endswith(TIMES) or not rows:
            continue
        largest = ""
        if pd.api.types.is_numeric_dtype(old) and pd.api.types.is_numeric_dtype(new):
            largest = f", by at most {np.nanmax(np.abs(old.to_numpy(float) - new.to_numpy(float))):.3g}"
        yield f"table {name}: {column} in {rows} of {len(now)} rows{largest}"
