"""Every experiment by its name."""

from elegans.component import suggest
from elegans.errors import ExperimentError
from elegans.experiments import chains, margins, pareto, parities, progress, tabular, variables, xor
from elegans.experiments.base import Experiment

_ALL = (
    *pareto.EXPERIMENTS,
    *progress.EXPERIMENTS,
    *parities.EXPERIMENTS,
    *xor.EXPERIMENTS,
    *margins.EXPERIMENTS,
    *chains.EXPERIMENTS,
    *variables.EXPERIMENTS,
    *tabular.EXPERIMENTS,
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
