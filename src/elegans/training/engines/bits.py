"""The native engine of transformers on bits: they are read at a class token alone, one network at a time."""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float32, UInt8, UInt32

from elegans.models import BooleanTransformer
from elegans.models.inits import Layers
from elegans.tasks import IdentifiableSample, Online, Population, Regime, Sample
from elegans.training.engines.drawn import DRAWN, Drawn
from elegans.training.engines.single import NativeEngine, Single
from elegans.training.losses import Correlation, Hinge, Logistic, Loss, Square, wrong
from elegans.training.optimisers import SGD, Adam
from elegans.training.trial import Trial

LOSSES: dict[type[Loss], Literal["hinge", "square", "logistic", "correlation"]] = {
    Hinge: "hinge",
    Square: "square",
    Logistic: "logistic",
    Correlation: "correlation",
}
LARGEST_BATCH = 2**24
LARGEST_WIDTH = 512
"""Of tokens and of what the heads read together."""
LARGEST_BITS = 2**12
LARGEST_KEPT = 2**26
"""Bits of a sample at the most that is drawn once; larger ones are drawn again as they are seen."""
INDEXED = 2**16
"""How many examples of a sample are indexed at once."""
ORDER = [
    ("embedding", ("token", "position", "class")),
    ("attention", ("query", "key", "value", "output", "query_bias", "key_bias", "value_bias", "output_bias")),
    *((f"norm{number}", ("scale", "shift")) for number in (1, 2, 3)),
    *((layer, ("weight", "bias")) for layer in ("hidden1", "residual", "output")),
]
"""Layers and parameters in the order of the native code."""
Examples = tuple[UInt8[np.ndarray, "count n"], Float32[np.ndarray, " count"]]


class BitsEngine(NativeEngine):
    """Advances each network in C++ (see ``native/``); releases the interpreter while it works.

    Examples are the task's own: a compiled program draws a sample once, and fresh ones some steps at a time.
    """

    name: ClassVar[str] = "bits"

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
            "model": (trial.model, (BooleanTransformer,)),
            "regime": (trial.regime, (IdentifiableSample, Online, Population, Sample)),
            "training": (trial.training, (SGD, Adam)),
            "loss": (getattr(trial.training, "loss", None), tuple(LOSSES)),
            "penalty": (getattr(trial.training, "penalty", None), (type(None),)),
        }
        if (reason := self.first_refused(parts)) is not None:
            return reason
        model, training = trial.model, trial.training
        assert isinstance(model, BooleanTransformer) and isinstance(training, SGD | Adam)
        if model.form != "prenorm" or len(model.sizes) > 1:
            return "the bits engine takes prenorm transformers with one hidden layer only"
        if _drop(model) >= 2**16:
            return f"the bits engine takes no dropout that rounds to 1: dropout={model.dropout}"
        width, n = max(model.width, model.heads * model.head_width), trial.task.input_size
        if width > LARGEST_WIDTH or n > LARGEST_BITS or training.batch_size > LARGEST_BATCH:
            largest = f"more than width {LARGEST_WIDTH}, {LARGEST_BITS} bits or a batch of {LARGEST_BATCH}"
            return f"the bits engine takes not {largest}: width={width}, n={n}, batch_size={training.batch_size}"
        return None

    def begin(self, trial: Trial) -> Single:
        """Return a trial's native network."""
        return _Network(trial)


