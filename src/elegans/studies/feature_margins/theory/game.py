"""The largest margin of every finite group, as the value of a matrix game.

By weak duality a network's normalised margin is at most what single neurons attain under any weighting of wrong labels,
and by symmetry class functions suffice. So one player splits sum ||omega||^3 among the irreps, the other puts weights
on the classes of wrong labels, and the value is gamma*; it equals the closed form where that holds.

With real weights, a complex irrep occurs together with its conjugate, and a quaternionic one through pairs of equal
singular values: either costs a factor of sqrt(2) compared with a real irrep of the same dimension. Addition mod p is
such a group.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.
"""

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float

from elegans.calculators.domain import require
from elegans.groups import Group
from elegans.studies.feature_margins.theory.characters import (
    CharacterTable,
    characters_of,
    folded,
    inverse_classes,
    refuse_many,
)

LARGEST_CLASSES = 11
"""The largest number of classes whose pairs of subsets are all tried: 184 755 systems."""
_LEAST = 1e-9
"""Below this share or weight an irrep or class counts as unused: what remains is a linear program's rounding."""

LARGEST_GAME = 250_000
"""Entries of a payoff matrix: the linear program takes about a second."""


@dataclass(frozen=True, eq=False)
class MarginGame:
    """The value of the game and an optimal strategy of each side, which need not be unique.

    Args:
        value: gamma*.
        shares: the share of sum ||omega||^3 of each irrep, shape (irreps,), 0 for the trivial one; an irrep and its
            conjugate have one entry, at the first of the two.
        weighting: tau of each class, per element, shape (classes,), 0 for the identity, equal for inverse classes.
        irreps: names of the irreps in use.
        classes: names of the classes with positive weight.
    """

    value: float
    shares: Float[np.ndarray, " irreps"]
    weighting: Float[np.ndarray, " classes"]
    irreps: tuple[str, ...]
    classes: tuple[str, ...]


def margin_payoffs(group: Group) -> Float[np.ndarray, "irreps classes"]:
    """Return the margin of each irrep alone against each class of wrong labels, at norm 1.

    Formula: P[m, n] = 2 (3|G|)^(-3/2) d_m^(-3/2) (d_m - Re chi_m(C_n)) / sqrt(2) (the root only where the irrep is
        not real), m and n non-trivial.
    Source: derived here; for real irreps from the thesis' Lemmas D.13 and D.15.

    Returns:
        float64 of shape (irreps, classes), 0 in the trivial irrep's row and the identity's column.
    """
    refuse_many(group)
    irreps = group.irreps
    dimensions = np.array([irrep.dimension for irrep in irreps], float)[:, None]
    factors = np.array([1 if irrep.indicator == 1 else math.sqrt(0.5) for irrep in irreps])[:, None]
    return np.asarray(2 * factors * (3 * group.order * dimensions) ** -1.5 * (dimensions - group.characters.real))


def margin_game(group: Group) -> MarginGame:
    """Return the largest normalised margin on composition in any finite group, by linear programming.

    Formula: gamma* = max_p min_t p^T P t over shares p and weights t_n = |C_n| tau_n, P of ``margin_payoffs``.
    Source: derived here; it replaces the search of the thesis' appendix D.9.2.

    Args:
        group: any finite group of two elements or more.
    """
    require(group.order >= 2, "a group must have at least two elements", order=group.order)
    return _solved(group)


@lru_cache(maxsize=256)
def _solved(group: Group) -> MarginGame:
    value, rows, columns = _played(margin_payoffs(group)[1:, 1:])
    shares = folded(group, _split(np.append(0.0, rows)))
    weights = _split(np.append(0.0, columns))
    weights = (weights + weights[inverse_classes(group)]) / 2
    tau = weights / group.class_sizes
    for shared in (shares, tau):
        shared.setflags(write=False)
    return MarginGame(
        value=value,
        shares=shares,
        weighting=tau,
        irreps=_named(tuple(irrep.name for irrep in group.irreps), shares > 0),
        classes=_named(group.class_names, weights > 0),
    )


def game_value(payoff: Float[Any, "rows columns"]) -> float:
    """Return the value of a matrix game, by linear programming.

    ``margin_payoffs`` without the row of an irrep is the game of networks that lack it.

    Formula: max_p min_t p^T P t over probabilities p and t.
    Source: von Neumann (1928).

    Args:
        payoff: P, the gains of the player who chooses rows and maximises.
    """
    table = np.asarray(payoff, float)
    require(table.ndim == 2 and table.size > 0, "payoff must be a matrix", shape=table.shape)
    require(bool(np.isfinite(table).all()) and np.abs(table).max() > 0, "payoffs must be finite and not all 0")
    return _played(table)[0]


