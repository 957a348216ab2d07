"""What is learned: tasks, and the regimes by which their examples reach the learner."""

from elegans.tasks.base import Cube, Online, Regime, Sample, Task
from elegans.tasks.parity import DisjointParity, SparseParity

__all__ = ["Cube", "DisjointParity", "Online", "Regime", "Sample", "SparseParity", "Task"]
