"""The description, training and outcome of a trial."""

from elegans import exports
from elegans.errors import TrialError

__getattr__, __dir__, __all__ = exports.attach(__name__, __file__, margins=TrialError)
