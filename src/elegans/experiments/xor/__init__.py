"""The experiments on the XOR that SGD finds, then tunes."""

from elegans.experiments.xor.phases import XOR_PHASES
from elegans.experiments.xor.samples import XOR_SAMPLES
from elegans.experiments.xor.variants import XOR_VARIANTS

EXPERIMENTS = (
    XOR_PHASES,
    XOR_SAMPLES,
    XOR_VARIANTS,
)
"""In the order in which they are listed."""
