"""The native engine of attention-only transformers: causal attention on sequences of tokens, one network at a time."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float32, Int32, UInt32

from elegans.models import AttentionOnly
from elegans.models.inits import Layers
from elegans.tasks import Online, Sample
from elegans.training.engines.drawn import DRAWN, Drawn
from elegans.training.engines.single import NativeEngine, Single
from elegans.training.losses import CrossEntropy
from elegans.training.optimisers import SGD, Adam, Descent
from elegans.training.trial import Trial

LARGEST_WIDTH = 256
LARGEST_WEIGHTS = 2**24
"""Heads of all layers x length^2 at the most: sixteen sequences' attention is in memory."""
Tokens = Int32[np.ndarray, "count length"]


class AttentionEngine(NativeEngine):
    """Advances each network in C++ (see ``native/``); releases the interpreter while it works.

    Examples are the task's own: a compiled program draws those of several steps at a time.
    """

    name: ClassVar[str] = "attention"

    def unavailable(self) -> str | None:
        """Return why the native module or JAX could not be loaded, or None."""
        try:
            import jax

            jax.devices()
        except (ImportError, RuntimeError) as error:
            return f"JAX does not load: {error}"
        return super().unavailable()

    def refusal(self, trial: Trial) -> str | None:
        """Return the first part of the trial that is not built into the native code, or None."""
        parts = {
            "model": (trial.model, (AttentionOnly,)),
            "regime": (trial.regime, (Online, Sample)),
            "training": (trial.training, (SGD, Adam)),
            "loss": (getattr(trial.training, "loss", None), (CrossEntropy,)),
            "penalty": (getattr(trial.training, "penalty", None), (type(None),)),
            "clip": (getattr(trial.training, "clip", None), (type(None),)),
        }
        if (reason := self.first_refused(parts)) is not None:
            return reason
        model = trial.model
        assert isinstance(model, AttentionOnly)
        if model.mlp_width is not None or model.positions != "relative":
            return "the attention engine takes no perceptrons and no absolute positions"
        weights = sum(model.layer_heads) * trial.task.input_size**2
        if model.width > LARGEST_WIDTH or weights > LARGEST_WEIGHTS:
            largest = f"more than width {LARGEST_WIDTH} or heads x length^2 above {LARGEST_WEIGHTS}"
            return f"the attention engine takes not {largest}: width={model.width}, heads x length^2={weights}"
        return None

    def begin(self, trial: Trial) -> Single:
        """Return a trial's native network."""
        return _Network(trial)


