"""What the heads of a trained transformer compute on held-out sequences: a statistic of all copies, or of the last one.

Our own measures, for the thesis' statement that heads are statistical (section 8.1) and for figures 8.2 and E.5.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax

from elegans.models import Model
from elegans.studies.induction_heads.probes import blocks, in_blocks
from elegans.studies.induction_heads.theory.strategies import kl_divergence, ngram_counts, ngram_strategy
from elegans.tasks import MarkovChains
from elegans.training import Trial

SEQUENCES = 2048
"""The number of held-out sequences on which heads are measured."""


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
    logits, largest, last = _read(one.model, final, tokens)
    _, _, mixed = _read(one.model, {**final, "layer1": early["layer1"]}, tokens)
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
        followers = row[marks]
        if len(followers) >= 3:
            recent.append(followers[-1])
            earliest.append(followers[: len(followers) // 3].mean())
            mean.append(followers.mean())
    total = np.sum(mean) if mean else np.nan
    return {"recent": float(np.sum(recent) / total), "earliest": float(np.sum(earliest) / total)}


def _read(model: Model, parameters: Any, tokens: np.ndarray) -> list[np.ndarray]:
    """Return last logits, the share of queries on the previous token, and the last query's weights, by sequence."""
    read = in_blocks(model, "attention", _previous_and_last)(parameters, blocks(tokens))
    parts = (in_blocks(model, "last")(parameters, blocks(tokens)), *read)
    return [np.asarray(part, float).reshape(len(tokens), *part.shape[2:]) for part in parts]


def _previous_and_last(attention: Any) -> tuple[Any, Any]:
    first, second = attention.weights
    return (first[:, 0, 1:].argmax(axis=-1) == np.arange(first.shape[-1] - 1)).mean(axis=-1), second[:, 0, -1]
