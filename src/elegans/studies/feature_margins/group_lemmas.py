"""The lemmas behind theorem 7.9, each formula against enumeration, as printed and as corrected.

Source: thesis, appendices D.8.1 and D.9.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from elegans.experiments.checks import check
from elegans.groups import Group
from elegans.random import stream
from elegans.studies.feature_margins.theory.characters import characters_of
from elegans.studies.feature_margins.theory.groups import (
    group_logits,
    group_maximum_margin,
    group_positivity,
    group_shares,
    group_weighting,
    irrep_scores,
)
from elegans.studies.feature_margins.theory.harmonics import (
    group_basis,
    group_coefficients,
    group_construction,
    group_errors,
    group_objective,
    irrep_construction,
    irrep_neuron_scale,
    random_group_neurons,
)

LEMMAS = "margins/group-lemmas-as-printed"
LARGEST_ENUMERATED = 24
"""The largest order at which all pairs of a group's elements are gone through."""
AGREES = 1e-10
"""The relative deviation of a sum over all pairs that rounding explains."""
DRAWS = 20
"""The number of random vectors per group."""
CLASSES = ("e", "(12)", "(12)(34)", "(123)", "(1234)", "(12345)", "(12)(345)")
"""The columns of the printed character table of S_5."""
TABLE_D1 = {
    "trivial": (1, 1, 1, 1, 1, 1, 1),
    "sign": (1, -1, 1, 1, -1, 1, -1),
    "standard": (4, -2, 0, 1, 0, -1, 1),
    "standard⊗sign": (4, 2, 0, 1, 0, -1, -1),
    "(3,2)": (5, 1, 1, -1, -1, 0, 1),
    "(2,2,1)": (5, -1, 1, -1, 1, 0, -1),
    "(3,1,1)": (6, 0, -2, 0, 0, 1, 0),
}
"""The printed character table of S_5; the last three irreps are printed as 5d_a, 5d_b and 6d."""
EXCHANGED = {"standard": "standard⊗sign", "standard⊗sign": "standard"}


def group_lemmas(symmetric: list[Group], first_seed: int) -> Iterator[dict[str, Any]]:
    """Yield the checks of all formulas on some groups, with vectors drawn from a first seed, and of table D.1."""
    deviations: dict[str, list[Any]] = {}
    for group in symmetric:
        drawn = (*_basis(group, first_seed), *_objective(group, first_seed))
        for name, values in (*drawn, *_weights(group), *_construction(group)):
            deviations.setdefault(name, []).append(np.atleast_1d(np.asarray(values, float)).ravel())
    for name, values in deviations.items():
        yield check(LEMMAS, name, np.concatenate(values), AGREES)
    table = characters_of(Group.parse("S5"))
    exact = table.characters[:, [table.class_names.index(name) for name in CLASSES]]
    labels = [table.irrep_names.index(name) for name in TABLE_D1]
    exchanged = [table.irrep_names.index(EXCHANGED.get(name, name)) for name in TABLE_D1]
    printed = np.array(list(TABLE_D1.values()))
    yield check(LEMMAS, "table D.1, as printed", np.abs(printed - exact[labels]), AGREES)
    yield check(LEMMAS, "table D.1 with two labels exchanged", np.abs(printed - exact[exchanged]), AGREES)


def _basis(group: Group, first_seed: int) -> Iterator[tuple[str, Any]]:
    """Yield Lemmas D.10 and D.12."""
    basis = group_basis(group)
    dimensions = np.concatenate([np.full(each.dimension**2, each.dimension) for each in group.irreps])
    yield (
        "D.10: basis vectors are orthogonal, of length |G|/d",
        np.abs(basis @ basis.T - np.diag(group.order / dimensions)),
    )
    sums = [
        irrep.matrices[members].sum(axis=0) - len(members) * irrep.character[place] / d * np.eye(d)
        for irrep in group.irreps
        for d in [irrep.dimension]
        for place, members in enumerate(group.classes)
    ]
    yield "D.10: class sums are multiples of the identity", np.concatenate([np.abs(one).ravel() for one in sums])
    u = np.random.default_rng([1, first_seed]).normal(size=(DRAWS, group.order))
    parts = [(group.order / alpha.shape[-1]) * (alpha**2).sum(axis=(1, 2)) for alpha in group_coefficients(group, u)]
    yield "D.12: squared length from coefficients", np.abs(sum(parts) / (u**2).sum(axis=1) - 1)


