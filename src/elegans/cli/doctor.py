"""A report on this machine and the engines that work on it."""

import os
import platform
from pathlib import Path

from elegans import compilation
from elegans.machine import cores, instruction_sets, processor, versions


def examine() -> dict[str, dict[str, str]]:
    """Return facts about this installation by section and name."""
    return {
        "versions": versions(),
        "machine": _machine(),
        "native module": _native(),
        "engines": _engines(),
        "jax devices": _devices(),
        "compiled programs": _compiled(),
    }


def _machine() -> dict[str, str]:
    import psutil

    memory = psutil.virtual_memory()
    chosen, available = instruction_sets()
    return {
        "system": f"{platform.system()} {platform.release()} on {platform.machine()}",
        "processor": processor(),
        "cores": f"{cores()} usable of {os.cpu_count()}",
        "memory": f"{memory.total / 2**30:.1f} GiB, {memory.available / 2**30:.1f} GiB free",
        "instruction set": f"{chosen} (of {', '.join(available)})" if chosen else "none: no native engine",
    }


def _native() -> dict[str, str]:
    try:
        from elegans import _native as module
    except ImportError as error:
        return {
            "missing": str(error),
            "lost": "the native engines: their trials train on JAX, which takes longer",
            "also lost": "networks for tables, such as SparseMLPClassifier, which only native code trains",
            "remedy": "install a wheel for this platform, or a C++ compiler (GCC or Clang) and elegans again",
        }
    return {"file": Path(module.__file__).name}


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


def _compiled() -> dict[str, str]:
    place = compilation.folder()
    if place is None:
        return {"folder": f"none: {compilation.VARIABLE} is off"}
    sizes = [path.stat().st_size for path in place.glob("*-cache")]
    limit = compilation.MAX_BYTES / 2**20
    return {
        "folder": str(place),
        "size": f"{sum(sizes) / 2**20:.1f} MiB in {len(sizes)} programs, at most {limit:.0f} MiB",
    }
