"""Linear algebra over the rationals, for systems of a dozen unknowns."""

from collections.abc import Sequence
from fractions import Fraction

Vector = tuple[Fraction, ...]
Matrix = tuple[Vector, ...]


def reduced(matrix: Sequence[Sequence[Fraction]]) -> tuple[list[list[Fraction]], list[int]]:
    """Return the reduced row echelon form of a matrix and the columns of its pivots."""
    rows = [[Fraction(entry) for entry in row] for row in matrix]
    pivots: list[int] = []
    for column in range(len(rows[0]) if rows else 0):
        rank = len(pivots)
        pivot = next((index for index in range(rank, len(rows)) if rows[index][column] != 0), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        rows[rank] = [entry / rows[rank][column] for entry in rows[rank]]
        for index, row in enumerate(rows):
            if index != rank and row[column] != 0:
                rows[index] = [entry - row[column] * top for entry, top in zip(row, rows[rank], strict=True)]
        pivots.append(column)
    return rows, pivots


def rank(matrix: Sequence[Sequence[Fraction]]) -> int:
    """Return the rank of a matrix."""
    return len(reduced(matrix)[1])


def solve(matrix: Sequence[Sequence[Fraction]], right: Sequence[Fraction]) -> Vector | None:
    """Return the unique solution of a linear system, or None if there is none or more than one.

    Args:
        matrix: the rows of the system's matrix, at least as many as there are unknowns.
        right: the right-hand side, one entry per row.
    """
    unknowns = len(matrix[0])
    rows, pivots = reduced([[*row, entry] for row, entry in zip(matrix, right, strict=True)])
    if pivots != list(range(unknowns)):
        return None
    return tuple(row[unknowns] for row in rows[:unknowns])


def null_space(matrix: Sequence[Sequence[Fraction]]) -> Matrix:
    """Return a basis of the null space of a matrix."""
    rows, pivots = reduced(matrix)
    columns = range(len(matrix[0]))
    basis = []
    for free in (column for column in columns if column not in pivots):
        vector = [Fraction(column == free) for column in columns]
        for row, pivot in zip(rows, pivots, strict=False):
            vector[pivot] = -row[free]
        basis.append(tuple(vector))
    return tuple(basis)
