"""Exact statements about trained two-layer networks: their supports, proofs of correctness, and spectra.

Unsuitable arguments (another model, an outcome without parameters, a task that is not a parity, an unknown choice)
raise a CertificateError.
"""

from elegans import exports

__getattr__, __dir__, __all__ = exports.attach(__name__, __file__)
