"""The native engine of one-hot pairs: two-layer networks without biases on groups, one at a time."""

from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float32, Int32, UInt32

from elegans import random
from elegans.models import MLP
from elegans.models.activations import Activation, Power, ReLU
from elegans.tasks import GroupComposition, ModularAddition, Online, Population, Split, Task
from elegans.training.engines.single import NativeNetwork, OneByOne
from elegans.training.losses import CrossEntropy
from elegans.training.optimisers import SGD
from elegans.training.penalties import NormPenalty
from elegans.training.trial import Trial

ACTIVATIONS: dict[type[Activation], str] = {ReLU: "relu", Power: "power"}
LARGEST_ORDER = 2**12
"""Maximum number of elements: the table of their products is in memory."""
LARGEST_BATCH = 2**24
GIVEN = 2**20
"""Maximum number of pairs drawn ahead of one step's."""


class _Network(NativeNetwork):
    """One native network and the streams that it is evaluated on."""

    engine: ClassVar[str] = "pairs"
    takes: ClassVar[dict[str, tuple[type, ...]]] = {
        "task": (ModularAddition, GroupComposition),
        "regime": (Online, Population, Split),
        "model": (MLP,),
        "model.activation": tuple(ACTIVATIONS),
        "training": (SGD,),
        "training.loss": (CrossEntropy,),
        "training.penalty": (type(None), NormPenalty),
        "training.clip": (type(None),),
    }

    @classmethod
    def limits(cls, trial: Trial) -> str | None:
        assert isinstance(trial.model, MLP) and isinstance(trial.training, SGD)
        model, penalty = trial.model, trial.training.penalty
        if model.hidden_bias or model.output_bias or model.scaling != "standard":
            return "no network with biases or a mean-field one"
        if isinstance(penalty, NormPenalty) and penalty.inner != 2:
            return f"no norm penalty with inner={penalty.inner}"
        if (trial.task.classes or 0) > LARGEST_ORDER or trial.training.batch_size > LARGEST_BATCH:
            largest = f"more than {LARGEST_ORDER} classes or a batch of more than {LARGEST_BATCH} pairs"
            return f"not {largest}: {trial.task.classes}, {trial.training.batch_size}"
        return None

    def __init__(self, trial: Trial) -> None:
        from elegans import _native

        task, model, training = trial.task, trial.model, trial.training
        assert isinstance(model, MLP) and isinstance(training, SGD)
        initial = model.initialise(trial.key("init"), task)
        rates = [training.rates(f"{layer}.weight") for layer in ("hidden", "output")]
        strength, norm, exponent = _penalty(training, model)
        self.model, self.training, self.population = model, training, np.uint32(task.population or 0)
        self.keys: dict[str, random.Key] = {name: trial.key(name) for name in ("sample", "test", "batches")}
        self.parts: dict[str, UInt32[np.ndarray, " size"]] = {}
        if isinstance(regime := trial.regime, Split):
            sizes = {"sample": regime.sample_size(task), "test": regime.held_out_size(task)}
            for name, size in sizes.items():
                self.parts[name] = regime.numbers(task, self.keys["sample"], name, np.arange(size, dtype=np.uint32))
        self.native = _native.PairNetwork(
            np.ascontiguousarray(initial["hidden"]["weight"]),
            np.ascontiguousarray(initial["output"]["weight"]),
            _table(task),
            activation=ACTIVATIONS[type(model.activation)],
            degree=getattr(model.activation, "degree", 1),
            population=isinstance(trial.regime, Population),
            batch_size=training.batch_size,
            learning_rates=[learning_rate for learning_rate, _ in rates],
            decays=[weight_decay for _, weight_decay in rates],
            decay_in_gradient=training.decay == "gradient",
            penalty=strength,
            penalty_norm=norm,
            penalty_exponent=exponent,
            sample_key=self.keys["sample"],
        )

    def take(self, steps: int) -> tuple[float, float]:
        """Take some steps; on a split, as many at a time as there are pairs for."""
        if not self.parts:
            return super().take(steps)
        from elegans import _native

        training, part, done = self.training, self.parts["sample"], 0
        most, sums = max(1, GIVEN // training.batch_size), np.zeros(2)
        while done < steps and self.diverged_at < 0:
            step, count = self.native.step, min(most, steps - done)
            drawn = _native.minibatches(
                self.keys["batches"],
                step,
                count,
                batch_size=training.batch_size,
                sample_size=len(part),
                order=training.batches,
            )
            if taken := self.native.advance(training.factors(step, count), part[drawn]):
                sums += taken * np.array([self.native.loss, self.native.error])
                done += taken
        loss, error = sums / done if done else (np.nan, np.nan)
        return float(loss), float(error)

    def wrong(self, stream: str, index: UInt32[np.ndarray, " count"]) -> Bool[np.ndarray, " count"]:
        if self.parts:
            drawn = self.parts[stream][index % np.uint32(len(self.parts[stream]))]
        else:
            drawn = random.integers(self.keys[stream], index, np.uint32(0), self.population)
        pairs, place = np.unique(drawn, return_inverse=True)  # often there are fewer pairs than examples
        return np.asarray(self.native.wrong(pairs)[place])

    def outputs(self, x: Float32[np.ndarray, "count n"]) -> Float32[np.ndarray, "count classes"]:
        return np.asarray(self.model.apply(self.parameters, x))

    @property
    def parameters(self) -> dict[str, dict[str, np.ndarray]]:
        hidden, output = self.native.parameters()
        return {"hidden": {"weight": hidden}, "output": {"weight": output}}


def _table(task: Task) -> Int32[np.ndarray, "order order"]:
    """Return the class of each pair."""
    assert isinstance(task, ModularAddition | GroupComposition) and task.classes is not None
    pairs = np.arange(task.population, dtype=np.uint32)
    return np.ascontiguousarray(task.member(None, pairs)[1], np.int32).reshape(task.classes, task.classes)


def _penalty(training: SGD, model: MLP) -> tuple[float, float, float]:
    """Return strength, norm and exponent of the penalty; without one, the strength is 0."""
    if not isinstance(training.penalty, NormPenalty):
        return 0.0, 2.0, 2.0
    return training.penalty.strength, *training.penalty.exponents(model)


ENGINE = OneByOne(_Network)
