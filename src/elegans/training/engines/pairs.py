"""The native engine of one-hot pairs: two-layer networks without biases on groups, one at a time."""

from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float32, UInt32

from elegans import random
from elegans.models import MLP
from elegans.models.activations import Activation, Power, ReLU
from elegans.tasks import (
    GroupComposition,
    GroupOperation,
    ModularAddition,
    ModularArithmetic,
    Online,
    PairTask,
    Population,
    Split,
)
from elegans.training.engines.single import NativeNetwork, SequentialEngine, optimiser_of
from elegans.training.losses import CrossEntropy, Loss, OneHotSquare
from elegans.training.optimisers import SGD, Adam, AdamW
from elegans.training.penalties import NormPenalty
from elegans.training.trial import Trial

ACTIVATIONS: dict[type[Activation], str] = {ReLU: "relu", Power: "power"}
LOSSES: dict[type[Loss], str] = {CrossEntropy: "cross-entropy", OneHotSquare: "one-hot-square"}
LARGEST_ORDER = 2**12  # maximum number of elements: the table of their products is in memory
LARGEST_BATCH = 2**24
GIVEN = 2**20  # maximum number of pairs drawn ahead of one step's


class _Network(NativeNetwork):
    engine: ClassVar[str] = "pairs"
    takes: ClassVar[dict[str, tuple[type, ...]]] = {
        "task": (ModularAddition, ModularArithmetic, GroupComposition, GroupOperation),
        "regime": (Online, Population, Split),
        "model": (MLP,),
        "model.activation": tuple(ACTIVATIONS),
        "training": (SGD, Adam, AdamW),
        "training.loss": tuple(LOSSES),
        "training.penalty": (type(None), NormPenalty),
        "training.clip": (type(None),),
    }

    @classmethod
    def limits(cls, trial: Trial) -> str | None:
        assert isinstance(trial.model, MLP) and isinstance(trial.training, SGD | Adam)
        model, penalty = trial.model, trial.training.penalty
        if model.hidden_bias or model.output_bias or model.scaling != "standard":
            return "no network with biases or a mean-field one"
        if isinstance(penalty, NormPenalty) and penalty.inner != 2:
            return f"no norm penalty with inner={penalty.inner}"
        if (trial.task.classes or 0) > LARGEST_ORDER or trial.training.batch_size > LARGEST_BATCH:
            rule = f"not more than {LARGEST_ORDER} classes or a batch of more than {LARGEST_BATCH} pairs"
            return f"{rule}: {trial.task.classes}, {trial.training.batch_size}"
        return None

    def __init__(self, trial: Trial) -> None:
        from elegans import _native

        task, model, training = trial.task, trial.model, trial.training
        assert isinstance(task, PairTask) and isinstance(model, MLP) and isinstance(training, SGD | Adam)
        initial = model.initialise(trial.key("init"), task)
        rates = [training.rates(f"{layer}.weight") for layer in ("hidden", "output")]
        strength, norm, exponent = 0.0, 2.0, 2.0
        if isinstance(training.penalty, NormPenalty):
            strength, (norm, exponent) = training.penalty.strength, training.penalty.exponents(model)
        self.task, self.model, self.training = task, model, training
        self.keys: dict[str, random.Key] = {name: trial.key(name) for name in ("sample", "test", "batches")}
        self.parts: dict[str, UInt32[np.ndarray, " size"]] = {}
        if isinstance(regime := trial.regime, Split):
            sizes = {"sample": regime.sample_size(task), "test": regime.held_out_size(task)}
            for name, size in sizes.items():
                numbers = regime.numbers(task, self.keys["sample"], name, np.arange(size, dtype=np.uint32))
                self.parts[name] = task.pairs(numbers)
        self.every = isinstance(regime, Population)
        self.draws = task.population == task.order**2 and not self.parts
        classes = np.ascontiguousarray(task.results(np.arange(task.order**2, dtype=np.uint32)), np.int32)
        self.native = _native.PairNetwork(
            np.ascontiguousarray(initial["hidden"]["weight"]),
            np.ascontiguousarray(initial["output"]["weight"]),
            classes.reshape(task.order, task.order),
            activation=ACTIVATIONS[type(model.activation)],
            degree=getattr(model.activation, "degree", 1),
            population=self.every and self.draws,
            batch_size=training.batch_size,
            learning_rates=[learning_rate for learning_rate, _ in rates],
            decays=[weight_decay for _, weight_decay in rates],
            penalty=strength,
            penalty_norm=norm,
            penalty_exponent=exponent,
            loss=(LOSSES[type(training.loss)], getattr(training.loss, "scale", 1.0)),
            **optimiser_of(training),
            sample_key=self.keys["sample"],
        )

    def take(self, steps: int) -> tuple[float, float]:
        """Take some steps; where the native code does not draw the pairs, as many at a time as there are pairs for."""
        if self.draws:
            return super().take(steps)
        most, sums, done = max(1, GIVEN // self.training.batch_size), np.zeros(2), 0
        while done < steps and self.diverged_at < 0:
            step, count = self.native.step, min(most, steps - done)
            if taken := self.native.advance(self.training.factors(step, count), self._pairs(step, count)):
                sums += taken * np.array([self.native.loss, self.native.error])
                done += taken
        loss, error = sums / done if done else (np.nan, np.nan)
        return float(loss), float(error)

    def _pairs(self, step: int, count: int) -> UInt32[np.ndarray, "count batch"]:
        """Return the pairs of some steps by their numbers a order + b."""
        from elegans import _native

        size = self.training.batch_size
        if self.every:
            return np.tile(self.task.pairs(np.arange(size, dtype=np.uint32)), (count, 1))
        if not self.parts:
            index = np.arange(step * size, (step + count) * size, dtype=np.uint32).reshape(count, size)
            return np.asarray(self.task.pairs(self.task.drawn(self.keys["sample"], index)))
        key, part, order = self.keys["batches"], self.parts["sample"], self.training.batches
        return part[_native.minibatches(key, step, count, batch_size=size, sample_size=len(part), order=order)]

    def wrong(self, stream: str, index: UInt32[np.ndarray, " count"]) -> Bool[np.ndarray, " count"]:
        if self.parts:
            examples = self.parts[stream][index % np.uint32(len(self.parts[stream]))]
        else:
            examples = self.task.pairs(self.task.drawn(self.keys[stream], index))
        pairs, inverse = np.unique(examples, return_inverse=True)  # often there are fewer pairs than examples
        return np.asarray(self.native.wrong(pairs)[inverse])

    def outputs(self, x: Float32[np.ndarray, "count n"]) -> Float32[np.ndarray, "count classes"]:
        return np.asarray(self.model.apply(self.parameters, x))

    @property
    def parameters(self) -> dict[str, dict[str, np.ndarray]]:
        hidden, output = self.native.parameters()
        return {"hidden": {"weight": hidden}, "output": {"weight": output}}


ENGINE = SequentialEngine(_Network)
