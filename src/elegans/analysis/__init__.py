"""From outcomes to statements: intervals, censored times, scaling, one row per cell, and sequential tests.

What a statistic is not defined for raises an AnalysisError, and a table without a column that is needed an
ExperimentError; the message states the rule and the value.
"""

from elegans import faces

__getattr__, __dir__, __all__ = faces.attach(__name__, __file__, "AnalysisError")
