"""The experiments of *Pareto Frontiers in Deep Feature Learning*."""

from elegans.experiments.pareto.curves import TRAINING_CURVES
from elegans.experiments.pareto.decay import WEIGHT_DECAY_SWEEP
from elegans.experiments.pareto.descent import DOUBLE_DESCENT
from elegans.experiments.pareto.frontier import SUCCESS_FRONTIER
from elegans.experiments.pareto.sparsity import SPARSITY_SWEEP
from elegans.experiments.pareto.tickets import LOTTERY_TICKETS
from elegans.experiments.pareto.zoom import FRONTIER_ZOOM

EXPERIMENTS = (
    SUCCESS_FRONTIER,
    FRONTIER_ZOOM,
    TRAINING_CURVES,
    DOUBLE_DESCENT,
    SPARSITY_SWEEP,
    WEIGHT_DECAY_SWEEP,
    LOTTERY_TICKETS,
)
"""In the order in which they are listed."""
