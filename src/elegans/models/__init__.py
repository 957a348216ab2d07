"""What learns."""

from elegans.models.activations import (
    Activation,
    OscillatingPolynomial,
    Power,
    ReLU,
    ReLU6,
    Sinusoid,
    TriangleWave,
    Zigzag,
)
from elegans.models.base import Model
from elegans.models.deep import DeepMLP
from elegans.models.inits import (
    AffineInit,
    BernoulliInit,
    ConstantInit,
    DenseInit,
    GaussianInit,
    Init,
    SparseInit,
)
from elegans.models.learner import Course, Learner, Lesson
from elegans.models.mlp import MLP
from elegans.models.polynet import DisjointPolyNet, PolyNet
from elegans.models.search import SubsetSearch
from elegans.models.success import Success
from elegans.models.ticket import SeededInit, Ticket
from elegans.models.transformer import ParityTransformer

__all__ = [
    "MLP",
    "Activation",
    "AffineInit",
    "BernoulliInit",
    "ConstantInit",
    "Course",
    "DeepMLP",
    "DenseInit",
    "DisjointPolyNet",
    "GaussianInit",
    "Init",
    "Learner",
    "Lesson",
    "Model",
    "OscillatingPolynomial",
    "ParityTransformer",
    "PolyNet",
    "Power",
    "ReLU",
    "ReLU6",
    "SeededInit",
    "Sinusoid",
    "SparseInit",
    "SubsetSearch",
    "Success",
    "Ticket",
    "TriangleWave",
    "Zigzag",
]
