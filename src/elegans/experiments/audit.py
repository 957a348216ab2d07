"""The results of a sceptical reading of each claim, from the tables ``audit.csv`` in the folders of studies."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass

from elegans import discovery
from elegans.errors import ClaimError, printable

COLUMNS = ("claim", "source", "rule", "null")


@dataclass(frozen=True)
class Audit:
    """The result of a sceptical reading of one claim.

    Args:
        claim: the claim's id.
        source: whether the claim states what its source states, and what it adds, narrows or leaves out.
        rule: how its rule would notice if the statement were false.
        null: why it may hold on tables in which there is nothing to find (``nulls``); empty if it does not hold on any.
    """

    claim: str
    source: str
    rule: str
    null: str


def audits() -> Iterator[Audit]:
    """Yield the readings of all claims, study by study.

    Raises:
        ClaimError: a table has the wrong columns.
    """
    for study in discovery.studies().values():
        file = study.folder / "audit.csv"
        if not file.exists():
            continue
        with file.open(encoding="utf-8", newline="") as text:
            rows = list(csv.reader(text))
        if not rows or tuple(rows[0]) != COLUMNS or any(len(row) != len(COLUMNS) for row in rows):
            raise ClaimError(f"a table of an audit must have the columns {', '.join(COLUMNS)}: {printable(str(file))}")
        yield from (Audit(*row) for row in rows[1:])