class _Network(Single):
    """One native network and the streams of examples that it sees."""

    def __init__(self, trial: Trial) -> None:
        from elegans import _native

        task, model, training = trial.task, trial.model, trial.training
        assert isinstance(model, BooleanTransformer) and isinstance(training, SGD | Adam)
        self.regime, self.training, self.drawn = trial.regime, training, Drawn(trial)
        self.initial = model.initialise(trial.key("init"), task)
        rates = [
            {
                layer: {
                    name: np.full_like(array, training.rates(f"{layer}.{name}")[kind]) for name, array in own.items()
                }
                for layer, own in self.initial.items()
            }
            for kind in range(2)
        ]
        adam = isinstance(training, Adam)
        self.native = _native.BitsNetwork(
            _pack(self.initial),
            *map(_pack, rates),
            n=task.input_size,
            width=model.width,
            heads=model.heads,
            head_size=model.head_width,
            hidden=model.sizes[0],
            encoding=model.encoding,
            drop=_drop(model),
            dropout_key=trial.key("dropout"),
            loss=LOSSES[type(training.loss)],
            loss_scale=getattr(training.loss, "scale", 1.0),
            batch_size=training.batch_size,
            optimiser="adam" if adam else "sgd",
            decay_in_gradient=isinstance(training, Adam) or training.decay == "gradient",
            clip=np.inf if training.clip is None else training.clip,
            **{name: getattr(training, name) for name in ("beta1", "beta2", "epsilon") if adam},
        )
        self.loss = self.error = np.nan
        self.drawn_at, self.fresh = 0, _examples(np.zeros((0, task.input_size)), np.zeros(0))
        self.sample: Examples | None = None

    def advance(self, steps: int) -> None:
        """Take steps, a stretch of minibatches after the other."""
        loss = error = 0.0
        done = 0
        while done < steps and self.diverged_at < 0:
            examples, index = self._minibatches(steps - done)
            got = self.native.advance(*examples, index, self.training.factors(self.native.step, len(index)))
            if got:
                loss, error, done = loss + got * self.native.loss, error + got * self.native.error, done + got
        self.loss, self.error = (loss / done, error / done) if done else (np.nan, np.nan)

    @property
    def diverged_at(self) -> int:  # type: ignore[override]
        """The first step whose outputs were not all finite, or -1."""
        return int(self.native.diverged_at)

    def _minibatches(self, most: int) -> tuple[Examples, UInt32[np.ndarray, "steps batch"]]:
        """Return examples, and which of them are in the minibatches of at least one further step."""
        step, size = self.native.step, self.training.batch_size
        count = _kept(self.regime, self.drawn.task.input_size)
        if count is not None:
            if self.sample is None:
                self.sample = _examples(*self.drawn.training(np.arange(count, dtype=np.uint32)))
            return self.sample, self._indices(step, min(most, max(1, INDEXED // size)))
        held = len(self.fresh[0]) // size
        if not self.drawn_at <= step < self.drawn_at + held:
            held = max(1, DRAWN // size)
            self.drawn_at, self.fresh = step, _examples(*self.drawn.training(self._indices(step, held).ravel()))
        first = step - self.drawn_at
        return self.fresh, np.arange(held * size, dtype=np.uint32).reshape(held, size)[first : first + most]

    def _indices(self, step: int, steps: int) -> UInt32[np.ndarray, "steps batch"]:
        """Return the numbers of the examples in the minibatches of some steps."""
        from elegans import _native

        key, size = self.drawn.keys["batches"], self.training.batch_size
        if isinstance(self.regime, Sample):
            order, whole = self.training.batches, self.regime.size
            return np.asarray(_native.minibatches(key, step, steps, batch_size=size, sample_size=whole, order=order))
        rows = [self.regime.batch(key, np.uint32(at), size, "epochs") for at in range(step, step + steps)]
        return np.array(rows, np.uint32)

    def wrong(self, stream: str, index: UInt32[np.ndarray, " count"]) -> Bool[np.ndarray, " count"]:
        bits, labels = _examples(*self.drawn.examples(stream, index))
        return np.asarray(wrong(self.native.outputs(bits), labels))

    def outputs(self, x: Float32[np.ndarray, "count n"]) -> Float32[np.ndarray, " count"]:
        return np.asarray(self.native.outputs(_bits(x)))

    @property
    def parameters(self) -> Layers:
        return _unpack(self.native.parameters(), self.initial)


def _drop(model: BooleanTransformer) -> int:
    """Return below which half word an entry is dropped."""
    return round(float(np.float32(2**16) * np.float32(model.dropout or 0)))


def _kept(regime: Regime, n: int) -> int | None:
    """Return the number of examples that are drawn once and kept, or None where they are drawn as they are seen."""
    if isinstance(regime, Online):
        return None
    size = regime.size if isinstance(regime, Sample) else None
    return size if size is not None and size * n <= LARGEST_KEPT else None


def _bits(x: Any) -> UInt8[np.ndarray, "count n"]:
    return np.ascontiguousarray(x > 0).view(np.uint8)


def _examples(x: Any, y: Any) -> Examples:
    """Return inputs and labels as the native code reads them."""
    return _bits(x), np.ascontiguousarray(y, np.float32)


def _places(parameters: Layers) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield layer, name and array of all parameters, in the order of the native code."""
    for layer, names in ORDER:
        yield from ((layer, name, parameters[layer][name]) for name in names if name in parameters[layer])


def _pack(parameters: Layers) -> Float32[np.ndarray, " size"]:
    """Return all parameters in a row; of what heads read, a feature's weights lie side by side."""
    rows = [array.swapaxes(1, 2) if name in _BY_FEATURE else array for _, name, array in _places(parameters)]
    return np.concatenate([np.ravel(row) for row in rows]).astype(np.float32)


def _unpack(flat: Float32[np.ndarray, " size"], like: Layers) -> Layers:
    """Return the parameters in the model's own nesting."""
    found: Layers = {layer: dict(arrays) for layer, arrays in like.items()}
    used = 0
    for layer, name, array in _places(like):
        turned = array.swapaxes(1, 2) if name in _BY_FEATURE else array
        own = flat[used : used + array.size].reshape(turned.shape)
        found[layer][name] = np.ascontiguousarray(own.swapaxes(1, 2) if name in _BY_FEATURE else own)
        used += array.size
    return found


_BY_FEATURE = ("query", "key", "value")
