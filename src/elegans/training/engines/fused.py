"""The native engine: two-layer networks and PolyNets on parities of signs or bits, one at a time, very fast."""

from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float32, UInt32

from elegans import random
from elegans.errors import EngineError
from elegans.models import MLP, PolyNet
from elegans.models.activations import GELU, Activation, OscillatingPolynomial
from elegans.probes import Probe, WeightMovement
from elegans.tasks import (
    XOR,
    BiasedParity,
    DisjointParity,
    MonomialSum,
    MultitaskParity,
    Online,
    Parity,
    Sample,
    SparseParity,
    Task,
)
from elegans.training.engines.base import Chunk, ChunkRequest, Interval
from elegans.training.engines.single import LOSSES, NativeNetwork, SequentialEngine, loss_of, optimiser_of
from elegans.training.engines.tabulated import tabulate
from elegans.training.evaluation import CURVE_EXAMPLES
from elegans.training.optimisers import SGD, Adam, AdamW
from elegans.training.outcome import ErrorCurve
from elegans.training.trial import Trial

LONGEST_CHUNK = 2**14  # maximum number of steps in a chunk: the schedule's factors for all of them are in memory
PARAMETERS = ("hidden.weight", "hidden.bias", "output.weight", "output.bias")


class _Network(NativeNetwork):
    """One native network and the streams it is evaluated on.

    Native inputs are signs, or control inputs and bits, and native outputs are sums. If inputs are signs times a
    number, or the output is a mean, a native parameter is ``unit`` times the model's, and its gradient is the model's
    divided by ``unit``: learning rates multiplied by ``unit`` squared give the same steps of SGD.
    """

    engine: ClassVar[str] = "fused"
    takes: ClassVar[dict[str, tuple[type, ...]]] = {
        "task": (SparseParity, DisjointParity, BiasedParity, MonomialSum, XOR, MultitaskParity),
        "task.function": (Parity,),
        "regime": (Online, Sample),
        "model": (MLP, PolyNet),
        "training": (SGD, Adam, AdamW),
        "training.loss": tuple(LOSSES),
        "training.penalty": (type(None),),
        "training.clip": (type(None), float),
    }

    @classmethod
    def limits(cls, trial: Trial) -> str | None:
        from elegans import _native

        activation = getattr(trial.model, "activation", None)
        if activation is not None and activation.kind not in _native.activations():
            try:
                tabulate(activation)
            except EngineError as error:
                return f"no activation {activation.kind!r}: {error}"
        if isinstance(trial.task, XOR) and not trial.task.on_cube:
            return "an xor of signs in the standard basis only"
        scaled = _input_unit(trial.task) != 1 or getattr(trial.model, "gradient_scale", 1) != 1
        if not scaled:
            return None
        if isinstance(trial.training, Adam):
            return "Adam on inputs of size 1 and sums only"
        return "clipping on inputs of size 1 and sums only" if getattr(trial.training, "clip", None) else None

    def __init__(self, trial: Trial) -> None:
        from elegans import _native

        task, model, training = trial.task, trial.model, trial.training
        assert isinstance(model, MLP | PolyNet) and isinstance(training, SGD | Adam)
        initial = model.initialise(trial.key("init"), task)
        self.names = model.parameter_names(task)
        self.units = {"hidden.weight": _input_unit(task), "output.weight": 1 / model.gradient_scale}
        optimiser = optimiser_of(training)
        rates = [self._rates(name, training, model, optimiser["decay_in_gradient"]) for name in PARAMETERS]
        hidden, output = initial["hidden"], initial.get("output", {})
        weight = self._in_units("hidden.weight", hidden["weight"])
        self.task, self.training = task, training
        self.keys: dict[str, random.Key] = {name: trial.key(name) for name in ("sample", "batches", "noise", "test")}
        self.native = _native.Network(
            weight,
            hidden.get("bias", np.zeros(len(weight), np.float32)),
            self._in_units("output.weight", output.get("weight", np.ones(len(weight), np.float32))),
            float(output.get("bias", 0)),
            **_neurons(model),
            **_labels(task, trial.key("task")),
            mix=getattr(task, "mix", 0.0),
            noise=getattr(task, "noise", 0.0),
            sample_size=trial.regime.size if isinstance(trial.regime, Sample) else 0,
            order=training.batches,
            batch_size=training.batch_size,
            loss=loss_of(training),
            learning_rates=tuple(rate for rate, _ in rates),
            decays=tuple(decay for _, decay in rates),
            clip=np.inf if training.clip is None else training.clip,
            present=[name in self.names for name in PARAMETERS],
            **optimiser,
            sample_key=self.keys["sample"],
            batches_key=self.keys["batches"],
            noise_key=self.keys["noise"],
        )

    def advance(self, plan: ChunkRequest) -> Chunk:
        """Advance from check to check, continuing past checks with too many mistakes."""
        if plan.watched:
            return super().advance(plan)
        measured = self._measured(plan)
        every, first = measured[0].every if measured else 0, self.native.step
        if first == 0 and every:
            self.native.begin_recording()
        chunk = self.native.advance_checked(
            self.training.factors(first, min(plan.steps(checks=False, measured=measured, points=False), LONGEST_CHUNK)),
            key=self.keys["test"],
            every=plan.stopping.every,
            examples=plan.stopping.examples if plan.undecided else 0,
            allowed=plan.stopping.allowed,
            record_every=every,
            points=plan.points,
            point_examples=CURVE_EXAMPLES,
            seconds=plan.seconds,
        )
        steps, loss, error = chunk.since
        begins = [first, *chunk.ends][: len(chunk.ends)]
        intervals = zip(begins, chunk.ends, chunk.loss, chunk.error, strict=True)
        return Chunk(
            intervals=[Interval(end - begin, (loss,), (error,)) for begin, end, loss, error in intervals],
            diverged_at=(self.diverged_at,),
            checked=True,
            mistakes=chunk.mistakes if chunk.mistakes >= 0 else None,
            evaluation_seconds=chunk.checking_seconds,
            points=ErrorCurve(
                list(plan.points[: len(chunk.point_loss)]),
                chunk.point_loss,
                chunk.point_error,
                [mistakes / CURVE_EXAMPLES for mistakes in chunk.point_mistakes],
            ),
            since_point=[Interval(steps, (loss / steps,), (error / steps,))] if steps else [],
            measures={probe.kind: self._movement(first, every, chunk) for probe in measured},
        )

    def _measured(self, plan: ChunkRequest) -> list[Probe]:
        if not isinstance(self.task, SparseParity):
            return []
        probes: list[Probe] = [probe for probe in plan.probes if type(probe) is WeightMovement]
        return probes if len(probes) == 1 else []

    def _movement(self, first: int, every: int, chunk: Any) -> dict[str, list[Any]]:
        assert isinstance(self.task, SparseParity)
        relevant, irrelevant = np.array(chunk.relevant), np.array(chunk.irrelevant)
        columns = {"movement": np.maximum(relevant, irrelevant), "relevant": relevant}
        if self.task.k < self.task.n:
            columns |= {"irrelevant": irrelevant, "leader": (relevant > irrelevant).astype(float)}
        steps = range((first // every + 1) * every, self.native.step + 1, every)
        return {"step": list(steps)[: len(relevant)], **{name: column.tolist() for name, column in columns.items()}}

    def wrong(self, stream: str, index: UInt32[np.ndarray, " count"]) -> Bool[np.ndarray, " count"]:
        return np.asarray(self.native.wrong(self.keys[stream], np.ascontiguousarray(index), stream == "sample"))

    def _rates(self, name: str, training: SGD | Adam, model: MLP | PolyNet, scaled: bool) -> tuple[float, float]:
        """Return the native rate and weight decay, scaled by the rate or not, of a parameter; zeros if it is absent."""
        if name not in self.names:
            return 0.0, 0.0
        learning_rate, weight_decay = training.rates(name)
        ratio = model.gradient_scale * self.units.get(name, 1.0) ** 2
        return learning_rate * ratio, weight_decay / ratio if scaled else weight_decay

    def _in_units(self, name: str, array: np.ndarray) -> np.ndarray:
        unit = self.units.get(name, 1.0)
        return array if unit == 1 else array * np.float32(unit)

    def outputs(self, x: Float32[np.ndarray, "count n"]) -> Float32[np.ndarray, " count"]:
        x = np.ascontiguousarray(x, np.float32)
        unit = np.float32(self.units["hidden.weight"])
        return np.asarray(self.native.predict(x if unit == 1 else np.asarray(x / unit, np.float32)))

    @property
    def parameters(self) -> dict[str, dict[str, np.ndarray]]:
        *arrays, output_bias = self.native.parameters()
        parameters: dict[str, dict[str, np.ndarray]] = {}
        for name, array in zip(PARAMETERS, [*arrays, np.asarray(output_bias, np.float32)], strict=True):
            if name in self.names:
                layer, _, part = name.partition(".")
                unit = np.float32(self.units.get(name, 1.0))
                parameters.setdefault(layer, {})[part] = array if unit == 1 else array / unit
        return parameters


def _input_unit(task: Task) -> float:
    return float(task.n**-0.5) if isinstance(task, BiasedParity) else 1.0


def _labels(task: Task, key: random.Key) -> dict[str, Any]:
    """Return the inputs whose product (or a table) is the label; or those whose parity it is, for each control."""
    if isinstance(task, XOR):
        return {"support": list(range(task.k)), "label_sign": -1}
    if isinstance(task, MultitaskParity):
        hidden = task.draw(key)
        return {"support": [], "cumulative": hidden["cumulative"], "supports": hidden["supports"].astype(np.uint32)}
    labels = {"values": task.values} if isinstance(task, MonomialSum) else {}
    return {"support": task.draw(key).tolist(), **labels}


def _neurons(model: MLP | PolyNet) -> dict[str, Any]:
    """Return what the native network applies to its sums: an activation, or the product of all of them."""
    if isinstance(model, PolyNet):
        return {"activation": "product"}
    return native_activation(model.activation)


def native_activation(activation: Activation) -> dict[str, Any]:
    """Return an activation's arguments for native functions: its own, or its table."""
    from elegans import _native

    kind = "gelu-tanh" if isinstance(activation, GELU) and activation.form == "tanh" else activation.kind
    if kind not in _native.activations():
        return tabulate(activation).arguments
    coefficients = activation.coefficients if isinstance(activation, OscillatingPolynomial) else ()
    fields = vars(activation)
    return {
        "activation": kind,
        "degree": fields.get("degree", 1),
        "scale": next((fields[name] for name in ("scale", "slope", "alpha", "frequency") if name in fields), 1.0),
        "coefficients": [float(coefficient) for coefficient in coefficients],
    }


ENGINE = SequentialEngine(_Network)
