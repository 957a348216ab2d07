"""From outcomes to statements: intervals, censored medians, and one row a cell."""

from elegans.analysis.cells import cells
from elegans.analysis.intervals import median, median_interval, wilson

__all__ = ["cells", "median", "median_interval", "wilson"]
