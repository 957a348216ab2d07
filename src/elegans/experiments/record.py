"""How results were made: versions, machine, and what the trials came to."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from elegans.machine import machine, versions


def record_of(trials: pd.DataFrame) -> dict[str, Any]:
    """Return what the trials came to, and the versions and the machine they ran on.

    Returns:
        ``trials``, ``states`` (how many ended how), ``failed``, ``interrupted``, ``engines`` (how many each
        trained), ``training_seconds`` (summed over trials and workers, evaluation included, whenever they
        ran), ``evaluation_share`` of them, ``versions`` and ``machine``.
    """
    states = {str(state): int(count) for state, count in trials["state"].value_counts().items()}
    seconds = float(trials["seconds"].sum())
    return {
        "trials": len(trials),
        "states": states,
        "failed": states.get("failed", 0),
        "interrupted": states.get("interrupted", 0),
        "engines": {str(name): int(count) for name, count in trials["engine"].value_counts().items()},
        "training_seconds": round(seconds, 3),
        "evaluation_share": round(float(trials["evaluation_seconds"].sum()) / seconds, 4) if seconds else None,
        "versions": versions(),
        "machine": machine(),
    }


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record for people and programs: indented, one key per line."""
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
