"""Published figures, tables and theorems as experiments, each of which runs at several scales."""

from elegans import faces

__getattr__, __dir__, __all__ = faces.attach(__name__, __file__)
