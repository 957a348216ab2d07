"""The native engine of one-hot pairs: two-layer networks without biases that learn a group, one at a time."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float32, Int32, UInt32

from elegans import random
from elegans.models import MLP
from elegans.models.activations import Activation, Power, ReLU
from elegans.tasks import GroupComposition, ModularAddition, Online, Population, Task
from elegans.training.engines.base import Engine, Progress
from elegans.training.losses import CrossEntropy
from elegans.training.optimisers import SGD
from elegans.training.penalties import NormPenalty
from elegans.training.trial import Trial

ACTIVATIONS: dict[type[Activation], Literal["relu", "power"]] = {ReLU: "relu", Power: "power"}
LARGEST_ORDER = 2**12
"""The largest number of elements: the table of their products is in memory."""
LARGEST_BATCH = 2**24


class PairsEngine(Engine):
    """Advances each network in C++ (see ``native/``); releases the interpreter while it works."""

    name: ClassVar[str] = "pairs"
    side_by_side: ClassVar[int] = 1

    def unavailable(self) -> str | None:
        """Return why the native module could not be loaded, or None."""
        try:
            from elegans import _native  # noqa: F401
        except ImportError as error:
            return f"its native module does not load: {error}"
        return None

    def refusal(self, trial: Trial) -> str | None:
        """Return the first part of the trial that is not built into the native code, or None."""
        parts = {
            "task": (trial.task, (ModularAddition, GroupComposition)),
            "regime": (trial.regime, (Online, Population)),
            "model": (trial.model, (MLP,)),
            "activation": (getattr(trial.model, "activation", None), tuple(ACTIVATIONS)),
            "training": (trial.training, (SGD,)),
            "loss": (getattr(trial.training, "loss", None), (CrossEntropy,)),
            "penalty": (getattr(trial.training, "penalty", None), (type(None), NormPenalty)),
        }
        for name, (part, taken) in parts.items():
            if type(part) not in taken:
                return f"the pairs engine takes no {name} {getattr(part, 'kind', None)!r}"
        assert isinstance(trial.model, MLP) and isinstance(trial.training, SGD)
        model, penalty = trial.model, trial.training.penalty
        if model.hidden_bias or model.output_bias or model.scaling != "standard":
            return "the pairs engine takes no network with biases or a mean-field one"
        if isinstance(penalty, NormPenalty) and penalty.inner != 2:
            return f"the pairs engine takes no norm penalty with inner={penalty.inner}"
        if (trial.task.classes or 0) > LARGEST_ORDER or trial.training.batch_size > LARGEST_BATCH:
            largest = f"more than {LARGEST_ORDER} classes or a batch of more than {LARGEST_BATCH} pairs"
            return f"the pairs engine takes not {largest}: {trial.task.classes}, {trial.training.batch_size}"
        return None

    def signature(self, trial: Trial) -> str:
        """Return the trial's identity: networks train one at a time."""
        return trial.identity

    def init(self, trials: Sequence[Trial]) -> Any:
        """Return one native network a trial."""
        return [_Network(trial) for trial in trials]

    def advance(self, state: Any, steps: int) -> Any:
        """Advance each network in place."""
        for network in state:
            network.native.advance(network.training.factors(network.native.step, steps))
        return state

    def progress(self, state: Any) -> Progress:
        """Return what the last ``advance`` saw."""
        return Progress(
            loss=np.array([network.native.loss for network in state]),
            error=np.array([network.native.error for network in state]),
            diverged_at=np.array([network.native.diverged_at for network in state]),
        )

    def wrong(
        self, state: Any, stream: str, index: UInt32[np.ndarray, "trials count"]
    ) -> Bool[np.ndarray, "trials count"]:
        """Return which examples each network gets wrong."""
        return np.stack([network.wrong(stream, row) for network, row in zip(state, index, strict=True)])

    def predict(self, state: Any, x: Float32[np.ndarray, "count n"]) -> Float32[np.ndarray, "trials count classes"]:
        """Return each network's outputs on the same inputs."""
        return np.stack([network.model.apply(network.parameters(), x) for network in state])

    def parameters(self, state: Any) -> list[Any]:
        """Return each network's parameters."""
        return [network.parameters() for network in state]

    def select(self, state: Any, positions: Sequence[int]) -> Any:
        """Keep some of the networks."""
        return [state[position] for position in positions]


class _Network:
    """One native network and the streams that it is evaluated on."""

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
