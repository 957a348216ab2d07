"""Weights on a group as coefficients of its irreps: the single-neuron problem, and neurons and networks that solve it.

For an irrep R of dimension d a vector u over the group has the coefficients alpha_R = (d/|G|) sum_g u(g) R(g), a d x d
matrix, so that u(g) = sum_R sum_ij alpha_R[i, j] R(g)[i, j]; beta_R and gamma_R are the coefficients of v and w. Lists
over irreps are in the group's order, the trivial one first. Coefficients need real irreps; neurons and networks take
any group.

Arguments outside a function's hypotheses or domain raise ``TheoryError``, irreps that are not real ``GroupError``.

Shared arguments:
    group: the group.
    irrep: the index of R among the irreps, at least 1.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from elegans import random
from elegans.calculators.domain import AtMost, Form, require, require_form
from elegans.groups import Group
from elegans.studies.feature_margins.theory.characters import characters_of, folded
from elegans.studies.feature_margins.theory.cyclic import QUARTERS
from elegans.studies.feature_margins.theory.game import margin_game
from elegans.studies.feature_margins.theory.groups import class_weights
from elegans.studies.feature_margins.theory.weights import PairWeights

LARGEST_PRODUCTS = 3 * 10**8
"""Entries of the products of neurons' vectors with an irrep's matrices."""


def group_coefficients(group: Group, u: Float[Any, "neurons order"]) -> list[Float[np.ndarray, "neurons d d"]]:
    """Return the coefficients of vectors over a group in the entries of its irreps.

    Formula: alpha_R = (d_R/|G|) sum_g u(g) R(g).
    Source: thesis, appendix D.9, from Lemma D.10.

    Returns:
        For each irrep, float64 of shape (neurons, d, d).
    """
    rows = _vectors(group, u)
    return [
        irrep.dimension / group.order * np.einsum("ng,gij->nij", rows, irrep.matrices, optimize=True)
        for irrep in group.real_irreps()
    ]


def group_vectors(group: Group, coefficients: Sequence[Any]) -> Float[np.ndarray, "neurons order"]:
    """Return the vectors over a group that have these coefficients.

    Formula: u(g) = sum_R tr(alpha_R^T R(g)).
    Source: thesis, appendix D.9.

    Args:
        coefficients: for each irrep an array of shape (neurons, d, d), as ``group_coefficients`` returns them.
    """
    irreps = group.real_irreps()
    require(len(coefficients) == len(irreps), "coefficients must be one array per irrep", arrays=len(coefficients))
    parts = (
        np.einsum("nij,gij->ng", np.asarray(alpha, float), irrep.matrices, optimize=True)
        for alpha, irrep in zip(coefficients, irreps, strict=True)
    )
    return np.asarray(sum(parts))


def group_powers(group: Group, u: Float[Any, "neurons order"]) -> Float[np.ndarray, "neurons irreps"]:
    """Return the squared length of the projection of vectors on each irrep; they add up to ||u||^2.

    Formula: P(R) = (|G|/d_R) ||alpha_R||_F^2.
    Source: thesis, Lemma D.12 and appendix D.3; for irreps that are not real the same.

    Returns:
        float64 of shape (neurons, irreps); the power of an irrep and its conjugate stands at the first of the two.
    """
    rows = _vectors(group, u)
    powers = [
        irrep.dimension / group.order * (np.abs(rows @ irrep.matrices.reshape(group.order, -1)) ** 2).sum(axis=1)
        for irrep in group.irreps
    ]
    return folded(group, np.stack(powers, axis=1))


def group_objective(group: Group, u: Any, v: Any, w: Any, weighting: Any) -> Float[np.ndarray, " neurons"]:
    """Return the expected class-weighted margin of single neurons, over uniform pairs.

    The thesis' lemma has the cross term u(a) v(b) w(abc), which counts twice in (u(a) + v(b))^2 w(abc).

    Formula: E psi' = 2 sum_{R != 1} [1 - sum_{C != {e}} tau_C |C| chi_R(C)/d_R] tr(alpha_R beta_R gamma_R^T) / d_R^2.
    Source: thesis, Lemma D.11.

    Args:
        u, v, w: weights of shape (neurons, order).
        weighting: tau of each class, per element, shape (classes,); its first entry is not read.
    """
    table = characters_of(group)
    weighed = class_weights(table, weighting) * table.sizes
    brackets = 1 - table.characters @ weighed / table.dimensions
    parts = zip(*(group_coefficients(group, part) for part in (u, v, w)), strict=True)
    traces = [np.einsum("nij,njk,nik->n", *each, optimize=True) / each[0].shape[-1] ** 2 for each in parts]
    return np.asarray(2 * sum(bracket * trace for bracket, trace in zip(brackets[1:], traces[1:], strict=True)))


def group_errors(group: Group, u: Any, v: Any, w: Any) -> Float[np.ndarray, "neurons order"]:
    """Return the expected logit of single neurons at every error, by enumerating all pairs.

    The single-neuron objective is h(e) - sum_{c != e} tau_c h(c); ``group_objective`` has it in closed form.

    Formula: h(c) = E_{a,b} [(u(a) + v(b))^2 w(abc)].
    Source: thesis, appendix D.9.

    Args:
        u, v, w: weights of shape (neurons, order).
    """
    first, second, third = (_vectors(group, part) for part in (u, v, w))
    squares = (first[:, :, None] + second[:, None, :]) ** 2
    # the sum of the squares over all pairs with product g
    by_product = np.stack([squares[:, group.table == g].sum(axis=1) for g in range(group.order)], axis=1)
    return np.asarray(np.einsum("ng,ngc->nc", by_product, third[:, group.table]) / group.order**2)


def group_neurons(group: Group, irrep: int, x: Any, y: Any, z: Any) -> PairWeights:
    """Return neurons of norm 1 that may appear in a network of the largest margin: rank one, with shared vectors.

    These are all such neurons of an irrep: x, y and z are to a group what phases that add up are to addition mod p.

    Formula: u(g) = s Re x* R(g) y, v(g) = s Re y* R(g) z, w(g) = s Re x* R(g) z, s = sqrt(d/(3|G|)), times sqrt(2) for
        an irrep that is not real.
    Source: derived here from the cases of equality of the thesis' Lemma D.13.

    Args:
        x, y, z: vectors of shape (neurons, d), not 0, real for a real irrep; they are scaled to length 1.
    """
    size = irrep_neuron_scale(group, irrep)
    matrices = group.irreps[irrep].matrices
    first, second, third = (_units(part, matrices) for part in (x, y, z))
    count, (order, d, _) = max(map(len, (first, second, third))), matrices.shape
    rule = f"neurons times |G| times d must be at most {LARGEST_PRODUCTS}"
    require(count * order * d <= LARGEST_PRODUCTS, rule, neurons=count, order=order, d=d)
    u, v, w = (
        size * np.einsum("ni,gij,nj->ng", left.conj(), matrices, right, optimize=True).real
        for left, right in ((first, second), (second, third), (first, third))
    )
    return PairWeights(u, v, w)


def random_group_neurons(
    group: Group, irrep: int, count: Annotated[int, AtMost(10_000)], key: random.Key
) -> PairWeights:
    """Return neurons of norm 1 at the optimum of the single-neuron problem, with vectors uniform on the sphere.

    Formula: as for ``group_neurons``.
    Source: derived here from the thesis' Lemma D.13.

    Args:
        irrep: the index of their irrep, at least 1.
    """
    chosen = group.irreps[_non_trivial(group, irrep)]
    index, column = np.arange(count, dtype=np.uint32)[:, None], np.arange(6 * chosen.dimension, dtype=np.uint32)
    real, imaginary = np.split(random.normal(key, index, lane=column).astype(float), 2, axis=1)
    vectors = real if chosen.indicator == 1 else real + 1j * imaginary
    return group_neurons(group, irrep, *np.split(vectors, 3, axis=1))


def irrep_neuron_scale(group: Group, irrep: int, form: Form = "corrected") -> float:
    """Return the common coefficient of u, v and w that gives a neuron of one entry of an irrep norm 1.

    The printed one gives a norm of d^(-1/2), for which the rescaling by d^(1/3)/Delta of Lemma D.16 is meant.

    Formula: kappa = sqrt(d/(3|G|)), times sqrt(2) for the real parts of an irrep that is not real; printed:
        1/sqrt(3|G|).
    Source: thesis, Lemma D.15; for irreps that are not real derived here.

    Args:
        form: "corrected", or "printed" for the thesis' coefficient.
    """
    require_form(form)
    chosen = group.irreps[_non_trivial(group, irrep)]
    factor = chosen.dimension * (1 if chosen.indicator == 1 else 2)
    return math.sqrt((factor if form == "corrected" else 1) / (3 * group.order))


def irrep_construction(group: Group, irrep: int) -> PairWeights:
    """Return neurons of norm 1 that compute one irrep's character of abc^(-1): 2 d^3, or 8 d^3 if it is not real.

    The thesis' gamma should have the indices (i, k), and its sum of a pair of neurons lacks the factor 4. For irreps
    that are not real, neurons have the phases of ``cyclic_construction``.

    Formula: u = kappa R_ij, v = +-kappa R_jk, w = +-kappa R_ik over all i, j, k: f(a, b)[c] = 4 kappa^3 Re
        chi(abc^(-1)), kappa of ``irrep_neuron_scale``.
    Source: thesis, Lemma D.15; for irreps that are not real derived here.
    """
    scale = irrep_neuron_scale(group, irrep)
    chosen = group.irreps[irrep]
    d = chosen.dimension
    i, j, k = (part.ravel() for part in np.indices((d, d, d)))
    entries = [chosen.matrices[:, row, column].T for row, column in ((i, j), (j, k), (i, k))]
    quarters = QUARTERS[:2] if chosen.indicator == 1 else QUARTERS
    turns = np.column_stack([quarters, quarters.sum(axis=1)])
    u, v, w = (
        scale * np.concatenate([(1j ** int(turn) * entry).real for turn in column])
        for column, entry in zip(turns.T, entries, strict=True)
    )
    return PairWeights(u, v, w)


def group_construction(group: Group, shares: Any = None) -> PairWeights:
    """Return a network of L_{2,3} norm 1 that has the largest margin.

    Formula: ``irrep_construction`` of every irrep in use, with a share p_R of sum ||omega||^3; with positivity its
        neurons have the norm d^(-1/6)/Delta, Delta^3 = 2 sum d^2.5.
    Source: thesis, Lemma D.16, with the constant derived here; without positivity, derived here.

    Args:
        shares: of each irrep, shape (irreps,); by default the shares of ``margin_game``. An irrep without a share has
            no neurons.
    """
    split = margin_game(group).shares if shares is None else np.asarray(shares, float)
    fits = split.shape == (len(group.irreps),) and split.min() >= 0 and split[0] == 0
    fits = bool(fits and abs(split.sum() - 1) < 1e-9)
    require(fits, "shares must be a split among non-trivial irreps, 0 for the trivial one", shares=split.tolist())
    parts = []
    for irrep in np.flatnonzero(split):
        unit = irrep_construction(group, int(irrep))
        parts.append(unit.scaled((split[irrep] / len(unit.u)) ** (1 / 3)))
    return PairWeights.joined(parts)


def group_basis(group: Group) -> Float[np.ndarray, "order order"]:
    """Return the entries of all irreps as vectors over the group, one per row: irrep by irrep, and (i, j) row by row.

    Formula: rho_{R,(i,j)}(g) = R(g)_ij; rows are orthogonal, of squared length |G|/d_R.
    Source: thesis, Lemma D.10.
    """
    return np.concatenate([irrep.matrices.reshape(group.order, -1).T for irrep in group.real_irreps()])


def group_transform(group: Group, logits: Any) -> Float[np.ndarray, "order order order"]:
    """Return the transform of a network's logits in the entries of irreps.

    A neuron of one irrep has coefficients only where j or k is trivial, or j, k and l all belong to its irrep.

    Formula: hat f(j, k, l) = sum_{abc} rho_j(a) rho_k(b) rho_l(c) f(a, b, c).
    Source: thesis, appendix D.9.1.

    Args:
        logits: f of shape (order, order, order), or (order^2, order) as ``PairWeights.logits`` returns it.

    Returns:
        float64 of shape (order, order, order), in the order of ``group_basis``.
    """
    cube, n = np.asarray(logits, float), group.order
    require(cube.size == n**3, "there must be one logit for each pair and output", shape=cube.shape)
    basis = group_basis(group)
    return np.asarray(np.einsum("ja,kb,lc,abc->jkl", basis, basis, basis, cube.reshape(n, n, n), optimize=True))


def matched_transform(group: Group, irrep: int, logits: Any) -> Float[np.ndarray, "d d d"]:
    """Return the coefficients of a network's logits at matched entries of one irrep.

    For every network of the largest margin they are equal and not 0, so it has neurons of every irrep. The
    thesis names a second way to match, j = (z, y) with k = (x, z); in general it contributes nothing.

    Formula: hat f((x, z), (z, y), (x, y)); gamma |G|^2/d^2 for f = F(a, b) + gamma 1[c = ab].
    Source: thesis, appendix D.9.1.

    Args:
        irrep: the index of R among the irreps.
        logits: as for ``group_transform``.

    Returns:
        float64 of shape (d, d, d), indices x, z, y.
    """
    cube, n = np.asarray(logits, float), group.order
    require(cube.size == n**3, "there must be one logit for each pair and output", shape=cube.shape)
    matrices = group.real_irreps()[irrep].matrices
    first = np.einsum("abc,cxy->abxy", cube.reshape(n, n, n), matrices, optimize=True)
    second = np.einsum("abxy,bzy->axyz", first, matrices, optimize=True)
    return np.asarray(np.einsum("axyz,axz->xzy", second, matrices, optimize=True))


def _vectors(group: Group, u: Any) -> np.ndarray:
    rows = np.asarray(u, float)
    fits = rows.ndim == 2 and rows.shape[1] == group.order
    require(fits, "weights must be of shape (neurons, order)", shape=rows.shape, order=group.order)
    return rows


def _non_trivial(group: Group, irrep: int) -> int:
    count = len(group.irreps)
    require(1 <= irrep < count, "irrep must be the index of a non-trivial one", irrep=irrep, irreps=count)
    return irrep


def _units(vectors: Any, matrices: np.ndarray) -> np.ndarray:
    rows, d = np.atleast_2d(np.asarray(vectors)), matrices.shape[-1]
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    fits = rows.ndim == 2 and rows.shape[1] == d and bool((lengths > 0).all())
    require(fits, "vectors must be of shape (neurons, d) and not 0", shape=rows.shape, d=d)
    real = np.isrealobj(rows) or not np.isrealobj(matrices)
    require(real, "vectors must be real for a real irrep", dtype=rows.dtype)
    return np.asarray(rows / lengths)