def _objective(group: Group, first_seed: int) -> Iterator[tuple[str, Any]]:
    """Yield Lemmas D.11 and D.13, for the term u(a) v(b) as stated and for the square of the network."""
    generator = np.random.default_rng([2, first_seed])
    raw = generator.uniform(size=len(group.classes))
    tau = raw / (raw[1:] @ group.class_sizes[1:])
    u, v, w = generator.normal(size=(3, 4, group.order))
    scale = np.sqrt((u**2).sum(axis=1) * (v**2).sum(axis=1) * (w**2).sum(axis=1))
    formula = group_objective(group, u, v, w, tau) / 2
    yield "D.11: margin of u(a) v(b) from coefficients", np.abs(formula - _crossed(group, u, v, w, tau)) / scale
    errors = group_errors(group, u, v, w)
    squares = errors[:, 0] - errors[:, 1:] @ tau[group.class_of][1:]
    yield "D.11: margin of (u(a) + v(b))^2, as printed", np.abs(formula - squares) / scale
    yield "D.11 twice: margin of (u(a) + v(b))^2", np.abs(2 * formula - squares) / scale
    printed, corrected = irrep_scores(group, tau, form="printed"), irrep_scores(group, tau)
    for place in range(1, len(group.irreps)):
        one = random_group_neurons(group, place, 2, stream(first_seed + place, "probe"))
        crossed = _crossed(group, one.u, one.v, one.w, tau)
        yield "D.13: largest margin of one irrep, of u(a) v(b)", np.abs(crossed / printed[place] - 1)
        yield "D.13: of (u(a) + v(b))^2, as printed", np.abs(2 * crossed / printed[place] - 1)
        yield "D.13 twice: of (u(a) + v(b))^2", np.abs(2 * crossed / corrected[place] - 1)


def _crossed(group: Group, u: np.ndarray, v: np.ndarray, w: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Return the expected class-weighted margin of u(a) v(b) w, by going through all pairs."""
    by_error = np.stack(
        [np.einsum("na,nb,nab->n", u, v, w[:, group.table[group.table, c]]) for c in range(group.order)]
    )
    weights = -tau[group.class_of]
    weights[0] = 1
    return np.asarray(weights @ by_error / group.order**2)


def _weights(group: Group) -> Iterator[tuple[str, Any]]:
    """Yield Lemma D.14."""
    for form, name in (("corrected", "corrected"), ("printed", "as printed")):
        tau = group_weighting(group, form=form)  # type: ignore[arg-type]
        yield f"D.14: weights of all wrong labels sum to 1, {name}", abs(tau @ group.class_sizes - 1)
        yield f"D.14: weights are not negative, {name}", max(0.0, -tau.min())
    scores = irrep_scores(group, group_weighting(group))[1:]
    yield "D.14: all irreps have the same score", np.abs(scores / group_maximum_margin(group) - 1)
    tau = group_weighting(group)[1:]
    yield "D.14: weights sum to 1 without the sizes of classes, as printed", abs(tau.sum() - 1)


def _construction(group: Group) -> Iterator[tuple[str, Any]]:
    """Yield Lemmas D.15 and D.16."""
    table, total = characters_of(group), 0.0
    for place in range(1, len(group.irreps)):
        unit = irrep_construction(group, place)
        yield "D.15: neurons have norm 1, corrected", np.abs(unit.norms - 1)
        printed = irrep_neuron_scale(group, place, form="printed") / irrep_neuron_scale(group, place)
        yield "D.15: neurons have norm 1, as printed", np.abs(printed * unit.norms - 1)
        if group.order <= LARGEST_ENUMERATED:
            logits, size = unit.logits(), irrep_neuron_scale(group, place) ** 3
            errors = group.table[group.table][..., group.inverses].reshape(-1, group.order)
            character = table.characters[place][group.class_of[errors]]
            yield "D.15: output 4 kappa^3 chi(abc^-1), corrected", np.abs(logits - 4 * size * character)
            yield "D.15: output kappa^3 chi(abc^-1), as printed", np.abs(logits - size * character)
        total += table.dimensions[place] ** 2.5
    right, wrong = group_logits(group)
    network = group_construction(group, group_shares(group))
    if group.order <= LARGEST_ENUMERATED:
        logits = network.logits()
        correct = np.eye(group.order, dtype=bool)[group.table.ravel()]
        yield (
            "D.16: right and wrong logits, with the constant",
            np.abs(logits - np.where(correct, right, wrong)) / right,
        )
    yield "D.16: right logits are |G| - 1 times the wrong ones", abs(right / wrong + group.order - 1)
    yield "D.16: wrong logits without the constant, as printed", abs(-1 / (2 * group_positivity(group)[0]) / wrong - 1)
    yield "D.16: Delta^3 = 2 sum d^2.5", abs(group_positivity(group)[0] - total) / total
