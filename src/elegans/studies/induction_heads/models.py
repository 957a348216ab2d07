"""The minimal model of two attention layers: no softmax, no projections, bilinear in its two parameters.

Source: thesis, chapter 8 (equation 8.8, Fact 8.3) and appendix E (equation E.2).
"""

from typing import Annotated, Any

import numpy as np
from jaxtyping import Float32, Int32
from pydantic import Field

from elegans import random
from elegans.models.attention import by_blocks
from elegans.models.base import Model
from elegans.tasks import Task

Finite = Annotated[float, Field(allow_inf_nan=False)]


class MinimalAttention(Model):
    """f(E) = mask(E W (M E)^T) E with a lower triangular Toeplitz M_ij = v_{i-j+1}, for one-hot tokens E.

    v plays the part of the first layer's positions and W the part of the second layer's comparisons: with v = delta_2
    and W = I the logits are counts of bigrams, with v = delta_1 and W = 1 1^T counts of single tokens. Entry by entry,

        f_{p,i} = sum_{t' <= p} [x_t' = i] sum_{s <= t'} v_{t'-s+1} W[x_p, x_s].

    Its parameters are ``{"pair": (k, k), "position": (length,)}``, W and v. Initially W = pair 1 1^T + diagonal I and v
    = position 1: nothing is random. The defaults follow the published code.

    Args:
        pair: the initial entries of W; with ``pair=c, position=c``, c > 0, the initialisation of Lemma 8.4.
        position: the initial entries of v; it and W must not both be 0, or all gradients vanish.
        diagonal: the number added to W's diagonal; ``diagonal=1`` and ``pair=0`` make it the identity (equation E.33).
    """

    pair: Finite = 0.0
    position: Finite = 0.02
    diagonal: Finite = 0.0

    def outputs(self, task: Task) -> int:
        """Return the number of symbols: one logit for each."""
        assert task.symbols is not None
        return task.symbols

    def check(self, task: Task) -> None:
        """Refuse tasks that are not sequences of tokens, and initial values at which gradients vanish."""
        if task.symbols is None:
            raise ValueError(f"minimal attention must have a task of token sequences: {task.kind!r} has symbols=None")
        if self.pair == self.position == self.diagonal == 0:
            raise ValueError("pair and position must not both be 0: pair=0, position=0, diagonal=0")

    def initialise(self, key: random.Key, task: Task) -> dict[str, np.ndarray]:
        """Return the parameter arrays, the same for every key."""
        k = self.outputs(task)
        return {
            "pair": np.full((k, k), self.pair, np.float32) + np.float32(self.diagonal) * np.eye(k, dtype=np.float32),
            "position": np.full(task.input_size, self.position, np.float32),
        }

    def apply(self, parameters: Any, x: Int32[Any, "count length"]) -> Float32[Any, "count length k"]:
        """Return the logits of the next token at every position, from the tokens up to it.

        Args:
            parameters: W and v.
            x: tokens (count, length), of any length up to the task's.

        Returns:
            float32 of shape (count, length, k).
        """
        import jax.numpy as jnp

        length = x.shape[1]
        pair, position = jnp.asarray(parameters["pair"]), jnp.asarray(parameters["position"])
        distance = np.arange(length)[:, None] - np.arange(length)[None, :]
        toeplitz = jnp.where(distance >= 0, position[np.maximum(distance, 0)], 0)

        def logits(tokens: Any) -> Any:
            symbols = (tokens.astype(np.int32)[:, :, None] == np.arange(len(pair))).astype(pair.dtype)
            gathered = jnp.einsum("pq,cql->cpl", toeplitz, symbols)
            compared = jnp.einsum("cpl,cql->cpq", symbols @ pair, gathered)
            return jnp.where(distance >= 0, compared, 0) @ symbols

        return by_blocks(logits, x)
