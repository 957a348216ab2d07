"""The description, training and outcome of a trial."""

from elegans import faces
from elegans.errors import TrialError

__getattr__, __dir__, __all__ = faces.attach(__name__, __file__, margins=TrialError)
