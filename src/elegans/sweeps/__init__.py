"""Many trials: grids, the runner that trains what a store lacks, and tracing of frontiers."""

from elegans import exports

__getattr__, __dir__, __all__ = exports.attach(__name__, __file__)
