"""The native engine of one-hot pairs: networks on groups, one at a time.

They are two-layer networks without biases, and transformers of one block.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float32, UInt32

from elegans import random
from elegans.models import MLP, Model, PairTransformer
from elegans.models.activations import Activation, Power, ReLU
from elegans.models.inits import Layers
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
from elegans.training.engines.rows import ParameterRow
from elegans.training.engines.single import NativeNetwork, SequentialEngine, SingleNetwork, optimiser_of
from elegans.training.losses import CrossEntropy, Loss, OneHotSquare
from elegans.training.optimisers import SGD, Adam, AdamW
from elegans.training.penalties import NormPenalty
from elegans.training.trial import Trial

ACTIVATIONS: dict[type[Activation], str] = {ReLU: "relu", Power: "power"}
LOSSES: dict[type[Loss], str] = {CrossEntropy: "cross-entropy", OneHotSquare: "one-hot-square"}
LARGEST_ORDER = 2**12  # maximum number of elements: the table of their products is in memory
LARGEST_BATCH = 2**24
LARGEST_WIDTH = 2**14
LARGEST_ARRAY = 2**26  # maximum number of entries of a transformer's largest array, with padded rows
GIVEN = 2**20  # maximum number of pairs drawn ahead of one step's


class _Network(NativeNetwork):
    """What networks of both models share: the pairs, the labels and the options for these."""

    engine: ClassVar[str] = "pairs"
    takes: ClassVar[dict[str, tuple[type, ...]]] = {
        "task": (ModularAddition, ModularArithmetic, GroupComposition, GroupOperation),
        "regime": (Online, Population, Split),
        "model": (MLP, PairTransformer),
        "model.activation": tuple(ACTIVATIONS),
        "training": (SGD, Adam, AdamW),
        "training.loss": tuple(LOSSES),
        "training.penalty": (type(None), NormPenalty),
        "training.clip": (type(None),),
    }

    @classmethod
    def limits(cls, trial: Trial) -> str | None:
        assert isinstance(trial.training, SGD | Adam)
        if (trial.task.classes or 0) > LARGEST_ORDER or trial.training.batch_size > LARGEST_BATCH:
            rule = f"not more than {LARGEST_ORDER} classes or a batch of more than {LARGEST_BATCH} pairs"
            return f"{rule}: {trial.task.classes}, {trial.training.batch_size}"
        return _KINDS[type(trial.model)].size_limits(trial)

    @classmethod
    @abstractmethod
    def size_limits(cls, trial: Trial) -> str | None:
        """Return what the native code does not support in the trial's model and its penalty, or None."""

    @abstractmethod
    def network(self, trial: Trial, **options: Any) -> Any:
        """Return the native network with the trial's initial parameters and the options that all have."""

    def __init__(self, trial: Trial) -> None:
        task, training = trial.task, trial.training
        assert isinstance(task, PairTask) and isinstance(training, SGD | Adam)
        self.task, self.model, self.training = task, trial.model, training
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
        self.native = self.network(
            trial,
            table=classes.reshape(task.order, task.order),
            activation=ACTIVATIONS[type(trial.model.activation)],  # type: ignore[attr-defined]
            degree=getattr(trial.model.activation, "degree", 1),  # type: ignore[attr-defined]
            population=self.every and self.draws,
            batch_size=training.batch_size,
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
    @abstractmethod
    def parameters(self) -> Layers: ...


class _TwoLayers(_Network):
    @classmethod
    def size_limits(cls, trial: Trial) -> str | None:
        model, penalty = trial.model, trial.training.penalty  # type: ignore[union-attr]
        assert isinstance(model, MLP)
        if model.hidden_bias or model.output_bias or model.scaling != "standard":
            return "no network with biases or a mean-field one"
        if isinstance(penalty, NormPenalty) and penalty.inner != 2:
            return f"no norm penalty with inner={penalty.inner}"
        return None

    def network(self, trial: Trial, **options: Any) -> Any:
        from elegans import _native

        model, training = trial.model, self.training
        assert isinstance(model, MLP)
        initial = model.initialise(trial.key("init"), trial.task)
        rates = [training.rates(f"{layer}.weight") for layer in ("hidden", "output")]
        strength, norm, exponent = 0.0, 2.0, 2.0
        if isinstance(training.penalty, NormPenalty):
            strength, (norm, exponent) = training.penalty.strength, training.penalty.exponents(model)
        return _native.PairNetwork(
            np.ascontiguousarray(initial["hidden"]["weight"]),
            np.ascontiguousarray(initial["output"]["weight"]),
            learning_rates=[learning_rate for learning_rate, _ in rates],
            decays=[weight_decay for _, weight_decay in rates],
            penalty=strength,
            penalty_norm=norm,
            penalty_exponent=exponent,
            **options,
        )

    @property
    def parameters(self) -> Layers:
        hidden, output = self.native.parameters()
        return {"hidden": {"weight": hidden}, "output": {"weight": output}}


class _Transformer(_Network):
    @classmethod
    def size_limits(cls, trial: Trial) -> str | None:
        model = trial.model
        assert isinstance(model, PairTransformer) and trial.task.classes is not None
        sizes = {name: getattr(model, name) for name in ("width", "heads", "head_size", "mlp_width")}
        if wide := {name: size for name, size in sizes.items() if size > LARGEST_WIDTH}:
            return f"no transformer with sizes above {LARGEST_WIDTH}: {wide}"
        tokens, rows = 2 * trial.task.classes + 1, {name: -(-size // 32) * 32 for name, size in sizes.items()}
        values = sizes["heads"] * rows["head_size"]
        arrays = (
            tokens * sizes["heads"] * rows["width"],
            values * max(rows["width"], tokens),
            rows["width"] * rows["mlp_width"],
        )
        if (largest := max(arrays)) > LARGEST_ARRAY:
            return f"no transformer with an array of more than {LARGEST_ARRAY} entries: {largest} with {sizes}"
        return None

    def network(self, trial: Trial, **options: Any) -> Any:
        from elegans import _native

        model = trial.model
        assert isinstance(model, PairTransformer)
        self.row = ParameterRow(model.initialise(trial.key("init"), trial.task))
        return _native.PairTransformer(
            *self.row.initial(self.training),
            width=model.width,
            heads=model.heads,
            head_size=model.head_size,
            mlp_width=model.mlp_width,
            **options,
        )

    @property
    def parameters(self) -> Layers:
        return self.row.nested(self.native.parameters())


_KINDS: dict[type[Model], type[_Network]] = {MLP: _TwoLayers, PairTransformer: _Transformer}


class PairsEngine(SequentialEngine):
    """Trains the network of a trial's model."""

    def init(self, trials: Sequence[Trial]) -> SingleNetwork:
        (trial,) = trials
        return _KINDS[type(trial.model)](trial)


ENGINE = PairsEngine(_Network)  # type: ignore[type-abstract]
