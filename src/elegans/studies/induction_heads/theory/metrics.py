"""How far predictions are from the truth and from strategies, and when training passes from one phase to the next.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import entr, rel_entr

from elegans.calculators.domain import require
from elegans.studies.induction_heads.theory.strategies import sequences


def kl_divergence(true: Any, predicted: Any) -> np.ndarray:
    """Return Kullback-Leibler divergences of laws along the last axis, in nats.

    Formula: KL(p || q) = sum_i p_i ln(p_i / q_i); infinite where q_i = 0 < p_i.
    Source: Kullback and Leibler, "On information and sufficiency" (1951).

    Args:
        true: p, shape (..., k).
        predicted: q, of a shape that broadcasts against it.

    Returns:
        float64 of the broadcast shape without its last axis.
    """
    return np.asarray(rel_entr(np.asarray(true, float), np.asarray(predicted, float)).sum(axis=-1))


class LossCurve(NamedTuple):
    """A prediction's losses by position, each of shape (length,), averaged over sequences.

    Args:
        divergence: KL(true || predicted); its last entry is the test loss of the thesis' figures.
        cross_entropy: the divergence and the true law's entropy.
    """

    divergence: Float[np.ndarray, " length"]
    cross_entropy: Float[np.ndarray, " length"]


def chain_loss(true: Any, predicted: Any) -> LossCurve:
    """Return a prediction's losses by position, with the true law of the next token as label, not a drawn token.

    Formula: KL_p = mean over sequences of KL(true row at p || prediction at p); cross-entropy KL_p + H_p.
    Source: thesis, appendix E.2 and figure E.6; the figures show the last position.

    Args:
        true: true laws, shape (count, length, k).
        predicted: predictions, of a shape that broadcasts against it.

    Returns:
        Both curves.
    """
    laws = np.asarray(true, float)
    divergence = kl_divergence(laws, predicted).mean(axis=0)
    return LossCurve(divergence, divergence + entr(laws).sum(axis=-1).mean(axis=0))


def strategy_distances(predicted: Any, strategies: Mapping[str, Any], *, reverse: bool = False) -> dict[str, float]:
    """Return how far predictions at the last position are from those of strategies.

    Formula: mean over sequences of KL(strategy || prediction), or, in reverse, KL(prediction || strategy).
    Source: thesis, figure 8.1, which leaves the direction open.

    Args:
        predicted: predictions, shape (count, length, k).
        strategies: of the same shape, by name, as ``chain_strategies`` returns them.
        reverse: whether the prediction is the first argument.

    Returns:
        The distances by name.
    """
    last = np.asarray(predicted, float)[:, -1]
    pairs = {name: (np.asarray(strategy, float)[:, -1], last) for name, strategy in strategies.items()}
    return {name: float(kl_divergence(*pair[:: -1 if reverse else 1]).mean()) for name, pair in pairs.items()}


def strategy_phases(distances: Mapping[str, Sequence[float]]) -> list[str]:
    """Return which strategy is closest at every checkpoint; of equally close ones, the first.

    Formula: argmin over strategies.
    Source: thesis, figure 8.1: the shading.

    Args:
        distances: by name, the distances at all checkpoints.

    Returns:
        A name for each checkpoint.
    """
    names = list(distances)
    require(len({len(distances[name]) for name in names}) == 1, "distances must have one length", names=names)
    return [names[place] for place in np.argmin([distances[name] for name in names], axis=0)]


def phase_boundaries(times: Sequence[float], phases: Sequence[str]) -> list[tuple[float, str]]:
    """Return when each phase begins: the first checkpoint, and every one whose phase is not its predecessor's.

    Formula: the times t_i with phase_i != phase_{i-1}.
    Source: derived here, from the shading of the thesis' figure 8.1.

    Args:
        times: the checkpoints' steps, or sequences seen.
        phases: as ``strategy_phases`` returns them.

    Returns:
        Times and phases, in order.
    """
    _require_match(times, phases)
    return [(times[i], phases[i]) for i in range(len(phases)) if not i or phases[i] != phases[i - 1]]


def plateau_length(times: Sequence[float], phases: Sequence[str], phase: str = "unigram") -> float:
    """Return for how long a strategy is the closest.

    Formula: sum of t_{i+1} - t_i over checkpoints i of the phase.
    Source: derived here, for the plateaus of the thesis' figure 8.1.

    Args:
        times: the checkpoints' steps, or sequences seen.
        phases: as ``strategy_phases`` returns them.
        phase: the strategy.
    """
    _require_match(times, phases)
    inside = [name == phase for name in phases[:-1]]
    return float((np.diff(np.asarray(times, float)) * inside).sum())


def transition_step(times: Sequence[float], losses: Sequence[float], before: float, after: float) -> float | None:
    """Return the first checkpoint at which the test loss is below the middle of two strategies' losses.

    Formula: min {t_i : loss_i < (L_unigram + L_bigram) / 2}.
    Source: derived here, for the second drop in the thesis' figure 8.1.

    Args:
        times: the checkpoints' steps, or sequences seen.
        losses: the test losses.
        before: the loss of the strategy that is left, the unigram.
        after: the loss of the strategy that is reached, the bigram.

    Returns:
        The time; None where the loss never gets there.
    """
    _require_match(times, losses)
    below = np.flatnonzero(np.asarray(losses, float) < (before + after) / 2)
    return times[int(below[0])] if len(below) else None


def parity_bias(profile: Any) -> np.ndarray:
    """Return by how much the even coordinates of a positional profile are above the odd ones; the first does not count.

    Coordinate 1 looks at the token itself, 2 one back: even ones look back by an odd number of tokens.

    Formula: mean(v_2, v_4, v_6) - mean(v_3, v_5, v_7).
    Source: derived here, for the even/odd pattern of the thesis' section 8.3.2 and figures 8.3, 8.4b, E.7.

    Args:
        profile: v or the logits of an effective positional encoding, shape (..., length).

    Returns:
        float64 of shape (...).
    """
    values = np.asarray(profile, float)
    require(values.shape[-1] >= 7, "a profile must have at least 7 coordinates", shape=values.shape)
    return np.asarray(values[..., 1:7:2].mean(axis=-1) - values[..., 2:7:2].mean(axis=-1))


def previous_token_mass(attention: Any) -> np.ndarray:
    """Return how much of a layer's attention is on the token before.

    Formula: mean over i >= 2 of A_{i, i-1}.
    Source: derived here, for the first layer in the thesis' figures 8.2 and E.5.

    Args:
        attention: after the softmax, shape (..., length, length), queries before keys.

    Returns:
        float64 of shape (...).
    """
    weights = _square(attention)
    return np.asarray(np.diagonal(weights, offset=-1, axis1=-2, axis2=-1).mean(axis=-1))


class InductionMass(NamedTuple):
    """How much attention the last token has for the successors of earlier copies of it.

    Args:
        mass: of the layer.
        uniform: of uniform attention.
    """

    mass: float
    uniform: float


def induction_mass(attention: Any, tokens: Any, k: int) -> InductionMass:
    """Return how much attention the last token has for the tokens that follow earlier copies of it.

    Formula: mean over sequences of sum_{j : x_(j-1) = x_t} A_{t, j}.
    Source: derived here, for the second layer in the thesis' figures 8.2 and E.5.

    Args:
        attention: after the softmax, shape (count, length, length), queries before keys.
        tokens: the sequences, shape (count, length).
        k: the number of symbols.

    Returns:
        The mass, and that of uniform attention for comparison.
    """
    weights, seen = _square(attention), sequences(tokens, k)
    agree = weights.shape == (*seen.shape, seen.shape[1])
    require(agree, "attention must be of shape (count, length, length)", shape=weights.shape, tokens=seen.shape)
    follows = seen[:, :-1] == seen[:, -1:]
    mass = (weights[:, -1, 1:] * follows).sum(axis=1).mean()
    return InductionMass(float(mass), float(follows.sum(axis=1).mean() / seen.shape[1]))


def _square(attention: Any) -> np.ndarray:
    weights = np.asarray(attention, float)
    fits = weights.ndim >= 2 and weights.shape[-1] == weights.shape[-2] >= 2
    require(fits, "attention must be square, of at least two tokens", shape=weights.shape)
    return weights


def _require_match(times: Sequence[Any], values: Sequence[Any]) -> None:
    require(len(times) == len(values), "there must be a time for each checkpoint", times=len(times), found=len(values))
