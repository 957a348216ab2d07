"""Composition in finite groups with real representations: the largest margin, in closed form from the characters.

The closed form rests on a condition, *positivity*: sum_R d_R^1.5 chi_R(C) < 0 over non-trivial R, for every non-trivial
class C. It holds for S_2 to S_5, dihedral groups and powers of Z_2, and fails for A_5, S_6, S_7 and S_8; there
``margin_game`` has the answer. Arrays over irreps start with the trivial one, arrays over classes with the identity's.

Arguments outside a theorem's hypotheses raise ``TheoryError``. Where the closed form is needed, irreps that are not
real raise ``GroupError``.
"""

import math
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from elegans.calculators.domain import Form, require, require_form
from elegans.groups import Group
from elegans.studies.feature_margins.theory.characters import CharacterTable, characters_of, conjugate_irreps


def group_positivity(group: Group) -> Float[np.ndarray, " classes"]:
    """Return the sums that have to be negative for the closed form to hold.

    Formula: sum_{n >= 2} d_n^1.5 chi_n(C), negative for every C but the identity's.
    Source: thesis, Theorem 7.9.

    Returns:
        float64 of shape (classes,); the first is sum d^2.5.
    """
    table = characters_of(group)
    return np.asarray(table.dimensions[1:] ** 1.5 @ table.characters[1:])


def group_maximum_margin(group: Group) -> float:
    """Return the largest normalised margin of quadratic networks on composition in a group, in closed form.

    Formula: gamma* = 2 / (3 sqrt(3 |G|) sum_{n >= 2} d_n^2.5).
    Source: thesis, Theorem 7.9.
    """
    require_positivity(group)
    return float(2 / (3 * math.sqrt(3 * group.order) * group_positivity(group)[0]))


def group_width(group: Group) -> int:
    """Return the number of neurons in the construction of the largest margin, if it has all irreps.

    Formula: 2 sum d^3 over non-trivial irreps; 8 d^3 for an irrep that is not real, together with its conjugate.
    Source: thesis, Theorem 7.9; for irreps that are not real derived here.
    """
    return int(irrep_widths(group).sum())


def irrep_widths(group: Group) -> Int64[np.ndarray, " irreps"]:
    """Return how many neurons compute the real part of each irrep's character, at the first of two conjugates.

    Formula: 2 d^3 for a real irrep, 8 d^3 for others, 0 for the trivial one.
    Source: thesis, Lemma D.15; for irreps that are not real derived here.
    """
    widths = np.array([(2 if irrep.indicator == 1 else 8) * irrep.dimension**3 for irrep in group.irreps])
    widths[conjugate_irreps(group) < np.arange(len(widths))] = 0
    widths[0] = 0
    return widths


def group_shares(group: Group) -> Float[np.ndarray, " irreps"]:
    """Return the share of sum ||omega||^3 of each representation in any network of the largest margin.

    Formula: d_R^2.5 / sum_{n >= 2} d_n^2.5, and 0 for the trivial one.
    Source: derived here from the thesis' Theorem 7.9.

    Returns:
        float64 of shape (irreps,), of sum 1.
    """
    require_positivity(group)
    weights = characters_of(group).dimensions ** 2.5
    weights[0] = 0
    return np.asarray(weights / weights.sum())


def group_weighting(group: Group, form: Form = "corrected") -> Float[np.ndarray, " classes"]:
    """Return the weights of wrong labels under which every representation's neurons are equally good.

    A wrong label ab o c has the weight of c's class. The thesis prints the opposite sign, which makes weights negative,
    and its proof has 1 / z_sign instead of z_sign.

    Formula: tau_C = -sum_{n >= 2} d_n^1.5 chi_n(C) / sum_{m >= 2} d_m^2.5 per element; sum_{C != {e}} |C| tau_C = 1;
        printed: without the minus sign.
    Source: thesis, Lemma D.14.

    Args:
        form: "corrected", or "printed" for the thesis' sign.

    Returns:
        float64 of shape (classes,), 0 at the identity.
    """
    require_form(form)
    require_positivity(group)
    sums = group_positivity(group)
    weights = sums / sums[0] * (-1 if form == "corrected" else 1)
    weights[0] = 0
    return np.asarray(weights)


def irrep_scores(group: Group, weighting: Any, form: Form = "corrected") -> Float[np.ndarray, " irreps"]:
    """Return the largest expected class-weighted margin of neurons of norm 1 in each representation.

    The largest of them bounds the normalised margin of every network. The thesis' value is the value of the cross term
    u(a) v(b), which counts twice in (u(a) + v(b))^2.

    Formula: 2 / (3 sqrt(3) |G|^(3/2)) d^(-1/2) [1 - sum_{C != {e}} tau_C |C| chi(C)/d]; printed: without the 2.
    Source: thesis, Lemma D.13.

    Args:
        weighting: tau of each class, per element, shape (classes,); its first entry is ignored.
        form: "corrected", or "printed" for the thesis' factor.

    Returns:
        float64 of shape (irreps,), 0 for the trivial one.
    """
    require_form(form)
    table = characters_of(group)
    tau = class_weights(table, weighting)
    dimensions = table.dimensions
    brackets = 1 - table.characters @ (tau * table.sizes) / dimensions
    factor = (2 if form == "corrected" else 1) / (3 * math.sqrt(3) * table.order**1.5)
    return np.asarray(factor * brackets / np.sqrt(dimensions))


def group_logits(group: Group) -> tuple[float, float]:
    """Return the correct and the wrong logits of the construction at norm 1.

    Formula: gamma* (|G| - 1)/|G| and -gamma*/|G|.
    Source: thesis, Lemma D.16, with its constant.
    """
    margin = group_maximum_margin(group)
    return margin * (group.order - 1) / group.order, -margin / group.order


def class_weights(table: CharacterTable, weighting: Any) -> np.ndarray:
    """Return weights of wrong labels by class with 0 at the identity, refusing anything else."""
    tau = np.array(weighting, float)
    require(tau.shape == table.sizes.shape, "weighting must have one number per class", shape=tau.shape)
    tau[0] = 0
    total = float(tau @ table.sizes)
    require(abs(total - 1) < 1e-9, "weights must sum to 1 over wrong labels (section 7.3)", total=total)
    return tau


def require_positivity(group: Group) -> None:
    """Refuse a group without positivity, naming the classes where it fails."""
    sums = group_positivity(group)[1:]
    failing = {name: float(value) for name, value in zip(group.class_names[1:], sums, strict=True) if value >= 0}
    rule = (
        "sum d^1.5 chi(C) must be negative for every non-trivial class (Theorem 7.9; margin_game does not require this)"
    )
    require(not failing, rule, failing=failing)
