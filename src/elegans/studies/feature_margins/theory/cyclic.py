"""Addition mod p: the largest margin, and the neurons and networks that attain it.

Arrays u, v, w over the residues have shape (..., p). The DFT is hat u(j) = sum_k u(k) exp(-2 pi i jk/p). The thesis
states its theorem for primes; nothing in the computation uses that p is prime, so all functions here take any odd
p >= 3.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    p: the modulus, odd and at least 3.
    per_frequency: neurons for each frequency.
    u, v, w: weights of shape (..., p), p odd.
"""

import math
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Complex, Float

from elegans import random
from elegans.calculators.domain import AtMost, Form, require, require_form, whole_array
from elegans.studies.feature_margins.theory.weights import PairWeights

PerFrequency = Literal[6, 7, 8]
"""The numbers of neurons per frequency in constructions."""
QUARTERS = np.array([(0, 0), (0, 2), (1, -1), (1, 1), (-1, 0), (-1, 2), (0, -1), (0, 1)])
"""Phases of u and v, in quarter turns, of eight neurons that compute Re(x y conj(z)); the phase of w is their sum."""


def cyclic_maximum_margin(p: int) -> float:
    """Return the largest normalised margin of quadratic networks on addition mod p.

    Formula: gamma* = sqrt(2/27) / (p^(1/2) (p - 1)).
    Source: thesis, Theorem 7.7.
    """
    require_modulus(p)
    return math.sqrt(2 / 27) / (math.sqrt(p) * (p - 1))


def cyclic_width(p: int, per_frequency: PerFrequency = 8) -> int:
    """Return the number of neurons in the construction of the largest margin.

    Formula: 4 (p - 1), eight for each of (p - 1)/2 frequencies; six or seven suffice for each.
    Source: thesis, Theorem 7.7; with six or seven derived here.
    """
    require_modulus(p)
    require(per_frequency in (6, 7, 8), "per_frequency must be 6, 7 or 8", per_frequency=per_frequency)
    return per_frequency * (p - 1) // 2


def cyclic_amplitude(p: int) -> float:
    """Return the amplitude of the cosines of a neuron of norm 1.

    Formula: sqrt(2 / (3p)), so |hat u(+-zeta)| = |hat v(+-zeta)| = |hat w(+-zeta)| = sqrt(p/6).
    Source: thesis, appendix D.6.1.
    """
    require_modulus(p)
    return math.sqrt(2 / (3 * p))


