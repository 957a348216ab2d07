"""One function per kind of figure: each takes a table or an outcome, and the axes to draw on.

What does not fit (a column is missing, axes are not as many as panels, two entries have one place) raises an
ExperimentError.
"""

from elegans import faces

__getattr__, __dir__, __all__ = faces.attach(__name__, __file__, "ExperimentError")
