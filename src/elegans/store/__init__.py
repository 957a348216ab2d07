"""The store: one table of outcomes, one row per network, in SQLite or another database."""

from elegans import exports

__getattr__, __dir__, __all__ = exports.attach(__name__, __file__)
