"""Many trials: grids, the runner that trains what a store lacks, and tracing of frontiers."""

from elegans import faces

__getattr__, __dir__, __all__ = faces.attach(__name__, __file__)
