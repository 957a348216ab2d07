"""A user's own tasks, models and probes: Python files outside the package, imported by path."""

import hashlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from elegans.errors import SweepError


def load(path: str | Path) -> ModuleType:
    """Import a Python file by its path, once, and return its module.

    The classes in it are members of their families from then on. The module's name depends on the
    file's place alone, so that the same file is the same module in every process.

    Raises:
        SweepError: there is no such file, or importing it raises.
    """
    file = Path(path).expanduser().resolve()
    if file.suffix != ".py":
        raise SweepError(f"an extension must be a .py file: {path}")
    if not file.is_file():
        raise SweepError(f"an extension must be a file that exists: {path}")
    name = f"elegans_extension_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}_{file.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise SweepError(f"an extension must import: {path}{_line(error, file)}: {_said(error)}") from error
    return module


def _said(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _line(error: Exception, file: Path) -> str:
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f", line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f", line {lines[-1]}" if lines else ""
