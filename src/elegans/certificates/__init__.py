"""What a trained two-layer network has learned, said exactly: its support, proofs of what it does, its spectrum."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
