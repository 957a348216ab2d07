"""Trainings that a theorem is about: one step on all of the sample or the population, then a readout or descent.

Each file holds a theorem's initialisation and its training.
"""

from elegans.training.theorems.attention import ConstructedTransformer
from elegans.training.theorems.biased import FirstStep, MirroredSigns, theorem_schedule
from elegans.training.theorems.disjoint import DisjointDescent, DisjointFlow
from elegans.training.theorems.layerwise import Layerwise, MirroredInit, Step
from elegans.training.theorems.over_sparse import OverSparse, OverSparseInit
from elegans.training.theorems.probe import FeatureSelection
from elegans.training.theorems.readouts import Constructed, FreshDescent, LastIterate, LinearProgram, Readout, Ridge
from elegans.training.theorems.sign_network import SignNetwork, SignNetworkInit
from elegans.training.theorems.under_sparse import UnderSparse, UnderSparseInit

__all__ = [
    "Constructed",
    "ConstructedTransformer",
    "DisjointDescent",
    "DisjointFlow",
    "FeatureSelection",
    "FirstStep",
    "FreshDescent",
    "LastIterate",
    "Layerwise",
    "LinearProgram",
    "MirroredInit",
    "MirroredSigns",
    "OverSparse",
    "OverSparseInit",
    "Readout",
    "Ridge",
    "SignNetwork",
    "SignNetworkInit",
    "Step",
    "UnderSparse",
    "UnderSparseInit",
    "theorem_schedule",
]
