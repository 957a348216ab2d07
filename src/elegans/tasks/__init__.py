"""Tasks, and the regimes, which say how examples reach the learner."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
