"""How results were made: versions, machine, and how the trials ended."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from elegans.files import replaced
from elegans.machine import build, machine, versions


def record_of(totals: pd.DataFrame) -> dict[str, Any]:
    """Return how trials ended, and the versions and the machine they ran on.

    Args:
        totals: numbers by state and engine, as returned by ``Store.totals``.

    Returns:
        ``trials``, ``states`` (how many ended in each), ``failed``, ``interrupted``, ``engines`` (how many each
        trained), ``training_seconds`` (summed over trials and workers, including evaluation and earlier
        runs), ``evaluation_share`` of them, ``build``, ``versions`` and ``machine``.
    """
    counts = {name: totals.groupby(name)["trials"].sum().sort_values(ascending=False) for name in ("state", "engine")}
    states, engines = ({str(key): int(count) for key, count in series.items()} for series in counts.values())
    seconds = float(totals["seconds"].sum())
    return {
        "trials": int(totals["trials"].sum()),
        "states": states,
        "failed": states.get("failed", 0),
        "interrupted": states.get("interrupted", 0),
        "engines": engines,
        "training_seconds": round(seconds, 3),
        "evaluation_share": round(float(totals["evaluation_seconds"].sum()) / seconds, 4) if seconds else None,
        "build": build(),
        "versions": versions(),
        "machine": machine(),
    }


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record for people and programs: indented, one key per line."""
    text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    with replaced(path) as draft:
        draft.write_text(text, encoding="utf-8", errors="backslashreplace")  # a path may have bytes that are not text
