"""Every experiment by its name."""

from elegans.component import suggest
from elegans.errors import ExperimentError
from elegans.experiments import (
    pareto,
    pareto_curves,
    pareto_decay,
    pareto_descent,
    pareto_sparsity,
    pareto_tickets,
    pareto_zoom,
)
from elegans.experiments.base import Experiment

_ALL = (
    pareto.SUCCESS_FRONTIER,
    pareto_zoom.FRONTIER_ZOOM,
    pareto_curves.TRAINING_CURVES,
    pareto_descent.DOUBLE_DESCENT,
    pareto_sparsity.SPARSITY_SWEEP,
    pareto_decay.WEIGHT_DECAY_SWEEP,
    pareto_tickets.LOTTERY_TICKETS,
)

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}
"""Every experiment by its name."""


def find(name: str) -> Experiment:
    """Return an experiment by its name.

    Raises:
        ExperimentError: there is no such experiment; the nearest is suggested.
    """
    if name not in EXPERIMENTS:
        raise ExperimentError(f"unknown experiment {name!r}{suggest(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]
