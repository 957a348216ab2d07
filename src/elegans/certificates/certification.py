"""Proofs that a trained two-layer network is right on all inputs, or counterexamples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Int8

from elegans.certificates.network import network_of
from elegans.certificates.search import CertificateSearch
from elegans.display import card, displayed
from elegans.errors import CertificateError
from elegans.tasks import SparseParity, Task
from elegans.training.network import TrainedNetwork
from elegans.training.outcome import Outcome

Verdict = Literal["proved", "refuted", "undecided"]
Method = Literal["intervals", "affine", "quadratic", "branching", "descent"]


@displayed
@dataclass(frozen=True, eq=False)
class Certificate:
    """Bounds on a network's margin y f(x) over all x in {-1, +1}^n, where y is the product of x over the support.

    The smallest margin lies between ``margin`` and ``attained``. Both hold for the real-valued function whose
    parameters are the network's float32 numbers, in spite of all rounding in the computation.

    Args:
        verdict: ``proved`` (y f > 0 everywhere), ``refuted`` (y f <= 0 somewhere) or ``undecided``.
        support: the coordinates whose product is the label.
        margin: a proved lower bound of the smallest y f; if negative, the amount by which the proof fails.
        attained: y f at ``worst``, computed exactly and then rounded to the nearest float: the smallest value found.
        worst: that input, shape (n,); for a refuted network the counterexample.
        nodes: how many boxes of inputs were bounded.
        method: the method that the verdict needed: the simplest of ``intervals``, ``affine`` and ``quadratic``
            relaxation and ``branching``, or ``descent`` from the relaxation to a counterexample.
        float32_rounding: the largest deviation from f of the network evaluated in float32, in any order of summation.
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
        """Whether float32 evaluation is also right on all inputs: whether the margin exceeds its rounding error."""
        return self.margin > self.float32_rounding

    def __str__(self) -> str:
        claim = f"{self.verdict}: the parity of {self.support} on all 2^{len(self.worst)} inputs"
        return (
            f"{claim}; smallest margin in [{self.margin:.6g}, {self.attained:.6g}] ({self.method}, {self.nodes} nodes)"
        )


def certify(
    outcome: Outcome | TrainedNetwork,
    task: Task | None = None,
    *,
    support: Sequence[int] | None = None,
    budget: int = 2**12,
    tighten: bool = False,
) -> Certificate:
    """Prove that a trained two-layer network is right on all 2^n inputs, or find an input on which it is wrong.

    The 2^k patterns on the support are enumerated; within each, the other n - k coordinates are bounded: every
    pre-activation lies within sum |w_ij| (j off the support) of its centre. The output is bounded by interval
    arithmetic; where that is not enough, by affine relaxation of each neuron, and then (for n <= 256) by quadratic
    relaxation of all neurons together. Patterns that remain open are split at further coordinates until all are
    proved, a wrong input is found, or the budget is spent. As everywhere in elegans, an output of 0 is wrong.

    Rounding: bounds are computed in float64, and an a-priori bound of all their rounding errors is subtracted
    (``Network.rounding``); counterexamples are confirmed in exact integer arithmetic. Proofs and refutations therefore
    hold for the real-valued function f; ``Certificate.holds_in_float32`` extends a proof to its evaluation.

    Args:
        outcome: the outcome of a trial whose model is an ``MLP`` with one output, with its parameters, as returned by
            ``elegans.train``. For networks with one output per class see ``elegans.studies.feature_margins``.
        task: the sparse parity to verify the network against, drawn with the trial's seed; the trial's own by default.
        support: the coordinates themselves, instead of the task's, for example ``read_out(outcome).support``.
        budget: the largest number of boxes to bound, at least 2^k.
        tighten: whether to continue after a proof, until the smallest margin is known or the budget is spent.

    Raises:
        CertificateError: the model is not an ``MLP``, the outcome has no parameters, the task is not a parity, the
            support does not fit the input size, or there are more patterns than the budget.

    Source: affine relaxation, Zhang et al. (CROWN, 2018); quadratic relaxation, a verified dual point of the
    semidefinite one of Raghunathan et al. (2018). Enumerating the patterns on the support makes the proof exact if
    irrelevant weights vanish.
    """
    network = network_of(outcome)
    chosen = tuple(sorted(hidden_support(outcome, task) if support is None else support))
    if not chosen or len(set(chosen)) < len(chosen) or chosen[0] < 0 or chosen[-1] >= network.n:
        raise CertificateError(
            f"support must hold distinct coordinates in 0..n-1, at least one: n={network.n}, support={chosen}"
        )
    if (patterns := 2 ** len(chosen)) > budget:
        raise CertificateError(
            f"2^k must be at most the budget of nodes: k={len(chosen)}, 2^k={patterns}, budget={budget}"
        )
    search = CertificateSearch(network, np.array(chosen), budget, tighten)
    search.patterns()
    margin_of_patterns = search.margin
    if not search.refuted:
        search.branch()
    assert search.attained is not None
    return Certificate(
        verdict="refuted" if search.refuted else "proved" if search.margin > 0 else "undecided",
        support=chosen,
        margin=search.margin,
        attained=float(search.attained),
        worst=search.worst,
        nodes=search.nodes,
        method=_method(search, margin_of_patterns),
        float32_rounding=network.float32_rounding,
    )


def hidden_support(outcome: Outcome | TrainedNetwork, task: Task | None = None) -> tuple[int, ...]:
    """Return the hidden support of a trial's task, or of another task drawn with the trial's seed."""
    task = outcome.trial.task if task is None else task
    if not isinstance(task, SparseParity):
        raise CertificateError(f"a task must be a sparse-parity if no support is given: task={task.kind!r}")
    return tuple(map(int, task.draw(outcome.trial.key("task"))))


def _method(search: CertificateSearch, margin_of_patterns: float) -> Method:
    split = search.nodes > 2 ** len(search.support)
    if search.refuted:
        return "branching" if split else "descent"
    # a proof for exact evaluation only may have been enough
    needed = search.network.float32_rounding if search.margin > search.network.float32_rounding else 0.0
    if search.intervals > needed:
        return "intervals"
    if search.affine > needed:
        return "affine"
    return "branching" if split and margin_of_patterns <= needed else "quadratic"
