"""The explorer: maps of a store's cells, each cell's trials, live in a browser, in a notebook or as one file."""

from elegans import exports
from elegans.errors import ExperimentError

__getattr__, __dir__, __all__ = exports.attach(__name__, __file__, ExperimentError)
