"""Tasks in the form that certificates need: labels, a weighting of wrong labels, and the best single neuron under it.

For any sampling q of examples and weighting tau of wrong labels, no network's normalised margin is above gamma_q, the
best expected class-weighted margin of a single neuron of norm 1. For the right q and tau it is gamma*.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from elegans.calculators.domain import Extended, require, whole_array
from elegans.groups import Group
from elegans.studies.feature_margins.theory.cyclic import cyclic_maximum_margin, cyclic_width
from elegans.studies.feature_margins.theory.game import margin_game
from elegans.studies.feature_margins.theory.groups import irrep_widths
from elegans.studies.feature_margins.theory.parity import parity_labels, parity_maximum_margin, parity_width
from elegans.studies.feature_margins.theory.spectral import best_pair_neuron

LARGEST_ORDER = 256
"""The largest order of a group whose weights of all wrong labels are written out."""


@dataclass(frozen=True, eq=False)
class MarginProblem:
    """A task, a sampling of its examples, and a weighting of its wrong labels.

    Args:
        name: of the task.
        degree: of the networks: nu.
        labels: the correct output of every example, shape (examples,).
        weighting: tau, summing to 1 per example and 0 at its label, shape (examples, outputs).
        sampling: q, of sum 1, shape (examples,).
        bound: gamma_q, which no normalised margin exceeds.
        proved: whether the bound is in closed form; else it is the best of many searches, and may be too low.
        width: the number of neurons that the source's theorem requires, or None.
        below: what to expect with fewer.
    """

    name: str
    degree: int
    labels: Int64[np.ndarray, " examples"]
    weighting: Float[np.ndarray, "examples outputs"]
    sampling: Float[np.ndarray, " examples"]
    bound: float
    proved: bool
    width: int | None = None
    below: str = ""

    @property
    def payoff(self) -> Float[np.ndarray, "examples outputs"]:
        """The weight of a logit in the expected class-weighted margin."""
        return _payoff(self.labels, self.weighting, self.sampling)

    def width_warning(self, neurons: int) -> str | None:
        """Return what to expect of a network that is narrower than the theorem requires."""
        if self.width is None or neurons >= self.width:
            return None
        return f"width should be at least {self.width} for {self.name}: width={neurons}; {self.below}"


def cyclic_margin_problem(p: int) -> MarginProblem:
    """Return addition mod p with uniform weights.

    Formula: tau = 1/(p - 1), q = 1/p^2, gamma_q = gamma* of ``cyclic_maximum_margin``.
    Source: thesis, appendix D.6.

    Args:
        p: the modulus, odd, from 3 to 255.
    """
    bound = cyclic_maximum_margin(p)
    require(p <= LARGEST_ORDER, f"p must be at most {LARGEST_ORDER} for all weights of wrong labels", p=p)
    labels = ((np.arange(p)[:, None] + np.arange(p)) % p).ravel()
    expected = f"below {cyclic_width(p, 6)} a frequency may be missing or cut short, and the margin with it"
    return MarginProblem(
        f"addition mod {p}", 3, labels, _uniform(labels, p), _even(p**2), bound, True, cyclic_width(p), expected
    )


def group_margin_problem(group: Group) -> MarginProblem:
    """Return composition in a group with the weights of its matrix game.

    Formula: tau(a, b)[c] = tau of the class of (ab)^(-1) c, q = 1/|G|^2, gamma_q = gamma* of ``margin_game``.
    Source: thesis, Lemma D.14; in general derived here.

    Args:
        group: any finite group of 2 to 256 elements.
    """
    order = group.order
    require(order <= LARGEST_ORDER, f"the order must be at most {LARGEST_ORDER} for all weights", order=order)
    game = margin_game(group)
    errors = group.table[group.inverses]  # of ab and c: (ab)^(-1) c
    labels = group.table.ravel().astype(np.int64)
    weighting = game.weighting[group.class_of[errors[labels]]]
    width = int(irrep_widths(group)[game.shares > 0].sum())
    expected = "with fewer an irrep may be missing or cut short, and the margin with it"
    name = f"composition in {group.name}"
    return MarginProblem(name, 3, labels, weighting, _even(order**2), game.value, True, width, expected)


def parity_margin_problem(n: int, support: Iterable[int]) -> MarginProblem:
    """Return a sparse parity over all inputs.

    Formula: tau = 1 at the only wrong label, q = 2^(-n), gamma_q = gamma* of ``parity_maximum_margin``.
    Source: thesis, appendix D.7.

    Args:
        n: the input size, at most 20.
    """
    places = tuple(support)
    labels, k = parity_labels(n, places), len(places)
    bound, width = parity_maximum_margin(k), parity_width(k)
    expected = "with fewer some sign vectors are missing, and not all inputs can be on the margin"
    name = f"parity of {k} of {n} signs"
    return MarginProblem(name, k + 1, labels, _uniform(labels, 2), _even(2**n), bound, True, width, expected)


def pair_margin_problem(labels: Any, weighting: Any = None, sampling: Any = None) -> MarginProblem:
    """Return a problem with any labels of pairs, sampling and weighting, with the bound found by a search.

    Formula: gamma_q of ``best_pair_neuron``.
    Source: thesis, Lemmas 7.5 and 7.6.

    Args:
        labels: of shape (n, n), from 0 to n - 1.
        weighting: tau of shape (n, n, n), 0 at the labels and summing to 1 per pair; uniform by default.
        sampling: q of shape (n, n), of sum 1; uniform by default.
    """
    table = whole_array("labels", labels)
    n = len(table)
    square = table.shape == (n, n) and 2 <= n <= LARGEST_ORDER
    require(square, f"labels must be of shape (n, n), n from 2 to {LARGEST_ORDER}", shape=table.shape)
    require(bool(((table >= 0) & (table < n)).all()), "labels must lie in 0..n-1", n=n)
    flat = table.ravel()
    tau = _uniform(flat, n) if weighting is None else np.asarray(weighting, float).reshape(n * n, n)
    q = _even(n * n) if sampling is None else np.asarray(sampling, float).reshape(n * n)
    least, off = min(tau.min(), q.min()), np.abs(tau.sum(axis=1) - 1).max()
    require(least >= 0, "weights and probabilities must not be negative", least=least)
    at_labels = float(tau[np.arange(n * n), flat].max())
    require(at_labels == 0, "tau must be 0 at the correct label", largest=at_labels)
    require(off < 1e-9 and abs(q.sum() - 1) < 1e-9, "tau of a pair, and q, must sum to 1", off=off, total=q.sum())
    bound = best_pair_neuron(_payoff(flat, tau, q).reshape(n, n, n)).value
    return MarginProblem("these labels of pairs", 3, flat, tau, q, bound, False)


def norm_split_gain(width: int, degree: int, outer: Extended) -> float:
    """Return the factor by which several of the best neurons exceed one of them, at an L_{a,b} norm of 1.

    With b = nu any split of the mass among best neurons is equally good, which leaves the freedom to combine them; for
    smaller b all of the norm is on one neuron, for larger b all have the same norm.

    Formula: max_{||n||_b <= 1} sum_i n_i^nu = 1 for b <= nu, width^(1 - nu/b) for b > nu.
    Source: derived here, for the thesis' Lemma 7.5.

    Args:
        width: the number of neurons, at least 1.
        degree: nu.
        outer: b, at least 1.
    """
    require(width >= 1, "width must be at least 1", width=width)
    require(degree >= 1 and outer >= 1, "degree and outer must be at least 1", degree=degree, outer=outer)
    return float(width ** max(0.0, 1 - degree / outer))


def _payoff(labels: np.ndarray, weighting: np.ndarray, sampling: np.ndarray) -> np.ndarray:
    right = -weighting
    right[np.arange(len(labels)), labels] += 1
    return np.asarray(right * sampling[:, None])


def _uniform(labels: np.ndarray, outputs: int) -> np.ndarray:
    weights = np.full((len(labels), outputs), 1 / (outputs - 1))
    weights[np.arange(len(labels)), labels] = 0
    return weights


def _even(count: int) -> np.ndarray:
    return np.full(count, 1 / count)
