"""elegans: a laboratory for the science of deep learning.

The names with which most programs begin are here: ``elegans.Trial``. Every other public name is in its package:
``elegans.analysis.wilson``. All are loaded on first use, so ``import elegans`` costs next to nothing.
"""

from functools import cache
from importlib import import_module
from typing import Any


@cache
def _public() -> tuple[Any, list[str]]:
    """Return the function that loads a name of the stub beside this file, and all these names."""
    load, _, names = import_module("lazy_loader").attach_stub(__name__, __file__)
    return load, names


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value = import_module("importlib.metadata").version("elegans")
    elif _is_module(name):
        value = import_module(f"elegans.{name}")
    elif name.startswith("_"):
        raise AttributeError(f"module 'elegans' has no attribute {name!r}")
    elif name in _public()[1]:
        value = _public()[0](name)
    else:
        packages = (package for package in _public()[1] if _is_module(package))
        home = next((package for package in packages if hasattr(import_module(f"elegans.{package}"), name)), None)
        hint = f": it is elegans.{home}.{name}" if home else ""
        raise AttributeError(f"module 'elegans' has no attribute {name!r}{hint}")
    globals()[name] = value
    return value


def _is_module(name: str) -> bool:
    return name.islower() and import_module("importlib.util").find_spec(f"elegans.{name}") is not None


def __dir__() -> list[str]:
    return ["__version__", *_public()[1]]
