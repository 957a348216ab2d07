"""Many trials: grids, the store of their outcomes, and the runner that trains missing ones."""

from elegans import faces

__getattr__, __dir__, __all__ = faces.attach(__name__, __file__)
