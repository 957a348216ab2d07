"""Finite groups and their representations: what the tasks on groups are made of, and what theory reads from them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
