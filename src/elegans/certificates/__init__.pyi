from .certification import Certificate as Certificate, certify as certify
from .readout import SupportReadout as SupportReadout, read_out as read_out
from .spectra import Spectrum as Spectrum, spectrum as spectrum
