"""Closed forms for two symbols: power sums of the eigenvalue, and the first two steps of descent.

A chain is P = ((a, 1-a), (1-b, b)), with u = a - 1, w = b - 1, lambda = a + b - 1. Gradients are directions of descent
of the minimal model's affine loss. Where no other source is named, it is the thesis, appendix E.1.

Arguments with one meaning throughout: ``a`` and ``b`` are the probabilities that the symbols stay, in 0..1 and not
both 1; ``length`` is t, at least 2; ``epsilon``, in (0, 1/2], is half the length of the interval around 1/2 on which
a = b is uniform; ``nodes`` is the number of quadrature nodes in each direction; ``form`` is the corrected formula or
the printed one. Arguments outside a function's hypotheses or domain raise ``TheoryError``.
"""

import math
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from elegans.calculators.domain import AtMost, Binomial, Extended, Form, Listed, Side, require, require_form
from elegans.studies.induction_heads.theory.minimal import MinimalWeights
from elegans.studies.induction_heads.theory.quadrature import flat_average, flat_rule

LARGEST_RULE = 3 * 10**7
"""The largest number of values over all positions and nodes: a few seconds of work."""
BLOCK = 512
"""The number of quadrature nodes processed at a time."""
LN2 = math.log(2)


class PowerSums(NamedTuple):
    """The sums over s <= t' <= p <= t in the first step's gradient, each of the shape of lambda.

    Args:
        both: S_A, of lambda^(p-s).
        ahead: S_B, of lambda^(p-t').
        back: S_C, of lambda^(t'-s).
        none: S_D, of 1.
    """

    both: np.ndarray
    ahead: np.ndarray
    back: np.ndarray
    none: np.ndarray


def power_sums(eigenvalue: Any, length: Listed, method: Literal["sums", "closed"] = "sums") -> PowerSums:
    """Return the sums of powers of lambda in the first step's gradient.

    Formula: S_A = sum_{d<t} (d+1)(t-d) lambda^d; S_B = S_C = sum_{d<t} (t-d)(t-d+1)/2 lambda^d; S_D = t(t+1)(t+2)/6.
        In closed form S_A = R_1/(lambda-1), S_B = R_2/(lambda-1)^2, S_C = R_3/(lambda-1) with
        R_1 = (lambda - (t+1) lambda^(t+1) + t lambda^(t+2))/(1-lambda)^2 - (1-lambda^t)/((1-1/lambda)(1-lambda))
        + t/(lambda-1), R_2 = lambda^2 (1-lambda^t)/(1-lambda) - lambda t(t+3)/2 + t(t+1)/2,
        R_3 = t lambda/(1-lambda) - (lambda^2 - lambda^(t+2))/(1-lambda)^2 - t(t+1)/2.
    Source: thesis, equations E.16 and E.17.

    Args:
        eigenvalue: lambda, from -1 to 1.
        method: sums, stable everywhere, or the closed form, which loses digits near 0 and 1 and has poles there.
    """
    x = np.asarray(eigenvalue, float)
    require(bool((np.abs(x) <= 1).all()), "the eigenvalue must lie in -1..1", eigenvalue=eigenvalue)
    require(length >= 1, "length must be at least 1", length=length)
    require(method in ("sums", "closed"), "method must be one of sums, closed", method=method)
    t = length
    none = np.full(x.shape, t * (t + 1) * (t + 2) / 6)
    if method == "sums":
        d = np.arange(t)
        powers = x[..., None] ** d
        ahead = powers @ ((t - d) * (t - d + 1) / 2)
        return PowerSums(powers @ ((d + 1.0) * (t - d)), ahead, ahead.copy(), none)
    ratio = (1 - x**t) / (1 - x)
    one = (x - (t + 1) * x ** (t + 1) + t * x ** (t + 2)) / (1 - x) ** 2 - ratio / (1 - 1 / x) + t / (x - 1)
    two = x**2 * ratio - x * t * (t + 3) / 2 + t * (t + 1) / 2
    three = t * x / (1 - x) - (x**2 - x ** (t + 2)) / (1 - x) ** 2 - t * (t + 1) / 2
    return PowerSums(one / (x - 1), two / (x - 1) ** 2, three / (x - 1), none)


