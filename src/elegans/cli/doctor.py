"""What this machine has, and which engines work on it."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("elegans", "numpy", "jax", "jaxlib", "equinox", "optax", "pandas", "sqlalchemy", "pydantic")


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def instruction_sets() -> tuple[str | None, list[str]]:
    """Return the instruction set that the native engine has chosen, and all that it could take here."""
    try:
        from elegans import _native
    except ImportError:
        return None, []
    return str(_native.instruction_set()), list(_native.instruction_sets())


def examine() -> dict[str, dict[str, str]]:
    """Return what there is to know about this installation: by section, names and what to say of them."""
    return {
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        "machine": _machine(),
        "engines": _engines(),
        "jax devices": _devices(),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _machine() -> dict[str, str]:
    import psutil

    memory = psutil.virtual_memory()
    chosen, available = instruction_sets()
    return {
        "system": f"{platform.system()} {platform.release()} on {platform.machine()}",
        "cores": f"{cores()} usable of {os.cpu_count()}",
        "memory": f"{memory.total / 2**30:.1f} GiB, {memory.available / 2**30:.1f} GiB free",
        "instruction set": f"{chosen} (of {', '.join(available)})" if chosen else "none: no native engine",
    }


def _engines() -> dict[str, str]:
    from elegans.training.engines import ENGINES

    reasons = {name: engine.unavailable() for name, engine in ENGINES.items()}
    return {name: "works" if reason is None else f"does not work: {reason}" for name, reason in reasons.items()}


def _devices() -> dict[str, str]:
    try:
        import jax

        return {str(device): f"{device.device_kind} ({device.platform})" for device in jax.devices()}
    except (ImportError, RuntimeError) as error:
        return {"none": str(error)}
