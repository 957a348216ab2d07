"""Error rates while a network learns."""

from typing import Annotated

import numpy as np
from pydantic import Field

from elegans.probes.base import Probe, Snapshot


class TestError(Probe):
    """The exact share of held-out examples that the network gets wrong (labels clean).

    Args:
        every: how many steps lie between two measurements.
        examples: how many held-out examples, the first of the trial's test stream.
    """

    __test__ = False  # for pytest: a probe, not a test case
    examples: Annotated[int, Field(ge=1)] = 10_000

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``error``, from 0 to 1."""
        wrong = snapshot.wrong("test", np.arange(self.examples, dtype=np.uint32))
        return {"error": float(wrong.mean())}


class TrainError(Probe):
    """The exact share of the sample that the network gets wrong (labels as training sees them).

    Online trials have no sample: there the first examples that training saw stand for it.

    Args:
        every: how many steps lie between two measurements.
        examples: how many examples of the sample are looked at at the most.
    """

    examples: Annotated[int, Field(ge=1)] = 10_000

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``error``, from 0 to 1."""
        count = min(self.examples, snapshot.sample_size or self.examples)
        wrong = snapshot.wrong("sample", np.arange(count, dtype=np.uint32))
        return {"error": float(wrong.mean())}
