"""The experiments on hidden progress (thesis, chapter 5)."""

from elegans.experiments.progress.disjoint import DISJOINT_POLYNET
from elegans.experiments.progress.gaps import FOURIER_GAPS
from elegans.experiments.progress.layers import LAYER_BY_LAYER
from elegans.experiments.progress.luck import NOT_RANDOM_SEARCH
from elegans.experiments.progress.measures import HIDDEN_PROGRESS
from elegans.experiments.progress.noise import NOISY_PARITY
from elegans.experiments.progress.plateau import NO_PLATEAU
from elegans.experiments.progress.prediction import PROGRESS_PREDICTION
from elegans.experiments.progress.recovery import ONE_STEP_RECOVERY
from elegans.experiments.progress.robust import ROBUST_SPACE
from elegans.experiments.progress.samples import GROKKING
from elegans.experiments.progress.scaling import CONVERGENCE_SCALING
from elegans.experiments.progress.theorems import THEOREM_55, THEOREM_58
from elegans.experiments.progress.width import WIDTH
from elegans.experiments.progress.zoo import TRAINING_CURVES_ZOO

EXPERIMENTS = (
    TRAINING_CURVES_ZOO,
    CONVERGENCE_SCALING,
    ROBUST_SPACE,
    NOT_RANDOM_SEARCH,
    HIDDEN_PROGRESS,
    PROGRESS_PREDICTION,
    FOURIER_GAPS,
    ONE_STEP_RECOVERY,
    WIDTH,
    GROKKING,
    NOISY_PARITY,
    LAYER_BY_LAYER,
    NO_PLATEAU,
    DISJOINT_POLYNET,
    THEOREM_55,
    THEOREM_58,
)
"""In the order in which they are listed."""
