"""What a trained two-layer network has learned, said exactly: its support, proofs of what it does, its spectrum.

What a function cannot take (another model, an outcome without parameters, a task that is not a parity, an unknown
choice) raises a CertificateError.
"""

from elegans import faces

__getattr__, __dir__, __all__ = faces.attach(__name__, __file__)
