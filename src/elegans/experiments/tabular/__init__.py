"""The experiments of *Pareto Frontiers in Deep Feature Learning* on tables."""

from elegans.experiments.tabular.frontier import TABULAR_FRONTIER
from elegans.experiments.tabular.table import TABULAR_TABLE

EXPERIMENTS = (
    TABULAR_FRONTIER,
    TABULAR_TABLE,
)
"""In the order in which they are listed."""
