"""How well the minimal model's weights predict held-out sequences, at their last position."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from elegans import random
from elegans.studies.induction_heads.measures import held_out
from elegans.studies.induction_heads.theory.construction import best_linear_logits
from elegans.studies.induction_heads.theory.minimal import MinimalWeights
from elegans.studies.induction_heads.theory.strategies import kl_divergence, ngram_counts, ngram_strategy
from elegans.tasks import MarkovChains
from elegans.training import Trial

EXAMPLES = 1000
"""The number of held-out sequences on which losses are evaluated."""


class MinimalHeldOut(NamedTuple):
    """Held-out sequences as the minimal model uses them at the last position.

    Args:
        counts: how often symbol i has symbol l at distance d before it, by sequence, i, l and d.
        last: the last token, one-hot.
        true: the true distribution of the next token.
        pairs: how often each symbol has followed the last one.
    """

    counts: Float[np.ndarray, "count k k length"]
    last: Float[np.ndarray, "count k"]
    true: Float[np.ndarray, "count k"]
    pairs: Float[np.ndarray, "count k"]

    def logits(self, pair: Any, position: Any) -> Float[np.ndarray, "count k"]:
        """Return the model's logits after the last token."""
        return np.asarray(np.einsum("cil,cl->ci", self.counts @ np.asarray(position, float), self.last @ pair))


def minimal_held_out(one: Trial) -> MinimalHeldOut:
    """Return the held-out sequences for evaluating a trial's losses."""
    tokens, true = held_out(one, EXAMPLES)
    k, length = true.shape[-1], tokens.shape[1]
    symbols = np.eye(k)[tokens]
    apart = [np.einsum("cti,ctl->cil", symbols[:, d:], symbols[:, : length - d]) for d in range(length)]
    pairs = ngram_counts(tokens, k, 2)[:, -1].astype(float)
    return MinimalHeldOut(np.stack(apart, axis=3), symbols[:, -1], true[:, -1], pairs)


def best_multiple(test: MinimalHeldOut, pair: np.ndarray, position: np.ndarray) -> tuple[float, float]:
    """Return the best factor for a model's logits, and the loss with it; NaN if all logits are 0."""
    if not (pair.any() and np.isfinite(pair).all() and np.isfinite(position).all()):
        return np.nan, np.nan
    logits = test.logits(pair, position)
    scale = float(np.abs(logits).max())
    best = best_linear_logits(logits / scale, test.true)
    return best.slope / scale, best.loss


@lru_cache(maxsize=4)
def _held_out(length: int, examples: int) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray], dict[str, float]]:
    """Return held-out sequences of chains with flat rows, and of their last position: rows, counts, strategies' losses.

    The counts, by name: of single tokens and of bigrams.
    """
    task, key, index = MarkovChains(k=2, length=length), random.stream(0, "test"), np.arange(examples, dtype=np.uint32)
    tokens, true = task.examples(None, key, index)[0], task.conditionals(None, key, index)[:, -1]
    orders = {"unigram": 1, "bigram": 2}
    counts = {name: ngram_counts(tokens, 2, order)[:, -1] for name, order in orders.items()}
    predicted = {name: ngram_strategy(tokens, 2, order)[:, -1] for name, order in orders.items()}
    lines = {f"line.{name}": float(kl_divergence(true, rows).mean()) for name, rows in predicted.items()}
    return tokens, true, counts, lines


def worth(weights: MinimalWeights, examples: int = EXAMPLES) -> dict[str, float]:
    """Return how well weights predict held-out sequences of two-symbol chains with flat rows.

    Returns:
        The correlation of the logits' difference with that of ``bigram`` and ``unigram`` counts, and of these two with
        each other (``counts``); the root mean squares of v_2's contribution to that difference, ``own``, and of the
        ``remainder``; the ``loss`` of the best multiple of the logits, and of bigram and unigram counts
        (``bigram_loss``, ``unigram_loss``); and the losses of the smoothed strategies (``line.bigram``,
        ``line.unigram``).
    """
    length = len(weights.position)
    tokens, true, counts, lines = _held_out(length, examples)
    second = np.where(np.arange(length) == 1, weights.position, 0)
    logits, alone = (last_logits(part, tokens) for part in (weights, MinimalWeights(weights.pair, second)))
    compared = (counts["bigram"], counts["unigram"], logits, alone)
    bigram, unigram, whole, own = (np.diff(values)[:, 0] for values in compared)
    return {
        "bigram": float(np.corrcoef(whole, bigram)[0, 1]),
        "unigram": float(np.corrcoef(whole, unigram)[0, 1]),
        "counts": float(np.corrcoef(bigram, unigram)[0, 1]),
        "own": float(np.sqrt((own**2).mean())),
        "remainder": float(np.sqrt(((whole - own) ** 2).mean())),
        "loss": best_linear_logits(logits / np.abs(logits).max(), true).loss,
        **{f"{name}_loss": best_linear_logits(values / length, true).loss for name, values in counts.items()},
        **lines,
    }


def last_logits(weights: MinimalWeights, tokens: np.ndarray) -> np.ndarray:
    """Return ``minimal_logits`` at the last position only, in a hundredth of its time."""
    length = tokens.shape[1]
    distance = np.arange(length)[:, None] - np.arange(length)[None, :]
    toeplitz = np.where(distance >= 0, weights.position[np.maximum(distance, 0)], 0)
    compared = weights.pair[tokens[:, -1:], tokens] @ toeplitz.T
    return np.stack([(compared * (tokens == symbol)).sum(axis=1) for symbol in range(len(weights.pair))], axis=1)
