from .base import Experiment as Experiment, Option as Option, Result as Result, Scale as Scale
from .claims import Claim as Claim, InsufficientData as InsufficientData, Verdict as Verdict, claim as claim
from .cost import RunPlan as RunPlan, plan as plan
from .evidence import verdict_of as verdict_of
from .registry import EXPERIMENTS as EXPERIMENTS, find as find
from .results import Results as Results, Tables as Tables
from .run import draw_experiment as draw_experiment, run_experiment as run_experiment
