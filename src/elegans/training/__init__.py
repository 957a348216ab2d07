"""The description, training and outcome of a trial."""

from elegans import faces

__getattr__, __dir__, __all__ = faces.attach(__name__, __file__, margins="TrialError")
