"""Wide, sparsely initialised networks for tables: fits of many networks side by side, and scikit-learn estimators."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elegans.tabular.descent import Stop, link
from elegans.tabular.network import Epoch, Networks, Settings, fit, start
from elegans.tabular.stopping import Best

if TYPE_CHECKING:
    from elegans.tabular.datasets import load_table, noisy_parity, random_tree, table_names
    from elegans.tabular.estimators import SparseMLP, SparseMLPClassifier, SparseMLPRegressor
    from elegans.tabular.learners import Forest, TabularNetwork
    from elegans.tabular.probes import ValidationError
    from elegans.tabular.table import Table

__all__ = [
    "Best",
    "Epoch",
    "Forest",
    "Networks",
    "Settings",
    "SparseMLP",
    "SparseMLPClassifier",
    "SparseMLPRegressor",
    "Stop",
    "Table",
    "TabularNetwork",
    "ValidationError",
    "fit",
    "link",
    "load_table",
    "noisy_parity",
    "random_tree",
    "start",
    "table_names",
]
_HOMES = {
    "datasets": ("load_table", "noisy_parity", "random_tree", "table_names"),
    "estimators": ("SparseMLP", "SparseMLPClassifier", "SparseMLPRegressor"),
    "learners": ("Forest", "TabularNetwork"),
    "probes": ("ValidationError",),
    "table": ("Table",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'elegans.tabular' has no attribute {name!r}")
    return getattr(import_module(f"elegans.tabular.{_HOME_OF[name]}"), name)  # what it takes only where it is needed
