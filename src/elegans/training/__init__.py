"""How a trial is described, run and summed up."""

from collections.abc import Sequence

from elegans.models import Success
from elegans.probes import Probe
from elegans.training.engines import choose
from elegans.training.loop import Watch, train_together
from elegans.training.losses import Correlation, CrossEntropy, Hinge, Logistic, Loss, Margin, Square, margins
from elegans.training.optimisers import SGD, AdaDelta, Adam, LayerRates, Minibatches, Training
from elegans.training.outcome import Curve, Outcome
from elegans.training.penalties import NormPenalty, Penalty
from elegans.training.schedules import Constant, Cosine, Piecewise, Schedule
from elegans.training.theorems import (
    Constructed,
    ConstructedTransformer,
    DisjointDescent,
    DisjointFlow,
    FeatureSelection,
    FirstStep,
    FreshDescent,
    LastIterate,
    LinearProgram,
    MirroredSigns,
    OverSparse,
    OverSparseInit,
    Readout,
    Ridge,
    SignNetwork,
    SignNetworkInit,
    UnderSparse,
    UnderSparseInit,
    theorem_schedule,
)
from elegans.training.trial import Trial

__all__ = [
    "SGD",
    "AdaDelta",
    "Adam",
    "Constant",
    "Constructed",
    "ConstructedTransformer",
    "Correlation",
    "Cosine",
    "CrossEntropy",
    "Curve",
    "DisjointDescent",
    "DisjointFlow",
    "FeatureSelection",
    "FirstStep",
    "FreshDescent",
    "Hinge",
    "LastIterate",
    "LayerRates",
    "LinearProgram",
    "Logistic",
    "Loss",
    "Margin",
    "Minibatches",
    "MirroredSigns",
    "NormPenalty",
    "Outcome",
    "OverSparse",
    "OverSparseInit",
    "Penalty",
    "Piecewise",
    "Readout",
    "Ridge",
    "Schedule",
    "SignNetwork",
    "SignNetworkInit",
    "Square",
    "Success",
    "Training",
    "Trial",
    "UnderSparse",
    "UnderSparseInit",
    "margins",
    "theorem_schedule",
    "train",
]


def train(trial: Trial, *, probes: Sequence[Probe] = (), engine: str = "auto", watch: Watch | None = None) -> Outcome:
    """Train one trial and return its outcome, with curve, measures and final parameters.

    Args:
        trial: what to train.
        probes: measures to take along the way.
        engine: ``auto``, ``fused``, ``pairs``, ``attention``, ``jax``, ``layerwise`` or ``learner``.
        watch: called with the outcome so far at each check, for a live picture.

    Raises:
        EngineError: no engine can take the trial.
        TrialError: a probe cannot look into it.
    """
    outcomes = train_together([trial], choose(trial, engine), probes=probes, watch=watch, keep_parameters=True)
    return next(iter(outcomes))
