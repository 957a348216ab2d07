"""Phenomena of training, each shown in a minute: trained live, and told on one page with a slider over the steps."""

from elegans import exports
from elegans.errors import PhenomenonError

__getattr__, __dir__, __all__ = exports.attach(__name__, __file__, PhenomenonError)