def first_pair_gradient(
    a: Any, b: Any, length: Side, method: Literal["sums", "closed"] = "sums"
) -> Float[np.ndarray, "*chains 2 2"]:
    """Return -dL/dW of chains of two symbols, per unit c, at W = c 1 1^T, v = c 1.

    Formula: (pi_l / (t (lambda-1)^2)) sum_i (P_mi - 1/2) (beta_im beta_li S_A + beta_im gamma_li S_B
        + beta_li gamma_im S_C + gamma_im gamma_li S_D), (P^n)_ij = (beta_ij lambda^n + gamma_ij) / (lambda-1).
    Source: thesis, equations E.15 to E.17.

    Args:
        method: how the power sums are computed.
    """
    chain = _chain(a, b, length)
    gap = -(chain.leave_a + chain.leave_b)
    sums = [part[..., None, None, None] for part in power_sums(1 + gap, length, method)]
    beta, gamma = chain.rotation * gap[..., None, None], chain.stationary[..., None, :] * gap[..., None, None]
    beta_im, gamma_im = (np.swapaxes(part, -1, -2)[..., :, None, :] for part in (beta, gamma))
    beta_li, gamma_li = beta[..., None, :, :], gamma[..., None, :, :]
    terms = beta_im * beta_li * sums[0] + beta_im * gamma_li * sums[1]
    terms = terms + beta_li * gamma_im * sums[2] + gamma_im * gamma_li * sums[3]
    weighted = (chain.centred[..., :, None, :] * terms).sum(axis=-1)
    return np.asarray(chain.stationary[..., None, :] * weighted / (length * gap**2)[..., None, None])


def first_position_gradient(a: Any, b: Any, length: Side) -> Float[np.ndarray, "*chains length"]:
    """Return -dL/dv of chains of two symbols, per unit c, at W = c 1 1^T, v = c 1.

    Formula: (1/t) (n(n+1)/2 ((u^2+w^2)/(lambda-1)^2 - 1/2)
        + 2 lambda u w/(lambda-1)^3 ((lambda - lambda^(n+1))/(1-lambda) - n)) with n = t - j + 1.
    Source: thesis, equation E.28.
    """
    u, w, gap, x, n = _closed(a, b, length)
    constant = n * (n + 1) / 2 * ((u**2 + w**2) / gap**2 - 0.5)
    return np.asarray((constant + 2 * x * u * w / gap**3 * _partial(x, n)) / length)


