"""Transformers of causal attention, with or without MLPs, on sequences of tokens.

Source: thesis, chapter 8 (equations 8.4 and 8.5) and appendix E.2; Edelman, Edelman, Goel, Malach and Tsilivis, "The
evolution of statistical induction heads: in-context learning Markov chains" (NeurIPS 2024).
"""

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from jaxtyping import Float32, Int32
from pydantic import Field, model_validator

from elegans import random
from elegans.models.base import Model
from elegans.models.inits import GaussianInit, Layers
from elegans.tasks import Task

NORM_EPSILON = 1e-5
"""The number that a layer norm adds to the variance."""
BLOCK = 256
"""Number of sequences evaluated at a time: the attention of each takes length^2 numbers per head."""
KEYS_A_LAYER = 16
"""Number of keys reserved for the arrays of a layer."""
Count = Annotated[int, Field(ge=1)]


class Attention(NamedTuple):
    """The attention of every layer, queries before keys.

    Args:
        logits: A of each layer, shape (count, heads, length, length); -infinity above the diagonal.
        weights: their softmax.
    """

    logits: tuple[Any, ...]
    weights: tuple[Any, ...]


class AttentionOnly(Model):
    """A transformer of causal attention layers with residual connections: logits of the next token at every position.

    Activations are rows, initially the tokens' embeddings, z_i = token[x_i]. Layer l adds to them the outputs of its
    heads, softmax(A) z' value, side by side, with

        A_ij = (z'_i query) . (z'_j key + relative[i - j]) / sqrt(head size) for j <= i, else -infinity

    where a head uses its own columns of ``query``, ``key``, ``value`` and ``relative``. In the ``plain`` form, exactly
    equations 8.4 and 8.5, z' = z and the logits are z output. In the ``prenorm`` form, which the published code uses,
    z' = scale (z - mean) / sqrt(variance + 1e-5) + shift in each layer, the heads' outputs are multiplied by ``merge``,
    and z is normalised before the output. That code also has dropout of 0.1 at embeddings, attention and merged heads,
    and compares relative positions with the key of the query's own token, not with queries as in equation 8.5.

    Its parameters, with n heads' columns side by side and t the task's length, are

        {"embedding": {"token": (k, width)},
         "layer1": {"query", "key", "value": (width, width), "relative": (t, width)}, "layer2": {…}, …,
         "output": {"weight": (width, k)}}

    in the plain form with relative positions. Absolute positions are ``embedding.position`` (t, width), added to the
    tokens, instead of ``relative``. The prenorm form adds ``scale``, ``shift`` (width,) and ``merge`` (width, width)
    to each layer, and ``scale`` and ``shift`` to the output. With MLPs, layer l is followed by ``"mlp1"``, …:
    ``{"hidden": (width, mlp_width), "hidden_bias": (mlp_width,), "residual": (mlp_width, width), "residual_bias":
    (width,)}``, with ``scale`` and ``shift`` in the prenorm form: z + gelu(z' hidden + hidden_bias) residual +
    residual_bias, where gelu is the formula with tanh.

    Initially all entries are normal with one standard deviation, except scales (1), shifts and biases (0), and, in the
    prenorm form, the matrices that write into the residual stream (``merge`` and ``residual``), whose standard
    deviation is smaller by 1 / sqrt(2 layers).

    Args:
        layers: the number of attention layers.
        heads: the number of heads of every layer, or one per layer (``(2, 1)``); each must divide the width.
        width: the size of an activation.
        form: ``prenorm`` or ``plain``.
        positions: ``relative`` or ``absolute``.
        mlp_width: the number of hidden neurons of the MLP after each layer, or None for none.
        std: the standard deviation of the initial weights.
    """

    layers: Annotated[int, Field(ge=1, le=64)] = 2
    heads: Count | tuple[Count, ...] = 1
    width: Count = 16
    form: Literal["prenorm", "plain"] = "prenorm"
    positions: Literal["relative", "absolute"] = "relative"
    mlp_width: Count | None = None
    std: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.02

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if len(self.layer_heads) != self.layers:
            raise ValueError(f"heads must be one number, or one per layer: heads={self.heads}, layers={self.layers}")
        if any(self.width % heads for heads in self.layer_heads):
            raise ValueError(f"heads must divide the width: heads={self.heads}, width={self.width}")
        return self

    @property
    def layer_heads(self) -> tuple[int, ...]:
        """The number of heads of every layer."""
        return (self.heads,) * self.layers if isinstance(self.heads, int) else self.heads

    @property
    def undecayed(self) -> list[str]:
        """Layers and parameters without weight decay in the published training: embeddings, positions, norms, biases.

        For a training's ``layers``: ``{name: {"weight_decay": 0} for name in model.undecayed}``.
        """
        norm = ["scale", "shift"] if self.form == "prenorm" else []
        names = ["embedding"]
        for layer in range(1, self.layers + 1):
            table = ["relative"] if self.positions == "relative" else []
            names += [f"layer{layer}.{name}" for name in [*norm, *table]]
            biases = [] if self.mlp_width is None else ["hidden_bias", "residual_bias", *norm]
            names += [f"mlp{layer}.{name}" for name in biases]
        return [*names, *(f"output.{name}" for name in norm)]

    def outputs(self, task: Task) -> int:
        return _symbols(task)

    def check(self, task: Task) -> None:
        if task.symbols is None:
            rule = "attention-only networks must have a task of token sequences"
            raise ValueError(f"{rule}: {task.kind!r} has symbols=None")

    def parameter_count(self, task: Task) -> int:
        return self.width * (2 * _symbols(task) + self.layers * (3 * self.width + 2 * (self.mlp_width or 0)))

    def initialise(self, key: random.Key, task: Task) -> Layers:
        length, k, width = task.input_size, _symbols(task), self.width

        def normal(number: int, rows: int, columns: int, std: float = self.std) -> np.ndarray:
            return GaussianInit(std=std).entries(key.fold(number), (rows, columns), rows, columns)

        parameters = {"embedding": {"token": normal(0, k, width)}}
        if self.positions == "absolute":
            parameters["embedding"]["position"] = normal(1, length, width)
        small = self.std / math.sqrt(2 * self.layers) if self.form == "prenorm" else self.std
        for layer in range(1, self.layers + 1):
            first = KEYS_A_LAYER * layer
            names = ("query", "key", "value")
            arrays = {name: normal(first + offset, width, width) for offset, name in enumerate(names)}
            if self.positions == "relative":
                arrays["relative"] = normal(first + 3, length, width)
            if self.form == "prenorm":
                arrays["merge"] = normal(first + 4, width, width, small)
            parameters[f"layer{layer}"] = arrays | self._norm()
            if self.mlp_width is not None:
                parameters[f"mlp{layer}"] = self._norm() | {
                    "hidden": normal(first + 5, width, self.mlp_width),
                    "hidden_bias": np.zeros(self.mlp_width, np.float32),
                    "residual": normal(first + 6, self.mlp_width, width, small),
                    "residual_bias": np.zeros(width, np.float32),
                }
        parameters["output"] = {"weight": normal(2, width, k)} | self._norm()
        return parameters

    def apply(self, parameters: Any, x: Int32[Any, "count length"]) -> Float32[Any, "count length k"]:
        """Return the logits of the next token at every position, (count, length, k), given the tokens up to it."""
        return by_blocks(lambda sequences: self._run(parameters, sequences)[0], x)

    def last(self, parameters: Any, x: Int32[Any, "count length"]) -> Float32[Any, "count k"]:
        """Return the logits of the token after the last: the last layer has only one query."""
        return by_blocks(lambda sequences: self._run(parameters, sequences, last=True)[0][:, 0], x)

    def attention(self, parameters: Any, x: Int32[Any, "count length"]) -> Attention:
        """Return the attention of every head of every layer, before and after the softmax."""
        import jax

        logits = tuple(self._run(parameters, x)[1])
        return Attention(logits, tuple(jax.nn.softmax(layer, axis=-1) for layer in logits))

    def positional_logits(self, parameters: Any) -> Float32[Any, "heads k length"]:
        """Return the positional part of the first layer's logits for each symbol of the query, from distance 0 upwards.

        For networks with relative positions it is (token'_s query) . relative_j / sqrt(head size). Source: thesis,
        section 8.3.1, the effective positional encoding (printed with keys, unlike equation 8.5).
        """
        arrays, (heads, *_) = parameters["layer1"], self.layer_heads
        query = _by_head((normed(arrays, parameters["embedding"]["token"]) @ arrays["query"])[None], heads)
        relative = _by_head(arrays["relative"][None], heads)
        return (query @ relative.swapaxes(2, 3))[0] / np.sqrt(np.float32(self.width // heads))

    def _run(self, parameters: Any, x: Any, *, last: bool = False) -> tuple[Any, list[Any]]:
        """Return the network's logits, at all positions or at the last, and each layer's attention logits."""
        import jax

        embedding, tokens = parameters["embedding"], x.astype(np.int32)
        z = jax.numpy.asarray(embedding["token"])[tokens]
        if self.positions == "absolute":
            z = z + embedding["position"][: x.shape[1]]
        logits = []
        for layer, heads in enumerate(self.layer_heads, 1):
            arrays = parameters[f"layer{layer}"]
            inner = normed(arrays, z)
            queries = slice(-1, None) if last and layer == self.layers else slice(None)
            logits.append(_attention_logits(arrays, inner, heads, queries))
            z = z[:, queries]
            values = _by_head(inner @ arrays["value"], heads)
            attended = jax.nn.softmax(logits[-1], axis=-1) @ values
            attended = attended.swapaxes(1, 2).reshape(z.shape)
            z = z + (attended @ arrays["merge"] if "merge" in arrays else attended)
            if self.mlp_width is not None:
                mlp = parameters[f"mlp{layer}"]
                hidden = jax.nn.gelu(normed(mlp, z) @ mlp["hidden"] + mlp["hidden_bias"], approximate=True)
                z = z + (hidden @ mlp["residual"] + mlp["residual_bias"])
        return normed(parameters["output"], z) @ parameters["output"]["weight"], logits

    def _norm(self) -> dict[str, np.ndarray]:
        if self.form == "plain":
            return {}
        return {"scale": np.ones(self.width, np.float32), "shift": np.zeros(self.width, np.float32)}


def by_blocks(function: Callable[[Any], Any], x: Int32[Any, "count length"]) -> Any:
    """Return a function's values on many sequences, computed in blocks to limit memory.

    Args:
        function: maps JAX arrays (count, length) to an array with one independent entry per sequence.
        x: tokens.
    """
    import jax

    if len(x) <= BLOCK:
        return function(x)
    return jax.lax.map(lambda sequence: function(sequence[None])[0], x, batch_size=BLOCK)


def relative_shift(by_distance: Float32[Any, "*batch length length"]) -> Float32[Any, "*batch length length"]:
    """Convert values indexed by query and distance to values indexed by query and key.

    Entry (i, j) is the value at distance i - j of query i, for keys j <= i; entries of later keys are arbitrary and
    must be masked. Rows are padded by one and read at their old length: each then starts one position later than the
    last.

    Args:
        by_distance: JAX array whose last axis counts distances *down*, from length - 1 to 0.
    """
    import jax.numpy as jnp

    *batch, length, _ = by_distance.shape
    padded = jnp.pad(by_distance, [(0, 0)] * (len(batch) + 1) + [(1, 0)])
    return padded.reshape(*batch, length + 1, length)[..., 1:, :]


def _attention_logits(arrays: Any, z: Any, heads: int, queries: slice) -> Any:
    """Return the masked logits A of one layer for all queries or the last, shape (count, heads, queries, length)."""
    import jax.numpy as jnp

    length = z.shape[1]
    query = _by_head(z[:, queries] @ arrays["query"], heads) / np.sqrt(np.float32(z.shape[2] // heads))
    key = _by_head(z @ arrays["key"], heads)
    logits = query @ key.swapaxes(2, 3)
    if "relative" in arrays:
        relative = _by_head(arrays["relative"][None, :length][:, ::-1], heads)
        by_distance = query @ relative.swapaxes(2, 3)
        logits = logits + (relative_shift(by_distance) if queries == slice(None) else by_distance)
    return jnp.where(np.tri(length, dtype=bool)[queries], logits, -jnp.inf)


def _by_head(rows: Any, heads: int) -> Any:
    count, length, width = rows.shape
    return rows.reshape(count, length, heads, width // heads).swapaxes(1, 2)


def normed(arrays: Any, z: Any) -> Any:
    """Return the activations normalised row by row, if there is a norm.

    Args:
        arrays: ``scale`` and ``shift`` (width,), or neither for no norm.
        z: JAX or NumPy array (..., width).
    """
    if "scale" not in arrays:
        return z
    centred = z - z.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / (variance + NORM_EPSILON) ** 0.5 * arrays["scale"] + arrays["shift"]


def _symbols(task: Task) -> int:
    assert task.symbols is not None
    return task.symbols
