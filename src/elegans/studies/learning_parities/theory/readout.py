"""Biased parities: the features of good neurons, and readouts that compute the parity from them (Lemmas 10 to 12).

After the first step a good neuron is a function of z, the sum of the k signs on A: relu6(alpha u z / n + b) with b =
1 / (8k). Scaled by |r| / b it can be phi_r(z) = relu(|r| - sign(r) z) for an odd r from -k to k, and the parity is a
combination of these. The source defines phi_r with relu6; but |r| and z together reach 2k, the scaled feature is capped
only at 48 k |r|, and features capped at 6 do not span the parity for k = 5 and 7. Here phi_r is a plain relu.

Source of all functions: Daniely and Malach (2020), Lemmas 10 to 12.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    k: the size of A, odd.
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from elegans.boolean.fourier import sign_table
from elegans.boolean.learning import parity_of_sum
from elegans.calculators.domain import AtMost, Binomial, Form, require, require_form
from elegans.calculators.rational import Matrix, Vector
from elegans.errors import TheoryError
from elegans.studies.learning_parities.theory.parity import biased_support
from elegans.studies.learning_parities.theory.window import CAP


def biased_features(k: Annotated[int, AtMost(400)], form: Form = "corrected") -> Matrix:
    """Return the ideal features for each value of the sum of the signs on A.

    The least-squares residual of the parity on the printed ones is 0, 0.894 and 0.603 for k = 3, 5, 7.

    Formula: phi_r(z) = relu(|r| - sign(r) z), rows z and columns r = -k, -k + 2, …, k; printed: relu6.
    Source: Daniely and Malach (2020), Lemma 10.

    Args:
        form: "corrected" for plain relus, "printed" for features capped at 6.

    Returns:
        k + 1 exact rows of k + 1 features.
    """
    _require_odd(k)
    require_form(form)
    most = 2 * k if form == "corrected" else CAP
    values = range(-k, k + 1, 2)
    return tuple(tuple(Fraction(min(max(abs(r) - (z if r > 0 else -z), 0), most)) for r in values) for z in values)


def biased_readout(k: Binomial) -> Vector:
    """Return the weights that make the ideal features represent the parity exactly.

    For k = 3: 3/2, -2, 2, -3/2; for k = 5: 1/2, -2, 2, -2, 2, -1/2.

    Formula: c_r = -2 (-1)^((k - r) / 2) for |r| < k; c_{-k} = -c_k = 3/2 if k = 3 mod 4, 1/2 if k = 1 mod 4.
    Source: derived here; existence is Daniely and Malach (2020), Lemma 12.

    Returns:
        The k + 1 exact weights, for r = -k, -k + 2, …, k.
    """
    _require_odd(k)
    end = Fraction(3, 2) if k % 4 == 3 else Fraction(1, 2)
    inner = (-2 * sign for sign in parity_of_sum(k)[1:-1])
    return (end, *inner, -end)


def p_feature(n: int, k: int, r: int, epsilon: float, *, slope: float = 0.25, form: Form = "corrected") -> float:
    """Return the probability over its output weight that a good neuron's scaled feature is within epsilon of phi_r.

    The scaled feature is relu(tau (-sign(r) z) + |r|) with tau = -sign(r) alpha u |r| / (n b), and its largest
    distance from phi_r over [-k, k] is k |tau - 1|. The printed range of u has r instead of n, which makes the
    probability 0.

    Formula: P(|tau - 1| <= eps / k) for u uniform on [-n/k, n/k]; eps / (8 alpha k |r|) unless cut off by that range;
        printed: for u uniform on [-|r|/k, |r|/k].
    Source: derived here; bounded below in Daniely and Malach (2020), Lemma 10.

    Args:
        n: the number of inputs.
        r: the knot, odd, from -k to k.
        epsilon: the precision, from 0 to k.
        slope: alpha of the neuron, from 1/4 to 1.
        form: "corrected" or "printed".
    """
    _require_odd(k)
    require(r % 2 == 1 and abs(r) <= k, "r must be odd and lie in -k..k (Lemma 10)", r=r, k=k)
    require(0 <= epsilon <= k, "epsilon must lie in 0..k (Lemma 10)", epsilon=epsilon, k=k)
    require(0.25 <= slope <= 1, "slope must lie in 1/4..1 (Lemma 10)", slope=slope)
    require_form(form)
    middle = n / (8 * k * slope * abs(r))
    low, high = middle * (1 - epsilon / k), middle * (1 + epsilon / k)
    most = n / k if form == "corrected" else abs(r) / k
    return max(0.0, min(high, most) - low) / (2 * most)


def p_feature_bound(k: int, epsilon: float, *, drawn: bool = False) -> float:
    """Return the guaranteed probability that a neuron's feature is close to one phi_r.

    Formula: eps / (8 k^2) over u, within eps (Lemma 10); eps / (112 k^(5/2)) over w and u, within 2 eps (Lemma 11).
    Source: Daniely and Malach (2020), Lemmas 10 and 11.

    Args:
        epsilon: the precision.
        drawn: whether the weights w are also random, as in Lemma 11, or the neuron is known to be good.
    """
    _require_odd(k)
    return epsilon / (112 * k**2.5) if drawn else epsilon / (8 * k**2)


def biased_feature_errors(weight: Any, bias: Any, initial_bias: Any, support: Iterable[int]) -> np.ndarray:
    """Return how far every neuron's scaled feature is from each phi_r of the sum on A, over all inputs.

    Formula: sup_x |(|r| / b0) relu6(w . x + b) - phi_r(z(x))|: for each of the 2^k signs on A at the ends of the range
        of the other coordinates, where the supremum lies.
    Source: Daniely and Malach (2020), Lemma 11; the reduction derived here.

    Args:
        weight: the weights after the first step, shape (q, n).
        bias: the biases after it, shape (q,).
        initial_bias: b0, above 0, shape (q,) or one for all.
        support: the k coordinates of A, k odd.

    Returns:
        float64 of shape (q, k + 1), for r = -k, -k + 2, …, k.
    """
    weights, start = np.asarray(weight, float), np.asarray(initial_bias, float)
    require(bool((start > 0).all()), "initial biases must be positive (Lemma 11)", smallest=float(start.min()))
    places = biased_support(support, weights.shape[1])
    k, root = len(places), math.sqrt(weights.shape[1])
    middle = weights[:, places] @ sign_table(k).T / root + np.asarray(bias, float)[:, None]
    reach = np.abs(np.delete(weights, places, axis=1)).sum(axis=1)[:, None] / root
    ends = np.clip(np.stack([middle - reach, middle + reach]), 0, CAP)
    ideal = np.array(biased_features(k), float)[(sign_table(k).sum(axis=1) + k) // 2]
    knots = np.abs(np.arange(-k, k + 1, 2))
    scaled = ends[..., None] * (knots / np.broadcast_to(start, (len(weights),))[:, None])[:, None, :]
    return np.asarray(np.abs(scaled - ideal).max(axis=(0, 2)))


def biased_split_readout(errors: Any, initial_bias: Any, epsilon: float) -> Float[np.ndarray, " q"]:
    """Return output weights that compute the parity, split evenly over the neurons close to each phi_r.

    With all errors at most e the output is within e sum_r |c_r| of the parity, and scaling it by
    1 / (1 - e sum_r |c_r|) gives a margin of 1.

    Formula: u*_i = c_r |r| / (b0 N_r) for the N_r neurons whose feature is within epsilon of phi_r and of no other r
        closer, else 0.
    Source: the construction behind Daniely and Malach (2020), Lemma 12.

    Args:
        errors: as ``biased_feature_errors`` gives them, shape (q, k + 1).
        initial_bias: b0, shape (q,) or one for all.
        epsilon: the precision that a neuron needs to count.
    """
    table = np.asarray(errors, float)
    k = table.shape[1] - 1
    start = np.broadcast_to(np.asarray(initial_bias, float), (len(table),))
    nearest, close = table.argmin(axis=1), table.min(axis=1) <= epsilon
    readout = np.zeros(len(table))
    for place, (r, weight) in enumerate(zip(range(-k, k + 1, 2), biased_readout(k), strict=True)):
        members = close & (nearest == place)
        require(bool(members.any()), "every r must have a neuron within epsilon (Lemma 12)", r=r, epsilon=epsilon)
        readout[members] = float(weight) * abs(r) / start[members] / members.sum()
    return readout


def biased_hidden(weight: Any, bias: Any, support: Iterable[int]) -> np.ndarray:
    """Return the hidden features of neurons without weights outside A, for all signs on A.

    Formula: relu6(sum_A w_j e_j / sqrt(n) + b).
    Source: Daniely and Malach (2020), section 2.

    Args:
        weight: the weights, 0 outside A to rounding, shape (q, n).
        bias: the biases, shape (q,).
        support: the k coordinates of A in increasing order, k odd.

    Returns:
        float64 of shape (2^k, q), in the order of ``sign_table``.
    """
    weights = np.asarray(weight, float)
    places = biased_support(support, weights.shape[1])
    outside = np.abs(np.delete(weights, places, axis=1)).max(initial=0)
    require(outside <= 1e-9, "neurons must have no weights outside the support (good neurons)", largest=outside)
    signs = sign_table(len(places))
    return np.asarray(np.clip(signs @ weights[:, places].T / math.sqrt(weights.shape[1]) + bias, 0, CAP))


def smallest_separator(features: Any, label: Any) -> Float[np.ndarray, " q"]:
    """Return the output weights of smallest norm with a margin of 1 on given features.

    Formula: min ||u||_2 subject to y_p sum_i u_i F_{p,i} >= 1 for all p, by non-negative least squares.
    Source: the readout of Daniely and Malach (2020), Lemma 12; Lawson and Hanson, "Solving Least Squares Problems"
        (1974), chapter 23.

    Args:
        features: F, shape (points, q).
        label: y, signs of shape (points,).
    """
    from scipy.optimize import nnls

    array = np.atleast_2d(np.asarray(features, float))
    require(array.size > 0, "features must have at least one point and one neuron", shape=np.shape(features))
    rows = np.asarray(label, float)[:, None] * array
    scale = np.abs(rows).max(initial=0) or 1.0
    system = np.vstack([rows.T / scale, np.ones(len(rows))])
    target = np.zeros(len(system))
    target[-1] = 1
    amounts, distance = nnls(system, target)
    if distance < 1e-9:
        raise TheoryError(f"features must separate the labels (Lemma 12): points={len(rows)}, neurons={rows.shape[1]}")
    residual = system @ amounts - target
    return np.asarray(-residual[:-1] / residual[-1] / scale)


def _require_odd(k: int) -> None:
    require(k >= 1 and k % 2 == 1, "k must be odd (biased parity)", k=k)
