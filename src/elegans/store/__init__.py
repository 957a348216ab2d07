"""The store: one table of outcomes, one row per network, in SQLite or another database."""

from elegans import faces

__getattr__, __dir__, __all__ = faces.attach(__name__, __file__)
