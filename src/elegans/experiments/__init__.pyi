from .base import (
    Experiment as Experiment,
    Line as Line,
    Option as Option,
    Result as Result,
    Scale as Scale,
    parts as parts,
)
from .claims import Claim as Claim, InsufficientData as InsufficientData, Verdict as Verdict, claim as claim
from .cost import RunPlan as RunPlan, plan as plan
from .effects import effects as effects, expected_errors as expected_errors
from .evidence import verdict_of as verdict_of
from .registry import EXPERIMENTS as EXPERIMENTS, find as find
from .results import Results as Results, Tables as Tables, one_table as one_table, summary_by as summary_by
from .run import draw_experiment as draw_experiment, run_experiment as run_experiment
