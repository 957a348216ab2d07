"""The public names of packages: they are resolved on first use, and functions check the types of their arguments."""

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import lazy_loader

from elegans.arguments import checked
from elegans.errors import ElegansError


def attach(
    package: str, file: str, refusal: type[ElegansError] | None = None, **refusals: type[ElegansError]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package, from the stub beside its file.

    Its functions are wrapped in ``checked``; modules that import them from where they are defined call them bare.

    Args:
        package: the package's name.
        file: its file.
        refusal: as in ``checked``.
        **refusals: the same for single functions, by name.
    """
    resolve, names, public = lazy_loader.attach_stub(package, file)

    def get(name: str) -> Any:
        value = resolve(name)
        if isinstance(value, FunctionType):
            value = vars(sys.modules[package])[name] = checked(value, refusals.get(name, refusal))
        return value

    return get, names, public