def _played(payoff: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the value of a matrix game and both strategies, before rounding is removed."""
    from scipy.optimize import linprog

    require(payoff.size <= LARGEST_GAME, f"payoff must have at most {LARGEST_GAME} entries", shape=payoff.shape)
    scale, count = np.abs(payoff).max(), len(payoff)
    # variables: the shares, then the value; minimise its negative under value <= payoff of every class
    found = linprog(
        np.append(np.zeros(count), -1.0),
        A_ub=np.column_stack([-payoff.T / scale, np.ones(payoff.shape[1])]),
        b_ub=np.zeros(payoff.shape[1]),
        A_eq=np.append(np.ones(count), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * count + [(None, None)],
        method="highs-ds",
    )
    if not found.success:  # pragma: no cover
        raise ArithmeticError(f"the linear program of a game must be solved: {found.message}")
    return float(found.x[count] * scale), found.x[:count], -found.ineqlin.marginals


@dataclass(frozen=True, eq=False)
class SubsetSolution:
    """One choice of irreps and classes under which the thesis' general theorem holds.

    Args:
        irreps: names of the irreps in use, kappa_R.
        classes: names of the classes on the margin, kappa_C.
        scaling: lambda of each irrep, of sum 1, shape (subset,).
        weighting: tau of each class, per element, shape (subset,).
        shares: the share of sum ||omega||^3 of each irrep, proportional to lambda d^1.5, shape (subset,).
        value: gamma*.
    """

    irreps: tuple[str, ...]
    classes: tuple[str, ...]
    scaling: Float[np.ndarray, " subset"]
    weighting: Float[np.ndarray, " subset"]
    shares: Float[np.ndarray, " subset"]
    value: float


def margin_subsets(group: Group) -> list[SubsetSolution]:
    """Return all choices of irreps and classes under which the thesis' general theorem holds.

    Each gives a network of the largest margin, made of these irreps alone and with these classes on the margin. All
    pairs of subsets are tried. The thesis prints the weights' sum without the sizes of the classes, and a scaling of
    sum 1, which normalises shares but not the norm.

    Formula: d_m^(-1/2) (1 - sum_{n in kappa_C} tau_n |C_n| chi_m(C_n)/d_m) equal over kappa_R and nowhere larger,
        sum |C_n| tau_n = 1; sum_{m in kappa_R} lambda_m chi_m(C_n) equal over kappa_C and nowhere larger,
        sum lambda_m = 1; all at least 0.
    Source: thesis, appendix D.9.2.

    Args:
        group: the group, of at most 11 classes.
    """
    table = characters_of(group)
    count = len(table.sizes) - 1
    require(count < LARGEST_CLASSES, f"classes must be at most {LARGEST_CLASSES} to try all subsets", classes=count + 1)
    payoff = margin_payoffs(group)[1:, 1:]
    unit = payoff / payoff.max()
    found: list[SubsetSolution] = []
    for size in range(1, count + 1):
        subsets = np.array(list(itertools.combinations(range(count), size)))
        for rows in subsets:
            found += [
                _solution(table, payoff, rows, columns, shares, weights)
                for columns, shares, weights in _equilibria(unit, rows, subsets)
            ]
    return found


def _equilibria(
    payoff: np.ndarray, rows: np.ndarray, subsets: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return the columns, shares and weights of equalising strategies on these rows that are optimal."""
    size, slack = len(rows), 1e-9
    blocks = payoff[rows][:, subsets].transpose(1, 0, 2)
    system = np.zeros((len(subsets), size + 1, size + 1))
    system[:, :size, :size] = blocks
    system[:, :size, size] = -1
    system[:, size, :size] = 1
    regular = np.abs(np.linalg.det(system)) > 1e-12
    columns, system = subsets[regular], system[regular]
    if not len(columns):
        return []
    right = np.zeros((size + 1, 1))
    right[size] = 1
    weights = np.linalg.solve(system, right[None])[..., 0]
    system[:, :size, :size] = system[:, :size, :size].transpose(0, 2, 1)
    shares = np.linalg.solve(system, right[None])[..., 0]
    fits = (weights[:, :size].min(axis=1) > -slack) & (shares[:, :size].min(axis=1) > -slack)
    found = []
    for subset, share, weight in zip(columns[fits], shares[fits], weights[fits], strict=True):
        value = share[size]
        best_row = (payoff[:, subset] @ weight[:size]).max() <= value + slack
        worst_column = (share[:size] @ payoff[rows]).min() >= value - slack
        if best_row and worst_column:
            found.append((subset, share[:size], weight[:size]))
    return found


def _solution(
    table: CharacterTable,
    payoff: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    shares: np.ndarray,
    weights: np.ndarray,
) -> SubsetSolution:
    scaling = shares * table.dimensions[1:][rows] ** -1.5
    return SubsetSolution(
        irreps=tuple(table.irrep_names[1 + row] for row in rows),
        classes=tuple(table.class_names[1 + column] for column in columns),
        scaling=scaling / scaling.sum(),
        weighting=weights / table.sizes[1:][columns],
        shares=shares,
        value=float(shares @ payoff[np.ix_(rows, columns)] @ weights),
    )


def _split(parts: np.ndarray) -> np.ndarray:
    """Return shares that sum to 1, with a linear program's rounding of zeros removed."""
    kept = np.where(parts > _LEAST, parts, 0.0)
    return np.asarray(kept / kept.sum())


def _named(names: tuple[str, ...], used: np.ndarray) -> tuple[str, ...]:
    return tuple(name for name, is_used in zip(names, used, strict=True) if is_used)
