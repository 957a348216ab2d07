"""The native engine: two-layer networks and PolyNets on parities of signs, one network at a time, very fast."""

from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float32, UInt32

from elegans import random
from elegans.models import MLP, PolyNet
from elegans.models.activations import (
    Activation,
    OscillatingPolynomial,
    Power,
    ReLU,
    ReLU6,
    Sinusoid,
    TriangleWave,
    Zigzag,
)
from elegans.probes import Probe, WeightMovement
from elegans.tasks import XOR, BiasedParity, DisjointParity, Online, Sample, SignedParity, SparseParity, Task
from elegans.training.engines.base import Lap, Plan, Stretch
from elegans.training.engines.single import NativeEngine, NativeNetwork, Single
from elegans.training.losses import Correlation, Hinge, Logistic, Loss, Square
from elegans.training.optimisers import SGD
from elegans.training.trial import Trial

LOSSES: dict[type[Loss], Literal["hinge", "square", "logistic", "correlation"]] = {
    Hinge: "hinge",
    Square: "square",
    Logistic: "logistic",
    Correlation: "correlation",
}
Named = Literal["relu", "relu6", "power", "zigzag", "triangle-wave", "polynomial", "sinusoid"]
ACTIVATIONS: dict[type[Activation], Named] = {
    ReLU: "relu",
    ReLU6: "relu6",
    Power: "power",
    Zigzag: "zigzag",
    TriangleWave: "triangle-wave",
    OscillatingPolynomial: "polynomial",
    Sinusoid: "sinusoid",
}
LONGEST_STRETCH = 2**14
"""Steps of a stretch at the most: the schedule's factors for all of them are in memory."""
PARAMETERS = ("hidden.weight", "hidden.bias", "output.weight", "output.bias")


class FusedEngine(NativeEngine):
    """Advances each network in C++ (see ``native/``); releases the interpreter while it works."""

    name: ClassVar[str] = "fused"

    def refusal(self, trial: Trial) -> str | None:
        """Return the first part of the trial that is not built into the native code, or None."""
        parts = {
            "task": (trial.task, (SparseParity, DisjointParity, BiasedParity, XOR)),
            "link": (getattr(trial.task, "link", SignedParity()), (SignedParity,)),
            "regime": (trial.regime, (Online, Sample)),
            "model": (trial.model, (MLP, PolyNet)),
            "activation": (getattr(trial.model, "activation", ReLU()), tuple(ACTIVATIONS)),
            "training": (trial.training, (SGD,)),
            "loss": (getattr(trial.training, "loss", None), tuple(LOSSES)),
            "penalty": (getattr(trial.training, "penalty", None), (type(None),)),
            "clip": (getattr(trial.training, "clip", None), (type(None),)),
        }
        if (reason := self.first_refused(parts)) is not None:
            return reason
        if isinstance(trial.task, XOR) and not trial.task.on_cube:
            return "the fused engine takes an xor of signs in the standard basis only"
        return None

    def begin(self, trial: Trial) -> Single:
        """Return a trial's native network."""
        return _Network(trial)

    def looks(self, state: Any) -> bool:
        """Return whether there is one network, which can go its own way."""
        return len(state) == 1

    def measures(self, trial: Trial, probe: Probe) -> bool:
        """Return whether the native code takes a probe's measurements."""
        return type(probe) is WeightMovement and isinstance(trial.task, SparseParity)

    def stretch(self, state: Any, plan: Plan) -> tuple[Any, Stretch]:
        """Advance one network from check to check, in place; several are advanced side by side."""
        if len(state) > 1:
            return super().stretch(state, plan)
        return state, state[0].stretch(plan)


