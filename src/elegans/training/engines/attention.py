"""The native engine of transformers: causal attention on sequences of tokens, one network at a time."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float32, UInt32

from elegans.models import AttentionOnly
from elegans.models.inits import Layers
from elegans.tasks import Online, Sample
from elegans.training.engines.drawn import DrawnNetwork
from elegans.training.engines.single import SequentialEngine
from elegans.training.losses import CrossEntropy
from elegans.training.optimisers import SGD, Adam, AdamW
from elegans.training.trial import Trial

LARGEST_WIDTH = 256
LARGEST_MLP_WIDTH = 1024
LARGEST_WEIGHTS = 2**24  # maximum of heads of all layers x length^2: sixteen sequences' attention is in memory


ORDER = (
    "token", "position", "scale", "shift", "query", "relative", "merge",
    "hidden", "hidden_bias", "residual", "residual_bias", "weight",
)  # fmt: skip
"""The arrays of an embedding, layer, MLP or output in native order; query stands for key and value too."""


class _Network(DrawnNetwork):
    engine: ClassVar[str] = "attention"
    takes: ClassVar[dict[str, tuple[type, ...]]] = {
        "model": (AttentionOnly,),
        "regime": (Online, Sample),
        "training": (SGD, Adam, AdamW),
        "training.loss": (CrossEntropy,),
        "training.penalty": (type(None),),
        "training.clip": (type(None),),
    }

    @classmethod
    def limits(cls, trial: Trial) -> str | None:
        model = trial.model
        assert isinstance(model, AttentionOnly)
        weights = sum(model.layer_heads) * trial.task.input_size**2
        if (model.mlp_width or 0) > LARGEST_MLP_WIDTH:
            return f"no MLPs above width {LARGEST_MLP_WIDTH}: mlp_width={model.mlp_width}"
        if model.width > LARGEST_WIDTH or weights > LARGEST_WEIGHTS:
            rule = f"not more than width {LARGEST_WIDTH} or heads x length^2 above {LARGEST_WEIGHTS}"
            return f"{rule}: width={model.width}, heads x length^2={weights}"
        return None

    def __init__(self, trial: Trial) -> None:
        from elegans import _native

        model = trial.model
        assert isinstance(model, AttentionOnly)
        self.length = trial.task.input_size
        super().__init__(
            trial,
            _native.AttentionNetwork,
            symbols=model.outputs(trial.task),
            width=model.width,
            length=self.length,
            heads=list(model.layer_heads),
            normed=model.form == "prenorm",
            absolute=model.positions == "absolute",
            mlp_width=model.mlp_width or 0,
        )

    def arrange(self, parameters: Layers) -> Iterator[np.ndarray]:
        for arrays in parameters.values():
            for name in ORDER:
                if name == "query" and name in arrays:
                    yield np.concatenate([arrays["query"], arrays["key"], arrays["value"]], axis=-1)
                elif name in arrays:
                    yield arrays[name]

    def as_read(self, x: Any, y: Any) -> tuple[Any, Any]:
        return np.asarray(x, np.int32), np.asarray(y, np.int32)

    def minibatches(self, most: int) -> tuple[Any, ...]:
        examples, first = self.drawn_ahead()
        shape = (-1, self.training.batch_size, self.length)
        return tuple(array.reshape(shape)[first : first + most] for array in examples)

    def wrong(self, stream: str, index: UInt32[np.ndarray, " count"]) -> Bool[np.ndarray, " count"]:
        return np.asarray(self.native.wrong(*self.examples(stream, index)))

    def outputs(self, x: Float32[np.ndarray, "count length"]) -> Float32[np.ndarray, "count length symbols"]:
        """Return the outputs on sequences up to the task's length; no output depends on later tokens."""
        count, length = x.shape
        tokens = np.zeros((count, max(length, self.length)), np.int32)
        tokens[:, :length] = x
        return np.asarray(self.native.outputs(tokens)[:, :length])


ENGINE = SequentialEngine(_Network)
