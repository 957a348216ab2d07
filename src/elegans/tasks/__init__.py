"""What is learned: tasks, and the regimes by which their examples reach the learner."""

from elegans.tasks.base import Online, Population, Regime, Sample, Task
from elegans.tasks.biased import BiasedParity
from elegans.tasks.boolean import (
    And,
    BooleanFunction,
    Majority,
    Or,
    Parity,
    SparseBoolean,
    Symmetric,
    Table,
    Threshold,
)
from elegans.tasks.chains import MarkovChains
from elegans.tasks.digits import DigitParity
from elegans.tasks.groups import GroupComposition, ModularAddition
from elegans.tasks.identifying import Identifying
from elegans.tasks.parity import DisjointParity, SparseParity
from elegans.tasks.priors import Dirichlet, DoublyStochastic, Mixture, NGram, Prior, Symmetric2, Unigram
from elegans.tasks.xor import XOR, Link, SignedParity, TruthTable

__all__ = [
    "XOR",
    "And",
    "BiasedParity",
    "BooleanFunction",
    "DigitParity",
    "Dirichlet",
    "DisjointParity",
    "DoublyStochastic",
    "GroupComposition",
    "Identifying",
    "Link",
    "Majority",
    "MarkovChains",
    "Mixture",
    "ModularAddition",
    "NGram",
    "Online",
    "Or",
    "Parity",
    "Population",
    "Prior",
    "Regime",
    "Sample",
    "SignedParity",
    "SparseBoolean",
    "SparseParity",
    "Symmetric",
    "Symmetric2",
    "Table",
    "Task",
    "Threshold",
    "TruthTable",
    "Unigram",
]
