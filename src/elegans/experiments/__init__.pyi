from .base import Experiment as Experiment, Result as Result, Scale as Scale
from .registry import EXPERIMENTS as EXPERIMENTS, find as find
from .run import draw_experiment as draw_experiment, run_experiment as run_experiment
