"""Numbers and tables that pages quote from the committed evidence, as text.

Pages contain no measured numbers: they refer to the evidence, and a reference without a number stops the build. A
*path* leads through the record's findings, or through the numbers of a claim's verdict, key by key.
"""

import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from formulas import formatted
from numerals import named, number, set_numbers, with_interval

from elegans.display import span
from elegans.experiments.checks import summary
from elegans.experiments.evidence import Evidence, collected, verdict_of

MAIN = ("estimate", "exponent", "median", "median_steps", "correlation")
"""Keys of numbers whose interval is beside them, under ``interval`` or ``limits``."""


class NotInEvidence(LookupError):
    """A page quotes something that the evidence does not have."""


class Absent(NotInEvidence):
    """A path leads nowhere."""


def evidence_of(experiment: str, scale: str | None = None, options: str | None = None) -> Evidence:
    """Return an experiment's evidence at a scale, by default the one nearest to the published one.

    Args:
        experiment: its name.
        scale: the scale's name.
        options: its options as in the file's name: ``kappas=0.1``.

    Raises:
        NotInEvidence: there is none.
    """
    found = [
        one
        for one in collected()
        if one.experiment == experiment
        and scale in (None, one.scale)
        and (options or "") == ".".join(f"{name}={value}" for name, value in one.content["options"].items())
    ]
    if not found:
        raise NotInEvidence(f"no evidence of {experiment} (scale={scale}, options={options})")
    return min(found, key=lambda one: one.rank)


def found(evidence: Evidence, path: Sequence[str | int], **style: Any) -> str:
    """Return a number of a record's findings as text; see ``text_of``."""
    return _at(evidence.content["record"]["findings"], path, f"findings of {evidence.path.name}", style)


def judged(claim: str, path: Sequence[str | int], **style: Any) -> str:
    """Return a number of a claim's verdict as text; see ``text_of``."""
    return _at(verdict(claim)["numbers"], path, f"numbers of {claim}", style)


def verdict(claim: str) -> Mapping[str, Any]:
    """Return a claim's verdict from the evidence that decides it."""
    kept = verdict_of(claim)
    if kept is None:
        raise NotInEvidence(f"no verdict of {claim}")
    return kept[1]


def _at(start: Any, path: Sequence[str | int], where: str, style: Mapping[str, Any]) -> str:
    beside, value = None, start
    for key in path:
        beside = value
        try:
            value = value[int(key) if isinstance(value, list) else key]
        except (KeyError, IndexError, TypeError, ValueError):
            known = ", ".join(map(str, value)) if isinstance(value, Mapping) else repr(value)
            raise Absent(f"{where} have no {list(path)!r}: {key!r} is none of {known}") from None
    style = dict(style)
    named = style.pop("interval", None)
    interval = _interval(beside, path[-1] if path else "")
    if named is not None:
        if not (isinstance(beside, Mapping) and named in beside):
            raise NotInEvidence(f"{where} have no {named!r} beside {path[-1]!r}")
        interval = beside[named]
    return text_of(value, interval=interval, **style)


def _interval(beside: Any, key: str | int) -> Any:
    """Return the pair of numbers that belongs to a key's number, if there is one."""
    if not isinstance(beside, Mapping):
        return None
    shared = beside.get("interval", beside.get("limits")) if key in MAIN else None
    return beside.get(f"{key}_interval", shared)


def text_of(value: Any, *, interval: Any = None, bare: bool = False, **style: Any) -> str:
    """Return a value of the evidence as text.

    A number is written with its interval, ``1.23 (1.20 to 1.26)``, and so are a mapping with a ``median`` or an
    ``estimate`` and a list of an estimate and two limits; a pair of whole numbers is written as ``57 of 60``.

    Args:
        value: a number, a string, a list or a mapping.
        interval: the two limits of the number.
        bare: whether to omit the interval.
        **style: the style of numbers: ``digits`` (significant, 3), ``percent`` (fractions as percentages), ``signed``.
    """
    if isinstance(value, Mapping):
        key = next((name for name in MAIN if name in value), None)
        if key is None:
            raise NotInEvidence(f"a mapping without a main number cannot be quoted: {', '.join(map(str, value))}")
        return text_of(value[key], interval=_interval(value, key), bare=bare, **style)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return set_numbers(named(value))
    if isinstance(value, Sequence):
        return _listed(value, bare, style)
    if interval is None or bare or interval[0] == interval[1] == value:
        return number(value, **style)
    low, middle, high = (math.inf if one is None else one for one in (interval[0], value, interval[1]))
    if not low <= middle <= high:
        raise NotInEvidence(f"an interval must contain its number: {value}, {interval}; quote the number bare")
    return with_interval(middle, interval, **style)


def _listed(values: Sequence[Any], bare: bool, style: Mapping[str, Any]) -> str:
    if len(values) == 2 and all(isinstance(part, int) for part in values):
        return f"{number(values[0])} of {number(values[1])}"
    if len(values) == 2 and all(isinstance(part, float) for part in values):
        return " to ".join(text_of(part, **style) for part in values)
    if len(values) == 3:
        return text_of(values[0], interval=values[1:], bare=bare, **style)
    return ", ".join(text_of(value, **style) for value in values)


