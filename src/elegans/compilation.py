"""Compiled JAX programs, kept on disk for later processes.

They are stored in the user's cache folder, under a name that identifies the versions and the machine that compiled
them: machine code for one processor must not run on another. The least recently used programs are removed. The
environment variable ``ELEGANS_COMPILATION_CACHE`` names another folder, or is ``off``; where JAX's own
``jax_compilation_cache_dir`` is set, that folder is used as it is.
"""

import hashlib
import os
import shutil
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from elegans.machine import features, versions

VARIABLE = "ELEGANS_COMPILATION_CACHE"
MAX_BYTES = 256 * 2**20  # maximum size of the folder
MIN_SECONDS = 0.1  # programs that compile faster are not kept: looking them up costs as much
UNUSED_DAYS = 90  # folders of other versions and machines are removed when they have not been used for this long
_WRITTEN_SECONDS = 60
_ONCE = threading.Lock()
_decided = False


def jit(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Return ``jax.jit`` of a function; its compiled programs are kept on disk."""
    import jax

    use_cache()
    return jax.jit(function, **options)


def use_cache() -> None:
    """Make JAX keep the programs that it compiles from now on; the first call decides for the whole process."""
    global _decided
    with _ONCE:
        if not _decided:
            _decided = True
            _configure()


def turn_off() -> None:
    """Keep and load no compiled programs, here and in child processes."""
    os.environ[VARIABLE] = "off"


def folder() -> Path | None:
    """Return where compiled programs are kept, whether or not the folder exists yet; None if they are not kept."""
    from platformdirs import user_cache_dir

    parent = os.environ.get(VARIABLE) or user_cache_dir("elegans", appauthor=False)
    if parent == "off":
        return None
    compilers = {name: version for name, version in versions().items() if name in ("python", "jax", "jaxlib")}
    key = hashlib.sha256(f"{compilers} {features()}".encode()).hexdigest()[:16]
    return Path(parent).expanduser() / f"jax-{key}"


def _configure() -> None:
    import jax

    cache, config = folder(), cast(Any, jax.config)
    if cache is None or config.jax_compilation_cache_dir is not None:
        return
    try:
        cache.mkdir(parents=True, exist_ok=True)
        os.utime(cache)
        _tidy(cache)
    except OSError:
        return
    if not os.access(cache, os.W_OK):
        return
    # a cache that cannot be read or written (a full disk, a lock on a network drive) costs time, nothing else
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache entry")
    config.update("jax_compilation_cache_max_size", MAX_BYTES)
    config.update("jax_persistent_cache_min_compile_time_secs", MIN_SECONDS)
    config.update("jax_compilation_cache_dir", str(cache))


def _tidy(cache: Path) -> None:
    """Remove folders that are no longer used, and programs left unfinished by a killed process."""
    now = time.time()
    for other in cache.parent.glob("jax-*"):
        if now - other.stat().st_mtime > UNUSED_DAYS * 86400:
            shutil.rmtree(other, ignore_errors=True)
    names = {entry.name for entry in os.scandir(cache)}
    for name in names:
        program = cache / name
        # JAX writes the time of last use after the program itself; without it, JAX can no longer evict programs
        complete = not name.endswith("-cache") or f"{name.removesuffix('-cache')}-atime" in names
        if not complete and now - program.stat().st_mtime > _WRITTEN_SECONDS:
            program.unlink(missing_ok=True)
