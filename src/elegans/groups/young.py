"""The irreducible representations of symmetric groups: Young's orthogonal form and the Murnaghan-Nakayama rule.

Source: James and Kerber, "The Representation Theory of the Symmetric Group" (1981), sections 2.4, 2.7 and 3.4.
"""

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import permutations
from math import factorial, prod

import numpy as np
from jaxtyping import Float64, Int64

Partition = tuple[int, ...]
"""Whole numbers in decreasing order."""


def partitions(n: int, largest: int | None = None) -> Iterator[Partition]:
    """Yield the partitions of n into parts of at most ``largest``, in increasing lexicographic order."""
    if n == 0:
        yield ()
    for part in range(1, min(n, largest or n) + 1):
        for rest in partitions(n - part, part):
            yield (part, *rest)


def class_size(cycles: Partition) -> int:
    """Return how many permutations have the given lengths of cycles (fixed points included)."""
    counts = Counter(cycles)
    centraliser = prod(length**count * factorial(count) for length, count in counts.items())
    return factorial(sum(cycles)) // int(centraliser)


@cache
def character(shape: Partition, cycles: Partition) -> int:
    """Return the value of an irreducible character of S_n by the Murnaghan-Nakayama rule.

    Args:
        shape: the partition of n that names the irrep.
        cycles: the lengths of the permutation's cycles, a partition of n.
    """
    if not cycles:
        return 1
    length, rest = cycles[0], cycles[1:]
    heads = [part + len(shape) - row for row, part in enumerate(shape, start=1)]
    total = 0
    for head in heads:
        # removing a rim hook lowers one of the first column's hook lengths, past as many others as its leg length
        if head < length or head - length in heads:
            continue
        legs = sum(head - length < other < head for other in heads)
        moved = sorted((head - length if other == head else other for other in heads), reverse=True)
        smaller = tuple(part for row, value in enumerate(moved, 1) if (part := value + row - len(moved)) > 0)
        total += (-1) ** legs * character(smaller, rest)
    return total


def standard_tableaux(shape: Partition) -> list[tuple[int, ...]]:
    """Return the standard Young tableaux of a shape; a tableau is the row of each of the numbers 1, …, n."""
    if not any(shape):
        return [()]
    tableaux = []
    for row, length in enumerate(shape):
        if length > (shape[row + 1] if row + 1 < len(shape) else 0):
            smaller = (*shape[:row], length - 1, *shape[row + 1 :])
            tableaux += [(*tableau, row) for tableau in standard_tableaux(smaller)]
    return tableaux


def adjacent_transpositions(shape: Partition) -> Float64[np.ndarray, "transpositions d d"]:
    """Return the matrices of (1 2), (2 3), …, (n-1 n) in Young's orthogonal form: symmetric and orthogonal.

    On a tableau in which the content (column minus row) of k + 1 exceeds the content of k by c, the transposition (k
    k+1) has 1 / c on the diagonal and sqrt(1 - 1 / c^2) towards the tableau in which k and k + 1 are swapped.
    """
    tableaux = standard_tableaux(shape)
    number = {tableau: index for index, tableau in enumerate(tableaux)}
    n = sum(shape)
    matrices = np.zeros((n - 1, len(tableaux), len(tableaux)))
    for index, tableau in enumerate(tableaux):
        contents = [tableau[:k].count(row) - row for k, row in enumerate(tableau)]
        for k in range(n - 1):
            distance = contents[k + 1] - contents[k]
            matrices[k, index, index] = 1 / distance
            if abs(distance) > 1:
                swapped = (*tableau[:k], tableau[k + 1], tableau[k], *tableau[k + 2 :])
                matrices[k, number[swapped], index] = np.sqrt(1 - 1 / distance**2)
    return matrices


def permutation_rows(n: int) -> Int64[np.ndarray, "order n"]:
    """Return all permutations of 0, …, n - 1 as lists of their values, in lexicographic order."""
    return np.array(list(permutations(range(n))), dtype=np.int64).reshape(factorial(n), n)


def codes(rows: Int64[np.ndarray, "*count n"]) -> Int64[np.ndarray, "*count"]:
    """Return a number for each permutation that increases in lexicographic order."""
    n = rows.shape[-1]
    return np.asarray(rows @ (n ** np.arange(n)[::-1]))


def orthogonal_form(shape: Partition) -> Float64[np.ndarray, "order d d"]:
    """Return the matrices of all permutations of S_n, in the order of ``permutation_rows``, in Young's orthogonal form.

    A permutation whose value falls at position k is one with one inversion fewer, times (k k+1).
    """
    rows = permutation_rows(sum(shape))
    order, n = rows.shape
    swaps = adjacent_transpositions(shape)
    inversions = sum((rows[:, :k] > rows[:, k, None]).sum(axis=1) for k in range(1, n)) + np.zeros(order, np.int64)
    falls = np.argmax(rows[:, :-1] > rows[:, 1:], axis=1) if n > 1 else np.zeros(order, np.int64)
    lexicographic = codes(rows)
    matrices = np.empty((order, *swaps.shape[1:]))
    matrices[0] = np.eye(swaps.shape[1])
    for count in range(1, n * (n - 1) // 2 + 1):
        for k in range(n - 1):
            chosen = np.flatnonzero((inversions == count) & (falls == k))
            before = rows[chosen]
            before[:, [k, k + 1]] = before[:, [k + 1, k]]
            matrices[chosen] = matrices[np.searchsorted(lexicographic, codes(before))] @ swaps[k]
    return matrices
