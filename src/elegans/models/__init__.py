"""What learns."""

from elegans.models.base import Model
from elegans.models.mlp import MLP, DenseInit, Init, SparseInit

__all__ = ["MLP", "DenseInit", "Init", "Model", "SparseInit"]
