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
from elegans.models.attention import AttentionOnly
from elegans.models.base import Model
from elegans.models.boolean import BooleanTransformer
from elegans.models.deep import DeepMLP
from elegans.models.features import GatedLinear, LinearPredictor, RandomFourier, RandomReLU
from elegans.models.inits import (
    AffineInit,
    BernoulliInit,
    ConstantInit,
    DenseInit,
    GaussianInit,
    Init,
    SparseInit,
    SphereInit,
)
from elegans.models.kernel import KernelRidge
from elegans.models.learner import Course, Learner, Lesson
from elegans.models.minimal import MinimalAttention
from elegans.models.mlp import MLP
from elegans.models.polynet import DisjointPolyNet, PolyNet
from elegans.models.recovery import GradientRecovery
from elegans.models.search import SubsetSearch
from elegans.models.success import Success
from elegans.models.ticket import SeededInit, Ticket
from elegans.models.transformer import ParityTransformer

__all__ = [
    "MLP",
    "Activation",
    "AffineInit",
    "AttentionOnly",
    "BernoulliInit",
    "BooleanTransformer",
    "ConstantInit",
    "Course",
    "DeepMLP",
    "DenseInit",
    "DisjointPolyNet",
    "GatedLinear",
    "GaussianInit",
    "GradientRecovery",
    "Init",
    "KernelRidge",
    "Learner",
    "Lesson",
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
    "SeededInit",
    "Sinusoid",
    "SparseInit",
    "SphereInit",
    "SubsetSearch",
    "Success",
    "Ticket",
    "TriangleWave",
    "Zigzag",
]
