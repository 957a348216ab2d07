"""The irreps of any finite group, by a numerical decomposition of its regular representation.

A random symmetric matrix that commutes with the regular representation has, with probability 1, eigenspaces that are
irreducible over the real numbers: its commutant acts on each irrep's multiplicity space as all symmetric matrices do.
A real irreducible space whose character has the norm 1 is an irrep of real type; with norm 2 it is the sum of an irrep
and its conjugate, with norm 4 twice one of quaternionic type, and a random Hermitian matrix of its commutant splits it.
Source: Dixon, "Computing irreducible representations of groups", Mathematics of Computation 24 (1970).
"""

from collections import Counter
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Num

from elegans import random
from elegans.errors import GroupError
from elegans.groups.irreps import TOLERANCE, Finite, Irrep, indicators, whole
from elegans.groups.multiplication import generators

_ATTEMPTS = 5
_KEY = random.stream(0, "task")
"""An arbitrary fixed key: only the bases of the irreps depend on the draws."""


class _Part(NamedTuple):
    matrices: Num[np.ndarray, "order d d"]
    character: Num[np.ndarray, " classes"]


def decompose(group: Finite) -> tuple[Irrep, ...]:
    """Return the irreps of a group: the trivial one, then by dimension, then by decreasing characters.

    Matrices are checked to be unitary homomorphisms to 1e-10. Values of characters within 1e-10 of whole numbers are
    rounded to these.
    """
    for attempt in range(_ATTEMPTS):
        parts = [part for space in _real_parts(group, attempt) for part in _split(group, space, attempt)]
        if _is_complete(group, parts):
            return _named(group, sorted(parts, key=_order))
    raise GroupError(f"the regular representation must split into irreps to {TOLERANCE}: group={group.name}")


def _real_parts(group: Finite, attempt: int) -> list[_Part]:
    """Return one representation for each isomorphism class of the real irreducible ones."""
    parts: list[_Part] = []
    first = [members[0] for members in group.classes]
    shifts = group.table[group.inverses]
    weights = random.normal(_KEY, np.arange(group.order), lane=attempt).astype(float)
    # a random symmetric matrix M with M[ga, gb] = M[a, b]
    for basis in _eigenspaces((weights + weights[group.inverses])[shifts]):
        values = np.array([np.vdot(basis, basis[shifts[g]]) for g in first])
        if any(np.allclose(values, part.character, atol=1e-6) for part in parts):
            continue
        parts.append(_Part(np.stack([basis.T @ basis[shift] for shift in shifts]), values))
    return parts


def _eigenspaces(matrix: Num[np.ndarray, "n n"]) -> list[Num[np.ndarray, "n size"]]:
    values, vectors = np.linalg.eigh(matrix)
    cuts = np.flatnonzero(np.diff(values) > 1e-9 * np.abs(values).max()) + 1
    return np.split(vectors, cuts, axis=1)


def _split(group: Finite, space: _Part, attempt: int) -> list[_Part]:
    """Return the complex irreps in a real irreducible space: itself, a conjugate pair, or one of two copies."""
    norm = round(float(group.class_sizes @ space.character**2) / group.order)
    if norm == 1:
        return [space]
    size = space.matrices.shape[1]
    draws = _normal(size, attempt) + 1j * _normal(size, attempt + _ATTEMPTS)
    first = [members[0] for members in group.classes]
    parts = []
    for basis in _eigenspaces(_commuting(space.matrices, draws + draws.conj().T)):
        matrices = basis.conj().T @ space.matrices @ basis
        parts.append(_Part(matrices, np.trace(matrices[first], axis1=1, axis2=2)))
    return parts if norm == 2 else parts[:1]


def real_form(matrices: Num[np.ndarray, "order d d"]) -> Float64[np.ndarray, "order d d"]:
    """Convert an irrep of real type from unitary to orthogonal matrices.

    Over the real numbers it has twice the dimension and is a sum of two copies of the result.
    """
    real, imaginary = matrices.real, matrices.imag
    doubled = np.block([[real, -imaginary], [imaginary, real]])
    draws = _normal(doubled.shape[1], 0)
    basis = _eigenspaces(_commuting(doubled, draws + draws.T))[0]
    return np.asarray(basis.T @ doubled @ basis)


def _commuting(matrices: Num[np.ndarray, "order d d"], draws: Num[np.ndarray, "d d"]) -> Num[np.ndarray, "d d"]:
    """Return the mean of R(g) X R(g)^-1 over the group, for orthogonal R."""
    return np.asarray(np.einsum("gij,jk,glk->il", matrices, draws, matrices, optimize=True) / len(matrices))


def _normal(size: int, number: int) -> Float64[np.ndarray, "size size"]:
    index = np.arange(size**2).reshape(size, size)
    return np.asarray(random.normal(_KEY.fold(number), index), dtype=float)


def _is_complete(group: Finite, parts: list[_Part]) -> bool:
    """Return whether parts are unitary homomorphisms, irreducible, inequivalent and complete."""
    if len(parts) != len(group.class_sizes) or sum(part.matrices.shape[1] ** 2 for part in parts) != group.order:
        return False
    characters = np.stack([part.character for part in parts])
    products = (characters * group.class_sizes) @ characters.conj().T / group.order
    return np.allclose(products, np.eye(len(parts)), rtol=0, atol=TOLERANCE) and all(
        is_unitary_homomorphism(group, part.matrices) for part in parts
    )


def is_unitary_homomorphism(group: Finite, matrices: Num[np.ndarray, "order d d"]) -> bool:
    """Return whether R(ab) = R(a) R(b) for all elements a and generators b, and R(a) is unitary, to 1e-10."""
    unitary = matrices @ matrices.conj().transpose(0, 2, 1)
    return np.allclose(unitary, np.eye(matrices.shape[1]), rtol=0, atol=TOLERANCE) and all(
        np.allclose(matrices[group.table[:, b]], matrices @ matrices[b], rtol=0, atol=TOLERANCE)
        for b in generators(group.table)
    )


def _order(part: _Part) -> Any:
    dimension = part.matrices.shape[1]
    if np.allclose(part.matrices, 1):
        return (0, ())
    return (dimension, tuple((-round(value.real, 6), -round(value.imag, 6)) for value in part.character + 0j))


def _named(group: Finite, parts: list[_Part]) -> tuple[Irrep, ...]:
    characters = np.stack([whole(part.character) for part in parts])
    types = np.rint(indicators(group, characters)).astype(int)
    count = Counter(part.matrices.shape[1] for part in parts[1:])
    seen: Counter[int] = Counter()
    irreps: list[Irrep] = []
    for part, values, kind in zip(parts, characters, types, strict=True):
        dimension = part.matrices.shape[1]
        name = "trivial"
        if irreps:
            seen[dimension] += 1
            name = f"{dimension}_{seen[dimension]}" if count[dimension] > 1 else f"{dimension}"
        values = values.real if kind else values
        irreps.append(Irrep(name, dimension, values.copy(), int(kind), partial(np.copy, part.matrices)))
    return tuple(irreps)
