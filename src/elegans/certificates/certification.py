"""Proofs that a trained two-layer network is right on all inputs, or has the largest margin, or what fails."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Int8

from elegans.certificates.network import Network, network_of
from elegans.certificates.search import CertificateSearch
from elegans.display import card
from elegans.errors import CertificateError, shown
from elegans.tasks import SparseParity, Task
from elegans.training.outcome import Outcome

Verdict = Literal["proved", "refuted", "undecided"]
Method = Literal["intervals", "affine", "quadratic", "branching", "descent"]


@dataclass(frozen=True, eq=False)
class Certificate:
    """What is known of a network's margin y f(x) over all x in {-1, +1}^n, y the product of x over the support.

    The smallest margin lies between ``margin`` and ``attained``. Both hold for the real-valued function whose
    parameters are the network's float32 numbers, whatever was rounded on the way.

    Args:
        verdict: ``proved`` (y f > 0 everywhere), ``refuted`` (y f <= 0 somewhere) or ``undecided``.
        support: the coordinates whose product the network is held against.
        margin: a proved lower bound of the smallest y f; below 0, by how much the proof fails.
        attained: y f at ``worst``, computed exactly and then rounded to the nearest float: the smallest value found.
        worst: that input, shape (n,); at a refuted network the counterexample.
        nodes: how many boxes of inputs were bounded.
        method: what the verdict took: the weakest of ``intervals``, ``affine`` and ``quadratic`` relaxation and
            ``branching``, or ``descent`` from the relaxation to a counterexample.
        float32_rounding: how far the network evaluated in float32, in any order of summation, may be from f at most.
    """

    verdict: Verdict
    support: tuple[int, ...]
    margin: float
    attained: float
    worst: Int8[np.ndarray, " n"]
    nodes: int
    method: Method
    float32_rounding: float

    def _repr_html_(self) -> str:
        facts = {
            "verdict": self.verdict,
            "support": ", ".join(map(str, self.support)),
            "smallest margin": f"{self.margin:.6g} to {self.attained:.6g}",
            "method": f"{self.method}, {self.nodes} boxes of inputs bounded",
        }
        return card("Certificate", facts)

    @property
    def proved(self) -> bool:
        """Whether the network is right on all 2^n inputs."""
        return self.verdict == "proved"

    @property
    def refuted(self) -> bool:
        """Whether there is an input on which the network is wrong."""
        return self.verdict == "refuted"

    @property
    def undecided(self) -> bool:
        """Whether the budget ended before an answer was found."""
        return self.verdict == "undecided"

    @property
    def counterexample(self) -> Int8[np.ndarray, " n"] | None:
        """An input with y f <= 0, shape (n,), or None."""
        return self.worst if self.refuted else None

    @property
    def holds_in_float32(self) -> bool:
        """Whether float32 evaluation too is right on all inputs: the margin exceeds all that rounding can do."""
        return self.margin > self.float32_rounding

    def __str__(self) -> str:
        claim = f"{self.verdict}: the parity of {self.support} on all 2^{len(self.worst)} inputs"
        return (
            f"{claim}; smallest margin in [{self.margin:.6g}, {self.attained:.6g}] ({self.method}, {self.nodes} nodes)"
        )


def certify(
    outcome: Outcome,
    task: Task | None = None,
    *,
    support: Sequence[int] | None = None,
    budget: int = 2**12,
    tighten: bool = False,
) -> Certificate:
    """Prove that a trained two-layer network is right on all 2^n inputs, or find one on which it is wrong.

    The 2^k patterns on the support are enumerated; within each, the other n - k coordinates are bounded: every
    pre-activation lies within sum |w_ij| (j off the support) of its centre, and the output is bounded by interval
    arithmetic, more tightly by affine relaxation of each neuron, and where that is not enough (and n <= 256) by
    quadratic relaxation of all of them together. Patterns that this leaves open are split at further coordinates
    until all are proved, an input is found that is wrong, or the budget is spent. As everywhere in elegans, an output
    of 0 is wrong.

    Rounding: bounds are computed in float64, and an a-priori bound of all their rounding errors is subtracted
    (``Network.rounding``); counterexamples are confirmed in exact integer arithmetic. So a proof and a refutation
    both hold for the real-valued function f; ``Certificate.holds_in_float32`` extends a proof to its evaluation.

    Args:
        outcome: of a trial whose model is an ``MLP`` with one output, with its parameters, as ``elegans.train`` returns
            it. A network with an output for each class is certified by ``elegans.studies.feature_margins``.
        task: the sparse parity to hold the network against, drawn with the trial's seed; the trial's own by default.
        support: or the coordinates themselves, in place of the task's, for example ``read_out(outcome).support``.
        budget: the largest number of boxes to bound, at least 2^k.
        tighten: whether to go on after a proof, until the smallest margin is known or the budget is spent.

    Raises:
        CertificateError: a model that is not an ``MLP``, an outcome without parameters, a task that is not a parity, a
            support that does not fit the input size, or more patterns than the budget.

    Source: affine relaxation, Zhang et al. (CROWN, 2018); quadratic relaxation, a verified dual point of the
    semidefinite one of Raghunathan et al. (2018). That the patterns on the support are enumerated makes the proof
    exact where irrelevant weights vanish.
    """
    network = network_of(outcome)
    places = _places(network, hidden_support(outcome, task) if support is None else support)
    if 2 ** len(places) > budget:
        raise CertificateError(
            f"2^k must be at most the budget of nodes: k={len(places)}, 2^k={2 ** len(places)}, budget={budget}"
        )
    search = CertificateSearch(network, np.array(places), budget, tighten)
    search.patterns()
    patterns = search.margin
    if not search.refuted:
        search.branch()
    return _certificate(network, places, search, patterns)


def hidden_support(outcome: Outcome, task: Task | None = None) -> tuple[int, ...]:
    """Return the support that a trial's task, or another one drawn with the trial's seed, hides from its learner."""
    task = outcome.trial.task if task is None else task
    if not isinstance(task, SparseParity):
        raise CertificateError(f"a task must be a sparse-parity where no support is given: task={task.kind!r}")
    return tuple(int(place) for place in task.draw(outcome.trial.key("task")))


def _places(network: Network, support: Sequence[int]) -> tuple[int, ...]:
    try:
        places = tuple(sorted(operator.index(place) for place in support))
    except TypeError:
        raise CertificateError(f"support must hold whole numbers: support={shown(support)}") from None
    fits = places and len(set(places)) == len(places) and places[0] >= 0 and places[-1] < network.n
    if not fits:
        raise CertificateError(
            f"support must hold distinct coordinates in 0..n-1, at least one: n={network.n}, support={places}"
        )
    return places


def _certificate(network: Network, support: tuple[int, ...], search: CertificateSearch, patterns: float) -> Certificate:
    assert search.attained is not None
    return Certificate(
        verdict="refuted" if search.refuted else "proved" if search.margin > 0 else "undecided",
        support=support,
        margin=search.margin,
        attained=float(search.attained),
        worst=search.worst,
        nodes=search.nodes,
        method=_method(search, patterns),
        float32_rounding=network.float32_rounding,
    )


def _method(search: CertificateSearch, patterns: float) -> Method:
    split = search.nodes > 2 ** len(search.support)
    if search.refuted:
        return "branching" if split else "descent"
    # a proof that float32 evaluation has no share in may have been enough
    needed = search.network.float32_rounding if search.margin > search.network.float32_rounding else 0.0
    bounds: list[tuple[Method, float]] = [("intervals", search.intervals), ("affine", search.affine)]
    bounds.append(("quadratic", patterns))
    enough = [method for method, bound in bounds if bound > needed]
    return enough[0] if enough else "branching" if split else "quadratic"
