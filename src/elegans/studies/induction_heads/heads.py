"""What the layers and heads of a trained transformer compute on held-out sequences.

Layer transplants show what each layer contributes; other measures, whether heads compute a statistic of all copies, or
of the last one. All are our own, for the thesis' statement that heads are statistical (section 8.1), and for figures
8.2 and E.5.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import log_softmax, softmax

from elegans.models import Model
from elegans.studies.induction_heads.measures import chain_loss, held_out
from elegans.studies.induction_heads.probes import blocks, in_blocks
from elegans.studies.induction_heads.theory.strategies import kl_divergence, ngram_counts, ngram_strategy
from elegans.tasks import MarkovChains
from elegans.training import Trial

SEQUENCES = 2048
"""The number of held-out sequences on which heads are measured."""
EXAMPLES = 128
"""The number of held-out sequences on which transplants are evaluated."""
EVERY_OTHER = 2
"""Transplants are made at every second measured step."""
TRANSPLANTS: dict[str, Callable[[str], bool]] = {
    "intact": lambda name: True,
    "layer1_alone": lambda name: name.startswith("layer1."),
    "layer2_alone": lambda name: name.startswith("layer2."),
    "layer1_with_ends": lambda name: not name.startswith("layer2."),
    "layer2_with_ends": lambda name: not name.startswith("layer1."),
}
"""Which parameters are taken from the step, the others being final; *ends* are embedding and output."""


def transplants(one: Trial, taken: pd.DataFrame) -> pd.DataFrame:
    """Return the losses at the last position of a trial's networks with transplants, at every second measured step.

    Args:
        one: the trial.
        taken: its parameters, one row per measured step.
    """
    tokens, true = held_out(one, EXAMPLES)
    true = np.asarray(true)[:, -1:]
    steps: list[Any] = taken.to_dict("records")
    names = [str(name) for name in taken if name not in ("trial", "seed", "step")]
    rows = []
    for then in steps[::EVERY_OTHER]:
        losses = {"trial": then["trial"], "step": then["step"]}
        for transplant, of_then in TRANSPLANTS.items():
            mixed = {name: (then if of_then(name) else steps[-1])[name] for name in names}
            logits = np.asarray(in_blocks(one.model, "last")(nested(mixed), blocks(tokens)), np.float64)
            predicted = softmax(logits.reshape(true.shape), axis=-1)
            losses[transplant] = float(chain_loss(true, predicted).divergence[-1])
        rows.append(losses)
    return pd.DataFrame(rows)


def nested(arrays: Mapping[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """Return a transformer's parameters as a tree, from dotted names."""
    tree: dict[str, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        layer, _, rest = name.partition(".")
        tree.setdefault(layer, {})[rest] = array
    return tree


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
        early: the same at half of the time to the transition.
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
