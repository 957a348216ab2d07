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
from elegans.models.inits import AffineInit, BernoulliInit, DenseInit, GaussianInit, Init, SparseInit
from elegans.models.learner import Course, Learner, Lesson
from elegans.models.mlp import MLP
from elegans.models.polynet import PolyNet
from elegans.models.search import SubsetSearch
from elegans.models.success import Success
from elegans.models.ticket import Ticket

__all__ = [
    "MLP",
    "Activation",
    "AffineInit",
    "BernoulliInit",
    "Course",
    "DenseInit",
    "GaussianInit",
    "Init",
    "Learner",
    "Lesson",
    "Model",
    "OscillatingPolynomial",
    "PolyNet",
    "Power",
    "ReLU",
    "ReLU6",
    "Sinusoid",
    "SparseInit",
    "SubsetSearch",
    "Success",
    "Ticket",
    "TriangleWave",
    "Zigzag",
]
