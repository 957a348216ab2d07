"""The limits of the closed form for groups: the condition of theorem 7.9, and the largest margins where it fails.

Source: thesis, section 7.6.2 and appendix D.9.2.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from elegans.experiments import Claim, Experiment, Results, Tables
from elegans.experiments.checks import COMPUTED, check, checks
from elegans.experiments.rules import theorem
from elegans.groups import Group
from elegans.studies.feature_margins.theory.characters import characters_of
from elegans.studies.feature_margins.theory.game import (
    LARGEST_CLASSES,
    MarginGame,
    margin_game,
    margin_payoffs,
    margin_subsets,
)
from elegans.studies.feature_margins.theory.groups import group_positivity
from elegans.studies.feature_margins.theory.penalty import group_penalised_optimum

CONDITION, SUBSET = "margins/condition-holds-up-to-s5", "margins/general-groups-use-a-subset"
BEYOND = "beyond the claims/A5 at a penalty of 1e-7"
SIZES = {"smoke": range(2, 7), "paper": range(2, 9)}
LAST = 5
"""S_k satisfies the condition up to this k."""
VIOLATING = {"smoke": ("A5",), "paper": ("A5", "S6", "S7", "S8")}
AGREES = 1e-9
"""The residual of an equation solved by a linear program, relative to the value."""
CLEARLY = 1e-6
"""By how much an irrep's score has to be below the value, or a class's margin above it, to be left out."""


def analyse(results: Results) -> Tables:
    """Return the table ``checks``."""
    largest = {k: group_positivity(Group.parse(f"S{k}"))[1:].max() for k in SIZES[results.scale]}
    inside = [value for k, value in largest.items() if k <= LAST]
    outside = [-value for k, value in largest.items() if k > LAST]
    rows = [
        check(CONDITION, "largest sum of a class, S2 to S5", inside, np.nextafter(0, -1)),
        check(CONDITION, "least sum of the worst class, from S6 on, negated", outside, 0),
    ]
    for name in VIOLATING[results.scale]:
        rows += _subsets(Group.parse(name))
    group = Group.parse("A5")
    share = group_penalised_optimum(group, 1e-7).shares[[irrep.dimension == 5 for irrep in group.irreps]]
    rows.append(check(BEYOND, "the minimiser's share of the irrep of dimension 5", share, 0.01))
    return checks(rows)


def _subsets(group: Group) -> Iterator[dict[str, Any]]:
    """Yield which irreps and classes the largest margin uses, and whether the general theorem covers them."""
    name, game, table = group.name, margin_game(group), characters_of(group)
    payoff = margin_payoffs(group)[1:, 1:] / game.value
    # complementary slackness: no maximiser uses such an irrep, and no such class is on the margin of this one
    worse = payoff @ (game.weighting * table.sizes)[1:] < 1 - CLEARLY
    off = game.shares[1:] @ payoff > 1 + CLEARLY
    yield check(SUBSET, f"{name}: irreps below the value, none missing", -float(worse.sum()), -1)
    yield check(SUBSET, f"{name}: classes off the margin, none missing", -float(off.sum()), -1)
    choices = list(_choices(group, game))
    yield check(SUBSET, f"{name}: choices of as many irreps as classes, none missing", -float(len(choices)), -1)
    gaps = [gap for choice in choices for gap in _conditions(group, *choice, game.value)]
    yield check(SUBSET, f"{name}: the three conditions of the choice, and its value", gaps, AGREES)
    printed = _printed_sum(group, *choices[0][:2])
    if np.isfinite(printed):
        yield check(SUBSET, f"{name}: weights sum to 1 over labels, as printed", printed, AGREES)


Choice = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Indices of irreps and of classes, not counting the trivial ones; shares of the irreps and weights of the classes."""


def _choices(group: Group, game: MarginGame) -> Iterator[Choice]:
    """Yield choices of as many irreps as classes: all of them, or, in a group of many classes, the game's."""
    table = characters_of(group)
    if len(table.class_names) <= LARGEST_CLASSES:
        for one in margin_subsets(group):
            rows = np.array([table.irrep_names.index(each) - 1 for each in one.irreps])
            columns = np.array([table.class_names.index(each) - 1 for each in one.classes])
            yield rows, columns, one.shares, one.weighting * table.sizes[1:][columns]
        return
    weights = (game.weighting * table.sizes)[1:]
    rows, columns = np.flatnonzero(game.shares[1:]), np.flatnonzero(weights)
    # classes of weight 0 and irreps without a share may be in the choice if they tie with the others
    payoff = margin_payoffs(group)[1:, 1:] / game.value
    tied_rows = np.setdiff1d(np.flatnonzero(payoff @ weights > 1 - AGREES), rows)
    tied_columns = np.setdiff1d(np.flatnonzero(game.shares[1:] @ payoff < 1 + AGREES), columns)
    size = max(len(rows), len(columns))
    rows = np.append(rows, tied_rows[: size - len(rows)])
    columns = np.append(columns, tied_columns[: size - len(columns)])
    yield rows, columns, game.shares[1:][rows], weights[columns]


