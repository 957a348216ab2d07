"""The public faces of packages: names are resolved on first use, and functions check the types of their arguments."""

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import lazy_loader


def attach(
    package: str, file: str, refusal: str | None = None, **refusals: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package, from the stub beside its file.

    Functions are wrapped in ``elegans.arguments.checked``; modules that import them from where they are defined call
    them without these checks.

    Args:
        package: the package's name.
        file: its file.
        refusal: the name of the error to raise where arguments of the right types cannot be computed with; None where
            functions run user code.
        **refusals: the same for single functions, by name.
    """
    resolve, names, public = lazy_loader.attach_stub(package, file)

    def get(name: str) -> Any:
        value = resolve(name)
        if isinstance(value, FunctionType):
            from elegans import errors
            from elegans.arguments import checked

            kind = refusals.get(name, refusal)
            value = vars(sys.modules[package])[name] = checked(value, getattr(errors, kind) if kind else None)
        return value

    return get, names, public
