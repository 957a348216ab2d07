"""Published figures, tables and theorems as experiments; each runs at several scales."""

from elegans import exports

__getattr__, __dir__, __all__ = exports.attach(__name__, __file__)
