"""How a trial is described, run and summed up."""

from elegans import faces

__getattr__, __dir__, __all__ = faces.attach(__name__, __file__, margins="TrialError")
