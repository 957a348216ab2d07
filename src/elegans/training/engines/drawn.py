"""Native networks that are independent of tasks: a compiled program of the task draws their examples."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import UInt32

from elegans import random
from elegans.compilation import jit
from elegans.models.inits import Layers
from elegans.tasks import Population, Split, Task
from elegans.training.engines.base import jax_failure
from elegans.training.engines.rows import ParameterRow
from elegans.training.engines.single import NativeNetwork, optimiser_of
from elegans.training.trial import Trial

DRAWN = 1024  # number of examples drawn at once, so that only one program is compiled


@lru_cache(maxsize=128)
def _program(task: Task, members: bool) -> Callable[..., tuple[Any, Any]]:
    """Compile the drawing of examples, or of members of the population: about six times as fast as NumPy."""
    if members:
        return jit(lambda hidden, high, low, index: task.member(hidden, index))
    return jit(lambda hidden, high, low, index: task.examples(hidden, random.Key(high, low), index))


class DrawnNetwork(NativeNetwork):
    """A native transformer, which receives its examples, and whose parameters are one row."""

    def __init__(self, trial: Trial, native: Callable[..., Any], **options: Any) -> None:
        training: Any = trial.training
        self.task, self.regime, self.training = trial.task, trial.regime, training
        self.hidden = trial.task.draw(trial.key("task"))
        self.keys = {name: trial.key(name) for name in ("sample", "batches", "noise", "test")}
        self.row = ParameterRow(trial.model.initialise(trial.key("init"), trial.task), self.arrange)
        self.native = native(
            *self.row.initial(training),
            batch_size=training.batch_size,
            **optimiser_of(training),
            **options,
        )
        self.ahead_at, self.ahead = 0, self.as_read(np.zeros((0, trial.task.input_size)), np.zeros(0))

    @classmethod
    def unavailable(cls) -> str | None:
        return jax_failure() or super().unavailable()

    @abstractmethod
    def arrange(self, parameters: Layers) -> Iterator[np.ndarray]:
        """Yield the arrays of all parameters in the native layout and order."""

    @abstractmethod
    def as_read(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Return inputs and labels in native form."""

    @abstractmethod
    def minibatches(self, most: int) -> tuple[Any, ...]:
        """Return the native inputs of at least one further step; the last array has one row per step."""

    def take(self, steps: int) -> tuple[float, float]:
        """Take some steps, as many at a time as there are examples for."""
        loss = error = 0.0
        done = 0
        while done < steps and self.diverged_at < 0:
            arrays = self.minibatches(steps - done)
            advanced = self.native.advance(*arrays, self.training.factors(self.native.step, len(arrays[-1])))
            if advanced:
                loss, error = loss + advanced * self.native.loss, error + advanced * self.native.error
                done += advanced
        return (loss / done, error / done) if done else (np.nan, np.nan)

    def drawn_ahead(self) -> tuple[tuple[Any, Any], int]:
        """Return examples that contain the next step's, and the position of these among them, in steps."""
        step, size = self.native.step, self.training.batch_size
        if not self.ahead_at <= step < self.ahead_at + len(self.ahead[0]) // size:
            index = self.indices(step, max(1, DRAWN // size)).ravel()
            self.ahead_at, self.ahead = step, self.training_examples(index)
        return self.ahead, step - self.ahead_at

    def indices(self, step: int, steps: int) -> UInt32[np.ndarray, "steps batch"]:
        """Return the indices of the examples in the minibatches of some steps."""
        from elegans import _native

        key, size, order = self.keys["batches"], self.training.batch_size, self.training.batches
        if (sample := self.regime.sample_size(self.task)) is not None:
            return np.asarray(_native.minibatches(key, step, steps, batch_size=size, sample_size=sample, order=order))
        batch = self.regime.batch
        return np.array([batch(self.task, key, np.uint32(at), size, order) for at in range(step, step + steps)])

    def training_examples(self, index: UInt32[np.ndarray, " count"]) -> tuple[Any, Any]:
        """Return the training examples with these indices, in native form."""
        x, y = self._draw("sample", index, members=isinstance(self.regime, Population | Split))
        return self.as_read(x, self.task.corrupt(y, self.keys["noise"], index))

    def examples(self, stream: str, index: UInt32[np.ndarray, " count"]) -> tuple[Any, Any]:
        """Return the examples of a stream in native form; labels of the sample are those used in training."""
        x, y = self._draw(stream, index)
        return self.as_read(x, self.task.corrupt(y, self.keys["noise"], index) if stream == "sample" else y)

    def _draw(self, stream: str, index: UInt32[np.ndarray, " count"], *, members: bool = False) -> tuple[Any, Any]:
        hidden = self.hidden if stream == "sample" else self.task.held_out(self.hidden)
        if isinstance(self.regime, Split):
            members, index = True, self.regime.numbers(self.task, self.keys["sample"], stream, index)
        key = [np.uint32(word) for word in self.keys[stream]]
        program, blocks = _program(self.task, members), []
        for first in range(0, len(index), DRAWN):
            block = index[first : first + DRAWN]
            arrays = program(hidden, *key, np.pad(block, (0, DRAWN - len(block))))
            blocks.append([np.asarray(array)[: len(block)] for array in arrays])
        x, y = (np.concatenate(column) for column in zip(*blocks, strict=True))
        return x, y

    @property
    def parameters(self) -> Layers:
        return self.row.nested(self.native.parameters())
