"""Published figures and tables by name: each is one file here, and runs at three scales."""

from elegans import faces

__getattr__, __dir__, __all__ = faces.attach(__name__, __file__)
