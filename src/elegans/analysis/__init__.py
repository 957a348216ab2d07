"""From outcomes to statements: intervals, censored times, scaling, one row a cell, and the frontier traced."""

from elegans.analysis.cells import cells
from elegans.analysis.components import Components, components
from elegans.analysis.contours import crossings
from elegans.analysis.grokking import Grokking, grokking_delay, grokking_delays
from elegans.analysis.growth import Growth, growth, threshold, threshold_draws
from elegans.analysis.intervals import (
    bootstrap_interval,
    median,
    median_interval,
    quantile,
    rank_correlation,
    rank_correlation_interval,
    wilson,
)
from elegans.analysis.monotonicity import monotonicity
from elegans.analysis.prediction import predictions
from elegans.analysis.scaling import Elbow, Scaling, elbow, local_exponents, scaling_exponent
from elegans.analysis.sequential import SequentialTest
from elegans.analysis.survival import Survival, kaplan_meier
from elegans.analysis.trace import Contour, trace_frontier

__all__ = [
    "Components",
    "Contour",
    "Elbow",
    "Grokking",
    "Growth",
    "Scaling",
    "SequentialTest",
    "Survival",
    "bootstrap_interval",
    "cells",
    "components",
    "crossings",
    "elbow",
    "grokking_delay",
    "grokking_delays",
    "growth",
    "kaplan_meier",
    "local_exponents",
    "median",
    "median_interval",
    "monotonicity",
    "predictions",
    "quantile",
    "rank_correlation",
    "rank_correlation_interval",
    "scaling_exponent",
    "threshold",
    "threshold_draws",
    "trace_frontier",
    "wilson",
]