class _Network(NativeNetwork):
    """One native network and the streams it is evaluated on.

    Natively inputs are signs and outputs are sums. Where inputs are signs times a number, or the output is a mean, a
    native parameter is ``unit`` times the model's, and the gradient by it the model's over ``unit``: with rates times
    the square of ``unit`` it takes the same steps.
    """

    def __init__(self, trial: Trial) -> None:
        from elegans import _native

        task, model, training = trial.task, trial.model, trial.training
        assert isinstance(model, MLP | PolyNet) and isinstance(training, SGD)
        initial = model.initialise(trial.key("init"), task)
        self.names = model.parameter_names(task)
        self.units = {"hidden.weight": _input_unit(task), "output.weight": 1 / model.gradient_scale}
        rates = [self._rates(name, training, model) for name in PARAMETERS]
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
            loss=LOSSES[type(training.loss)],
            loss_scale=getattr(training.loss, "scale", 1.0),
            learning_rates=tuple(rate for rate, _ in rates),
            decays=tuple(decay for _, decay in rates),
            decay_in_gradient=training.decay == "gradient",
            sample_key=self.keys["sample"],
            batches_key=self.keys["batches"],
            noise_key=self.keys["noise"],
        )

    def stretch(self, plan: Plan) -> Stretch:
        native, stopping, first = self.native, plan.stopping, self.native.step
        every = plan.measured[0].every if plan.measured else 0
        if first == 0 and every:
            native.begin_recording()
        found = native.stretch(
            self.training.factors(first, min(plan.steps, LONGEST_STRETCH)),
            key=self.keys["test"],
            every=stopping.every,
            examples=stopping.examples if plan.looking else 0,
            allowed=stopping.allowed,
            record_every=every,
            seconds=plan.seconds,
        )
        ends = found.ends
        laps = zip([first, *ends][: len(ends)], ends, found.loss, found.error, strict=True)
        return Stretch(
            laps=[Lap(end - begin, (loss,), (error,)) for begin, end, loss, error in laps],
            diverged_at=(native.diverged_at,),
            mistakes=found.mistakes if found.mistakes >= 0 else None,
            evaluation_seconds=found.checking_seconds,
            measures={probe.kind: self._movement(first, every, found) for probe in plan.measured},
        )

    def _movement(self, first: int, every: int, found: Any) -> dict[str, list[Any]]:
        """Return what ``WeightMovement`` would have measured."""
        assert isinstance(self.task, SparseParity)
        relevant, irrelevant = np.array(found.relevant), np.array(found.irrelevant)
        columns = {"movement": np.maximum(relevant, irrelevant), "relevant": relevant}
        if self.task.k < self.task.n:
            columns |= {"irrelevant": irrelevant, "leader": (relevant > irrelevant).astype(float)}
        steps = range((first // every + 1) * every, self.native.step + 1, every)
        return {"step": list(steps)[: len(relevant)], **{name: column.tolist() for name, column in columns.items()}}

    def wrong(self, stream: str, index: UInt32[np.ndarray, " count"]) -> Bool[np.ndarray, " count"]:
        return np.asarray(self.native.wrong(self.keys[stream], np.ascontiguousarray(index), stream == "sample"))

    def _rates(self, name: str, training: SGD, model: MLP | PolyNet) -> tuple[float, float]:
        """Return the native learning rate and weight decay of a parameter; zeros where the model does not have it."""
        if name not in self.names:
            return 0.0, 0.0
        learning_rate, weight_decay = training.rates(name)
        ratio = model.gradient_scale * self.units.get(name, 1.0) ** 2
        return learning_rate * ratio, weight_decay / ratio if training.decay == "gradient" else weight_decay

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
        found: dict[str, dict[str, np.ndarray]] = {}
        for name, array in zip(PARAMETERS, [*arrays, np.asarray(output_bias, np.float32)], strict=True):
            if name in self.names:
                layer, _, own = name.partition(".")
                unit = np.float32(self.units.get(name, 1.0))
                found.setdefault(layer, {})[own] = array if unit == 1 else array / unit
        return found


def _input_unit(task: Task) -> float:
    """Return the size of each input."""
    return float(task.n**-0.5) if isinstance(task, BiasedParity) else 1.0


def _labels(task: Task, key: random.Key) -> dict[str, Any]:
    """Return of which inputs the label is the product, and the sign of that."""
    if isinstance(task, XOR):
        assert isinstance(task.link, SignedParity)
        return {"support": list(range(task.link.k)), "label_sign": task.link.sign}
    return {"support": [int(place) for place in task.draw(key)]}


def _neurons(model: MLP | PolyNet) -> dict[str, Any]:
    """Return what the native network is to do with its sums: an activation, or the product of all of them."""
    if isinstance(model, PolyNet):
        return {"activation": "product"}
    activation = model.activation
    coefficients = activation.coefficients if isinstance(activation, OscillatingPolynomial) else ()
    return {
        "activation": ACTIVATIONS[type(activation)],
        "degree": getattr(activation, "degree", 1),
        "scale": getattr(activation, "scale", 1.0),
        "coefficients": [float(coefficient) for coefficient in coefficients],
    }