def _conditions(
    group: Group, rows: np.ndarray, columns: np.ndarray, shares: np.ndarray, weights: np.ndarray, value: float
) -> Iterator[float]:
    """Yield by how much a choice violates the conditions of the general theorem, as shares of the largest margin."""
    payoff = margin_payoffs(group)[1:, 1:] / value
    yield float(abs(len(rows) - len(columns)))
    yield float(max(-shares.min(), -weights.min(), abs(shares.sum() - 1), abs(weights.sum() - 1)))
    yield float(np.abs(payoff[np.ix_(rows, columns)] @ weights - 1).max())
    yield float(np.abs(shares @ payoff[np.ix_(rows, columns)] - 1).max())
    yield float((payoff[:, columns] @ weights).max() - 1)
    yield float(1 - (shares @ payoff[rows]).min())


def _printed_sum(group: Group, rows: np.ndarray, columns: np.ndarray) -> float:
    """Return how far weights normalised as printed, sum tau = 1, are from summing to 1 over all wrong labels.

    Nan where the printed system has no unique solution.
    """
    table = characters_of(group)
    dimensions, sizes = table.dimensions[1:][rows], table.sizes[1:][columns]
    characters = table.characters[1:, 1:][np.ix_(rows, columns)]
    # d^(-1/2) (1 - sum_n tau_n |C_n| chi(C_n) / d) = level for all irreps, and sum_n tau_n = 1
    system = np.zeros((len(dimensions) + 1, len(sizes) + 1))
    system[:-1, :-1] = characters * sizes / dimensions[:, None] ** 1.5
    system[:-1, -1] = 1
    system[-1, :-1] = 1
    if np.linalg.matrix_rank(system) < len(system):
        return np.nan
    tau = np.linalg.solve(system, np.append(dimensions**-0.5, 1))[:-1]
    return float(abs(tau @ sizes - 1))


EXPERIMENT = Experiment(
    name="character-condition",
    shows="The closed form for groups holds up to S_5; beyond it the largest margin leaves out irreps and classes",
    source="section 7.6.2, appendix D.9.2",
    scales={"smoke": COMPUTED, "paper": COMPUTED},
    analyse=analyse,
    claims=[
        Claim(
            id="margins/condition-holds-up-to-s5",
            statement="The symmetric groups up to S_5 satisfy the condition of theorem 7.9 on character sums, and S_6, "
            "S_7 and S_8 do not.",
            source="section 7.6.2",
            setting='S_k; the source only says "up until k = 5", which implies that S_6 fails',
            rule="The sums of d^1.5 chi per non-trivial class of S_2 to S_8: holds if all are negative for k <= 5 and "
            "one is not for each of k = 6, 7 and 8, fails otherwise. No sampling error.",
            decide=theorem(CONDITION),
        ),
        Claim(
            id="margins/general-groups-use-a-subset",
            statement="In groups that violate the condition the neurons of a maximiser still lie in single irreps, "
            "but only some irreps occur and only some conjugacy classes are on the margin. The weights of the classes, "
            "which are printed as sum tau = 1, are normalised with the sizes of classes, sum |C| tau = 1.",
            source="section 7.6.2, appendix D.9.2",
            setting="abstract, without a named group; not stated: whether the linear systems always have an "
            "admissible solution",
            rule="The game between irreps and classes of A5, S6, S7 and S8, solved by linear programming: at least "
            "one irrep scores less than the value under the weights of the classes, so no maximiser uses it, and at "
            "least one class has a larger margin than the value, so it is not on the margin (both by more than 1e-6 "
            "of the value); and as many irreps as classes satisfy the three printed conditions and have its value "
            "(1e-9). Holds with correction if this needs weights normalised with the sizes of classes. No sampling "
            "error.",
            revised="Classes of positive weight counted as those on the margin, but a class on the margin can have no "
            "weight. Irreps and classes are now counted as left out only if they are strictly worse. The verdict is "
            "the same.",
            decide=theorem(SUBSET, corrected="weights that are normalised over labels, with the sizes of classes"),
        ),
    ],
)
