"""The experiments on sparse functions of bits learned by transformers (thesis, chapter 4)."""

from elegans.experiments.base import Experiment
from elegans.experiments.variables.curves import AND_CURVES
from elegans.experiments.variables.parity import PARITY_TRANSFORMER
from elegans.experiments.variables.pattern import ATTENTION_PATTERN
from elegans.experiments.variables.samples import AND_SAMPLES

EXPERIMENTS: tuple[Experiment, ...] = (AND_SAMPLES, AND_CURVES, ATTENTION_PATTERN, PARITY_TRANSFORMER)
"""In the order in which they are listed."""
