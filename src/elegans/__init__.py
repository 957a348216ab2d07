"""elegans: a laboratory for the science of deep learning.

Everything public is loaded when it is first used, so that ``import elegans`` costs next to nothing.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "errors": (
        "CertificateError",
        "EngineError",
        "ElegansError",
        "ExperimentError",
        "GroupError",
        "StoreError",
        "SweepError",
        "TheoryError",
        "TrialError",
    ),
    "groups": ("Group",),
    "tasks": (
        "XOR",
        "BiasedParity",
        "BooleanFunction",
        "DigitParity",
        "DisjointParity",
        "GroupComposition",
        "Identifying",
        "Link",
        "MarkovChains",
        "ModularAddition",
        "Online",
        "Population",
        "Prior",
        "Regime",
        "Sample",
        "SignedParity",
        "SparseBoolean",
        "SparseParity",
        "Task",
        "TruthTable",
    ),
    "models": (
        "MLP",
        "Activation",
        "AttentionOnly",
        "BernoulliInit",
        "BooleanTransformer",
        "ConstantInit",
        "DeepMLP",
        "DenseInit",
        "DisjointPolyNet",
        "GatedLinear",
        "GaussianInit",
        "GradientRecovery",
        "Init",
        "KernelRidge",
        "Learner",
        "LinearPredictor",
        "MinimalAttention",
        "Model",
        "OscillatingPolynomial",
        "ParityTransformer",
        "PolyNet",
        "Power",
        "RandomFourier",
        "RandomReLU",
        "ReLU",
        "ReLU6",
        "Sinusoid",
        "SparseInit",
        "SphereInit",
        "SubsetSearch",
        "Ticket",
        "TriangleWave",
        "Zigzag",
    ),
    "training": (
        "SGD",
        "AdaDelta",
        "Adam",
        "Constant",
        "Constructed",
        "ConstructedTransformer",
        "Cosine",
        "DisjointDescent",
        "DisjointFlow",
        "FeatureSelection",
        "FirstStep",
        "FreshDescent",
        "LastIterate",
        "LayerRates",
        "LinearProgram",
        "MirroredSigns",
        "NormPenalty",
        "Outcome",
        "OverSparse",
        "OverSparseInit",
        "Penalty",
        "Piecewise",
        "Ridge",
        "Schedule",
        "SignNetwork",
        "SignNetworkInit",
        "Success",
        "Training",
        "Trial",
        "UnderSparse",
        "UnderSparseInit",
        "train",
    ),
    "sweeps": ("Store", "Sweep", "grid", "run"),
    "tabular": ("Forest", "SparseMLPClassifier", "SparseMLPRegressor", "Table", "TabularNetwork"),
    "analysis": ("Contour", "trace_frontier"),
    "probes": ("Probe", "Snapshot"),
    "certificates": ("Certificate", "MarginCertificate", "ReadOut", "Spectrum", "certify", "read_out", "spectrum"),
}
_MODULES = (
    "analysis",
    "certificates",
    "experiments",
    "groups",
    "models",
    "plots",
    "probes",
    "random",
    "sweeps",
    "tabular",
    "tasks",
    "theory",
    "training",
)
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *_HOME_OF, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        value = getattr(import_module(f"elegans.{_HOME_OF[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"elegans.{name}")
    elif name == "__version__":
        value = import_module("importlib.metadata").version("elegans")
    else:
        raise AttributeError(f"module 'elegans' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
