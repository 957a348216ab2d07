"""User-defined tasks, models and probes: Python files imported by path, and hashes of their code."""

import hashlib
import json
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from elegans import discovery
from elegans.component import Component, family_name
from elegans.errors import SweepError, printable
from elegans.files import readable


def load(path: str | Path) -> ModuleType:
    """Import a Python file by its path, once, and return its module.

    Its classes become members of their families. The module's name depends only on the file's path,
    so that the same file is the same module in every process.

    Raises:
        SweepError: there is no such file, or importing it raises.
    """
    file, label = readable(path, "an extension", SweepError), printable(str(path))
    if file.suffix != ".py":
        raise SweepError(f"an extension must be a .py file: {label}")
    if not file.is_file():
        raise SweepError(f"no such file: {label}")
    file = file.resolve()
    name = f"elegans_extension_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}_{file.stem}"
    if name not in sys.modules:
        try:
            code = file.read_bytes()
        except OSError as error:
            raise SweepError(f"an extension must be a file that can be read: {label}: {error.strerror}") from None
        execute(name, str(file), code, label)
    return sys.modules[name]


def execute(name: str, path: str, code: bytes, label: str | None = None) -> None:
    """Make a module of the contents of a Python file, unless there is one of this name.

    Args:
        name: the module's name.
        path: the file's path, which need not exist on this machine.
        code: the file's contents.
        label: the path as errors quote it.

    Raises:
        SweepError: executing the file raises.
    """
    if name in sys.modules:
        return
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    try:
        exec(compile(code, path, "exec", dont_inherit=True), vars(module))  # the user's own code
    except KeyboardInterrupt:
        del sys.modules[name]
        raise
    except BaseException as error:  # whatever a user's own code raises
        del sys.modules[name]
        where = f"{label or printable(path)}{_line(error, path)}"
        raise SweepError(f"an extension must import without an error: {where}: {_first_line(error)}") from error
    discovery.LOADED[name] = path, code


def _first_line(error: BaseException) -> str:
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # a user's own error class
        lines = []
    return f"{type(error).__name__}: {printable(lines[0])}" if lines else type(error).__name__


def _line(error: BaseException, path: str) -> str:
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f", line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return f", line {lines[-1]}" if lines else ""


def own_frames(text: str) -> str:
    """Return a traceback with the frames of a user's own files only; without any, the last exception with its frames.

    Args:
        text: as ``traceback.format_exc`` returns it, with the exceptions that led to the last one.
    """
    libraries = (str(Path(__file__).parent), *map(sysconfig.get_path, ("stdlib", "platlib", "purelib")), "<frozen")
    foreign = tuple(f'  File "{path}' for path in libraries)
    exceptions = re.sub(r"\n-+\nFor simplicity, JAX has removed .*", "", text).split(_TRACEBACK)
    parts = [re.split(r'(?m)^(?=  File "|\S)', exception) for exception in exceptions]  # frames, and then the message
    own = [[part for part in each if not part.startswith(foreign)] for each in parts]
    if any(part.startswith("  File ") for each in own for part in each):
        return _TRACEBACK.join(map("".join, own))
    return _TRACEBACK * (len(exceptions) > 1) + exceptions[-1]


_TRACEBACK = "Traceback (most recent call last):\n"


def own_classes(components: Iterable[Component]) -> dict[str, type[Component]]:
    """Return the user-defined classes among some components' classes, by family and kind: ``model 'linear'``."""
    classes = {type(part) for component in components for part in parts(component)}
    return {f"{family_name(cls)} {cls.kind!r}": cls for cls in classes if any(map(is_own, cls.__mro__))}


def code_of(cls: type) -> str:
    """Return a hash of the code of a class, which begins with the version of Python: other versions have other hashes.

    It covers what Python executes and the user-defined functions, classes and constants that it names, but no comments,
    docstrings or layout.
    """
    digest = hashlib.sha256("\n".join(_code_of_class(cls, set())).encode()).hexdigest()[:16]
    return f"{sys.version_info[0]}.{sys.version_info[1]}:{digest}"


_KNOWN = frozenset({"elegans", "pydantic", "builtins", "abc", "typing"})  # packages whose classes are not user-defined


def _root(module: str) -> str:
    return module.partition(".")[0]


def is_own(cls: type) -> bool:
    """Return whether a class is user-defined."""
    return _root(cls.__module__) not in _KNOWN


def parts(value: Any) -> Iterator[Component]:
    """Yield the components in a value, outer before inner."""
    if isinstance(value, Component):
        yield value
        for name in type(value).model_fields:
            yield from parts(getattr(value, name))
    elif isinstance(value, Mapping):
        yield from parts(tuple(value.values()))
    elif isinstance(value, tuple | list):
        for member in value:
            yield from parts(member)


def _code_of_class(cls: type, seen: set[Any]) -> Iterator[str]:
    for base in cls.__mro__:
        if not is_own(base) or base in seen:
            continue
        seen.add(base)
        for name, value in sorted(vars(base).items()):
            functions = (value, *(getattr(value, part, None) for part in ("__func__", "fget", "func")))
            function = next((each for each in functions if isinstance(each, FunctionType)), None)
            if function is not None:
                yield name
                yield from _code_of_function(function, seen)
            elif not name.startswith(("_", "model_")):
                yield from _plain(name, value)


def _code_of_function(function: Callable[..., Any], seen: set[Any]) -> Iterator[str]:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    if not isinstance(function, FunctionType) or function in seen:
        return
    seen.add(function)
    yield from _code(function.__code__)
    yield from _plain("defaults", [function.__defaults__, function.__kwdefaults__])
    values = sorted((name, function.__globals__.get(name)) for name in _names(function.__code__))
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # the cell is empty
            values += [(name, cell.cell_contents)] if cell.cell_contents is not None else []
    for name, value in values:
        same_package = _root(getattr(value, "__module__", None) or "elegans") == _root(function.__module__)
        if same_package and isinstance(value, type):
            yield from _code_of_class(value, seen)
        elif same_package and callable(value):
            yield from _code_of_function(value, seen)
        else:
            yield from _plain(name, value)


def _code(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr(code.co_names)
    docstring = code.co_consts[:1] if isinstance(next(iter(code.co_consts), None), str) else ()
    for constant in code.co_consts[len(docstring) :]:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        else:
            yield repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)


def _names(code: CodeType) -> set[str]:
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return {*code.co_names}.union(*inner)


def _plain(name: str, value: Any) -> Iterator[str]:
    with suppress(TypeError, ValueError):  # the text of what JSON cannot represent may differ between processes
        yield f"{name}={json.dumps(value, sort_keys=True)}"
