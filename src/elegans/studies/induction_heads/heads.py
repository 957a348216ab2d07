"""What the heads of a trained transformer compute on held-out sequences: a statistic of all copies, or of the last one.

Our own measures, for the thesis' statement that heads are statistical (section 8.1) and for figures 8.2 and E.5.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax

from elegans.compilation import jit
from elegans.models import Model
from elegans.studies.induction_heads.theory.strategies import kl_divergence, ngram_counts, ngram_strategy
from elegans.tasks import MarkovChains
from elegans.training import Trial

SEQUENCES, BLOCK = 2048, 64
"""The number of held-out sequences on which heads are measured, and how many at a time."""


def head_measures(one: Trial, final: Mapping[str, Any], early: Mapping[str, Any]) -> dict[str, float]:
    """Return what a network's heads compute after the last token of held-out sequences.

    ``previous_largest``: the share of the first layer's queries whose largest weight is on the previous token.
    ``induction`` and ``uniform_induction``: the second layer's mass on tokens that follow earlier copies of the current
    one, and uniform attention's; ``mixed_induction``: that mass with the first layer of an early step. Among sequences
    with three such tokens or more, ``recent`` and ``earliest``: the weight of the most recent one, and of the earliest
    third, relative to the mean of all. ``copying`` and ``statistical``: KL(strategy || network) of the best prediction
    from the last such token alone, and of add-one bigrams. ``explained``: the share of the variance of centred logits
    that is linear in the frequencies of what followed.

    Args:
        one: the trial, of one head in each of two layers.
        final: the parameters at the end, by layer and name.
        early: those at half of the time to the transition.
    """
    task = one.task
    assert isinstance(task, MarkovChains)
    tokens = np.asarray(task.examples(None, one.key("test"), np.arange(SEQUENCES, dtype=np.uint32))[0])
    logits, largest, last = (np.asarray(part, float) for part in _read(one.model)(final, tokens))
    mixed = np.asarray(_read(one.model)({**final, "layer1": early["layer1"]}, tokens)[2], float)
    follows = np.zeros(tokens.shape, bool)
    follows[:, 1:] = tokens[:, :-1] == tokens[:, -1:]
    counts = ngram_counts(tokens, task.k, 2)[:, -1]
    total = counts.sum(axis=1)
    predicted = softmax(logits, axis=1)
    latest = tokens.shape[1] - 1 - follows[:, ::-1].argmax(axis=1)
    copied = np.full((SEQUENCES, task.k), 1 / task.k)
    some = np.flatnonzero(total > 0)
    copied[some] = (1 + np.eye(task.k)[tokens[some, latest[some]]]) / (task.k + 1)
    bigram = ngram_strategy(tokens, task.k, 2)[:, -1]
    share = (counts[some] / total[some, None] - 1 / task.k).ravel()
    centred = log_softmax(logits, axis=1)[some]
    centred = (centred - centred.mean(axis=1, keepdims=True)).ravel()
    return {
        "previous_largest": float(largest.mean()),
        "induction": float((last * follows).sum(axis=1).mean()),
        "uniform_induction": float(follows.mean()),
        "mixed_induction": float((mixed * follows).sum(axis=1).mean()),
        **_among_followers(last, follows),
        "copying": float(kl_divergence(copied, predicted).mean()),
        "statistical": float(kl_divergence(bigram, predicted).mean()),
        "explained": float(np.corrcoef(share, centred)[0, 1] ** 2),
    }


def _among_followers(weights: np.ndarray, follows: np.ndarray) -> dict[str, float]:
    """Return the weights of the most recent follower and of the earliest third, relative to the mean of all."""
    recent, earliest, mean = [], [], []
    for row, marks in zip(weights, follows, strict=True):
        own = row[marks]
        if len(own) >= 3:
            recent.append(own[-1])
            earliest.append(own[: len(own) // 3].mean())
            mean.append(own.mean())
    if not mean:
        return {"recent": float("nan"), "earliest": float("nan")}
    return {"recent": float(np.sum(recent) / np.sum(mean)), "earliest": float(np.sum(earliest) / np.sum(mean))}


@lru_cache(maxsize=8)
def _read(model: Model) -> Any:
    """Return a compiled function: last logits, the share of queries on the previous token, the last query's weights."""
    import jax
    import jax.numpy as jnp

    def block(parameters: Any, tokens: Any) -> tuple[Any, Any, Any]:
        first, second = model.attention(parameters, tokens).weights  # type: ignore[attr-defined]
        places = jnp.arange(1, tokens.shape[1])
        on_previous = (first[:, 0, 1:].argmax(axis=-1) == places - 1).mean(axis=-1)
        return model.last(parameters, tokens), on_previous, second[:, 0, -1]

    def whole(parameters: Any, tokens: Any) -> tuple[Any, ...]:
        blocks = tokens.reshape(-1, BLOCK, tokens.shape[1])
        found = jax.lax.map(lambda one: block(parameters, one), blocks)
        return tuple(part.reshape(len(tokens), *part.shape[2:]) for part in found)

    return jit(whole)
