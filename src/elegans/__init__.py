"""elegans: a laboratory for the science of deep learning.

Public names are loaded on first use, so that ``import elegans`` costs next to nothing. Components of a single study
are available by name too: ``elegans.Ticket``.
"""

from importlib import import_module

_FACES = (
    *("tasks", "models", "learners", "training", "store", "sweeps", "tabular"),
    *("analysis", "probes", "certificates", "groups", "explorer"),
)
"""Packages whose public names are re-exported at the top level."""
_PLAIN = ("errors", "stopping")
_MODULES = (*_FACES, *_PLAIN, "experiments", "plots", "random", "studies", "theory")

__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> object:
    value = globals()[name] = _find(name)
    return value


def _find(name: str) -> object:
    if name in _MODULES or import_module("importlib.util").find_spec(f"elegans.{name}"):
        return import_module(f"elegans.{name}")
    if name == "__version__":
        return import_module("importlib.metadata").version("elegans")
    for face in _FACES:
        if name in import_module(f"elegans.{face}").__all__:
            return getattr(import_module(f"elegans.{face}"), name)
    if name[0].isupper():
        for plain in _PLAIN:
            value = vars(import_module(f"elegans.{plain}")).get(name)
            if getattr(value, "__module__", None) == f"elegans.{plain}":
                return value
        discovery = import_module("elegans.discovery")
        if name in discovery.homes():
            return discovery.load(discovery.homes()[name], name)
    raise AttributeError(f"module 'elegans' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({name for face in _FACES for name in import_module(f"elegans.{face}").__all__}.union(__all__))
