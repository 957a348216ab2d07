"""How results were made: versions, machine, and what the trials came to."""

import importlib.metadata
import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

PACKAGES = (
    "elegans",
    "numpy",
    "jax",
    "jaxlib",
    "equinox",
    "optax",
    "pandas",
    "matplotlib",
    "sqlalchemy",
    "statsmodels",
)


def record_of(trials: pd.DataFrame) -> dict[str, Any]:
    """Return what the trials came to, and the versions and the machine they ran on.

    Args:
        trials: a row a trial, as ``elegans.run`` returns it.

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


def versions() -> dict[str, str]:
    """Return the versions of Python and of what the results depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """Return the class of this machine: processor, cores that may be used, instruction set, system."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "instruction_set": _instruction_set(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _instruction_set() -> str | None:
    """Return what the fused engine runs with, or None where it does not load."""
    try:
        from elegans import _native
    except ImportError:
        return None
    return str(_native.instruction_set())


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record for people and programs: indented, one key a line."""
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
