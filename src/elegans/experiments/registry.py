"""Every experiment by its name."""

from elegans.component import suggest
from elegans.errors import ExperimentError
from elegans.experiments import (
    biased_parity,
    digit_parity,
    pareto,
    pareto_curves,
    pareto_decay,
    pareto_descent,
    pareto_sparsity,
    pareto_tickets,
    pareto_zoom,
    progress_disjoint,
    progress_gaps,
    progress_layers,
    progress_luck,
    progress_measures,
    progress_noise,
    progress_plateau,
    progress_prediction,
    progress_recovery,
    progress_robust,
    progress_samples,
    progress_scaling,
    progress_theorems,
    progress_width,
    progress_zoo,
    xor_phases,
    xor_samples,
    xor_variants,
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
    progress_zoo.TRAINING_CURVES_ZOO,
    progress_scaling.CONVERGENCE_SCALING,
    progress_robust.ROBUST_SPACE,
    progress_luck.NOT_RANDOM_SEARCH,
    progress_measures.HIDDEN_PROGRESS,
    progress_prediction.PROGRESS_PREDICTION,
    progress_gaps.FOURIER_GAPS,
    progress_recovery.ONE_STEP_RECOVERY,
    progress_width.WIDTH,
    progress_samples.GROKKING,
    progress_noise.NOISY_PARITY,
    progress_layers.LAYER_BY_LAYER,
    progress_plateau.NO_PLATEAU,
    progress_disjoint.DISJOINT_POLYNET,
    progress_theorems.THEOREM_55,
    progress_theorems.THEOREM_58,
    biased_parity.BIASED_PARITY,
    digit_parity.DIGIT_PARITY,
    xor_phases.XOR_PHASES,
    xor_samples.XOR_SAMPLES,
    xor_variants.XOR_VARIANTS,
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
