"""Wide, sparsely initialised networks for tables: fits of many networks side by side, and scikit-learn estimators."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elegans.tabular.descent import Stop, link
from elegans.tabular.network import Epoch, Networks, Settings, fit, start
from elegans.tabular.stopping import Best

if TYPE_CHECKING:
    from elegans.tabular.estimators import SparseMLP, SparseMLPClassifier, SparseMLPRegressor

__all__ = [
    "Best",
    "Epoch",
    "Networks",
    "Settings",
    "SparseMLP",
    "SparseMLPClassifier",
    "SparseMLPRegressor",
    "Stop",
    "fit",
    "link",
    "start",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'elegans.tabular' has no attribute {name!r}")
    return getattr(import_module("elegans.tabular.estimators"), name)  # scikit-learn only where it is needed
