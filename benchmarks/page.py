"""Renders the tables of docs/performance.md between its markers."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd

from benchmarks.measure import short
from benchmarks.tables_report import draw

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
PROBES = PAGE.parent / "reference" / "probes.md"
TABLES = PAGE.parent / "how-to" / "tabular.md"
FIGURE = PAGE.parent / "images" / "tables.svg"
COSTS = ("probe", "cost, % of 100 steps", "µs per measurement")
"""Columns of the costs at width 100 in the page on probes."""


SPEED = {
    "steps": (
        "a step on a sparse parity, width {width}",
        "plain / fused",
        "2 processes / fused",
        "best batched / fused",
    ),
    "models": ("a network until it solves a sparse parity, {model}", "plain / elegans"),
    "pairs": ("a step on all pairs of a group, {network}", "PyTorch / pairs side by side"),
    "attention": ("a step of attention on Markov chains, {form}", "PyTorch / attention side by side"),
    "bits": ("a step of a transformer on bits, {size}", "PyTorch / bits side by side"),
    "tabular": ("a fit of networks on a table, {networks}", "PyTorch / elegans"),
}
"""What the first table lists of each benchmark, and the columns of its ratios."""
RIVALS = ("a plain PyTorch loop", "two such loops at once", "vmap, or our JAX engine")


RANGES = re.compile(r"\((-?[\d.]+)-([\d.]+)\)")
"""Ranges as earlier results have them."""


def render(folder: Path) -> None:
    """Write the tables of all results in a folder between the markers of the pages."""
    for page, text in rendered(folder).items():
        page.write_text(text, encoding="utf-8")
    if (path := folder / "tables.csv").exists():
        with matplotlib.rc_context({"svg.hashsalt": FIGURE.stem}):
            draw(pd.read_csv(path)).savefig(FIGURE, metadata={"Date": None})


def rendered(folder: Path) -> dict[Path, str]:
    """Return the texts of the pages with the tables of all results in a folder.

    A table is between ``<!-- name:begin -->`` and ``<!-- name:end -->``: one for each benchmark, and
    ``targets`` for all targets with their measured values. The costs of probes are in the page on probes, and errors by
    table in the page on tables.
    """
    records = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
    text = _fill(PAGE.read_text(encoding="utf-8"), "targets", _targets(records))
    text = _fill(text, "speed", _table(_speed(records)))
    for name, record in records.items():
        text = _fill(text, name, f"{_circumstances(record)}\n\n{_table(record['summary'])}")
    pages = {PAGE: text}
    if probes := records.get("probes"):
        table = _table([{name: row[name] for name in COSTS} for row in probes["summary"] if row["width"] == "100"])
        pages[PROBES] = _fill(PROBES.read_text(encoding="utf-8"), "costs", f"{_circumstances(probes)}\n\n{table}")
    if tables := records.get("tables"):
        text = TABLES.read_text(encoding="utf-8")
        for panel, rows in tables["repetitions"].items():
            text = _fill(text, f"by-table-{panel}", _table(rows))
        text = _fill(text, "targets", _targets({name: records[name] for name in ("tables", "ablations")}))
        pages[TABLES] = text
    return pages


def _fill(text: str, name: str, content: str) -> str:
    content = RANGES.sub(r"(\1 to \2)", content)
    pattern = re.compile(rf"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)", re.DOTALL)
    return pattern.sub(lambda found: f"{found[1]}\n{content}\n\n{found[2]}", text)


def _circumstances(record: Mapping[str, Any]) -> str:
    machine, versions = record["machine"], record["versions"]
    coarse = "; a coarse run (`--quick`)" if record["quick"] else ""
    packages = ", ".join(f"{name} {version}" for name, version in versions.items() if name != "python")
    return (
        f"*`{record['command']}`, {record['date'][:10]}: {machine['processor']}, {machine['cores']} cores, "
        f"instruction set {machine['instruction_set']}; Python {versions['python']}, {packages}{coarse}.*"
    )


def _speed(records: Mapping[str, Any]) -> list[dict[str, str]]:
    return [
        {"what is trained": what.format(**row)}
        | {rival: row[name] for rival, name in zip(RIVALS, ratios, strict=False)}
        for benchmark, (what, *ratios) in SPEED.items()
        if benchmark in records
        for row in records[benchmark]["summary"]
    ]


def _targets(records: Mapping[str, Any]) -> str:
    rows = [
        {
            "benchmark": name,
            "what": target["what"],
            "target": f"{'at least' if target['at_least'] else 'at most'} {short(target['limit'])}{target['unit']}",
            "measured": f"{short(target['measured'])}{target['unit']}",
            "verdict": "met" if target["met"] else "**missed**",
        }
        for name, record in records.items()
        for target in record["targets"]
    ]
    return _table(rows)


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "(nothing measured)"
    columns = list(rows[0])
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_cell(row.get(column, "")) for column in columns) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    return short(value) if isinstance(value, float) else str(value)
