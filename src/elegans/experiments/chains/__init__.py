"""The experiments on Markov chains learned in context (thesis, chapter 8)."""

from elegans.experiments.base import Experiment

EXPERIMENTS: tuple[Experiment, ...] = ()
"""In the order in which they are listed."""
