"""The examples of a task as its own program draws them, for engines whose native code does not know the task."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Shaped, UInt32

from elegans import random
from elegans.tasks import Population, Task
from elegans.training.trial import Trial

DRAWN = 1024
"""How many examples are drawn at once, so that one program is compiled."""


class Drawn:
    """The streams of examples of one trial."""

    def __init__(self, trial: Trial) -> None:
        self.task, self.regime = trial.task, trial.regime
        self.hidden = trial.task.draw(trial.key("task"))
        self.keys = {name: trial.key(name) for name in ("sample", "batches", "noise", "test")}

    def training(
        self, index: UInt32[np.ndarray, " count"]
    ) -> tuple[Shaped[np.ndarray, "count n"], Shaped[np.ndarray, "count ..."]]:
        """Return inputs and labels that training sees under these indices."""
        x, y = self._examples("sample", index, members=isinstance(self.regime, Population))
        return x, self.task.corrupt(y, self.keys["noise"], index)

    def examples(
        self, stream: str, index: UInt32[np.ndarray, " count"]
    ) -> tuple[Shaped[np.ndarray, "count n"], Shaped[np.ndarray, "count ..."]]:
        """Return inputs and labels of examples of a stream, labels of the sample being as training sees them."""
        x, y = self._examples(stream, index)
        return x, self.task.corrupt(y, self.keys["noise"], index) if stream == "sample" else y

    def _examples(self, stream: str, index: UInt32[np.ndarray, " count"], *, members: bool = False) -> tuple[Any, Any]:
        hidden = self.hidden if stream == "sample" else self.task.held_out(self.hidden)
        key = [np.uint32(word) for word in self.keys[stream]]
        program, blocks = _program(self.task, members), []
        for block, count in _blocks(index):
            blocks.append([np.asarray(array)[:count] for array in program(hidden, *key, block)])
        x, y = (np.concatenate(column) for column in zip(*blocks, strict=True))
        return x, y


def _blocks(index: UInt32[np.ndarray, " count"]) -> Iterator[tuple[UInt32[np.ndarray, " drawn"], int]]:
    """Yield the numbers in blocks of one size, each with how many are real."""
    for first in range(0, len(index), DRAWN):
        block = index[first : first + DRAWN]
        yield np.pad(block, (0, DRAWN - len(block))), len(block)


@lru_cache(maxsize=128)
def _program(task: Task, members: bool) -> Callable[..., tuple[Any, Any]]:
    """Compile what draws examples, or members of the population: about six times as fast as NumPy."""
    import jax

    if members:
        return jax.jit(lambda hidden, high, low, index: task.member(hidden, index))
    return jax.jit(lambda hidden, high, low, index: task.examples(hidden, random.Key(high, low), index))
