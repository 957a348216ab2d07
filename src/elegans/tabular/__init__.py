"""Wide, sparsely initialised networks for tables: many networks fitted side by side, and scikit-learn estimators."""

from elegans import faces
from elegans.errors import TrialError

__getattr__, __dir__, __all__ = faces.attach(__name__, __file__, link=TrialError)
