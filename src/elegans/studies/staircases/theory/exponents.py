"""Hermite coefficients of functions of one direction, and the exponents that they determine.

Shared arguments:
    link: the function, by its name (see ``staircases.theory.links``), such as ``h3``, ``relu``, ``abs`` or ``bump``.
"""

import itertools
import math
from functools import cache
from typing import NamedTuple

import numpy as np

from elegans.calculators.domain import require
from elegans.errors import TheoryError
from elegans.studies.staircases.theory.links import Degree, Link, hermite_value, link_named, normal_rule

ZERO = 1e-9
"""Coefficients, and mean squares of conditional means, of at most this size count as 0."""
GRID = 400
"""Values of the input at which conditional means are computed, in each interval where a link is monotone."""
FAR = 9.0
HALVINGS = 60


def hermite_coefficient(link: str, degree: Degree, bias: float = 0.0) -> float:
    """Return a Hermite coefficient of a link.

    Formula: c_k = E[g(z) h_k(z)], z ~ N(0, 1), E h_k^2 = 1.
    Source: section 1 of Ben Arous et al. (2021).

    Args:
        degree: k, at least 0.
        bias: b, for the link relu(z + b).
    """
    g = link_named(link, bias)
    z, weight = normal_rule(g.breaks)
    return float(weight @ (g.value(z) * hermite_value(degree, z)))


def information_exponent(link: str, bias: float = 0.0) -> int:
    """Return the information exponent of a link.

    Formula: the least k >= 1 with |c_k| > 1e-9.
    Source: definition 1.2 of Ben Arous et al. (2021).

    Raises:
        TheoryError: no coefficient up to degree 12 is above 1e-9.
    """
    for degree in range(1, 13):
        if abs(hermite_coefficient(link, degree, bias)) > ZERO:
            return degree
    raise TheoryError(f"a link must have a Hermite coefficient above {ZERO:g} of degree 1 to 12: link={link}")


def label_information(link: str, degree: Degree) -> float:
    """Return how much of a Hermite polynomial of the direction the label reveals.

    The conditional mean is computed from all inputs that have the same label, weighted by density over slope, which is
    exact; bins of labels are not.

    Formula: lambda_k^2 = E_y[(E[h_k(z) | y])^2], with E[h_k | y] = sum_{g(z) = y} h_k(z) phi(z) / |g'(z)| over
        sum_{g(z) = y} phi(z) / |g'(z)|.
    Source: section 2 of Damian et al. (2024).

    Args:
        degree: k, at least 1.
    """
    require(degree >= 1, "degree must be at least 1", degree=degree)
    g = link_named(link)
    if g.flat:
        return _of_few_labels(g, degree)
    weight, inputs = _inputs_by_label(link)
    return float(weight @ inputs.conditional_hermite(degree) ** 2)


def generative_exponent(link: str) -> int:
    """Return the generative exponent of a link: the information exponent of the best function of the label.

    Formula: the least k >= 1 with lambda_k^2 > 1e-9.
    Source: definition 2.4 of Damian et al. (2024).

    Raises:
        TheoryError: none up to degree 12 is above 1e-9.
    """
    for degree in range(1, 13):
        if label_information(link, degree) > ZERO:
            return degree
    raise TheoryError(f"labels must reveal a Hermite polynomial of degree 1 to 12: link={link}")


class SameLabel(NamedTuple):
    """The inputs that share each of some labels.

    Args:
        inputs: where the link takes the label, shape (pieces, labels); anything in pieces where it does not.
        weight: density over slope there, of the same shape; 0 in pieces where it does not.
    """

    inputs: np.ndarray
    weight: np.ndarray

    def conditional_hermite(self, degree: int) -> np.ndarray:
        """Return E[h_k(z) | y] for each label, shape (labels,)."""
        total = (self.weight * hermite_value(degree, self.inputs)).sum(axis=0)
        mass = self.weight.sum(axis=0)
        return np.asarray(np.divide(total, mass, out=np.zeros_like(total), where=mass > 0))


def same_label(g: Link, labels: np.ndarray) -> SameLabel:
    """Return the inputs at which a link takes some labels, shape (labels,); it must be constant nowhere."""
    edges = [-FAR - 1, *(b for b in g.breaks if abs(b) < FAR), FAR + 1]
    roots, weights = [], []
    for low, high in itertools.pairwise(edges):
        root, inside = _preimage(g, low, high, labels)
        slope = np.abs(g.slope(root))
        density = np.exp(-(root**2) / 2) / np.maximum(slope, np.finfo(float).tiny)
        roots.append(root)
        weights.append(np.where(inside & (slope > 0), density, 0.0))
    return SameLabel(np.stack(roots), np.stack(weights))


@cache
def _inputs_by_label(link: str) -> tuple[np.ndarray, SameLabel]:
    """Return a rule's weights, and the inputs that share the label of each of its nodes."""
    g = link_named(link)
    z, weight = _dense_rule(g)
    return weight, same_label(g, g.value(z))


def _preimage(g: Link, low: float, high: float, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where a link that is monotone from low to high takes values, and whether it does."""
    ends = g.value(np.array([low, high]))
    rising = ends[1] > ends[0]
    inside = (labels > ends.min()) & (labels < ends.max())
    left, right = np.full(len(labels), low), np.full(len(labels), high)
    for _ in range(HALVINGS):
        middle = (left + right) / 2
        above = (g.value(middle) > labels) == rising
        right, left = np.where(above, middle, right), np.where(above, left, middle)
    return (left + right) / 2, inside


def _of_few_labels(g: Link, degree: int) -> float:
    z, weight = normal_rule(g.breaks)
    labels, values = g.value(z), hermite_value(degree, z)
    parts = ((weight[labels == label], values[labels == label]) for label in np.unique(labels))
    return float(sum((w @ v) ** 2 / w.sum() for w, v in parts))


def _dense_rule(g: Link) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights in each interval where a link is monotone, close together near its ends.

    Conditional means have cusps at labels that an end takes; midpoints in the angle resolve them.
    """
    edges = [-FAR, *(b for b in g.breaks if abs(b) < FAR), FAR]
    angle = math.pi * (np.arange(GRID) + 0.5) / GRID
    low, high = np.array(edges[:-1])[:, None], np.array(edges[1:])[:, None]
    z = (low + (high - low) * (1 - np.cos(angle)) / 2).ravel()
    width = ((high - low) * np.sin(angle) / 2 * math.pi / GRID).ravel()
    return z, width * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
