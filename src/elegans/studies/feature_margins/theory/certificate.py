"""Whether a network has the largest margin that its task allows, and if not, which neurons and labels fall short.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from elegans.calculators.domain import require
from elegans.studies.feature_margins.theory.problems import MarginProblem
from elegans.studies.feature_margins.theory.weights import HomogeneousWeights, checked_labels, split_logits

TOLERANCE = 0.01
"""By what share of gamma* a network, a neuron or a logit may fall short by default."""
NEGLIGIBLE = 0.05
"""A neuron of a norm below this share of the largest one is not judged by default."""
_NAMED = 8
"""The number of failing neurons that a message names."""


@dataclass(frozen=True, eq=False)
class MarginCertificate:
    """A network's normalised margin h and what it loses, all as shares of gamma_q.

    Every network has h <= gamma* <= gamma_q, so ``ratio`` alone proves how far from the largest margin it can be. The
    shortfall is split exactly, ``1 - ratio = neuron_loss + label_loss + example_loss``, and each part is at least 0.

    Args:
        problem: the task with its q and tau.
        margin: h, the smallest margin over the mass.
        ratio: h / gamma_q.
        neuron_loss: the loss due to neurons that are not the best: (gamma_q - E g') / gamma_q.
        label_loss: the loss due to weights on labels that are not the top-scoring wrong ones: E (g' - g) / gamma_q.
        example_loss: the loss due to examples whose margins are not the smallest: (E g - h) / gamma_q.
        spread: the largest margin minus the smallest, where q > 0.
        tie_gap: how far the lowest wrong logit with positive weight is below the top wrong one, at worst.
        neurons: each neuron's E psi' at norm 1, nan for a neuron that is 0; 1 for a neuron that may appear in a
            maximiser.
        weights_of_neurons: each neuron's share of the mass.
        judged: which neurons are not negligible.
        worst_example: the index of an example with the smallest margin.
        tolerance: by how much each part may fall short.
        minimiser: the ratio of the minimiser of the penalised loss that it was trained with, or None where that is not
            known; it bounds no other network.
    """

    problem: MarginProblem
    margin: float
    ratio: float
    neuron_loss: float
    label_loss: float
    example_loss: float
    spread: float
    tie_gap: float
    neurons: Float[np.ndarray, " neurons"]
    weights_of_neurons: Float[np.ndarray, " neurons"]
    judged: Int64[np.ndarray, " judged"]
    worst_example: int
    tolerance: float
    minimiser: float | None = None

    @property
    def failing_neurons(self) -> Int64[np.ndarray, " failing"]:
        """The neurons that fall short by more than the tolerance, the worst first."""
        short = self.judged[1 - self.neurons[self.judged] > self.tolerance]
        return np.asarray(short[np.argsort(self.neurons[short], kind="stable")])

    @property
    def equal_margins(self) -> bool:
        """Whether all examples are on the margin (Equation 7.1)."""
        return self.spread <= self.tolerance

    @property
    def tied_labels(self) -> bool:
        """Whether every wrong label with positive weight is a top-scoring one (C.1)."""
        return self.tie_gap <= self.tolerance

    @property
    def best_neurons(self) -> bool:
        """Whether every judged neuron is a best single neuron (Equation 7.3)."""
        return not len(self.failing_neurons)

    @property
    def maximal(self) -> bool:
        """Whether the normalised margin is the largest that any network has."""
        return 1 - self.ratio <= self.tolerance

    @property
    def complete(self) -> bool:
        """Whether all four hold: then the task's q and tau are a certificate of the network, within the tolerance."""
        return self.maximal and self.equal_margins and self.tied_labels and self.best_neurons

    @property
    def warning(self) -> str | None:
        """What to expect of a network that is narrower than the theorem requires, or None."""
        return self.problem.width_warning(len(self.neurons))

    @property
    def failures(self) -> list[str]:
        """What fails and by how much, one line each."""
        worst, failing = self.worst_example, self.failing_neurons
        named = ", ".join(f"{place} ({self.neurons[place]:.4f})" for place in failing[:_NAMED])
        more = f" and {len(failing) - _NAMED} more" if len(failing) > _NAMED else ""
        count = (
            f"{len(failing)} of {len(self.judged)} neurons, {self.weights_of_neurons[failing].sum():.2%} of the mass,"
        )
        lines = [
            (self.maximal, f"normalised margin is {self.ratio:.4f} of the largest: example {worst} is the worst"),
            (self.equal_margins, f"margins differ by {self.spread:.4f} of gamma*: not all examples are on the margin"),
            (self.tied_labels, f"weighed wrong logits differ by {self.tie_gap:.4f} of gamma* from the top one (C.1)"),
            (self.best_neurons, f"{count} are not the best: {named}{more}"),
        ]
        return [line for holds, line in lines if not holds]

    def __str__(self) -> str:
        bound = "gamma*" if self.problem.proved else "the best bound found"
        held = "maximal" if self.maximal else "not maximal" if self.margin > 0 else "wrong somewhere"
        head = (
            f"{held}: normalised margin {self.margin:.6g} on {self.problem.name}, {self.ratio:.6f} of {bound} "
            f"{self.problem.bound:.6g}; lost by neurons {self.neuron_loss:.2e}, by labels {self.label_loss:.2e}, "
            f"by examples {self.example_loss:.2e}"
        )
        notes = [] if self.warning is None else [self.warning]
        if self.minimiser is not None:
            notes.append(f"the minimiser of its penalised loss has {self.minimiser:.6f}")
        return "\n  ".join([head, *self.failures, *notes])


def certify_margin(
    weights: HomogeneousWeights, problem: MarginProblem, *, tolerance: float = TOLERANCE, negligible: float = NEGLIGIBLE
) -> MarginCertificate:
    """Compare a network with the largest margin of its task, check by check.

    A pair of a network and (q, tau) is a certificate where all examples with q > 0 are on the margin, where every
    wrong label with tau > 0 is a top-scoring one, and where each neuron is a best single neuron; then the network has
    the largest margin, gamma_q, and every maximiser has only neurons of that kind.

    Formula: gamma_q - h = [gamma_q - E g'] + [E g' - E g] + [E g - h] at mass 1, each bracket at least 0, with
        E g' = sum_i ||omega_i||^nu E psi'(omega_i / ||omega_i||).
    Source: thesis, Lemmas 7.4 and 7.6; the split derived here.

    Args:
        problem: its task, with q and tau.
        tolerance: by what share of gamma_q anything may fall short; rounding is about 10^-13.
        negligible: the share of the largest norm below which a neuron is not judged.
    """
    require(weights.degree == problem.degree, "degrees must agree", network=weights.degree, task=problem.degree)
    require(0 < tolerance < 1, "tolerance must lie between 0 and 1", tolerance=tolerance)
    require(0 <= negligible < 1, "negligible must lie from 0 to below 1", negligible=negligible)
    labels = checked_labels(weights, problem.labels)
    unit = weights.normalised()
    right, wrong = split_logits(unit.logits(), labels)
    top, q, bound = wrong.max(axis=1), problem.sampling, problem.bound
    margins, sampled = right - top, q > 0
    payoffs = unit.payoffs(problem.payoff)
    mass = unit.norms**unit.degree
    expected, total = float(q @ margins), float(payoffs.sum())
    weighed = np.where(problem.weighting[sampled] > 0, wrong[sampled], np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = payoffs / mass / bound
    return MarginCertificate(
        problem=problem,
        margin=float(margins.min()),
        ratio=float(margins.min()) / bound,
        neuron_loss=1 - total / bound,
        label_loss=(total - expected) / bound,
        example_loss=(expected - float(margins.min())) / bound,
        spread=float(np.ptp(margins[sampled])) / bound,
        tie_gap=float((top[sampled] - weighed.min(axis=1)).max()) / bound,
        neurons=shares,
        weights_of_neurons=mass,
        judged=np.flatnonzero(unit.norms > negligible * unit.norms.max()),
        worst_example=int(margins.argmin()),
        tolerance=tolerance,
    )
