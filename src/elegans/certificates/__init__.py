"""What a trained two-layer network has learned, said exactly: its support, a proof that it is right, its spectrum."""

from elegans.certificates.certify import Certificate, certify
from elegans.certificates.readout import ReadOut, read_out
from elegans.certificates.spectrum import Spectrum, spectrum

__all__ = ["Certificate", "ReadOut", "Spectrum", "certify", "read_out", "spectrum"]
