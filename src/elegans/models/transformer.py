"""One-block transformers with a single query, at the token where they are read out."""

import math
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float32
from pydantic import Field, SerializeAsAny

from elegans import random
from elegans.models.activations import Activation, ReLU
from elegans.models.base import Model
from elegans.models.inits import DenseInit, GaussianInit, LayerInit
from elegans.tasks import Task
from elegans.tasks.pairs import PairTask

Count = Annotated[int, Field(ge=1)]


class ParityTransformer(Model):
    """One block of attention and an MLP, read out at a class token; no normalisation and no dropout.

    Sign i of an input is embedded as X_i = E_{x_i} + P_i and the class token as X_c = E_c. Only the class token is a
    query, over itself and all signs: z = X_c + sum_h softmax((X_c Q_h)(X K_h)^T / sqrt(head size)) X V_h O_h, z' = z +
    W_2 gelu(W_1 z + b_1) + b_2, f = u . z'. Rows X are sums of only n + 3 different embeddings, for any batch: keys and
    values are computed once for each of those.

    Its parameters are ``{"embedding": {"sign": (2, width), "position": (n, width), "class": (width,)}, "attention":
    {"query", "key", "value": (heads, width, head_size), "output": (heads, head_size, width)}, "hidden": {"weight":
    (mlp_width, width), "bias": (mlp_width,)}, "residual": {"weight": (width, mlp_width), "bias": (width,)}, "output":
    {"weight": (width,)}}``, the embedding of -1 before the embedding of +1.

    Source: thesis, chapter 5 and appendix B.4 (setting *iii). It names neither the MLP's width nor the scale of
    the embeddings, which matters: with deviation 0.1 instead of 1, networks of width 64 take about six times as long on
    (10, 2), and fail on (10, 3) in 5000 steps instead of 300 (Adam, learning rate 0.0003).

    Args:
        width: the size of an embedding.
        heads: the number of attention heads.
        head_size: the size of a head's queries, keys and values.
        mlp_width: the number of hidden neurons of the MLP, or None for ``width``.
        embedding_scale: the standard deviation of the initial embeddings, which are normal.
        init: the distribution of the matrices' entries, scaled by each matrix's sizes; biases are initially 0.
    """

    width: Count = 1024
    heads: Count = 128
    head_size: Count = 8
    mlp_width: Count | None = None
    embedding_scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    init: LayerInit = DenseInit(convention="glorot")

    def parameter_count(self, task: Task) -> int:
        return self.width * (task.input_size + 4 * self.heads * self.head_size + 2 * (self.mlp_width or self.width))

    def initialise(self, key: random.Key, task: Task) -> dict[str, dict[str, np.ndarray]]:
        width, heads, size = self.width, self.heads, self.head_size
        inner = self.mlp_width or width

        def embedding(number: int, rows: int) -> np.ndarray:
            index, lane = np.arange(rows, dtype=np.uint32)[:, None], np.arange(width, dtype=np.uint32)[None, :]
            return np.asarray(random.normal(key.fold(number), index, lane=lane) * np.float32(self.embedding_scale))

        def projection(number: int) -> np.ndarray:
            return self.init.entries(key.fold(number), (heads * width, size), width, size).reshape(heads, width, size)

        merge = self.init.entries(key.fold(6), (heads * size, width), size, width).reshape(heads, size, width)
        hidden = self.init.entries(key.fold(7), (inner, width), width, inner)
        residual = self.init.entries(key.fold(8), (width, inner), inner, width)
        return {
            "embedding": {
                "sign": embedding(0, 2),
                "position": embedding(1, task.input_size),
                "class": embedding(2, 1)[0],
            },
            "attention": {"query": projection(3), "key": projection(4), "value": projection(5), "output": merge},
            "hidden": {"weight": hidden, "bias": np.zeros(inner, np.float32)},
            "residual": {"weight": residual, "bias": np.zeros(width, np.float32)},
            "output": {"weight": self.init.entries(key.fold(9), (width,), width, 1)},
        }

    def apply(self, parameters: Any, x: Float32[Any, "count n"]) -> Float32[Any, " count"]:
        import jax
        import jax.numpy as jnp

        weights, positive = self.attention(parameters, x), (x > 0).astype(x.dtype)
        on_positive = jnp.einsum("bhn,bn->bh", weights[:, :, :-1], positive)
        on_negative = jnp.einsum("bhn,bn->bh", weights[:, :, :-1], 1 - positive)
        shares = jnp.concatenate([jnp.stack([on_negative, on_positive], axis=2), weights], axis=2)
        values = jnp.einsum("pd,hda->pha", _parts(parameters), parameters["attention"]["value"])
        mixed = jnp.einsum("bhp,pha->bha", shares, values)
        z = parameters["embedding"]["class"] + jnp.einsum("bha,had->bd", mixed, parameters["attention"]["output"])
        hidden, residual = parameters["hidden"], parameters["residual"]
        inner = jax.nn.gelu(z @ hidden["weight"].T + hidden["bias"], approximate=False)
        return (z + inner @ residual["weight"].T + residual["bias"]) @ parameters["output"]["weight"]

    def attention(self, parameters: Any, x: Float32[Any, "count n"]) -> Float32[Any, "count heads places"]:
        """Return how much each head of the class token attends to each sign and, last, to the class token itself."""
        import jax
        import jax.numpy as jnp

        of_class = parameters["embedding"]["class"]
        query = jnp.einsum("d,hda->ha", of_class, parameters["attention"]["query"])
        key, scale = parameters["attention"]["key"], np.sqrt(np.float32(self.head_size))
        direction = jnp.einsum("hda,ha->hd", key, query) / scale
        parts = direction @ _parts(parameters).T
        of_signs = jnp.where((x > 0)[:, None, :], parts[:, 1:2], parts[:, :1]) + parts[:, 2:-1]
        on_itself = jnp.broadcast_to(parts[:, -1:], (len(x), self.heads, 1))
        return jax.nn.softmax(jnp.concatenate([of_signs, on_itself], axis=2), axis=2)


