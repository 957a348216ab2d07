"""Wide, sparsely initialised networks for tables: many networks fitted side by side, and scikit-learn estimators."""

from elegans import exports
from elegans.errors import TrialError

__getattr__, __dir__, __all__ = exports.attach(__name__, __file__, inverse_link=TrialError)
