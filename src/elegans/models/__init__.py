"""What learns."""

from elegans.models.base import Model
from elegans.models.mlp import MLP, DenseInit, Init, SparseInit
from elegans.models.ticket import Ticket

__all__ = ["MLP", "DenseInit", "Init", "Model", "SparseInit", "Ticket"]
