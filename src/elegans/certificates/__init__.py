"""What a trained two-layer network has learned, said exactly: its support, proofs of what it does, its spectrum."""

from elegans.certificates.certify import Certificate, certify
from elegans.certificates.readout import ReadOut, read_out
from elegans.certificates.spectrum import Spectrum, spectrum
from elegans.theory.margins import MarginCertificate

__all__ = ["Certificate", "MarginCertificate", "ReadOut", "Spectrum", "certify", "read_out", "spectrum"]