def _parts(parameters: Any) -> Float32[Any, "parts width"]:
    """Return the embeddings whose sums are the rows X: of -1, of +1, of every position, of the class token."""
    import jax.numpy as jnp

    embedding = parameters["embedding"]
    return jnp.concatenate([embedding["sign"], embedding["position"], embedding["class"][None, :]])


class PairTransformer(Model):
    """One block of causal attention and an MLP on the tokens a, b and "=", read out at the last; no normalisation.

    Rows are the tokens X_a = E_a + P_1, X_b = E_b + P_2 and X_c = E_= + P_3. Only the query of "=" matters for what is
    read out, and it is the same for all pairs: z = X_c + sum_h softmax((X_c Q_h)(X K_h)^T / sqrt(head
    size)) X V_h O_h, z' = z + W_2 sigma(W_1 z + b_1) + b_2, f = U z', with one output per element. There are only
    2 order + 1 different tokens: scores and values are computed once for each of these, and looked up.

    Its parameters are ``{"embedding": {"number": (order, width), "equals": (width,), "position": (3, width)},
    "attention": {"query", "key", "value": (heads, width, head_size), "output": (heads, head_size, width)}, "hidden":
    {"weight": (mlp_width, width), "bias": (mlp_width,)}, "residual": {"weight": (width, mlp_width), "bias": (width,)},
    "output": {"weight": (order, width)}}``.

    Initially biases are 0 and entries normal with deviation 1/sqrt(width), in the output layer 1/sqrt(order + 1).

    Source: Nanda et al., "Progress measures for grokking via mechanistic interpretability" (2023), section 3, whose
    sizes are the default; the initialisation follows the published code, which has an output for "=" in addition.

    Args:
        width: the size of an embedding.
        heads: the number of attention heads.
        head_size: the size of a head's queries, keys and values.
        mlp_width: the number of hidden neurons of the MLP.
        activation: the function sigma, by name or as a component.
    """

    width: Count = 128
    heads: Count = 4
    head_size: Count = 32
    mlp_width: Count = 512
    activation: SerializeAsAny[Activation] = ReLU()

    def outputs(self, task: Task) -> int:
        return _order(task)

    def check(self, task: Task) -> None:
        if not isinstance(task, PairTask):
            raise ValueError(f"a {self.kind} must have a task on pairs: task={task.label()!r}")

    def parameter_count(self, task: Task) -> int:
        inner = 4 * self.heads * self.head_size + 2 * self.mlp_width
        return self.width * (2 * _order(task) + 5 + inner) + self.mlp_width

    def initialise(self, key: random.Key, task: Task) -> dict[str, dict[str, np.ndarray]]:
        width, heads, size, order = self.width, self.heads, self.head_size, _order(task)

        def normal(number: int, *shape: int, columns: int = width) -> np.ndarray:
            rows = math.prod(shape[:-1])
            return GaussianInit(std=columns**-0.5).entries(key.fold(number), (rows, shape[-1]), 1, 1).reshape(shape)

        projections = {name: normal(3 + i, heads, width, size) for i, name in enumerate(("query", "key", "value"))}
        return {
            "embedding": {
                "number": normal(0, order, width),
                "equals": normal(1, 1, width)[0],
                "position": normal(2, 3, width),
            },
            "attention": {**projections, "output": normal(6, heads, size, width)},
            "hidden": {"weight": normal(7, self.mlp_width, width), "bias": np.zeros(self.mlp_width, np.float32)},
            "residual": {"weight": normal(8, width, self.mlp_width), "bias": np.zeros(width, np.float32)},
            "output": {"weight": normal(9, order, width, columns=order + 1)},
        }

    def apply(self, parameters: Any, x: Float32[Any, "count twice_order"]) -> Float32[Any, "count order"]:
        import jax.numpy as jnp

        first, second, equals = _tokens(parameters)
        weights, value = self.attention(parameters, x), parameters["attention"]["value"]

        def values(rows: Any) -> Any:
            return jnp.einsum("pd,hda->pha", rows, value)

        a, b = jnp.split(x, 2, axis=1)
        mixed = weights[:, :, :1] * jnp.einsum("bp,pha->bha", a, values(first))
        mixed += weights[:, :, 1:2] * jnp.einsum("bp,pha->bha", b, values(second))
        mixed += weights[:, :, 2:] * values(equals)
        z = equals + jnp.einsum("bha,had->bd", mixed, parameters["attention"]["output"])
        hidden, residual = parameters["hidden"], parameters["residual"]
        inner = self.activation.value(z @ hidden["weight"].T + hidden["bias"])
        return (z + inner @ residual["weight"].T + residual["bias"]) @ parameters["output"]["weight"].T

    def attention(self, parameters: Any, x: Float32[Any, "count twice_order"]) -> Float32[Any, "count heads 3"]:
        """Return how much each head of "=" attends to a, to b and to itself."""
        import jax
        import jax.numpy as jnp

        first, second, equals = _tokens(parameters)
        query = jnp.einsum("d,hda->ha", equals[0], parameters["attention"]["query"])
        key, scale = parameters["attention"]["key"], np.sqrt(np.float32(self.head_size))
        direction = jnp.einsum("hda,ha->dh", key, query) / scale
        a, b = jnp.split(x, 2, axis=1)
        on_itself = jnp.broadcast_to(equals @ direction, (len(x), self.heads))
        scores = jnp.stack([a @ (first @ direction), b @ (second @ direction), on_itself], axis=2)
        return jax.nn.softmax(scores, axis=2)


def _tokens(parameters: Any) -> tuple[Any, Any, Any]:
    """Return the rows of all tokens a (order, width), of all tokens b, and the row of "=" (1, width)."""
    embedding = parameters["embedding"]
    number, position = embedding["number"], embedding["position"]
    return number + position[0], number + position[1], (embedding["equals"] + position[2])[None]


def _order(task: Task) -> int:
    assert isinstance(task, PairTask)
    return task.order
