"""The experiments of *Learning Parities with Neural Networks*."""

from elegans.experiments.parities.biased import BIASED_PARITY
from elegans.experiments.parities.digits import DIGIT_PARITY

EXPERIMENTS = (
    BIASED_PARITY,
    DIGIT_PARITY,
)
"""In the order in which they are listed."""
