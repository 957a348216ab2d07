"""The engine of layerwise theorems: one step of the hidden layer on the whole sample, then a readout."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, ClassVar, cast

import numpy as np
from jaxtyping import Bool, Float, Float32, UInt32

from elegans.models import MLP
from elegans.tasks import Sample, SparseParity
from elegans.training.engines.single import SequentialEngine, SingleNetwork
from elegans.training.layerwise.base import Layerwise
from elegans.training.layerwise.correlations import BLOCK, LARGEST_PATTERN, blocks, correlations, patterns
from elegans.training.layerwise.readouts import ConstructedReadout, Features, FreshDescent, LastIterate, Solver
from elegans.training.trial import Trial

WITHOUT_SAMPLE = 4096  # number of examples for measuring loss and error during training if there is no sample
LARGEST_STORED = 2**25
"""Maximum number of feature values stored between steps (256 MiB); more are recomputed at each step."""
LARGEST_BLOCK = 2**22  # approximate number of pre-activations or features in memory at once


class _Network(SingleNetwork):
    """One network; its hidden layer in float64 from float32 draws, its output layer in float64."""

    engine: ClassVar[str] = "layerwise"

    @classmethod
    def refusal(cls, trial: Trial) -> str | None:
        if isinstance(trial.training, Layerwise):  # it checked everything else when the trial was made
            return None
        part, component = ("model", trial.model) if trial.training is None else ("training", trial.training)
        return f"the layerwise engine takes no {part} {component.kind!r}"

    def __init__(self, trial: Trial) -> None:
        assert isinstance(trial.model, MLP) and isinstance(trial.task, SparseParity)
        self.trial, self.task, self.rule = trial, trial.task, cast(Any, trial.model.init)
        self.training = cast(Any, trial.training)
        self.support = trial.task.draw(trial.key("task"))
        self.initial = trial.model.initialise(trial.key("init"), trial.task)
        self.weight = self.initial["hidden"]["weight"].astype(np.float64)
        self.bias = self.initial["hidden"]["bias"].astype(np.float64)
        self.output = self.initial["output"]["weight"].astype(np.float64)
        self.constant = 0.0
        self.half = len(self.bias) // 2
        self.sample = trial.regime.size if isinstance(trial.regime, Sample) else None
        self.step = 0
        self.readout: _Readout | _FreshReadout | None = None

    def take(self, steps: int) -> tuple[float, float]:
        loss, error = np.mean([self._one_step() for _ in range(steps)], axis=0)
        return float(loss), float(error)

    def _one_step(self) -> tuple[float, float]:
        if self.step == 0:
            self._move_hidden()
            loss, error = 1.0, 1.0  # the mirrored network is 0 everywhere
        else:
            if self.readout is None:
                fresh = isinstance(self.training.readout, FreshDescent)
                self.readout = _FreshReadout(self) if fresh else _Readout(self)
            loss, error = self.readout.step(self.step)
        if self.diverged_at < 0 and not np.isfinite(loss):
            self.diverged_at = self.step
        self.step += 1
        return loss, error

    def _move_hidden(self) -> None:
        step = self.training.first_step(self.task, self.rule)
        gradient = self._gradient()
        gradient[np.abs(gradient) <= step.threshold] = 0
        moved = step.rate * self.output[: self.half, None] * gradient
        moved, biases = np.split(moved, [self.task.n], axis=1)
        moved_bias = self.bias + np.concatenate([biases, -biases]).sum(axis=1)
        self.bias = moved_bias.astype(np.float32).astype(np.float64)
        decayed = (1 - step.decay) * self.weight[: self.half]
        self.weight = np.concatenate([decayed + moved, decayed - moved]).astype(np.float32).astype(np.float64)

    def _gradient(self) -> Float[np.ndarray, "half columns"]:
        """Return E[1{w . x + b > 0} x y], with a further column for the biases if a sample moves them."""
        if self.training.gradient == "population":
            clean = self.training.population_gradient(self.initial["hidden"]["weight"][: self.half], self.support)
            return np.asarray(clean * (1 - 2 * self.task.noise))
        assert self.sample is not None
        weight, bias = self.training.gates(self.rule, self.initial)
        if not self.training.moves_biases:
            return correlations(weight, bias, self.examples, self.sample)

        def with_constant(index: UInt32[np.ndarray, " count"]) -> tuple[Any, Any]:
            x, y = self.examples(index)
            return np.pad(x, ((0, 0), (0, 1)), constant_values=1), y

        return correlations(np.pad(weight, ((0, 0), (0, 1))), bias, with_constant, self.sample)

    def examples(self, index: UInt32[np.ndarray, " count"], stream: str = "sample") -> tuple[Any, Any]:
        x, y = self.task.examples(self.support, self.trial.key(stream), index)
        return x, self.task.corrupt(y, self.trial.key("noise"), index) if stream == "sample" else y

    def outputs(self, x: Float32[np.ndarray, "count n"]) -> Float[np.ndarray, " count"]:
        """Return the outputs; the halves are summed separately, so that mirrored neurons cancel exactly."""
        sums = []
        for part in (slice(None, self.half), slice(self.half, None)):
            may_fire = np.abs(self.weight[part]).sum(axis=1) + self.bias[part] > 0
            weight, bias, output = (array[part][may_fire] for array in (self.weight, self.bias, self.output))
            size = max(1, LARGEST_BLOCK // max(1, len(weight)))
            blocks = [x[first : first + size] @ weight.T + bias for first in range(0, len(x), size)]
            sums.append(np.concatenate([np.maximum(block, 0) @ output for block in blocks]))
        return np.asarray(self.constant + (sums[0] + sums[1]))

    def answer_with(self, constant: float, output: Float[np.ndarray, " width"]) -> None:
        """Set the output layer, rounded to float32."""
        self.constant = float(np.float32(constant))
        self.output = output.astype(np.float32).astype(np.float64)

    def wrong(self, stream: str, index: UInt32[np.ndarray, " count"]) -> Bool[np.ndarray, " count"]:
        x, y = self.examples(index, stream)
        return np.asarray(~(y * self.outputs(x) > 0))

    @property
    def parameters(self) -> dict[str, dict[str, np.ndarray]]:
        return {
            "hidden": {"weight": self.weight.astype(np.float32), "bias": self.bias.astype(np.float32)},
            "output": {"weight": self.output.astype(np.float32), "bias": np.asarray(self.constant, np.float32)},
        }


class _Readout:
    """The output layer in training, with the sample as features of the neurons that may fire."""

    def __init__(self, network: _Network) -> None:
        self.network, self.rule = network, network.training.readout
        self.active = np.flatnonzero(np.abs(network.weight).sum(axis=1) + network.bias > 0)
        self.construction: ConstructedReadout | None = None
        with suppress(ValueError):  # the printed list of biases has none, and the readout does not need one
            self.construction = network.training.construction(network.task, network.rule)
        self.scale = 1.0 if self.construction is None else self.construction.scale
        self.output = np.concatenate([[network.constant], network.output[self.active] * self.scale])
        self.count = network.sample or WITHOUT_SAMPLE
        self.parts = self._parts()
        self.solved: tuple[float, float] | None = None

    def step(self, number: int) -> tuple[float, float]:
        if self.solved is not None:
            return self.solved
        loss, error, gradient = self._hinge()
        if isinstance(self.rule, LastIterate):
            decay = self.rule.strength(1.0 if self.construction is None else self.construction.norm)
            self.output = (1 - 1 / number) * self.output - gradient / (decay * number)
            self._hand_over()
            return loss, error
        if isinstance(self.rule, Solver):
            self.output = self.rule.solve(self.parts)
            self._hand_over()
        else:
            self._construct()
        self.solved = self._hinge()[:2]
        return loss, error

    def _hinge(self) -> tuple[float, float, Any]:
        losses, errors, gradients = zip(*[part.hinge(self.output) for part in self.parts()], strict=True)
        return sum(losses), sum(errors), sum(gradients)

    def _hand_over(self) -> None:
        """Set the network's output layer; neurons that never fire get 0."""
        weights = np.zeros(len(self.network.bias))
        weights[self.active] = self.output[1:] / self.scale
        self.network.answer_with(self.output[0], weights)

    def _construct(self) -> None:
        network = self.network
        assert self.construction is not None
        values = np.array([float(value) for value in network.rule.biases(network.task)], np.float32)
        bias = np.searchsorted(values, network.initial["hidden"]["bias"][: network.half])
        good = network.rule.good(network.initial["hidden"]["weight"][: network.half], network.support)
        sign = network.initial["output"]["weight"][: network.half]
        network.answer_with(*self.construction.build(bias, good, sign))
        self.output = np.concatenate([[network.constant], network.output[self.active] * self.scale])

    def _features(self, x: Any, used: Any) -> Float[np.ndarray, "count features"]:
        weight, bias = self.network.weight[self.active][:, used], self.network.bias[self.active]
        hidden = np.maximum(x @ weight.T + bias, 0) / self.scale
        return np.concatenate([np.ones((len(x), 1)), hidden], axis=1)

    def _parts(self) -> Callable[[], Iterator[Features]]:
        """Return a function that yields the sample: as pattern counts, stored or recomputed as memory allows."""
        used = np.flatnonzero((self.network.weight[self.active] != 0).any(axis=0))
        draw = self.network.examples
        if len(used) <= LARGEST_PATTERN and 2 ** (len(used) + 1) <= self.count:
            x, y, share = patterns(draw, self.count, used)
            counted = Features(self._features(x, used), y, share)
            return lambda: iter([counted])

        def recomputed() -> Iterator[Features]:
            for x, y in blocks(draw, self.count, min(BLOCK, max(1, LARGEST_BLOCK // (1 + len(self.active))))):
                share = np.full(len(y), 1 / self.count)
                yield Features(self._features(x[:, used], used), y.astype(np.float64), share)

        if self.count * (1 + len(self.active)) > LARGEST_STORED:
            return recomputed
        stored = list(recomputed())
        return lambda: iter(stored)


class _FreshReadout:
    def __init__(self, network: _Network) -> None:
        self.network, rule = network, network.training.readout
        task, width = network.task, len(network.bias)
        self.count = rule.batch_size
        self.rate = rule.rate(task.n, task.k, width, network.training.steps)
        self.output = np.zeros(width)

    def step(self, number: int) -> tuple[float, float]:
        network = self.network
        first = (network.sample or 0) + (number - 1) * self.count
        x, y = network.examples(np.arange(first, first + self.count, dtype=np.uint32))
        values = np.maximum(x @ network.weight.T + network.bias, 0)
        batch = Features(values, y.astype(np.float64), np.full(len(y), 1 / len(y)))
        loss, error, gradient = batch.hinge(self.output)
        self.output = self.output - self.rate * gradient
        network.answer_with(0.0, self.output)
        return loss, error


ENGINE = SequentialEngine(_Network)
