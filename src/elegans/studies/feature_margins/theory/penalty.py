"""Minimisers of cross-entropy plus lambda ||theta||^r, exactly: their margins, masses and shares.

The penalised loss is L = mean cross-entropy + lambda ||theta||_{2,nu}^r. For r = nu it is a convex problem over
measures of neurons, whose optimum keeps the task's symmetries. So the optimum has, in each frequency or irrep, the
neurons of the largest margin, and it remains to find how much mass, sum_i ||omega_i||^nu, each gets. Their normalised
margin tends to the largest as lambda falls. It bounds no other network: one whose loss is slightly larger may have a
larger normalised margin.

For other r the best split of a given mass equals the split for r = nu at another lambda, and one number remains, the
mass. For r > nu the loss is convex in it; for r < nu the zero network is a local minimum, and the other minimum is
first searched for on a grid of 200 masses.

Source of all functions: derived here, for the objective of the thesis' section 7.2; its limit for small penalties is
Theorem 4.1 of Wei, Lee, Liu and Ma (2019).

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    penalty: lambda, positive.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from elegans.calculators.domain import Listed, require, require_positive
from elegans.groups import Group
from elegans.studies.feature_margins.theory.characters import conjugate_irreps
from elegans.studies.feature_margins.theory.cyclic import cyclic_maximum_margin
from elegans.studies.feature_margins.theory.game import margin_game, margin_payoffs
from elegans.studies.feature_margins.theory.groups import group_weighting
from elegans.studies.feature_margins.theory.parity import parity_maximum_margin

_MASSES = 200
_STEPS = 20_000
_DEEPEST = 1e-40
"""The smallest multiplier tried, as a share of the threshold."""


@dataclass(frozen=True, eq=False)
class PenalisedOptimum:
    """A global minimum of cross-entropy plus penalty.

    Args:
        loss: the penalised loss.
        mass: sum_i ||omega_i||^nu; 0 where the zero network is best.
        margin: the smallest margin.
        ratio: the normalised margin, margin / mass, as a share of the largest, gamma*; nan for the zero network.
        error_probability: one minus the softmax probability of the correct label, the same at every example.
        shares: of the mass: of each frequency, of each irrep (as in ``MarginGame``), or for parities [1].
        class_margins: the margin against each class of wrong labels, shape (classes,), infinite for the identity; for
            addition and parities one number.
    """

    loss: float
    mass: float
    margin: float
    ratio: float
    error_probability: float
    shares: Float[np.ndarray, " parts"]
    class_margins: Float[np.ndarray, " classes"]


def penalty_threshold(gamma: float, labels: int) -> float:
    """Return the penalty from which on the zero network is best, if all wrong labels are equivalent and r = nu.

    Formula: gamma* (|Y| - 1) / |Y|.
    Source: derived here.
    """
    require_positive("the largest margin", gamma=gamma)
    require(labels >= 2, "labels must be at least 2", labels=labels)
    return gamma * (labels - 1) / labels


def cyclic_penalised_optimum(p: Listed, penalty: float, exponent: float = 3) -> PenalisedOptimum:
    """Return the best penalised loss of quadratic networks on addition mod p, and the network that has it.

    It is a multiple of the network of the largest margin at every penalty below the threshold, with a ratio of 1.

    Formula: r = 3: error probability eps = lambda / gamma*, margin ln((p - 1) (1 - eps) / eps), mass margin / gamma*.
    Source: derived here.

    Args:
        p: the modulus, odd and at least 3.
        exponent: r, positive, of ||theta||_{2,3}^r.
    """
    frequencies = (p - 1) // 2
    shares = np.full(frequencies, 1 / max(1, frequencies))
    return _alike(cyclic_maximum_margin(p), p, penalty, exponent / 3, shares)


def parity_penalised_optimum(k: int, penalty: float, exponent: float | None = None) -> PenalisedOptimum:
    """Return the best penalised loss of networks of powers x^k on a k-sparse parity, and the network that has it.

    It is a multiple of the network of the largest margin at every penalty below the threshold.

    Formula: r = k + 1: error probability eps = lambda / gamma*, margin ln((1 - eps) / eps), mass margin / gamma*.
    Source: derived here.

    Args:
        k: the size of the support, at least 1.
        exponent: r, positive, of ||theta||_{2,k+1}^r; k + 1 by default.
    """
    power = 1.0 if exponent is None else exponent / (k + 1)
    return _alike(parity_maximum_margin(k), 2, penalty, power, np.ones(1))


def group_penalised_optimum(group: Group, penalty: float, exponent: float = 3) -> PenalisedOptimum:
    """Return the best penalised loss of quadratic networks on composition in a group, and the optimum's split of mass.

    Softmax weights wrong labels by their logits, unlike the largest margin, so the ratio is below 1 at every penalty
    (unless all irreps have dimension 1) and tends to 1 like 1 / ln(1/lambda). Irreps may be absent: the S_5 optimum has
    no neurons of the irrep of dimension 6 for penalties above 3.7e-8.

    Formula: min over b >= 0 of ln(sum_C |C| exp(F(C) - F(e))) + lambda sum_m b_m, with F = sum_m b_m 2 (3|G|)^(-3/2)
        d_m^(-3/2) chi_m; where all b are positive, the margins are ln((1 - eps) / (eps tau_C)), eps = lambda / gamma*.
    Source: derived here.

    Args:
        exponent: r, positive, of ||theta||_{2,3}^r.
    """
    partners, payoff, sizes = conjugate_irreps(group), margin_payoffs(group)[:, 1:], group.class_sizes[1:].astype(float)
    game = margin_game(group)
    chosen = np.flatnonzero(np.arange(len(partners)) <= partners)[1:]  # one of an irrep and its conjugate

    def at(multiplier: float) -> PenalisedOptimum:
        masses = np.zeros(len(payoff))
        level = math.log(max(2.0, game.value / multiplier))
        masses[chosen] = _best_masses(payoff[chosen], sizes, multiplier, level / game.value * game.shares[chosen])
        return _group_optimum(masses, payoff, sizes, game.value)

    return _best(at, group_penalty_threshold(group), penalty, exponent / 3)


def group_penalty_threshold(group: Group) -> float:
    """Return the penalty from which on the zero network is best for composition in a group, with r = 3.

    Formula: max_m sum_n |C_n| P[m, n] / |G|, P of ``margin_payoffs``: 2 (3|G|)^(-3/2) d^(-1/2) for real irreps, d the
        least dimension of a non-trivial one.
    Source: derived here.
    """
    return float((margin_payoffs(group) @ group.class_sizes).max() / group.order)


def group_penalty_crossings(group: Group) -> Float[np.ndarray, " irreps"]:
    """Return the penalty at which each irrep's part of the closed form reaches 0, for r = 3.

    Below the smallest of them (apart from the trivial irrep's) the optimum has every irrep and a closed form; above it
    that irrep is absent.

    Formula: b = P^(-T) M with M_C = ln((1 - eps) / (eps tau_C)); 0 at eps = 1 / (1 + exp(c_m / a_m)), a = P^(-T) 1,
        c = P^(-T) ln tau, lambda = gamma* eps.
    Source: derived here.

    Returns:
        float64 of shape (irreps,), 0 for the trivial one.
    """
    weighting = group_weighting(group)[1:]
    inverse = np.linalg.inv(margin_payoffs(group)[1:, 1:].T)
    level = inverse @ np.log(weighting) / inverse.sum(axis=1)
    return np.append(0.0, margin_game(group).value / (1 + np.exp(level)))


def _alike(gamma: float, labels: int, penalty: float, power: float, shares: np.ndarray) -> PenalisedOptimum:
    """Return the optimum of a task whose wrong labels are all equivalent in the network of the largest margin."""
    threshold = penalty_threshold(gamma, labels)

    def at(multiplier: float) -> PenalisedOptimum:
        share = min(multiplier, threshold) / gamma
        margin = math.log((labels - 1) * (1 - share) / share) if multiplier < threshold else 0.0
        mass = margin / gamma
        ratio = 1.0 if mass else math.nan
        return PenalisedOptimum(-math.log1p(-share), mass, margin, ratio, share, shares, np.array([margin]))

    return _best(at, threshold, penalty, power)


def _best(at: Callable[[float], PenalisedOptimum], threshold: float, penalty: float, power: float) -> PenalisedOptimum:
    """Return the best network for a penalty on a power of the mass.

    ``at`` gives, for a multiplier of the mass, the network that is best under it, with its cross-entropy for loss.
    """
    require_positive("the penalty", penalty=penalty, exponent=power)
    if power == 1:
        return _penalised(at(penalty), penalty, power)
    from scipy.optimize import brentq

    def slope(log_multiplier: float) -> float:
        """Return a number with the sign of the loss's derivative in the mass."""
        mass = max(at(math.exp(log_multiplier)).mass, 1e-300)
        return math.log(penalty * power) + (power - 1) * math.log(mass) - log_multiplier

    least, most = math.log(threshold * _DEEPEST), math.log(threshold)
    if power < 1:  # the zero network is a local minimum, and there may be another
        least = max(least, least + slope(least))
        grid = np.linspace(most, least, _MASSES + 1)
        place = int(np.argmin([_penalised(at(math.exp(each)), penalty, power).loss for each in grid]))
        if place == 0:
            return _penalised(at(2 * threshold), penalty, power)
        least, most = float(grid[min(place + 1, _MASSES)]), float(grid[place - 1])
    brackets = slope(least) >= 0 >= slope(most)
    require(brackets, "the penalty must have its optimum at margins that float64 can resolve", penalty=penalty)
    root = brentq(slope, least, most, xtol=1e-14)
    return _penalised(at(math.exp(root)), penalty, power)


def _penalised(network: PenalisedOptimum, penalty: float, power: float) -> PenalisedOptimum:
    return replace(network, loss=network.loss + penalty * network.mass**power)


def _group_optimum(masses: np.ndarray, payoff: np.ndarray, sizes: np.ndarray, gamma: float) -> PenalisedOptimum:
    total, margins = float(masses.sum()), masses @ payoff
    wrong = float((sizes * np.exp(-margins)).sum())
    least = float(margins.min())
    return PenalisedOptimum(
        loss=math.log1p(wrong),
        mass=total,
        margin=least,
        ratio=least / (gamma * total) if total else math.nan,
        error_probability=wrong / (1 + wrong),
        shares=masses / total if total else masses,
        class_margins=np.append(np.inf, margins),
    )


def _best_masses(payoff: np.ndarray, sizes: np.ndarray, multiplier: float, start: np.ndarray) -> np.ndarray:
    """Return the mass of each irrep, by an active-set method after Lawson and Hanson.

    Irreps enter one by one where the loss falls fastest; within the set Newton's method finds the minimum, and an irrep
    whose mass would become negative leaves.
    """
    scale = payoff.max()
    unit, level = payoff / scale, multiplier / scale
    inside = start > 0
    masses = _settle(unit, sizes, level, scale * start, inside)
    for _ in range(50 * len(unit)):
        slopes = level - unit @ _softmax(unit, sizes, masses)
        slopes[inside] = 0
        if slopes.min() >= -1e-11 * level:
            return np.asarray(masses / scale)
        inside[slopes.argmin()] = True
        masses = _settle(unit, sizes, level, masses, inside)
    raise ArithmeticError(f"the active set must converge: penalty={multiplier}, irreps={len(unit)}")  # pragma: no cover


def _settle(unit: np.ndarray, sizes: np.ndarray, level: float, masses: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Return the best masses of the irreps in the active set, by damped Newton steps that remove irreps of mass 0.

    No margin moves by more than 1/4 per step, so every step lowers the loss: its curvature changes by no more than
    a factor exp(1/2) on the way. An irrep that has left is not reconsidered until the others have converged without it.
    """
    last = math.inf
    for _ in range(_STEPS):
        if not inside.any():
            return np.zeros_like(masses)
        rows, now = unit[inside], masses[inside]
        chance = _softmax(rows, sizes, now)
        pull = rows @ chance
        step = -np.linalg.solve((rows * chance) @ rows.T - np.outer(pull, pull), level - pull)
        reach = float(np.abs(step @ rows).max())
        step *= min(1.0, 0.25 / max(reach, 1e-300))
        falls = now + step <= 0
        if falls.any():
            step *= (now[falls] / -step[falls]).min()
        moved = now + step
        moved[falls & (moved <= 1e-13 * moved.max())] = 0
        masses = np.zeros_like(masses)
        masses[inside] = moved
        inside &= masses > 0
        if (
            not falls.any() and reach < 1e-6 and reach >= last / 2
        ):  # only rounding is left: steps shrank quadratically before
            return masses
        last = reach
    raise ArithmeticError(
        f"Newton's method must converge: multiplier={level}, irreps={inside.sum()}"
    )  # pragma: no cover


def _softmax(rows: np.ndarray, sizes: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the probability of each class of wrong labels."""
    logs = np.log(sizes) - x @ rows
    top = max(0.0, float(logs.max()))
    parts = np.exp(logs - top)
    return np.asarray(parts / (math.exp(-top) + parts.sum()))
