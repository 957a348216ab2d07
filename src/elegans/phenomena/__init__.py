"""Phenomena of training, each trained live in a minute and explained on one page with a slider over the steps."""

from elegans import exports
from elegans.errors import PhenomenonError

__getattr__, __dir__, __all__ = exports.attach(__name__, __file__, PhenomenonError)
