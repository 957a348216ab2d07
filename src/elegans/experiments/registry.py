"""Every experiment by its name."""

from elegans.component import suggest
from elegans.errors import ExperimentError
from elegans.experiments import pareto
from elegans.experiments.base import Experiment

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in (pareto.SUCCESS_FRONTIER,)}
"""Every experiment by its name."""


def find(name: str) -> Experiment:
    """Return an experiment by its name.

    Raises:
        ExperimentError: there is no such experiment; the nearest is suggested.
    """
    if name not in EXPERIMENTS:
        raise ExperimentError(f"unknown experiment {name!r}{suggest(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]