def findings_table(
    evidence: Evidence,
    path: Sequence[str | int],
    columns: Mapping[str, str],
    *,
    first: str | Sequence[str],
    names: Mapping[str, str] | None = None,
    **style: Any,
) -> str:
    """Return a Markdown table of findings: one row per key of the mapping at a path, one column per key of its members.

    Members without any of the columns are omitted, and lists without a number.

    Args:
        evidence: the evidence.
        path: the path to a mapping of mappings or lists, or a list of them.
        columns: headings by key, or by place in a list; a key with slashes is a path.
        first: the heading of the column of row names, or headings of columns into which they are split at blanks.
        names: row names to show instead of those of the findings.
        **style: the style of all numbers, as in ``text_of``.

    Raises:
        NotInEvidence: no member has any of the columns.
    """
    rows: Any = evidence.content["record"]["findings"]
    for key in path:
        rows = rows[key]
    heads = [first] if isinstance(first, str) else list(first)
    lines = [[*heads, *columns.values()]]
    for name in rows if isinstance(rows, Mapping) else range(len(rows)):
        row, shown = rows[name], (names or {}).get(str(name), str(name))
        if isinstance(row, Mapping) or (isinstance(row, list) and any(one is not None for one in row)):
            cells = [_optional(row, key.split("/"), style) for key in columns]
            words = [set_numbers(named(word)) for word in shown.split(" ", len(heads) - 1)]
            lines += [[*words, *cells]] if any(cells) else []
    if len(lines) == 1:
        raise NotInEvidence(f"no member of the findings of {evidence.path.name} at {list(path)!r} has {list(columns)}")
    return _markdown(lines)


def _optional(row: Mapping[str, Any] | list[Any], path: Sequence[str], style: Mapping[str, Any]) -> str:
    """Return a cell of a table, empty if the row lacks it."""
    try:
        return _at(row, path, "the row", style)
    except Absent:
        return ""


def csv_table(
    evidence: Evidence, name: str | None, columns: Mapping[str, str], where: Mapping[str, Any], limit: int, **style: Any
) -> str:
    """Return a Markdown table of the rows of a table of evidence that have the given values.

    Args:
        evidence: the evidence.
        name: the table's name, or None if there is only one.
        columns: headings by column.
        where: values that the rows must have, by column.
        limit: the largest number of rows.
        **style: the style of all numbers, as in ``text_of``.

    Raises:
        NotInEvidence: no row, or too many, have these values.
        ClaimError: the table is not whole.
    """
    tables = evidence.content["tables"]
    chosen = name or next(iter(tables))
    rows = evidence.tables[chosen]
    for column, value in where.items():
        rows = rows[rows[column] == value]
    if not 0 < len(rows) <= limit:
        raise NotInEvidence(f"{tables[chosen]['file']} has {len(rows)} rows with {dict(where)}, not 1 to {limit}")
    cells = [[_cell(value, style) for value in row] for row in rows[list(columns)].itertuples(index=False)]
    return _markdown([list(columns.values()), *cells])


def checks_table(evidence: Evidence) -> str:
    """Return the checks of a statement of theory: a summary, those that failed as a table, and all of them, folded."""
    table = evidence.tables["checks"]
    title = table["claim"].str.partition("/")[2] + ": " + table["check"].map(escape).map(formatted)
    table = table.assign(margin=table["limit"] - table["worst"], title=title)
    table["satisfied"] = table["satisfied"].astype(bool)
    columns = {"title": "check", "cases": "cases", "worst": "largest deviation"}
    columns |= {"limit": "allowed", "margin": "margin"}

    def lines(rows: Any) -> str:
        cells = [[_cell(value, {}) for value in row] for row in rows[list(columns)].itertuples(index=False)]
        return _markdown([list(columns.values()), *cells])

    violated = table[~table["satisfied"]]
    counted = f"**{summary(table).partition(';')[0]}"
    failed = f"; {'this' if len(violated) == 1 else 'these'} failed:**\n\n{lines(violated)}"
    shown = failed if len(violated) else ".**"
    ordered = table.sort_values("satisfied", kind="stable")
    folded = lines(ordered).replace("\n", "\n    ")
    return f'{counted}{shown}\n\n??? note "Numbers: every check"\n\n    {folded}'


def _cell(value: Any, style: Mapping[str, Any]) -> str:
    if isinstance(value, float) and math.isnan(value):
        return ""
    return text_of(value.item() if hasattr(value, "item") else value, **style)


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as a Markdown table; the first row is the heading, later columns are right-aligned."""
    head, *rows = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *rows))


def made(evidence: Evidence) -> str:
    """Return how a figure was made, for its caption: command, trials and date."""
    record = evidence.content["record"]
    trials = f"{number(record['trials'])} trials; " if record["trials"] else ""
    command = re.sub(r" --(evidence|workers \d+)", "", record["command"])
    return f"{trials}`{command}`, {record['date'][:10]}"


def provenance(evidence: Evidence) -> str:
    """Return a Markdown list of how a run was made: command, states, time, machine and versions."""
    record = evidence.content["record"]
    states = ", ".join(f"{number(count)} {state}" for state, count in record["states"].items())
    machine = record["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    cores = f"{machine['cores']} cores of {machine['processor']}"
    lines = [
        f"Command: `{record['command']}` ({evidence.setting}), {record['date'][:10]}",
        f"Trials: {number(record['trials'])} in {number(record['cells'])} cell{'s' * (record['cells'] != 1)}"
        + (f" ({states})" if states else ""),
        f"Time: {span(evidence.seconds)}; training {span(record['training_seconds'])} of processor time",
        f"Machine: {cores}, {machine['instruction_set']}, {machine['memory_gib']} GiB",
        f"Versions: {versions}",
    ]
    return "\n".join(f"- {line}" for line in lines)
