"""The native engine of transformers on bits, which are read at a class token; one network at a time."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float32, UInt8, UInt32

from elegans.models import BooleanTransformer
from elegans.models.inits import Layers
from elegans.tasks import IdentifiableSample, Online, Population, Sample, Split
from elegans.training.engines.drawn import DrawnNetwork
from elegans.training.engines.single import LOSSES, SequentialEngine, loss_of
from elegans.training.mistakes import wrong
from elegans.training.optimisers import SGD, Adam, AdamW
from elegans.training.trial import Trial

LARGEST_BATCH = 2**24
LARGEST_WIDTH = 512  # maximum width of tokens, and of all heads together
LARGEST_BITS = 2**12
LARGEST_SAMPLE = 2**26
"""Maximum number of bits of a sample that is drawn once; larger samples are drawn again as needed."""
INDEXED = 2**16  # number of examples of a sample that are indexed at once
ORDER = [
    ("embedding", ("token", "position", "class")),
    ("attention", ("query", "key", "value", "output", "query_bias", "key_bias", "value_bias", "output_bias")),
    *((f"norm{number}", ("scale", "shift")) for number in (1, 2, 3)),
    *((layer, ("weight", "bias")) for layer in ("hidden1", "residual", "output")),
]
"""Layers and parameters in the order of the native code."""


class _Network(DrawnNetwork):
    """One native network and its streams of examples; a small sample is drawn once."""

    engine: ClassVar[str] = "bits"
    takes: ClassVar[dict[str, tuple[type, ...]]] = {
        "model": (BooleanTransformer,),
        "regime": (IdentifiableSample, Online, Population, Sample, Split),
        "training": (SGD, Adam, AdamW),
        "training.loss": tuple(LOSSES),
        "training.penalty": (type(None),),
    }

    @classmethod
    def limits(cls, trial: Trial) -> str | None:
        model, training = trial.model, trial.training
        assert isinstance(model, BooleanTransformer) and isinstance(training, SGD | Adam)
        if model.form != "prenorm" or len(model.sizes) > 1:
            return "prenorm transformers with one hidden layer only"
        if _drop(model) >= 2**16:
            return f"no dropout that rounds to 1: dropout={model.dropout}"
        width, n = max(model.width, model.heads * model.head_width), trial.task.input_size
        if width > LARGEST_WIDTH or n > LARGEST_BITS or training.batch_size > LARGEST_BATCH:
            rule = f"not more than width {LARGEST_WIDTH}, {LARGEST_BITS} bits or a batch of {LARGEST_BATCH}"
            return f"{rule}: width={width}, n={n}, batch_size={training.batch_size}"
        return None

    def __init__(self, trial: Trial) -> None:
        from elegans import _native

        model, training = trial.model, trial.training
        assert isinstance(model, BooleanTransformer) and isinstance(training, SGD | Adam)
        super().__init__(
            trial,
            _native.BitsNetwork,
            n=trial.task.input_size,
            width=model.width,
            heads=model.heads,
            head_size=model.head_width,
            hidden=model.sizes[0],
            encoding=model.encoding,
            drop=_drop(model),
            dropout_key=trial.key("dropout"),
            loss=loss_of(training),
            clip=np.inf if training.clip is None else training.clip,
        )
        size = trial.regime.size if isinstance(trial.regime, Sample) else None
        self.sample_size = size if size is not None and size * trial.task.input_size <= LARGEST_SAMPLE else None
        self.sample: tuple[Any, Any] | None = None

    def arrange(self, parameters: Layers) -> Iterator[np.ndarray]:
        for layer, names in ORDER:
            for name in names:
                if name in parameters[layer]:
                    array = parameters[layer][name]  # a feature's weights of queries, keys and values are contiguous
                    yield array.swapaxes(1, 2) if name in ("query", "key", "value") else array

    def as_read(self, x: Any, y: Any) -> tuple[Any, Any]:
        return _bits(x), np.ascontiguousarray(y, np.float32)

    def minibatches(self, most: int) -> tuple[Any, ...]:
        size = self.training.batch_size
        if self.sample_size is not None:
            if self.sample is None:
                self.sample = self.training_examples(np.arange(self.sample_size, dtype=np.uint32))
            return *self.sample, self.indices(self.native.step, min(most, max(1, INDEXED // size)))
        examples, first = self.drawn_ahead()
        indices = np.arange(len(examples[0]), dtype=np.uint32).reshape(-1, size)
        return *examples, indices[first : first + most]

    def wrong(self, stream: str, index: UInt32[np.ndarray, " count"]) -> Bool[np.ndarray, " count"]:
        bits, labels = self.examples(stream, index)
        return np.asarray(wrong(self.native.outputs(bits), labels))

    def outputs(self, x: Float32[np.ndarray, "count n"]) -> Float32[np.ndarray, " count"]:
        return np.asarray(self.native.outputs(_bits(x)))


def _drop(model: BooleanTransformer) -> int:
    """Return the half word below which an entry is dropped."""
    return round(float(np.float32(2**16) * np.float32(model.dropout or 0)))


def _bits(x: Any) -> UInt8[np.ndarray, "count n"]:
    return np.ascontiguousarray(x > 0).view(np.uint8)


ENGINE = SequentialEngine(_Network)
