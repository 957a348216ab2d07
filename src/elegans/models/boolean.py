"""A one-layer transformer read at a class token, for sparse functions of bits.

Source: thesis, sections 4.2 and 4.6, appendices A.2 and A.3.1.
"""

import math
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from jaxtyping import Float32
from pydantic import Field, model_validator

from elegans import random
from elegans.models.attention import normed
from elegans.models.base import Model
from elegans.models.inits import GaussianInit, Layers
from elegans.tasks import Task

Count = Annotated[int, Field(ge=1)]
SITES = {"embedding": 0, "attention": 1, "merged": 2, "mlp": 3}
"""The sites of dropout, with the number by which the key of each site's draws is folded."""
HIDDEN_KEYS = 16
"""The first number of the keys of the MLP's layers."""


class ClassAttention(NamedTuple):
    """The attention of the class token; positions are the n bits and, last, the class token itself.

    Args:
        scores: before the softmax, shape (count, heads, n + 1).
        weights: after the softmax; they sum to 1 over positions.
    """

    scores: Float32[Any, "count heads places"]
    weights: Float32[Any, "count heads places"]


class BooleanTransformer(Model):
    """A one-layer transformer on bits and a class token, where its output is read.

    Bit b_i, the sign x_i = 2 b_i - 1, is the token X_i = position_i + token[b_i] or, in a bag of vectors, b_i
    position_i; the class token is X_c = class, with its own trained position if positions are trained. Only the class
    token is a query: each head attends with weights softmax((X_c query) . (X key)) and adds its mean of X value, times
    ``output``.

    In the ``prenorm`` form, which the thesis trains, tokens are normalised before attention, scores are divided by
    sqrt(head size), all maps but the last have biases, and MLP and heads are added to the residual stream:
    z = X_c + heads, z' = z + MLP(normalised z). The output is the difference of two logits of a normalised z'; with the
    logistic loss this is equivalent to the cross-entropy of both. The MLP has gelus, by their formula with erf.

    The ``plain`` form is the theory's: no norms, no residual stream, no scaling of scores, no biases in attention, and
    an MLP of ReLUs on the heads only. It accepts weights of ``theory.selecting_transformer``.

    Its parameters are ``{"embedding": {"token": (2, width), "position": (n or n + 1, width), "class": (width,)},
    "attention": {"query", "key", "value": (heads, width, head_size), "output": (heads, head_size, width)}, "hidden1":
    {"weight": (hidden, width), "bias": (hidden,)}, "hidden2": …, "output": {"weight": (hidden,)}}`` in the plain form;
    a bag has no ``token``. The prenorm form also has ``query_bias``, ``key_bias``, ``value_bias`` (heads, head_size)
    and ``output_bias`` (width,), ``norm1``, ``norm2`` and ``norm3`` of ``scale`` and ``shift`` (width,),
    ``residual`` of ``weight`` (width, hidden) and ``bias``, and ``output.weight`` is (2, width).

    Initially all weights and embeddings are normal with one standard deviation, biases are 0 and scales 1. Fixed
    positions and bags are orthonormal and not trained; ``undecayed`` excludes them from weight decay.

    Args:
        width: the size of a token, the thesis' d.
        heads: the number of heads.
        head_size: the size of a head's queries, keys and values, the thesis' k; by default width / heads.
        form: ``prenorm`` or ``plain``.
        encoding: ``trained`` or ``fixed`` positions, or a ``bag`` of vectors.
        mlp: the widths of its hidden layers; by default 4 width, and in the plain form 4 width and 2 width.
        dropout: the probability that an entry of tokens, of attention and of a block's output is set to 0 in training,
            while the rest are scaled up; rounded to a multiple of 2^-16. None for no dropout, as in the plain form.
        std: the standard deviation of the initial weights.
    """

    width: Count = 64
    heads: Count = 16
    head_size: Count | None = None
    form: Literal["prenorm", "plain"] = "prenorm"
    encoding: Literal["trained", "fixed", "bag"] = "trained"
    mlp: tuple[Count, ...] | None = None
    dropout: Annotated[float, Field(gt=0, lt=1)] | None = None
    std: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.02

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.head_size is None and self.width % self.heads:
            rule = "heads must divide the width if there is no head_size"
            raise ValueError(f"{rule}: heads={self.heads}, width={self.width}")
        if self.mlp == ():
            raise ValueError("mlp must have at least one hidden layer: mlp=()")
        if self.form == "plain" and self.dropout is not None:
            raise ValueError(f"dropout must be None in the plain form: dropout={self.dropout}")
        return self

    @property
    def sizes(self) -> tuple[int, ...]:
        """The widths of the MLP's hidden layers."""
        if self.mlp is not None:
            return self.mlp
        return (4 * self.width,) if self.form == "prenorm" else (4 * self.width, 2 * self.width)

    @property
    def head_width(self) -> int:
        """The size of a head's queries, keys and values."""
        return self.head_size or self.width // self.heads

    @property
    def undecayed(self) -> list[str]:
        """Layers and parameters without weight decay in the published training: embeddings, norms and biases.

        For a training's ``layers``: ``{name: {"weight_decay": 0} for name in model.undecayed}``.
        """
        hidden = [f"hidden{number}.bias" for number in range(1, len(self.sizes) + 1)]
        if self.form == "plain":
            return ["embedding", *hidden]
        biases = [f"attention.{name}_bias" for name in ("query", "key", "value", "output")]
        return ["embedding", "norm1", "norm2", "norm3", *biases, *hidden, "residual.bias"]

    def check(self, task: Task) -> None:
        if task.classes is not None or task.symbols is not None:
            raise ValueError(f"a boolean transformer must have a task of signs and one label: task={task.kind!r}")
        needed = task.input_size + 3
        if self.encoding != "trained" and self.width < needed:
            rule = f"width must be at least n + 3 = {needed} for orthonormal positions"
            raise ValueError(f"{rule}: width={self.width}, n={task.input_size}")

    def parameter_count(self, task: Task) -> int:
        mlp = sum(inputs * outputs for inputs, outputs in pairwise([self.width, *self.sizes]))
        return self.width * (task.input_size + 4 * self.heads * self.head_width) + mlp

    def initialise(self, key: random.Key, task: Task) -> Layers:
        normals = GaussianInit(std=self.std)
        n, width, heads, size = task.input_size, self.width, self.heads, self.head_width

        def normal(number: int, *shape: int) -> np.ndarray:
            rows = math.prod(shape[:-1])
            return normals.entries(key.fold(number), (rows, shape[-1]), shape[-1], rows).reshape(shape)

        embedding = {"token": normal(0, 2, width), "position": normal(1, n + 1, width), "class": normal(2, width)}
        if self.encoding != "trained":
            embedding["position"] = np.eye(n, width, dtype=np.float32)
        if self.encoding == "bag":
            del embedding["token"]
        projections = {name: normal(3 + offset, heads, width, size) for offset, name in enumerate(_PROJECTIONS)}
        parameters = {"embedding": embedding, "attention": {**projections, "output": normal(6, heads, size, width)}}
        inputs = width
        for number, outputs in enumerate(self.sizes, 1):
            weight = normal(HIDDEN_KEYS + number, outputs, inputs)
            parameters[f"hidden{number}"] = {"weight": weight, "bias": np.zeros(outputs, np.float32)}
            inputs = outputs
        if self.form == "plain":
            return parameters | {"output": {"weight": normal(8, inputs)}}
        biases = {f"{name}_bias": np.zeros((heads, size), np.float32) for name in _PROJECTIONS}
        parameters["attention"] |= biases | {"output_bias": np.zeros(width, np.float32)}
        parameters["residual"] = {"weight": normal(7, width, inputs), "bias": np.zeros(width, np.float32)}
        for number in (1, 2, 3):
            parameters[f"norm{number}"] = {"scale": np.ones(width, np.float32), "shift": np.zeros(width, np.float32)}
        return parameters | {"output": {"weight": normal(8, 2, width)}}

    def apply(self, parameters: Any, x: Float32[Any, "count n"]) -> Float32[Any, " count"]:
        """Return the outputs; keys and values are computed once for each of the 2 n + 1 tokens."""
        import jax.numpy as jnp

        weights, bits = self.attention(parameters, x).weights, (x > 0).astype(np.float32)
        values = [_project(parameters, "value", tokens) for tokens in self.tables(parameters)]
        on_zeros, on_ones = weights[:, :, :-1] * (1 - bits[:, None]), weights[:, :, :-1] * bits[:, None]
        heads = jnp.einsum("bhn,nha->bha", on_zeros, values[0]) + jnp.einsum("bhn,nha->bha", on_ones, values[1])
        heads = heads + weights[:, :, -1:] * values[2]
        return self._read(parameters, self._class_token(parameters), heads)

    def attention(self, parameters: Any, x: Float32[Any, "count n"]) -> ClassAttention:
        """Return the attention of the class token in each head, for inputs of signs (count, n)."""
        import jax
        import jax.numpy as jnp

        tables = self.tables(parameters)
        query = _project(parameters, "query", tables[2])[0]
        keys = [_project(parameters, "key", tokens) for tokens in tables]
        zeros, ones, class_token = (jnp.einsum("nha,ha->hn", key, query) for key in keys)
        of_bits = jnp.where((x > 0)[:, None, :], ones, zeros)
        of_class = jnp.broadcast_to(class_token, (len(x), self.heads, 1))
        scores = jnp.concatenate([of_bits, of_class], axis=2) * self.score_scale
        return ClassAttention(scores, jax.nn.softmax(scores, axis=2))

    def train(self, parameters: Any, x: Float32[Any, "count n"], key: random.Key) -> Float32[Any, " count"]:
        """Return the outputs with dropout resampled: token by token, example by example.

        Counters: at each site (``SITES``), half word j mod 4 of the block (i, j // 4), with the key folded by the
        site's number, decides whether entry j of example i is kept.
        """
        import jax
        import jax.numpy as jnp

        if self.dropout is None:
            return self.apply(parameters, x)
        bits = (x > 0)[:, :, None]
        zeros, ones = self._tokens(parameters)
        class_token = jnp.broadcast_to(self._class_token(parameters), (len(x), 1, self.width))
        tokens = jnp.concatenate([jnp.where(bits, ones, zeros), class_token], axis=1)
        tokens = self._drop(tokens, key, "embedding")
        inner = normed(parameters["norm1"], tokens)
        query = _project(parameters, "query", inner[:, -1])
        # W_K^T q is a vector for each head: scores are products with it, and values are made of mixtures of tokens
        direction = jnp.einsum("bha,hda->bhd", query, parameters["attention"]["key"]) * self.score_scale
        weights = jax.nn.softmax(jnp.einsum("bhd,bnd->bhn", direction, inner), axis=2)
        weights = self._drop(weights, key, "attention")
        mixed = jnp.einsum("bhn,bnd->bhd", weights, inner)
        heads = jnp.einsum("bhd,hda->bha", mixed, parameters["attention"]["value"])
        heads = heads + weights.sum(axis=2, keepdims=True) * parameters["attention"]["value_bias"]
        return self._read(parameters, tokens[:, -1], heads, key)

    def tables(self, parameters: Any) -> tuple[Any, Any, Any]:
        """Return the tokens of zeros and of ones (n, width) and of the class (1, width), as inputs of attention."""
        zeros, ones = self._tokens(parameters)
        class_token = self._class_token(parameters)
        if self.form == "plain":
            return zeros, ones, class_token
        norm = parameters["norm1"]
        return normed(norm, zeros), normed(norm, ones), normed(norm, class_token)

    @property
    def score_scale(self) -> np.float32:
        """The factor of products of queries and keys."""
        return np.float32(1 if self.form == "plain" else 1 / math.sqrt(self.head_width))

    def _class_token(self, parameters: Any) -> Any:
        embedding = parameters["embedding"]
        return (embedding["class"] + (embedding["position"][-1] if self.encoding == "trained" else 0))[None]

    def _tokens(self, parameters: Any) -> tuple[Any, Any]:
        import jax
        import jax.numpy as jnp

        embedding = parameters["embedding"]
        if self.encoding == "trained":
            position = jnp.asarray(embedding["position"])[:-1]
        else:
            position = jax.lax.stop_gradient(jnp.asarray(embedding["position"]))
        if self.encoding == "bag":
            return jnp.zeros_like(position), position
        return position + embedding["token"][0], position + embedding["token"][1]

    def _read(self, parameters: Any, class_token: Any, heads: Any, key: random.Key | None = None) -> Any:
        """Return the outputs, given the class token and the heads' outputs (count, heads, head size)."""
        import jax
        import jax.numpy as jnp

        attention = parameters["attention"]
        merged = jnp.einsum("bha,had->bd", heads, attention["output"])
        if self.form == "plain":
            for number in range(1, len(self.sizes) + 1):
                merged = jax.nn.relu(_affine(parameters[f"hidden{number}"], merged))
            return merged @ parameters["output"]["weight"]
        z = class_token + self._drop(merged + attention["output_bias"], key, "merged")
        inner = normed(parameters["norm2"], z)
        for number in range(1, len(self.sizes) + 1):
            inner = jax.nn.gelu(_affine(parameters[f"hidden{number}"], inner), approximate=False)
        z = z + self._drop(_affine(parameters["residual"], inner), key, "mlp")
        logits = normed(parameters["norm3"], z) @ parameters["output"]["weight"].T
        return logits[:, 1] - logits[:, 0]

    def _drop(self, entries: Any, key: random.Key | None, site: str) -> Any:
        if key is None or self.dropout is None:
            return entries
        rate = (np.float32(2**16) * self.dropout).round().astype(np.uint32)
        flat = entries.reshape(len(entries), -1)
        draws = random.half_bits(key.fold(SITES[site]), np.arange(len(flat), dtype=np.uint32), flat.shape[1])
        factors = (draws >= rate).astype(np.float32) * (2**16 / (2**16 - rate.astype(np.float32)))
        return (flat * factors).reshape(entries.shape)


_PROJECTIONS = ("query", "key", "value")


def _project(parameters: Any, name: str, tokens: Any) -> Any:
    """Return queries, keys or values of tokens (count, width): (count, heads, head size)."""
    import jax.numpy as jnp

    attention = parameters["attention"]
    projected = jnp.einsum("nd,hda->nha", tokens, attention[name])
    return projected + attention[f"{name}_bias"] if f"{name}_bias" in attention else projected


def _affine(arrays: Any, x: Any) -> Any:
    return x @ arrays["weight"].T + arrays["bias"]