def second_position_gradient(
    a: Any, b: Any, length: Side, form: Form = "corrected"
) -> Float[np.ndarray, "*chains length"]:
    """Return the part of the second step's -dL/dv that comes from the diagonal of W: -dL/dv at W = I.

    As printed, the first coordinate lacks the factor lambda/(lambda-1) and has t(t-1)/2 instead of t(t+1)/2, and the
    others have lambda - 1 instead of 1 - lambda in the second bracket.

    Formula: (1/t) sum_il pi_l (P_li - 1/2)/(lambda-1)^2 (beta_il beta_li/(lambda-1)
        ((lambda^j - lambda^(t+1))/(1-lambda) - n lambda^(j-1))
        + beta_il gamma_li/(lambda-1) ((lambda - lambda^(n+1))/(1-lambda) - n)
        + n(n+1)/2 (gamma_il beta_li lambda^(j-1) + gamma_il gamma_li)) with n = t - j + 1; for j = 1 it is
        (1/t) (lambda u w/(lambda-1)^3 ((lambda - lambda^(t+1))/(1-lambda) - t)
        + (w^2 (a-1/2) + u^2 (b-1/2))/(lambda-1)^2 t(t+1)/2).
    Source: thesis, equations E.37 and E.38, corrected here; E.36 prints pi_i for pi_l.
    """
    require_form(form)
    chain, (u, w, gap, x, n) = _chain(a, b, length), _closed(a, b, length)
    j, t = np.arange(1, length + 1), length
    beta, gamma = chain.rotation * gap[..., None], chain.stationary[..., None, :] * gap[..., None]

    def total(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        shares = chain.stationary[..., :, None] * chain.centred * np.swapaxes(first, -1, -2) * second
        return np.asarray(shares.sum(axis=(-1, -2))[..., None] / gap**2)

    second = _partial(x, n) if form == "corrected" else -(x - x ** (n + 1)) / (1 - x) - n
    found = total(beta, beta) / gap * ((x**j - x ** (t + 1)) / (1 - x) - n * x ** (j - 1))
    found = found + total(beta, gamma) / gap * second
    found = found + n * (n + 1) / 2 * (total(gamma, beta) * x ** (j - 1) + total(gamma, gamma))
    if form == "printed":
        own = (w**2 * (1 / 2 + u) + u**2 * (1 / 2 + w)) / gap**2
        opening = _partial(x, np.array([t])) * u * w / gap**2 + own * t * (t - 1) / 2
        found = np.concatenate([opening, found[..., 1:]], axis=-1)
    return np.asarray(found / t)


def flat_tensor(
    length: Annotated[int, AtMost(1_000)], nodes: Annotated[int, AtMost(200)] = 60
) -> Float[np.ndarray, "length 2 2"]:
    """Return the tensor of the minimal model's loss for two symbols, averaged over flat rows.

    Formula: E[T] with t T_jml = sum_i (P_mi - 1/2) pi_l (pi_i + lambda^(j-1) N_li) (pi_m n(n+1)/2 + H_n N_im),
        N = I - 1 pi, H_n = sum_{d<n} (n-d) lambda^d, n = t - j + 1, by ``flat_rule``.
    Source: derived here from the thesis' equations E.13 and E.15.
    """
    require(
        length * nodes**2 <= LARGEST_RULE, "length times nodes^2 must be at most 3 x 10^7", length=length, nodes=nodes
    )
    leave_a, leave_b, weights = flat_rule(nodes)
    total = np.zeros((length, 2, 2))
    for at in range(0, len(weights), BLOCK):
        few = slice(at, at + BLOCK)
        chain = _from_leaving(leave_a[few], leave_b[few], length)
        start, turn, centred = chain.stationary, chain.rotation, chain.centred
        powers = (1 - leave_a[few] - leave_b[few])[:, None] ** np.arange(length)
        ahead = powers.cumsum(axis=1).cumsum(axis=1)[:, ::-1]
        n = np.arange(length, 0, -1)
        triangle = np.broadcast_to(n * (n + 1) / 2, powers.shape)
        inner = [np.einsum("cmi,ci,cm->cm", centred, start, start), np.einsum("cmi,ci,cim->cm", centred, start, turn)]
        outer = [np.einsum("cmi,cli,cm->cml", centred, turn, start), np.einsum("cmi,cli,cim->cml", centred, turn, turn)]
        parts = [*(part[:, :, None] for part in inner), *outer]
        profiles = (triangle, ahead, powers * triangle, powers * ahead)
        for profile, part in zip(profiles, parts, strict=True):
            total += np.tensordot(profile * weights[few, None], part * start[:, None, :], axes=(0, 0))
    return total / length


def symmetric_moments(length: Listed, epsilon: float = 0.5) -> Float[np.ndarray, " length"]:
    """Return the moments of the eigenvalue of symmetric chains, a = b uniform on 1/2 - epsilon to 1/2 + epsilon.

    Formula: E[lambda^d] = (2 epsilon)^d / (d+1) for even d, 0 for odd, d = 1, …, t.
    Source: derived here, for the thesis' Corollary E.2 and Proposition E.3.
    """
    _require_epsilon(epsilon)
    require(length >= 1, "length must be at least 1", length=length)
    d = np.arange(1, length + 1)
    return np.where(d % 2, 0.0, (2 * epsilon) ** d / (d + 1))


def symmetric_tensor(length: Binomial, epsilon: float = 0.5) -> Float[np.ndarray, "length 2 2"]:
    """Return the tensor of the minimal model's loss for chains without a unigram signal: a = b.

    Formula: t T_jml = (1/8) sum_{d=1}^{n} (n-d+1) E[lambda^d] + (1/8) n(n+1)/2 E[lambda^j] (+1 for m = l, else -1),
        n = t - j + 1.
    Source: derived here, exactly, for the thesis' Corollary E.2: the diagonal of W then grows like t ln(t) / 16 and v
        like (n / (4t)) ln n, per unit c, for epsilon = 1/2; printed are an infinite multiple of t and -n / (2t), in
        E.49 by 2a - 2 in the place of lambda = 2a - 1.
    """
    require(length >= 2, "length must be at least 2", length=length)
    moments = symmetric_moments(length, epsilon)
    n = np.arange(length, 0, -1)
    common = moments.cumsum().cumsum()[::-1]
    own = n * (n + 1) / 2 * moments
    signs = np.array([[1, -1], [-1, 1]])
    return np.asarray((common[:, None, None] + own[:, None, None] * signs) / (8 * length))


def symmetric_first_position(
    length: Binomial, epsilon: float = 0.5, form: Form = "corrected"
) -> Float[np.ndarray, " length"]:
    """Return -dL/dv, per unit c, at W = c 1 1^T, v = c 1 for chains without a unigram signal.

    With the printed sign v would shrink; it grows, but by less than order t as on chains with a signal.

    Formula: (1/(2t)) sum_{d=1}^{n} (n-d+1) E[lambda^d], n = t - j + 1. Printed: -n / (2t).
    Source: thesis, Corollary E.2, equations E.45 and E.49, corrected here.
    """
    require_form(form)
    if form == "printed":
        return -np.arange(length, 0, -1) / (2 * length)
    return np.asarray(symmetric_tensor(length, epsilon).sum(axis=(1, 2)))


class FirstStepConstants(NamedTuple):
    """The constants of the leading terms of a first step on flat rows.

    Args:
        diagonal: B.
        off_diagonal: A, close to B/4.
        position: D.
    """

    diagonal: float
    off_diagonal: float
    position: float


def first_step_constants() -> FirstStepConstants:
    """Return the constants of the first step's leading terms.

    Formula: B = (8 ln 2 - 5)/12, A = (7 - 10 ln 2)/6, D = E[pi_1^2 + pi_2^2] - 1/2 = 3/2 - ln 4.
    Source: thesis, equations E.24, E.25 and E.29.
    """
    return FirstStepConstants((8 * LN2 - 5) / 12, (7 - 10 * LN2) / 6, 1.5 - 2 * LN2)


def first_step_leading(length: Listed, scale: float, rate: float) -> MinimalWeights:
    """Return the leading terms of the weights after a first step on flat rows from W = c 1 1^T, v = c 1.

    The ratio of the two entries of W's gradient is close to 4 in the limit: at t = 100 it is 4.46, at 10 it is 9.5.

    Formula: W_ml = c + c rate K (t+1)(t+2)/6 with K = B on the diagonal and A off it; v_j = c + (c rate/t) D n(n+1)/2.
    Source: thesis, Lemma 8.4 (E.1) and equations E.23 and E.29.

    Args:
        scale: c.
        rate: the learning rate.

    Returns:
        The weights; the neglected terms are O(c rate t) in W and O(c rate) in v.
    """
    require(length >= 2, "length must be at least 2", length=length)
    constants, n = first_step_constants(), np.arange(length, 0, -1)
    grown = np.where(np.eye(2, dtype=bool), constants.diagonal, constants.off_diagonal)
    return MinimalWeights(
        scale + scale * rate * grown * (length + 1) * (length + 2) / 6,
        scale + scale * rate / length * constants.position * n * (n + 1) / 2,
    )


def second_step_profile(places: Any, form: Form = "corrected", nodes: Annotated[int, AtMost(500)] = 40) -> np.ndarray:
    """Return the coefficients h_j of the second step's leading term: the even/odd pattern.

    ``second_position_gradient``, averaged over flat rows, is n(n+1)/(2t) h_j + O(1). Even j lie above the constant (8
    ln 2 - 5)/6, odd ones from 3 on below it: for each chain the distance is a power of lambda, and the average decays
    as a power of j.

    Formula: h_1 = (1 - ln 2)/3; for j >= 2, h_j = E[2 u w (w (a-1/2) + u (b-1/2)) lambda^(j-1)/(lambda-1)^3]
        + (8 ln 2 - 5)/6, so h_2 = (7 - 10 ln 2)/2 + (8 ln 2 - 5)/6. Printed: (5 - 8 ln 2)/6.
    Source: thesis, equations E.39, E.40, E.42 and E.43, whose last term is printed with the wrong sign.

    Args:
        places: j, from 1.
    """
    require_form(form)
    j = np.asarray(places)
    require(bool((j >= 1).all()), "places must be at least 1", places=j.tolist())

    def changing(leave_a: Any, leave_b: Any) -> Any:
        gap = -(leave_a + leave_b)
        own = leave_b * (0.5 - leave_a) + leave_a * (0.5 - leave_b)
        powers = (1 + gap).reshape(-1, *[1] * j.ndim) ** (j - 1)
        return (-2 * leave_a * leave_b * own / gap**3).reshape(-1, *[1] * j.ndim) * powers

    constant = (8 * LN2 - 5) / 6 * (1 if form == "corrected" else -1)
    return np.where(j == 1, (1 - LN2) / 3, flat_average(changing, nodes) + constant)


def overtaking_rate(tensor: Any) -> Extended:
    """Return the learning rate above which v_2 exceeds v_1 after two steps from W = c 1 1^T, v = c 1, whatever c.

    Lemma 8.4 states this for long sequences. On flat rows no learning rate achieves it with up to 9 tokens; at 100 it
    is 0.00356.

    Formula: 2 (g_1 - g_2) / ((G_11 - G_12) (d_2 - d_1) - G_12 (g_1 - g_2)), with g_j = sum_ml T_jml, d_j = sum_m T_jmm
        and G = sum_j T_j; infinite where the denominator is not positive. On flat rows, for long sequences, close to
        24 D / ((B - A) (h_2 - h_1)) t^-3 = 3513 t^-3.
    Source: derived here, for the thesis' Lemma 8.4, from ``minimal_step`` twice.

    Args:
        tensor: T of a distribution of two-symbol chains that is symmetric in the symbols, shape (length, 2, 2).
    """
    terms = np.asarray(tensor, float)
    shaped = terms.ndim == 3 and terms.shape[1:] == (2, 2) and len(terms) >= 2
    require(shaped, "the tensor must be of shape (length, 2, 2), two tokens at least", shape=terms.shape)
    alike = np.allclose(terms, terms[:, ::-1, ::-1], rtol=1e-6, atol=1e-9 * np.abs(terms).max())
    require(alike, "the distribution must not distinguish the two symbols", sums=terms.sum(axis=0).tolist())
    whole, diagonal, pair = terms.sum(axis=(1, 2)), terms[:, 0, 0] + terms[:, 1, 1], terms.sum(axis=0)
    behind = whole[0] - whole[1]
    gain = (pair[0, 0] - pair[0, 1]) * (diagonal[1] - diagonal[0]) - pair[0, 1] * behind
    return float(2 * behind / gain) if gain > 0 else math.inf


class _Chain(NamedTuple):
    """Chains of two symbols, with P^n = 1 pi + lambda^n N.

    Args:
        leave_a: 1 - a, shape (...).
        leave_b: 1 - b.
        stationary: pi, shape (..., 2).
        rotation: N, shape (..., 2, 2).
        centred: P - 1/2, shape (..., 2, 2).
    """

    leave_a: np.ndarray
    leave_b: np.ndarray
    stationary: np.ndarray
    rotation: np.ndarray
    centred: np.ndarray


def _from_leaving(leave_a: np.ndarray, leave_b: np.ndarray, length: int) -> _Chain:
    require(length >= 2, "length must be at least 2", length=length)
    total = leave_a + leave_b
    first, second = leave_b / total, leave_a / total
    rotation = np.stack([np.stack([second, -second], axis=-1), np.stack([-first, first], axis=-1)], axis=-2)
    half_a, half_b = 0.5 - leave_a, 0.5 - leave_b
    centred = np.stack([np.stack([half_a, -half_a], axis=-1), np.stack([-half_b, half_b], axis=-1)], axis=-2)
    return _Chain(leave_a, leave_b, np.stack([first, second], axis=-1), rotation, centred)


def _chain(a: Any, b: Any, length: int) -> _Chain:
    stay_a, stay_b = np.broadcast_arrays(np.asarray(a, float), np.asarray(b, float))
    inside = bool(((stay_a >= 0) & (stay_a <= 1) & (stay_b >= 0) & (stay_b <= 1)).all())
    require(inside, "a and b must lie in 0..1", a=a, b=b)
    require(bool((stay_a + stay_b < 2).all()), "a and b must not both be 1", a=a, b=b)
    return _from_leaving(1 - stay_a, 1 - stay_b, length)


def _closed(a: Any, b: Any, length: int) -> tuple[np.ndarray, ...]:
    """Return u, w, lambda - 1 and lambda with an axis for positions, and n = t - j + 1."""
    chain = _chain(a, b, length)
    u, w = -chain.leave_a[..., None], -chain.leave_b[..., None]
    return u, w, u + w, 1 + u + w, np.arange(length, 0, -1)


def _partial(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return (x - x^(n+1))/(1-x) - n."""
    return np.asarray((x - x ** (n + 1)) / (1 - x) - n)


def _require_epsilon(epsilon: float) -> None:
    require(0 < epsilon <= 0.5, "epsilon must lie in (0, 1/2]", epsilon=epsilon)
