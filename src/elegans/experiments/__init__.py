"""Published figures and tables by name: each is one file here, and runs at three scales."""

from elegans.experiments.base import Experiment, Result, Scale
from elegans.experiments.registry import EXPERIMENTS, find
from elegans.experiments.run import draw_experiment, run_experiment

__all__ = ["EXPERIMENTS", "Experiment", "Result", "Scale", "draw_experiment", "find", "run_experiment"]
