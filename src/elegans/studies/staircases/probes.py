"""What a network has learned of each set of a sum of parities."""

from typing import Annotated

import numpy as np
from jaxtyping import Float64
from pydantic import Field

from elegans.boolean.fourier import fourier_coefficients
from elegans.models import Model
from elegans.probes.base import Probe, Snapshot
from elegans.tasks import MonomialSum, Task
from elegans.tasks.base import corners


class SetCoefficients(Probe):
    """The loss of a network on a sum of parities, and its coefficients of the target's sets.

    The coefficient of a set S is g_S = E[f(x) chi_S(x)]. The mean is exact over the k coordinates of the support: all
    2^k signs are combined with each of some draws of the other coordinates. So a network that reads only the support
    has its coefficients without error.

    Source: Abbe, Boix-Adsera and Misiakiewicz (2023), section 1.

    Args:
        draws: the number of draws of the other coordinates, the same at every measurement.
    """

    draws: Annotated[int, Field(ge=1, le=2**16)] = 32

    def check(self, task: Task, model: Model) -> None:
        if not isinstance(task, MonomialSum):
            raise ValueError(f"set-coefficients must measure on a monomial-sum: task={task.kind!r}")
        if model.outputs(task) != 1:
            raise ValueError(f"set-coefficients must measure one output: outputs={model.outputs(task)}")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``loss``, the mean of (f - y)^2 over 2, and ``set0``, ``set1``, … for the task's sets in order."""
        task = snapshot.task
        assert isinstance(task, MonomialSum)
        table, loss = self.means(snapshot)
        places = [sum(1 << member for member in members) for members in task.sets]
        spectrum = fourier_coefficients(table)
        return {"loss": loss, **{f"set{number}": float(spectrum[place]) for number, place in enumerate(places)}}

    def means(self, snapshot: Snapshot) -> tuple[Float64[np.ndarray, " values"], float]:
        """Return the mean output for each value of the support, shape (2^k,), and the loss."""
        task = snapshot.task
        assert isinstance(task, MonomialSum)

        def inputs() -> np.ndarray:
            others, _ = snapshot.examples("test", self.draws)
            x = np.repeat(np.asarray(others, np.float32)[:, None], 2**task.k, axis=1)
            x[:, :, snapshot.hidden] = corners(np.arange(2**task.k, dtype=np.uint32), task.k)
            return np.asarray(x.reshape(-1, task.n))

        x = snapshot.remember(f"support:{self.draws}", inputs)
        outputs = np.asarray(snapshot.model.apply(snapshot.parameters, x), float).reshape(self.draws, 2**task.k)
        return outputs.mean(axis=0), float(((outputs - task.values) ** 2).mean() / 2)