class _Network(Single):
    """One native network and the streams of examples that it sees."""

    def __init__(self, trial: Trial) -> None:
        from elegans import _native

        task, model, training = trial.task, trial.model, trial.training
        assert isinstance(model, AttentionOnly) and isinstance(training, SGD | Adam)
        self.task, self.regime, self.training = task, trial.regime, training
        self.drawn_from = Drawn(trial)
        self.initial = model.initialise(trial.key("init"), task)
        rates = [_pack(_rates(training, self.initial, kind)) for kind in range(2)]
        adam = isinstance(training, Adam)
        self.native = _native.AttentionNetwork(
            _pack(self.initial),
            *rates,
            symbols=model.outputs(task),
            width=model.width,
            length=task.input_size,
            heads=list(model.layer_heads),
            normed=model.form == "prenorm",
            batch_size=training.batch_size,
            optimiser="adam" if adam else "sgd",
            decay_in_gradient=isinstance(training, Adam) or training.decay == "gradient",
            **{name: getattr(training, name) for name in ("beta1", "beta2", "epsilon") if adam},
        )
        self.loss = self.error = np.nan
        self.drawn_at, self.drawn = 0, (np.zeros((0, training.batch_size, task.input_size), np.int32),) * 2

    def advance(self, steps: int) -> None:
        """Take steps, a stretch of drawn minibatches after the other."""
        loss = error = 0.0
        done = 0
        while done < steps and self.diverged_at < 0:
            tokens, labels = self._minibatches(steps - done)
            got = self.native.advance(tokens, labels, self.training.factors(self.native.step, len(tokens)))
            if got:
                loss, error, done = loss + got * self.native.loss, error + got * self.native.error, done + got
        self.loss, self.error = (loss / done, error / done) if done else (np.nan, np.nan)

    @property
    def diverged_at(self) -> int:  # type: ignore[override]
        """The first step whose outputs were not all finite, or -1."""
        return int(self.native.diverged_at)

    def _minibatches(self, most: int) -> tuple[Any, Any]:
        """Return tokens and labels (steps, batch_size, length) of at least one further step."""
        step, size = self.native.step, self.training.batch_size
        if not self.drawn_at <= step < self.drawn_at + len(self.drawn[0]):
            steps = range(step, step + max(1, DRAWN // size))
            index = np.concatenate(
                [
                    self.regime.batch(self.drawn_from.keys["batches"], np.uint32(at), size, self.training.batches)
                    for at in steps
                ]
            )
            tokens, labels = (array.reshape(len(steps), size, -1) for array in self._examples("sample", index))
            self.drawn_at, self.drawn = step, (tokens, labels)
        first = step - self.drawn_at
        tokens, labels = (array[first : first + most] for array in self.drawn)
        return tokens, labels

    def _examples(self, stream: str, index: UInt32[np.ndarray, " count"]) -> tuple[Tokens, Tokens]:
        """Return the tokens and labels of examples of a stream, those of the sample as training sees them."""
        tokens, labels = self.drawn_from.examples(stream, index)
        return np.asarray(tokens, np.int32), np.asarray(labels, np.int32)

    def wrong(self, stream: str, index: UInt32[np.ndarray, " count"]) -> Bool[np.ndarray, " count"]:
        return np.asarray(self.native.wrong(*self._examples(stream, index)))

    def outputs(self, x: Float32[np.ndarray, "count places"]) -> Float32[np.ndarray, "count places symbols"]:
        """Return the outputs on sequences up to the task's length: none depends on what follows it."""
        count, places = x.shape
        tokens = np.zeros((count, max(places, self.task.input_size)), np.int32)
        tokens[:, :places] = x
        return np.asarray(self.native.outputs(tokens)[:, :places])

    @property
    def parameters(self) -> Layers:
        return _unpack(self.native.parameters(), self.initial)


def _rates(training: Descent, parameters: Layers, kind: int) -> Layers:
    """Return the learning rates (kind 0) or weight decays (1) of all parameters."""
    return {
        layer: {name: np.full_like(array, training.rates(f"{layer}.{name}")[kind]) for name, array in arrays.items()}
        for layer, arrays in parameters.items()
    }


def _arrays(parameters: Layers) -> Iterator[list[tuple[str, str]]]:
    """Yield layer and name of the arrays in the order of the native code, those that lie side by side as one."""
    for layer in parameters:
        beside = ["query", "key", "value"] if "query" in parameters[layer] else []
        names = ["token", "scale", "shift", beside, "relative", "merge", "weight"]
        for name in names:
            group = [name] if isinstance(name, str) else name
            if group and group[0] in parameters[layer]:
                yield [(layer, own) for own in group]


def _pack(parameters: Layers) -> Float32[np.ndarray, " size"]:
    """Return all parameters in a row, in the order of the native code."""
    rows = [
        np.concatenate([parameters[layer][name] for layer, name in group], axis=-1) for group in _arrays(parameters)
    ]
    return np.concatenate([np.ravel(row) for row in rows]).astype(np.float32)


def _unpack(flat: Float32[np.ndarray, " size"], like: Layers) -> Layers:
    """Return the parameters in the model's own nesting."""
    found: Layers = {layer: dict(arrays) for layer, arrays in like.items()}
    used = 0
    for group in _arrays(like):
        *rows, columns = like[group[0][0]][group[0][1]].shape
        size = int(np.prod(rows)) * columns * len(group)
        block = flat[used : used + size].reshape(*rows, -1)
        for (layer, name), array in zip(group, np.split(block, len(group), axis=-1), strict=True):
            found[layer][name] = np.ascontiguousarray(array)
        used += size
    return found
