"""From outcomes to statements: intervals, censored times, scaling, one row a cell, and the frontier traced."""

from elegans.analysis.cells import cells
from elegans.analysis.contours import crossings
from elegans.analysis.grokking import Grokking, grokking_delay, grokking_delays
from elegans.analysis.intervals import median, median_interval, wilson
from elegans.analysis.monotonicity import monotonicity
from elegans.analysis.scaling import Scaling, scaling_exponent
from elegans.analysis.sequential import SequentialTest
from elegans.analysis.survival import Survival, kaplan_meier
from elegans.analysis.trace import Contour, trace_frontier

__all__ = [
    "Contour",
    "Grokking",
    "Scaling",
    "SequentialTest",
    "Survival",
    "cells",
    "crossings",
    "grokking_delay",
    "grokking_delays",
    "kaplan_meier",
    "median",
    "median_interval",
    "monotonicity",
    "scaling_exponent",
    "trace_frontier",
    "wilson",
]
