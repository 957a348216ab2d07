"""What is learned: tasks, and the regimes by which their examples reach the learner."""

from elegans.tasks.base import Online, Regime, Sample, Task
from elegans.tasks.parity import SparseParity

__all__ = ["Online", "Regime", "Sample", "SparseParity", "Task"]
