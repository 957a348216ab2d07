"""Facts about this machine and its installed software, for records, the command line and caches."""

import hashlib
import os
import platform
import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "elegans", "numpy", "jax", "jaxlib", "equinox", "optax", "pandas", "matplotlib", "pydantic", "sqlalchemy",
    "statsmodels",
)  # fmt: skip
"""Distributions that results depend on."""
MOST_WORKERS = 1024  # maximum number of threads of a run: more than any machine has cores


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def memory() -> int:
    """Return how many bytes of memory this process may use: the machine's, or its container's where that is less."""
    import psutil

    total = int(psutil.virtual_memory().total)
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="utf-8")
    except OSError:
        return total
    return min(total, int(limit)) if limit.strip().isdecimal() else total


def versions(*more: str) -> dict[str, str]:
    """Return the versions of Python, ``PACKAGES`` and further distributions, where they are installed."""
    installed = {"python": platform.python_version()}
    for package in (*PACKAGES, *more):
        with suppress(PackageNotFoundError):
            installed[package] = version(package)
    return installed


def instruction_sets() -> tuple[str | None, list[str]]:
    """Return the instruction set that the native engines use, and all sets that they could use here."""
    try:
        from elegans import _native
    except ImportError:
        return None, []
    return str(_native.instruction_set()), list(_native.instruction_sets())


@cache
def native_build() -> str:
    """Return a hash of the compiled native engines, 12 hexadecimal digits, or ``none`` where there are none."""
    try:
        from elegans import _native
    except ImportError:
        return "none"
    return hashlib.sha256(Path(_native.__file__).read_bytes()).hexdigest()[:12]


@cache
def build() -> dict[str, str]:
    """Return which elegans this is: the ``source``, a commit or an installed wheel, and the ``native`` build's hash."""
    return {"source": _commit() or _wheel(), "native": native_build()}


def _commit() -> str | None:
    """Return the commit of the checkout that this file belongs to, and whether files differ from it."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    git = ["git", "-C", str(root)]
    try:
        commit, changed = (
            subprocess.run([*git, *words], capture_output=True, text=True, check=True, timeout=20).stdout.strip()
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--", "src", "native"])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return f"commit {commit}{', with changes' if changed else ''}"


def _wheel() -> str:
    try:
        wheel = distribution("elegans")
    except PackageNotFoundError:
        return "unknown"
    digest = hashlib.sha256((wheel.read_text("RECORD") or "").encode()).hexdigest()[:12]
    return f"wheel {wheel.version} ({digest})"


def machine() -> dict[str, Any]:
    """Return the class of this machine: processor, usable cores, instruction set, memory in GiB, system."""
    import psutil

    return {
        "processor": processor(),
        "cores": cores(),
        "instruction_set": instruction_sets()[0],
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
    }


def processor() -> str:
    """Return the processor's name; cloud machines may hide the model, so family and model numbers are added."""
    facts = _cpuinfo()
    name = facts.get("model name") or platform.processor() or platform.machine()
    return f"{name} (family {facts['cpu family']}, model {facts['model']})" if "cpu family" in facts else name


def features() -> str:
    """Return what decides which machine code runs here: architecture, processor and its instruction flags."""
    flags = _cpuinfo().get("flags") or _cpuinfo().get("Features", "")
    return " ".join([platform.system(), platform.machine(), processor(), *sorted(flags.split())])


@cache
def _cpuinfo() -> dict[str, str]:
    try:
        first_core = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first_core.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}
