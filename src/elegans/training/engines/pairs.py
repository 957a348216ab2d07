"""The native engine of one-hot pairs: two-layer networks without biases that learn a group, one at a time."""

from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float32, Int32, UInt32

from elegans import random
from elegans.models import MLP
from elegans.models.activations import Activation, Power, ReLU
from elegans.tasks import GroupComposition, ModularAddition, Online, Population, Task
from elegans.training.engines.single import NativeNetwork, OneByOne
from elegans.training.losses import CrossEntropy
from elegans.training.optimisers import SGD
from elegans.training.penalties import NormPenalty
from elegans.training.trial import Trial

ACTIVATIONS: dict[type[Activation], str] = {ReLU: "relu", Power: "power"}
LARGEST_ORDER = 2**12
"""The largest number of elements: the table of their products is in memory."""
LARGEST_BATCH = 2**24


class _Network(NativeNetwork):
    """One native network and the streams that it is evaluated on."""

    engine: ClassVar[str] = "pairs"
    takes: ClassVar[dict[str, tuple[type, ...]]] = {
        "task": (ModularAddition, GroupComposition),
        "regime": (Online, Population),
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
        self.keys: dict[str, random.Key] = {name: trial.key(name) for name in ("sample", "test")}
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

    def wrong(self, stream: str, index: UInt32[np.ndarray, " count"]) -> Bool[np.ndarray, " count"]:
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
    """Return strength, norm and exponent of the penalty; of none, the strength is 0."""
    if not isinstance(training.penalty, NormPenalty):
        return 0.0, 2.0, 2.0
    return training.penalty.strength, *training.penalty.exponents(model)


ENGINE = OneByOne(_Network)