def cyclic_neurons(p: Annotated[int, AtMost(10_000)], frequencies: Any, phases_u: Any, phases_v: Any) -> PairWeights:
    """Return neurons of norm 1 that may appear in a network of the largest margin: phases add up.

    Formula: u(a) = A cos(theta_u + 2 pi zeta a/p), v(b) = A cos(theta_v + 2 pi zeta b/p),
        w(c) = A cos(theta_u + theta_v + 2 pi zeta c/p), A = sqrt(2/(3p)).
    Source: thesis, Theorem 7.7.

    Args:
        frequencies: zeta of each neuron, from 1 to (p - 1)/2, shape (neurons,).
        phases_u: theta_u in radians, shape (neurons,).
        phases_v: theta_v in radians, shape (neurons,).
    """
    zeta = np.atleast_1d(np.asarray(frequencies))
    amplitude = cyclic_amplitude(p)
    inside = bool(((zeta >= 1) & (zeta <= (p - 1) // 2)).all())
    require(inside, "frequencies must lie in 1..(p - 1)/2", p=p, frequencies=zeta.tolist())
    turns = 2 * np.pi / p * np.outer(zeta, np.arange(p))
    first, second = (np.reshape(np.asarray(phases, float), (-1, 1)) for phases in (phases_u, phases_v))
    u, v, w = (amplitude * np.cos(phase + turns) for phase in (first, second, first + second))
    return PairWeights(u, v, w)


def random_cyclic_neurons(
    p: Annotated[int, AtMost(10_000)], count: Annotated[int, AtMost(10_000)], key: random.Key
) -> PairWeights:
    """Return neurons of norm 1 at the optimum of the single-neuron problem, uniform over frequencies and phases.

    Formula: as for ``cyclic_neurons``.
    Source: thesis, Theorem 7.7.
    """
    require_modulus(p)
    index = np.arange(count, dtype=np.uint32)
    frequencies = 1 + random.integers(key, index, bound=np.uint32((p - 1) // 2)).astype(int)
    phases = 2 * np.pi * random.uniform(key, index[:, None], lane=np.arange(1, 3, dtype=np.uint32)).astype(float)
    return cyclic_neurons(p, frequencies, phases[:, 0], phases[:, 1])


def cyclic_construction(p: Annotated[int, AtMost(1_000)], per_frequency: PerFrequency = 8) -> PairWeights:
    """Return a network of L_{2,3} norm 1 that has the largest margin, the same at every pair.

    With eight neurons per frequency each pair of neurons computes a product, (x + y)^2 z - (x - y)^2 z = 4xyz, of the
    four that cos(a + b - c) expands into. With m = 6 or 7 they have phases 2 pi s/m (1, 4, 5) or 2 pi s/m (1, 3, 4), s
    below m.

    Formula: f(a, b)[c] = kappa sum_zeta cos(2 pi zeta (a + b - c)/p).
    Source: thesis, appendix D.6.2; with six or seven derived here.
    """
    width = cyclic_width(p, per_frequency)
    if per_frequency == 8:
        phases = np.asarray(np.pi / 2 * QUARTERS)
    else:
        steps = np.outer(np.arange(per_frequency), (1, 4) if per_frequency == 6 else (1, 3))
        phases = np.asarray(2 * np.pi / per_frequency * steps)
    count = (p - 1) // 2
    frequencies = np.repeat(np.arange(1, count + 1), per_frequency)
    unit = cyclic_neurons(p, frequencies, np.tile(phases[:, 0], count), np.tile(phases[:, 1], count))
    return unit.scaled(width ** (-1 / 3))


def cyclic_logits(p: int, form: Form = "corrected") -> tuple[float, float]:
    """Return the correct and the wrong logits of the sum of cosines that the construction computes, unscaled.

    Formula: sum_zeta cos(2 pi zeta (a + b - c)/p) = (p - 1)/2 where c = a + b, else -1/2; printed: 0.
    Source: thesis, appendix D.6.2.

    Args:
        form: "corrected", or "printed" for the thesis' values.
    """
    require_modulus(p)
    require_form(form)
    return (p - 1) / 2, -0.5 if form == "corrected" else 0.0


def cyclic_objective(u: Any, v: Any, w: Any) -> Float[np.ndarray, "..."]:
    """Return the expected class-weighted margin of single neurons, over uniform pairs and wrong labels.

    Formula: E psi' = 2 / ((p - 1) p^2) sum_{j != 0} hat u(j) hat v(j) hat w(-j).
    Source: thesis, Equation D.3.
    """
    first, second, third = _spectra(u, v, w)
    p = first.shape[-1]
    products = (first * second * third.conj())[..., 1:]  # hat w(-j) is the conjugate of hat w(j)
    return np.asarray(2 / ((p - 1) * p**2) * products.real.sum(axis=-1))


def cyclic_errors(u: Any, v: Any, w: Any) -> Float[np.ndarray, "... p"]:
    """Return the expected logit of single neurons at every distance from the correct label, by enumerating all pairs.

    The single-neuron objective is eta(0) minus the mean of eta over delta != 0; ``cyclic_objective`` has it in closed
    form.

    Formula: eta(delta) = E_{a,b} [(u(a) + v(b))^2 w(a + b - delta)].
    Source: thesis, appendix D.6.1.

    Returns:
        float64 of shape (..., p), delta from 0 to p - 1.
    """
    first, second, third = _same_shape(u, v, w)
    residues = np.arange(first.shape[-1])
    squares = (first[..., :, None] + second[..., None, :]) ** 2
    sums = residues[:, None] + residues
    return np.stack(
        [(squares * third[..., (sums - delta) % len(residues)]).mean(axis=(-2, -1)) for delta in residues], axis=-1
    )


def cyclic_transform(logits: Any, form: Form = "corrected") -> Complex[np.ndarray, "p p p"]:
    """Return the three-dimensional DFT of a network's logits.

    Every network of the largest margin gamma (at norm 1) is F(a, b) + gamma 1[c = a + b], so its transform is
    gamma p^2 at every (j, j, -j) with j != 0, and 0 at other (j, k, l) with j, l != 0. The transform of a neuron of
    frequency zeta vanishes except at j = 0, at k = 0 and where j, k, l are all +-zeta: hence a network of the largest
    margin has neurons of every frequency. The printed transform has j in place of k and l, and so depends on a + b + c
    alone.

    Formula: hat f(j, k, l) = sum_{abc} f(a, b, c) exp(-2 pi i (ja + kb + lc)/p); printed: exp(-2 pi i j(a + b + c)/p).
    Source: thesis, appendix D.6.3.

    Args:
        logits: f of shape (p, p, p), or (p^2, p) as ``PairWeights.logits`` returns it.
        form: "corrected", or "printed" for the thesis' factors.
    """
    require_form(form)
    cube = np.asarray(logits, float)
    p = cube.shape[-1]
    require(cube.size == p**3, "there must be one logit for each pair and output", shape=cube.shape)
    require_modulus(p)
    transform = np.fft.fftn(cube.reshape(p, p, p))
    if form == "printed":
        j = np.arange(p)
        transform = np.broadcast_to(transform[j, j, j][:, None, None], transform.shape).copy()
    return transform


def dense_classifier(labels: Any, balanced: bool = True) -> PairWeights:
    """Return a network that computes the indicator of any labels of pairs, without any sparse feature.

    Formula: for each (a, b) two neurons, u = 1_a, v = +-1_b, w = +-1_{r(a,b)} / 4; balanced: all of the same size
        4^(-1/3).
    Source: thesis, appendix D.4; balanced, derived here.

    Args:
        labels: r of shape (n, n), from 0 to n - 1.
        balanced: whether u, v and w have equal norms, which makes the margin larger; else the printed weights.
    """
    table = whole_array("labels", labels)
    n = len(table)
    require(table.shape == (n, n), "labels must be of shape (n, n)", shape=table.shape)
    require(bool(((table >= 0) & (table < n)).all()), "labels must lie in 0..n-1", n=n)
    inside, outside = (4 ** (-1 / 3), 4 ** (-1 / 3)) if balanced else (1.0, 0.25)
    first, second = np.divmod(np.arange(n**2), n)
    one_hot = np.eye(n)
    u, v, w = inside * one_hot[first], inside * one_hot[second], outside * one_hot[table.ravel()]
    return PairWeights(np.concatenate([u, u]), np.concatenate([v, -v]), np.concatenate([w, -w]))


def dense_classifier_margin(n: int, balanced: bool = True) -> float:
    """Return the normalised margin of the network without sparse features.

    Relative to the largest margin for addition mod p it is, balanced, sqrt(2p) (p - 1) / p^2: 0.458 at p = 7, 0.165 at
    71.

    Formula: 2 / (3 sqrt(3) n^2) balanced, else 1 / (2 n^2 (33/16)^(3/2)).
    Source: derived here for the network of the thesis' appendix D.4.

    Args:
        n: the number of elements, at least 2.
        balanced: as for ``dense_classifier``.
    """
    require(n >= 2, "n must be at least 2", n=n)
    return 2 / (3 * math.sqrt(3) * n**2) if balanced else 1 / (2 * n**2 * (33 / 16) ** 1.5)


def require_modulus(p: int) -> None:
    """Refuse a modulus below 3, or an even one, whose frequency p/2 is real and has its own optimum."""
    require(p >= 3, "p must be at least 3 (Theorem 7.7)", p=p)
    require(
        p % 2 == 1,
        "p must be odd (Theorem 7.7: frequency p/2 of an even one has no phase; margin_game takes any group)",
        p=p,
    )


def _same_shape(u: Any, v: Any, w: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    first, second, third = (np.asarray(part, float) for part in (u, v, w))
    same = first.shape == second.shape == third.shape
    require(same, "u, v and w must have the same shape", u=first.shape, v=second.shape, w=third.shape)
    require_modulus(first.shape[-1])
    return first, second, third


def _spectra(u: Any, v: Any, w: Any) -> tuple[np.ndarray, ...]:
    return tuple(np.fft.fft(part) for part in _same_shape(u, v, w))
