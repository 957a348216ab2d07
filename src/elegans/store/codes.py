"""The code of user-defined classes by run, from which a later run knows which outcomes are of other code."""

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection, insert, select

from elegans.extensions import code_of, own_classes
from elegans.probes import Probe
from elegans.store.schema import CODES, RUNS
from elegans.training.trial_set import TrialSet


def codes_of(sweep: TrialSet, probes: Sequence[Probe]) -> tuple[dict[str, Iterable[str]], dict[str, str]]:
    """Return the user-defined classes that each cell needs, by its hash, and the hash of each class's code now."""
    classes = {template.cell: own_classes((template, *probes)) for template in sweep.cells}
    return dict(classes), {part: code_of(cls) for part, cls in ChainMap(*classes.values()).items()}


def changed_runs(
    connection: Connection, classes: Mapping[str, Iterable[str]], codes: Mapping[str, str]
) -> dict[str, frozenset[int]]:
    """Return the runs in which the code of some class differs from the present one, by cell.

    A run that did not use a class counts with the code of the latest run before it, whose measures it may have kept.
    """
    if not codes:
        return {}
    runs = connection.scalars(select(RUNS.c.id).order_by(RUNS.c.id)).all()
    query = select(CODES.c.part, CODES.c.run, CODES.c.code).where(CODES.c.part.in_(codes))
    stale: dict[str, set[int]] = {part: set() for part in codes}
    recorded = {(part, run): code for part, run, code in connection.execute(query)}
    for part, now in codes.items():
        code = now
        for run in runs:
            code = recorded.get((part, run), code)
            if code != now and code.partition(":")[0] == now.partition(":")[0]:
                stale[part].add(run)
    return {cell: frozenset().union(*(stale[part] for part in parts)) for cell, parts in classes.items()}


def record_codes(connection: Connection, run: int, codes: Mapping[str, str]) -> None:
    """Record the code of a run's classes."""
    if codes:
        connection.execute(insert(CODES), [{"run": run, "part": part, "code": code} for part, code in codes.items()])
