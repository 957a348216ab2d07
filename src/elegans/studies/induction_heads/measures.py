"""Measurements of predictions on Markov chains: losses, distances to strategies, and positional patterns."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import entr

from elegans.studies.induction_heads.theory.strategies import kl_divergence
from elegans.tasks import MarkovChains
from elegans.training import Trial


class LossCurve(NamedTuple):
    """A prediction's losses by position, each of shape (length,), averaged over sequences.

    Args:
        divergence: KL(true || predicted); its last entry is the test loss of the thesis' figures.
        cross_entropy: the divergence and the true distribution's entropy.
    """

    divergence: Float[np.ndarray, " length"]
    cross_entropy: Float[np.ndarray, " length"]


def chain_loss(true: Any, predicted: Any) -> LossCurve:
    """Return a prediction's losses by position, against the true distribution of the next token, not against a sample.

    Both have shape (count, length, k). Source: thesis, appendix E.2 and figure E.6; the figures show the last
    position.
    """
    rows = np.asarray(true, float)
    divergence = kl_divergence(rows, predicted).mean(axis=0)
    return LossCurve(divergence, divergence + entr(rows).sum(axis=-1).mean(axis=0))


def held_out(one: Trial, count: int) -> tuple[Any, Any]:
    """Return the first held-out sequences of a trial on Markov chains, and their true next distributions.

    They have shapes (count, length) and (count, length, k).
    """
    assert isinstance(one.task, MarkovChains)
    key, index = one.key("test"), np.arange(count, dtype=np.uint32)
    return one.task.examples(None, key, index)[0], one.task.conditionals(None, key, index)


def strategy_distances(predicted: Any, strategies: Mapping[str, Any], *, reverse: bool = False) -> dict[str, float]:
    """Return the distances of predictions at the last position from the strategies' predictions, by name.

    The distance is the mean over sequences of KL(strategy || prediction), or, in reverse, KL(prediction || strategy);
    the thesis' figure 8.1 leaves the direction open. All have shape (count, length, k).
    """
    last = np.asarray(predicted, float)[:, -1]
    pairs = {name: (np.asarray(strategy, float)[:, -1], last) for name, strategy in strategies.items()}
    return {name: float(kl_divergence(*pair[:: -1 if reverse else 1]).mean()) for name, pair in pairs.items()}


def parity_bias(profile: Float[Any, "*batch length"]) -> Float[np.ndarray, "*batch"]:
    """Return mean(v_2, v_4, v_6) - mean(v_3, v_5, v_7) of positional profiles of at least seven coordinates.

    Coordinate 1 is the token itself, 2 one token back: even ones are an odd number of tokens back. Our own measure of
    the even/odd pattern of the thesis' section 8.3.2 and figures 8.3, 8.4b and E.7.
    """
    values = np.asarray(profile, float)
    return np.asarray(values[..., 1:7:2].mean(axis=-1) - values[..., 2:7:2].mean(axis=-1))
