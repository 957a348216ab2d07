"""The inputs that a trained two-layer network uses."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from elegans import random
from elegans.certificates.certification import hidden_support
from elegans.certificates.network import SINGLE, Network, network_of
from elegans.certificates.spectra import LARGEST_N, output_table
from elegans.display import card, displayed
from elegans.errors import CertificateError, shown
from elegans.tasks import SparseParity
from elegans.training.network import TrainedNetwork
from elegans.training.outcome import Outcome

EXAMPLES = 4096
"""Number of inputs for estimating influences if n is above 20: a standard error of at most 0.8%."""
_BLOCK = 2**22
"""Approximate number of hidden values in memory at once."""


@displayed
@dataclass(frozen=True, eq=False)
class SupportReadout:
    """The support that a network uses, and how clearly.

    Args:
        support: the coordinates above the widest gap between scores, in increasing order.
        order: all coordinates by decreasing score, shape (n,).
        scores: each coordinate's score, shape (n,).
        gap: the smallest score within the support over the largest outside it; infinite if nothing is outside.
        by: the kind of score, ``weights`` or ``influence``.
        correct: whether the support equals the support of the trial's task, or None if the task has none.
    """

    support: tuple[int, ...]
    order: Int[np.ndarray, " n"]
    scores: Float[np.ndarray, " n"]
    gap: float
    by: Literal["weights", "influence"]
    correct: bool | None

    def _repr_html_(self) -> str:
        support = ", ".join(map(str, self.support))
        facts = {"support": support, "gap": f"{self.gap:.3g}", "scores": self.by, "correct": self.correct}
        return card("Support read out of a network", facts)


def read_out(outcome: Outcome | TrainedNetwork, *, by: Literal["weights", "influence"] = "weights") -> SupportReadout:
    """Find the coordinates that a trained two-layer network uses.

    ``weights`` scores coordinate j by its mass, sum_i |v_i| |w_ij|: flipping x_j changes the output by at most
    twice as much, so a coordinate of small mass provably matters little. ``influence`` scores it by the fraction of
    inputs for which flipping x_j changes the answer (the sign of f, with 0 counted as -1): exact over all inputs for
    n <= 20, otherwise estimated from 4096 inputs of the trial's probe stream. The support ends at the largest ratio of
    one score to the next. Scores are first raised to a floor, so that noise below it makes no gap: float32's unit
    roundoff times the largest mass, or the influence of a single evaluated input. A gap near 1 means that the network
    prefers no coordinates, whatever the support.

    Args:
        outcome: the outcome of a trial whose model is ``MLP``, with its parameters, as returned by ``elegans.train``;
            or a network, as returned by ``elegans.from_torch``.
        by: ``weights`` or ``influence``.

    Source: influences, O'Donnell, "Analysis of Boolean Functions" (2014), definition 2.13; the mass bounds them.
    """
    network = network_of(outcome)
    if by == "weights":
        scores = np.abs(network.output) @ network.size
        floor = SINGLE * float(scores.max())
    elif by == "influence":
        scores, evaluated = _influences(network, outcome)
        floor = 1 / evaluated
    else:
        raise CertificateError(f"by must be weights or influence: by={shown(by)}")
    order = np.argsort(-scores, kind="stable")
    size, gap = _widest_gap(scores[order], floor)
    support = tuple(sorted(map(int, order[:size])))
    hidden = hidden_support(outcome) if isinstance(outcome.trial.task, SparseParity) else None
    return SupportReadout(support, order, scores, gap, by, None if hidden is None else support == hidden)


def _widest_gap(ordered: np.ndarray, floor: float) -> tuple[int, float]:
    """Return how many scores lie above the largest ratio of neighbours, and that ratio of the true scores."""
    raised = np.maximum(ordered, floor)
    if raised[0] == raised[-1]:  # all equal, or all below the floor: no gap
        return (len(ordered), float("inf")) if ordered[0] > floor else (0, 1.0)
    with np.errstate(divide="ignore"):
        last = int((raised[:-1] / raised[1:]).argmax())
        return last + 1, float(np.divide(ordered[last], ordered[last + 1]))


def _influences(network: Network, outcome: Outcome | TrainedNetwork) -> tuple[np.ndarray, int]:
    """Return the fraction of inputs for which each flip changes the answer, shape (n,), and how many were evaluated."""
    if network.n <= LARGEST_N:
        answers = output_table(network) > 0
        pairs = [answers.reshape(-1, 2, 2**j) for j in range(network.n)]
        return np.array([float((pair[:, 0] != pair[:, 1]).mean()) for pair in pairs]), 2**network.n
    size = max(1, _BLOCK // network.width)
    changed = np.zeros(network.n)
    for first in range(0, EXAMPLES, size):
        index = np.arange(first, min(first + size, EXAMPLES), dtype=np.uint32)
        changed += _changes(network, random.rademacher(outcome.trial.key("probe"), index, network.n).astype(np.float64))
    return changed / EXAMPLES, EXAMPLES


def _changes(network: Network, x: np.ndarray) -> np.ndarray:
    """Return for how many of these inputs each flip changes the answer, shape (n,)."""
    hidden = x @ network.weight.T + network.bias
    before = np.maximum(hidden, 0) @ network.output + network.offset > 0
    counts = np.empty(network.n)
    for j in range(network.n):
        flipped = hidden - 2 * x[:, j, None] * network.weight[:, j]
        after = np.maximum(flipped, 0, out=flipped) @ network.output + network.offset > 0
        counts[j] = (after != before).sum()
    return counts
