"""From outcomes to statements: intervals, censored times, scaling, one row per cell, and sequential tests.

A wrong argument raises a ValueError, and a table without a column that is needed an ExperimentError; the message states
the rule and the value.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
