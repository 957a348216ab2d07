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
from elegans.tasks.digits import DigitParity
from elegans.tasks.groups import GroupComposition, ModularAddition
from elegans.tasks.parity import DisjointParity, SparseParity
from elegans.tasks.xor import XOR, Link, SignedParity, TruthTable

__all__ = [
    "XOR",
    "And",
    "BiasedParity",
    "BooleanFunction",
    "DigitParity",
    "DisjointParity",
    "GroupComposition",
    "Link",
    "Majority",
    "ModularAddition",
    "Online",
    "Or",
    "Parity",
    "Population",
    "Regime",
    "Sample",
    "SignedParity",
    "SparseBoolean",
    "SparseParity",
    "Symmetric",
    "Table",
    "Task",
    "Threshold",
    "TruthTable",
]
