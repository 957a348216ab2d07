"""What learns."""

from elegans.models.base import Model
from elegans.models.learner import Course, Learner, Lesson
from elegans.models.mlp import MLP, DenseInit, Init, SparseInit
from elegans.models.search import SubsetSearch
from elegans.models.success import Success
from elegans.models.ticket import Ticket

__all__ = [
    "MLP",
    "Course",
    "DenseInit",
    "Init",
    "Learner",
    "Lesson",
    "Model",
    "SparseInit",
    "SubsetSearch",
    "Success",
    "Ticket",
]
