"""An attention-only transformer with relative positions, and the one that computes bigram statistics (Proposition 8.2).

Activations are rows. Positions are counted from 1 in formulas: v_1 is a token's own relative position, v_2 the position
of the previous token. Tokens are of shape (count, length), for ``k`` >= 2 symbols; ``form`` is the corrected formula or
the printed one. Arguments outside a function's hypotheses or domain raise ``TheoryError``.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float32
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from elegans.calculators.domain import Form, Side, require, require_form, require_positive
from elegans.studies.induction_heads.theory.strategies import kl_divergence, ngram_counts, sequences


class AttentionLayer(NamedTuple):
    """One head's weights.

    Args:
        query: W_Q, shape (d, d).
        key: W_K, shape (d, d).
        value: W_V, shape (d, d).
        relative: v, shape (length, d), a row for each distance to the key, from 0.
    """

    query: Float[np.ndarray, "d d"]
    key: Float[np.ndarray, "d d"]
    value: Float[np.ndarray, "d d"]
    relative: Float[np.ndarray, "length d"]


class AttentionNetwork(NamedTuple):
    """An attention-only transformer with one head per layer.

    Args:
        embedding: shape (k, d).
        layers: from the first to the last.
        readout: P, shape (d, k).
    """

    embedding: Float[np.ndarray, "k d"]
    layers: tuple[AttentionLayer, ...]
    readout: Float[np.ndarray, "d k"]


class AttentionPass(NamedTuple):
    """What a transformer computes in a forward pass.

    Args:
        output: shape (count, length, k).
        scores: A of every layer before the softmax, shape (count, length, length) each; -infinity above the diagonal.
        attention: its softmax.
    """

    output: Float[np.ndarray, "count length k"]
    scores: tuple[np.ndarray, ...]
    attention: tuple[np.ndarray, ...]


def attention_pass(network: AttentionNetwork, tokens: Any) -> AttentionPass:
    """Return an attention-only transformer's output and its attention, without layer norms or biases.

    Formula: TF = P ∘ (Attn_L + I) ∘ … ∘ (Attn_1 + I); Attn(z) = softmax(mask(A)) z W_V with
        A_ij = (z_i W_Q)(z_j W_K + v_{i-j+1})^T / sqrt(d) for j <= i.
    Source: thesis, equations 8.4 and 8.5.
    """
    seen = sequences(tokens, len(network.embedding))
    length, d = seen.shape[1], network.embedding.shape[1]
    for layer in network.layers:
        known = len(layer.relative)
        require(length <= known, "sequences must not be longer than the relative positions", length=length, known=known)
    distance = np.arange(length)[:, None] - np.arange(length)[None, :]
    stream, scores, attention = network.embedding[seen], [], []
    for layer in network.layers:
        query = stream @ layer.query
        by_distance = query @ layer.relative[:length].T
        shifted = np.take_along_axis(by_distance, np.maximum(distance, 0)[None], axis=2)
        score = (query @ np.swapaxes(stream @ layer.key, 1, 2) + shifted) / math.sqrt(d)
        scores.append(np.where(distance >= 0, score, -np.inf))
        attention.append(softmax(scores[-1], axis=2))
        stream = stream + attention[-1] @ stream @ layer.value
    return AttentionPass(stream @ network.readout, tuple(scores), tuple(attention))


def attention_parameters(network: AttentionNetwork) -> dict[str, dict[str, Float32[np.ndarray, "..."]]]:
    """Return a transformer's weights as the parameters of ``AttentionOnly`` in its plain form, with as many layers.

    Formula: the same arrays under the model's names.
    Source: thesis, equations 8.4 and 8.5.
    """
    layers = {f"layer{number}": layer._asdict() for number, layer in enumerate(network.layers, 1)}
    named = {"embedding": {"token": network.embedding}, **layers, "output": {"weight": network.readout}}
    return {part: {name: np.asarray(a, np.float32) for name, a in arrays.items()} for part, arrays in named.items()}


def bigram_construction(k: Side, length: Side, scale: float = 100.0, slope: float = 1.0) -> AttentionNetwork:
    """Return the two-layer transformer of Proposition 8.2, which predicts from what has followed the current token.

    The first layer attends to the previous token and writes it into a second block; the second attends to the tokens
    whose predecessor is the current token and writes them into a third. The source omits 1/sqrt(d) in the first layer
    and prints c for c^2 in the second. The first layer is sharp where exp(c / sqrt(d)) is far above the length: c = 10
    is too small for 60 tokens.

    Formula: d = 3k in blocks of k, embedding one-hot in block 1; layer 1: W_Q = c I from block 1 to 1, W_K = 0, v_2 = 1
        on block 1, W_V = I from 1 to 2; layer 2: v = 0, W_Q = c I from 1 to 1, W_K = c I from 2 to 1, W_V = I from 1 to
        3; P = a I from block 3. So A^(1)_ij = (c / sqrt(d)) [j = i-1], A^(2)_ij -> (c^2 / sqrt(d)) [x_{j-1} = x_i].
    Source: thesis, Proposition 8.2; the slope a is from its footnote, whose constant b cancels in the softmax.

    Args:
        scale: c.
        slope: a: the factor that turns a frequency into a logit.

    Returns:
        The weights; the output tends to a times ``construction_frequencies`` with c.
    """
    require(k >= 2, "k must be at least 2 (Proposition 8.2)", k=k)
    require(length >= 2, "length must be at least 2 (Proposition 8.2)", length=length)
    require_positive("Proposition 8.2", scale=scale)
    none, d = np.zeros((3 * k, 3 * k)), 3 * k
    previous = np.zeros((length, d))
    previous[1, :k] = 1
    query = _block(k, 0, 0, scale)
    first = AttentionLayer(query, none, _block(k, 0, 1), previous)
    second = AttentionLayer(query, _block(k, 1, 0, scale), _block(k, 0, 2), np.zeros((length, d)))
    return AttentionNetwork(np.eye(k, d), (first, second), slope * np.eye(d, k, -2 * k))


def construction_frequencies(tokens: Any, k: Side, form: Form = "corrected") -> Float[np.ndarray, "count length k"]:
    """Return the limit of the construction's output for a large scale, exactly.

    A softmax averages, so the output is the frequency of what has followed the current token, not its count as printed.
    The first token has no predecessor, attends to itself, and counts as its own successor. Where nothing matches, the
    second layer is uniform, and the output is the unigram frequency, the current token included.

    Formula: c_ij / N_i, with i = x_p and transitions counted in (x_1, x_1, x_2, …, x_p); where N_i = 0, the frequencies
        in x_1..x_p. Printed: the counts c_ij in x_1..x_p.
    Source: thesis, Proposition 8.2, with the boundary derived here.
    """
    require_form(form)
    seen = sequences(tokens, k)
    if form == "printed":
        return ngram_counts(seen, k, 2).astype(float)
    followed = ngram_counts(np.concatenate([seen[:, :1], seen], axis=1), k, 2)[:, 1:]
    matched = followed.sum(axis=2, keepdims=True) > 0
    counts = np.where(matched, followed, ngram_counts(seen, k, 1))
    return np.asarray(counts / counts.sum(axis=2, keepdims=True))


class LinearLogits(NamedTuple):
    """The best multiple of frequencies as logits.

    Args:
        slope: a.
        loss: the mean KL(true || softmax(a f)).
    """

    slope: float
    loss: float


def best_linear_logits(features: Any, true: Any) -> LinearLogits:
    """Return the factor that turns frequencies, or counts, into the best logits, and the resulting loss.

    It is convex in the factor. Trained attention-only transformers end near the loss of the construction's frequencies,
    above the loss of add-one bigrams; the minimal model ends near the loss of counts.

    Formula: min over a of the mean of KL(true || softmax(a f)).
    Source: thesis, footnote to Proposition 8.2.

    Args:
        features: f, shape (..., k).
        true: true distributions, of the same shape.
    """
    values, rows = np.asarray(features, float), np.asarray(true, float)
    require(
        values.shape == rows.shape,
        "features and distributions must have the same shape",
        features=values.shape,
        true=rows.shape,
    )
    entropy = float(kl_divergence(rows, np.ones_like(rows)).mean())

    def loss(slope: float) -> float:
        return entropy - float((rows * log_softmax(slope * values, axis=-1)).sum(axis=-1).mean())

    found = minimize_scalar(loss, bracket=(0, 1), tol=1e-8)
    return LinearLogits(float(found.x), float(found.fun))


def _block(k: int, read: int, write: int, scale: float = 1.0) -> np.ndarray:
    """Return the matrix that writes one block of k coordinates, times a scale, into another."""
    matrix = np.zeros((3 * k, 3 * k))
    matrix[read * k : (read + 1) * k, write * k : (write + 1) * k] = scale * np.eye(k)
    return matrix
