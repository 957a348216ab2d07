"""The code of user-defined classes by run, so that a later run knows which outcomes came from other code."""

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, select

from elegans.store.schema import CODES, RUNS


def changed_runs(
    connection: Connection, classes: Mapping[str, Iterable[str]], codes: Mapping[str, str]
) -> dict[str, frozenset[int]]:
    """Return the runs in which the code of some class differs from the present one, by cell.

    ``classes`` are the user-defined classes that each cell needs, ``codes`` the hashes of their code now. A run that
    did not use a class counts with the code of the latest run before it, whose measures it may have kept.
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
