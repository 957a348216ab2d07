"""How close the neurons of a trained network are to the neurons of the largest margin.

Each gives a number per neuron, 0 or 1 where a theorem holds exactly. Networks also have inactive neurons: state the
norm below which you leave neurons out, for instance 5% of the largest.

Arguments outside a function's hypotheses or domain raise ``TheoryError``, irreps that are not real ``GroupError``.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int64

from elegans.calculators.domain import coordinates, require, whole_array
from elegans.groups import Group
from elegans.studies.feature_margins.theory.cyclic import require_modulus
from elegans.studies.feature_margins.theory.harmonics import group_coefficients, group_powers
from elegans.studies.feature_margins.theory.weights import HomogeneousWeights, PairWeights, ParityWeights


class MainHarmonics(NamedTuple):
    """The harmonic in which a vector's power is largest.

    Args:
        place: the frequency, or the index of the irrep, shape (neurons,).
        share: its share of all power, shape (neurons,); nan for a vector that is 0.
    """

    place: Int64[np.ndarray, " neurons"]
    share: Float[np.ndarray, " neurons"]


class ParityNeuronFits(NamedTuple):
    """How well each neuron meets the conditions of a parity's largest margin; the exact values are given last.

    Args:
        outside: the share of ||u||^2 off the support; 0.
        largest: the largest |u_j| / ||w|| on the support; 1.
        smallest: the smallest; 1.
        alignment: |cos| of the angle between w and (1, -1); 1.
        sign: the sign of (prod_j u_j) (w_0 - w_1); 1.
    """

    outside: Float[np.ndarray, " neurons"]
    largest: Float[np.ndarray, " neurons"]
    smallest: Float[np.ndarray, " neurons"]
    alignment: Float[np.ndarray, " neurons"]
    sign: Float[np.ndarray, " neurons"]


class LogitDecomposition(NamedTuple):
    """The best fit of logits by F(a, b) + gamma 1[c = ab].

    Args:
        gamma: the size of the indicator; for a network of the largest margin, its margin.
        residual: the square root of the unexplained share of the logits' variation over outputs; 0.
    """

    gamma: float
    residual: float


def cyclic_powers(u: Any) -> Float[np.ndarray, "neurons frequencies"]:
    """Return the power of vectors at each frequency, a frequency and its negative counting as one.

    Formula: P(zeta) = |hat u(zeta)|^2, P(0) = |hat u(0)|^2 / 2; their sum is p ||u||^2 / 2.
    Source: thesis, section 7.4 and Figure 7.4, folded.

    Args:
        u: vectors, shape (neurons, p), p odd.

    Returns:
        float64 of shape (neurons, (p + 1)/2), frequencies from 0 on.
    """
    rows = np.asarray(u, float)
    require(rows.ndim == 2, "vectors must be of shape (neurons, p)", shape=rows.shape)
    require_modulus(rows.shape[1])
    powers = np.abs(np.fft.rfft(rows)) ** 2
    powers[:, 0] /= 2
    return np.asarray(powers)


def cyclic_main_frequencies(u: Any) -> MainHarmonics:
    """Return each vector's main frequency and its share of the power: 1 for a cosine.

    Formula: max_{zeta >= 1} P(zeta) / sum_{zeta >= 0} P(zeta).
    Source: thesis, section 7.4 and Figure 7.4, folded.

    Args:
        u: vectors, shape (neurons, p), p odd.
    """
    powers = cyclic_powers(u)
    found = _main(powers, powers[:, 1:])
    return MainHarmonics(found.place + 1, found.share)


def group_main_irreps(group: Group, u: Float[Any, "neurons order"]) -> MainHarmonics:
    """Return each vector's main irrep and its share of the power: 1 for a vector within one irrep.

    Formula: max_R P(R) / sum_R P(R), including the trivial irrep.
    Source: thesis, Figure 7.6.
    """
    powers = group_powers(group, u)
    return _main(powers, powers)


def phase_residuals(weights: PairWeights) -> Float[np.ndarray, " neurons"]:
    """Return by how much each neuron's phases fail to add up, at the main frequency of its u.

    Formula: arg hat u(zeta) + arg hat v(zeta) - arg hat w(zeta), wrapped to (-pi, pi]; 0 in a network of the
        largest margin.
    Source: thesis, Theorem 7.7.

    Args:
        weights: a network on pairs of residues, their number odd.

    Returns:
        Radians, float64 of shape (neurons,).
    """
    zeta = cyclic_main_frequencies(weights.u).place
    rows = np.arange(len(zeta))
    first, second, third = (np.fft.rfft(part)[rows, zeta] for part in (weights.u, weights.v, weights.w))
    return np.asarray(np.angle(first * second * third.conj()))


def amplitude_spread(weights: PairWeights) -> Float[np.ndarray, " neurons"]:
    """Return how unequal the norms of each neuron's u, v and w are.

    Formula: 1 - min(||u||, ||v||, ||w||) / max(||u||, ||v||, ||w||); 0 in a network of the largest margin.
    Source: thesis, Theorem 7.7 and Lemma D.13.

    Returns:
        float64 of shape (neurons,), from 0 to 1; nan for a neuron that is 0.
    """
    norms = np.stack([np.linalg.norm(part, axis=1) for part in (weights.u, weights.v, weights.w)])
    with np.errstate(invalid="ignore"):
        return np.asarray(1 - norms.min(axis=0) / norms.max(axis=0))


def rank_one_residuals(group: Group, weights: PairWeights) -> Float[np.ndarray, " neurons"]:
    """Return how far each neuron's coefficients in its irrep are from rank one.

    Formula: the largest ratio of the second to the first singular value of alpha, beta and gamma in the main irrep of
        u; 0 in a network of the largest margin.
    Source: derived here from the thesis' Lemma D.13.

    Returns:
        float64 of shape (neurons,), 0 where d = 1.
    """

    def second_to_first(*parts: np.ndarray) -> float:
        if parts[0].shape[-1] == 1:
            return 0.0
        sizes = np.linalg.svd(np.stack(parts), compute_uv=False)
        return float((sizes[:, 1] / np.maximum(sizes[:, 0], 1e-300)).max())

    return _in_main_irrep(group, weights, second_to_first)


def vector_alignment(group: Group, weights: PairWeights) -> Float[np.ndarray, " neurons"]:
    """Return whether each neuron's coefficients share their vectors, x y^T, y z^T and x z^T, with the right sign.

    Formula: tr(alpha beta gamma^T) / (||alpha|| ||beta|| ||gamma||) in the main irrep of u; 1 in a network of the
        largest margin, and less for coefficients that are not of rank one.
    Source: derived here from the thesis' Lemma D.13.

    Returns:
        float64 of shape (neurons,), from -1 to 1.
    """

    def aligned(alpha: np.ndarray, beta: np.ndarray, gamma: np.ndarray) -> float:
        size = np.linalg.norm(alpha) * np.linalg.norm(beta) * np.linalg.norm(gamma)
        return float(np.trace(alpha @ beta @ gamma.T) / max(size, 1e-300))

    return _in_main_irrep(group, weights, aligned)


def mass_shares(weights: HomogeneousWeights, places: Any, count: int) -> Float[np.ndarray, " places"]:
    """Return the share of the mass that each frequency or irrep has.

    A network of the largest margin for addition mod p must keep margins equal, and so has 2/(p - 1) of it at each
    frequency; for groups it is ``group_shares``.

    Formula: sum over its neurons of ||omega_i||^nu / sum_i ||omega_i||^nu.
    Source: derived here from the thesis' Theorems 7.7 and 7.9.

    Args:
        places: the frequency or irrep of each neuron, shape (neurons,).
        count: the number of frequencies or irreps, counted from 0.
    """
    found = whole_array("places", places)
    require(found.shape == weights.norms.shape, "there must be one place per neuron", places=found.shape)
    require(bool(((found >= 0) & (found < count)).all()), "places must lie in 0..count-1", count=count)
    mass = weights.normalised().norms ** weights.degree
    return np.bincount(found, weights=mass, minlength=count)


def parity_neurons(weights: ParityWeights, support: Iterable[int]) -> ParityNeuronFits:
    """Return how well each neuron meets the conditions of a parity's largest margin.

    Formula: u_i is 0 off S, |u_i[j]| = ||w_i|| on it, w_i is a multiple of (1, -1), and (prod_{j in S} u_i[j])
        (w_i . (1, -1)) >= 0.
    Source: thesis, Theorem 7.8.
    """
    places = sorted(coordinates("support", support, weights.n))
    require(len(places) >= 1, "k must be at least 1 (Theorem 7.8)", k=len(places))
    inside = weights.u[:, places]
    size, towards = np.linalg.norm(weights.w, axis=1), weights.w @ np.array([1.0, -1.0])
    with np.errstate(invalid="ignore", divide="ignore"):
        return ParityNeuronFits(
            outside=1 - (inside**2).sum(axis=1) / (weights.u**2).sum(axis=1),
            largest=np.abs(inside).max(axis=1) / size,
            smallest=np.abs(inside).min(axis=1) / size,
            alignment=np.abs(towards) / (np.sqrt(2) * size),
            sign=np.sign(inside).prod(axis=1) * np.sign(towards),
        )


def margin_decomposition(logits: Any, labels: Any) -> LogitDecomposition:
    """Return the best fit of logits on pairs by F(a, b) + gamma 1[c = ab], the form of the largest margin.

    Formula: least squares over F and gamma.
    Source: thesis, appendices D.6.3 and D.9.1.

    Args:
        logits: of shape (examples, outputs), as ``PairWeights.logits`` returns them.
        labels: of all examples, as for ``pointwise_margins``.
    """
    rows, flat = np.asarray(logits, float), whole_array("labels", labels).ravel()
    require(rows.ndim == 2 and len(rows) == len(flat), "there must be one label per example", logits=rows.shape)
    count, outputs = rows.shape
    require(bool(((flat >= 0) & (flat < outputs)).all()), "labels must lie in 0..outputs-1", outputs=outputs)
    centred = rows - rows.mean(axis=1, keepdims=True)
    gamma = float(centred[np.arange(count), flat].sum() / (count * (1 - 1 / outputs)))
    fit = np.full(rows.shape, -gamma / outputs)
    fit[np.arange(count), flat] += gamma
    variation = float((centred**2).sum())
    return LogitDecomposition(gamma, float(np.sqrt(((centred - fit) ** 2).sum() / variation)) if variation else 0.0)


def _main(powers: np.ndarray, eligible: np.ndarray) -> MainHarmonics:
    place = eligible.argmax(axis=1)
    with np.errstate(invalid="ignore"):
        return MainHarmonics(place, eligible[np.arange(len(place)), place] / powers.sum(axis=1))


def _in_main_irrep(group: Group, weights: PairWeights, measure: Any) -> np.ndarray:
    irreps = group_main_irreps(group, weights.u).place
    coefficients = [group_coefficients(group, part) for part in (weights.u, weights.v, weights.w)]
    return np.array([measure(*(part[irrep][neuron] for part in coefficients)) for neuron, irrep in enumerate(irreps)])
