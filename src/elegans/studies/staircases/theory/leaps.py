"""The leap of a sum of parities, and the leap of what its labels reveal.

A target is a function of P uniform signs, y = sum_S g_S chi_S, where chi_S is the product of the coordinates in S. It
is given by its sets, each a list of coordinates, or by its 2^P values: in value number i, coordinate j is -1 if bit j
of i is set.

Shared arguments:
    sets: the sets S with a coefficient that is not 0; the empty set may be among them.
    values: the target's values, as many as a power of two, at most 2^12.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from elegans.boolean.fourier import fourier_coefficients
from elegans.calculators.domain import require

MOST_SIGNS = 12
NEGLIGIBLE = 1e-9
"""Coefficients of at most this size count as 0."""


def leap_chain(sets: Sequence[Sequence[int]]) -> list[int]:
    """Return how many new coordinates the sets add, one after the other, in an order whose largest number is least.

    The greedy order is such an order: it repeatedly takes a set with the fewest coordinates that are still new. Sets
    that add nothing are left out.

    Formula: n_i = min over the remaining sets S of |{j in S : j not in S_1, ..., S_{i-1}}|.
    Source: definition 1 of Abbe et al. (2023); that the greedy order attains the minimum is derived here.
    """
    remaining = [frozenset(members) for members in sets]
    _require_sets(remaining)
    known: frozenset[int] = frozenset()
    chain = []
    while remaining := [members for members in remaining if not members <= known]:
        smallest = min(remaining, key=lambda members: (len(members - known), sorted(members)))
        chain.append(len(smallest - known))
        known |= smallest
    return chain


def leap(sets: Sequence[Sequence[int]]) -> int:
    """Return the leap of a sum of parities; 0 for a constant.

    Formula: the least, over orders of the sets, of the largest number of new coordinates that a set adds.
    Source: definition 1 of Abbe et al. (2023).
    """
    return max(leap_chain(sets), default=0)


def multi_index_leap(degrees: Sequence[Sequence[int]]) -> int:
    """Return the leap of a sum of products of Hermite polynomials of orthonormal directions; 0 for a constant.

    A term costs the sum of its degrees in directions that no earlier term has: a square of a new direction costs 2. The
    leap depends on the basis; the leap of a target is the largest over rotations of its directions, whereas this is the
    leap in the basis given. Degrees of 0 and 1 are sets: the leap is then the leap of the sum of parities. The greedy
    order attains the minimum here too.

    Formula: the least, over orders of the terms, of the largest sum_{i : k_si = 0 for all earlier s} k_ti.
    Source: definition 2 of Abbe et al. (2023).

    Args:
        degrees: k_ti, one list per term with one degree per direction.
    """
    remaining = [tuple(term) for term in degrees]
    require(len(remaining) >= 1, "there must be at least one term", terms=len(remaining))
    for term in remaining:
        require(len(term) == len(remaining[0]), "terms must have one degree per direction", degrees=list(term))
        require(all(degree >= 0 for degree in term), "degrees must be at least 0", degrees=list(term))
    known: set[int] = set()
    largest = 0

    def cost(term: tuple[int, ...]) -> int:
        return sum(degree for direction, degree in enumerate(term) if direction not in known)

    while remaining := [term for term in remaining if cost(term)]:
        cheapest = min(remaining, key=cost)
        largest = max(largest, cost(cheapest))
        known |= {direction for direction, degree in enumerate(cheapest) if degree}
    return largest


def nonzero_sets(values: Any) -> list[list[int]]:
    """Return the sets with a coefficient that is not 0, for a target given by its values.

    Formula: {S : |2^-P sum_x y(x) chi_S(x)| > 1e-9 max |y|}.
    Source: the Walsh-Hadamard transform.
    """
    table = _table(values)
    coefficients = fourier_coefficients(table)
    size = max(1.0, float(np.abs(table).max()))
    return [_members(int(number)) for number in np.flatnonzero(np.abs(coefficients) > NEGLIGIBLE * size)]


def label_leap(values: Any) -> int:
    """Return the leap of all sets in the spectra of indicators of single labels.

    Every function of the label is a combination of these indicators, so this is the leap for algorithms that can use
    functions of the label. For labels of two values it is the leap of the target itself.

    Formula: the leap of the union over v of {S : E[1{y = v} chi_S] != 0}.
    Source: derived here; compare Joshi et al. (2024).
    """
    table = _table(values)
    labels = np.unique(np.round(table, 9))
    return leap(
        [members for label in labels for members in nonzero_sets(np.isclose(table, label, atol=1e-9).astype(float))]
    )


def monomial_values(
    sets: Sequence[Sequence[int]], coefficients: Sequence[float] | None = None, size: int | None = None
) -> np.ndarray:
    """Return the values of a sum of parities on all signs of its coordinates.

    Formula: y(x) = sum_S g_S prod_{j in S} x_j.
    Source: section 1 of Abbe et al. (2023).

    Args:
        coefficients: g_S, one per set; 1 each by default.
        size: P, the number of coordinates; by default one more than the largest.
    """
    families = [frozenset(members) for members in sets]
    _require_sets(families)
    weights = [1.0] * len(families) if coefficients is None else [float(weight) for weight in coefficients]
    require(len(weights) == len(families), "there must be one coefficient per set", coefficients=weights)
    least = 1 + max((coordinate for members in families for coordinate in members), default=0)
    count = least if size is None else size
    require(least <= count <= MOST_SIGNS, f"size must be at least {least} and at most {MOST_SIGNS}", size=count)
    number = np.arange(2**count)
    values = np.zeros(2**count)
    for members, weight in zip(families, weights, strict=True):
        mask = sum(1 << coordinate for coordinate in members)
        values += weight * (1.0 - 2.0 * (np.bitwise_count(number & mask) % 2))
    return values


def _require_sets(families: Sequence[frozenset[int]]) -> None:
    require(len(families) >= 1, "there must be at least one set", sets=len(families))
    for members in families:
        require(all(coordinate >= 0 for coordinate in members), "coordinates must be at least 0", set=sorted(members))


def _table(values: Any) -> np.ndarray:
    table = np.asarray(values, float)
    fits = table.ndim == 1 and 2 <= len(table) <= 2**MOST_SIGNS and len(table) & (len(table) - 1) == 0
    require(fits, f"values must be a list of 2 to 2^{MOST_SIGNS} numbers, a power of two", shape=table.shape)
    return table


def _members(number: int) -> list[int]:
    return [coordinate for coordinate in range(number.bit_length()) if number >> coordinate & 1]
