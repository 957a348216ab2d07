"""Trainings that a theorem is about: one step of the hidden weights on all of the sample, then a readout.

Each file holds a theorem's initialisation and its training.
"""

from elegans.training.theorems.layerwise import Layerwise, MirroredInit, Step
from elegans.training.theorems.over_sparse import OverSparse, OverSparseInit
from elegans.training.theorems.probe import FeatureSelection
from elegans.training.theorems.readouts import Constructed, LastIterate, LinearProgram, Readout, Ridge
from elegans.training.theorems.under_sparse import UnderSparse, UnderSparseInit

__all__ = [
    "Constructed",
    "FeatureSelection",
    "LastIterate",
    "Layerwise",
    "LinearProgram",
    "MirroredInit",
    "OverSparse",
    "OverSparseInit",
    "Readout",
    "Ridge",
    "Step",
    "UnderSparse",
    "UnderSparseInit",
]
