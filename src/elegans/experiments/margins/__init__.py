"""The experiments on features from margins (thesis, chapter 7)."""

from elegans.experiments.margins.addition import MODULAR_ADDITION
from elegans.experiments.margins.composition import GROUP_MARGINS
from elegans.experiments.margins.parity import PARITY_MARGIN

EXPERIMENTS = (MODULAR_ADDITION, PARITY_MARGIN, GROUP_MARGINS)
"""In the order in which they are listed."""
