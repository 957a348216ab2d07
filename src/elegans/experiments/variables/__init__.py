"""The experiments on sparse functions of bits learned by transformers (thesis, chapter 4)."""

from elegans.experiments.base import Experiment

EXPERIMENTS: tuple[Experiment, ...] = ()
"""In the order in which they are listed."""
