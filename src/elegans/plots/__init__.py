"""One function per kind of figure: each takes a table or an outcome, and the axes to draw on.

Unsuitable input (a missing column, a number of axes that differs from the number of panels, two entries in one place)
raises an ExperimentError.
"""

from elegans import exports
from elegans.errors import ExperimentError

__getattr__, __dir__, __all__ = exports.attach(__name__, __file__, ExperimentError)
