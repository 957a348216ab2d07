from .arithmetic import ModularArithmetic as ModularArithmetic
from .base import Task as Task
from .biased import BiasedParity as BiasedParity
from .boolean import (
    And as And,
    BooleanFunction as BooleanFunction,
    Majority as Majority,
    Or as Or,
    Parity as Parity,
    SparseBoolean as SparseBoolean,
    SymmetricFunction as SymmetricFunction,
    TableFunction as TableFunction,
    Threshold as Threshold,
)
from .chains import MarkovChains as MarkovChains
from .digits import DigitParity as DigitParity, Digits as Digits
from .groups import (
    GroupComposition as GroupComposition,
    GroupOperation as GroupOperation,
    ModularAddition as ModularAddition,
)
from .identifiable import IdentifiableSample as IdentifiableSample
from .monomials import MonomialSum as MonomialSum
from .multitask import MultitaskParity as MultitaskParity
from .pairs import PairTask as PairTask
from .parity import DisjointParity as DisjointParity, SparseParity as SparseParity
from .priors import (
    BinarySymmetricPrior as BinarySymmetricPrior,
    Dirichlet as Dirichlet,
    DoublyStochastic as DoublyStochastic,
    Mixture as Mixture,
    NGram as NGram,
    Prior as Prior,
    Unigram as Unigram,
)
from .regimes import (
    Online as Online,
    Population as Population,
    Regime as Regime,
    Sample as Sample,
    Split as Split,
)
from .xor import XOR as XOR
