"""Errors on the rows for model selection."""

import numpy as np

from elegans.models import Model
from elegans.probes import Probe, Snapshot
from elegans.tabular.table import Table
from elegans.tasks import Task


class ValidationErrorRate(Probe, kind="validation-error"):
    """The exact fraction of a table's validation rows that the learner gets wrong.

    They are the last rows of the pool: no sample of a learner of tables includes them, and they are not held-out rows.
    """

    def check(self, task: Task, model: Model) -> None:
        """Refuse a task without such rows."""
        if not isinstance(task, Table):
            raise ValueError(f"validation-error needs a learner of a table: task={task.kind!r}")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``error``, from 0 to 1."""
        task = snapshot.task
        assert isinstance(task, Table)
        rows = np.arange(task.training_rows, task.pool_rows, dtype=np.uint32)
        return {"error": float(snapshot.wrong("sample", rows).mean())}
