"""Statistics of outcomes: intervals, censored times, scaling, summaries per cell, and sequential tests.

Input for which a statistic is not defined raises an AnalysisError, and a table that lacks a column an ExperimentError;
the message states the rule and the value.
"""

from elegans import exports
from elegans.errors import AnalysisError

__getattr__, __dir__, __all__ = exports.attach(__name__, __file__, AnalysisError)
