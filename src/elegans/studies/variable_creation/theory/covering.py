"""Covering numbers of linear maps, and how an error is best split between the parts of a network.

Logarithms are natural. Bounds that the source states up to a constant are given with the constant 1, and say so.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    points: N, the number of inputs.
    output_lipschitz: L_out.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from elegans.calculators.domain import Form, require, require_form, require_positive

LogCover = Callable[[float], float]
"""The logarithm of a covering number as a function of the precision epsilon."""


class Allocation(NamedTuple):
    """How an error is best split.

    Args:
        value: the smallest sum of alpha_i / x_i^2.
        shares: the x_i that attain it.
    """

    value: float
    shares: tuple[float, ...]


def cover_allocation(alpha: Sequence[float], beta: Sequence[float], total: float) -> Allocation:
    """Return the best split of an error between parts whose covers cost alpha_i / x_i^2.

    Formula: min sum_i alpha_i / x_i^2 with sum_i beta_i x_i = C is gamma^3 / C^2, at
        x_i = (C/gamma) (alpha_i/beta_i)^(1/3), gamma = sum_i alpha_i^(1/3) beta_i^(2/3).
    Source: thesis, Lemma A.8.

    Args:
        alpha: the cost of precision, above 0.
        beta: the weight of each part's error, above 0, of the same length.
        total: C, above 0.
    """
    require(len(alpha) == len(beta) > 0, "alpha and beta must have the same length (Lemma A.8)", alpha=alpha, beta=beta)
    require_positive("Lemma A.8", total=total, alpha=min(alpha), beta=min(beta))
    gamma = sum(a ** (1 / 3) * b ** (2 / 3) for a, b in zip(alpha, beta, strict=True))
    shares = tuple(total / gamma * (a / b) ** (1 / 3) for a, b in zip(alpha, beta, strict=True))
    return Allocation(gamma**3 / total**2, shares)


def linear_cover(norm: float, input_norm: float, points: int, epsilon: float) -> float:
    """Return a bound on the log covering number of scalar linear functions, with explicit constants.

    Formula: 36 (B1 B2 / eps)^2 log(2 ceil(4 B1 B2 / eps + 2) N + 1).
    Source: thesis, Lemma A.10, after Zhang (2002), Theorem 4.

    Args:
        norm: B1, the largest norm of the weights.
        input_norm: B2, the largest norm of an input.
        epsilon: the precision, in the maximum over inputs.
    """
    require_positive("Lemma A.10", norm=norm, input_norm=input_norm, points=points, epsilon=epsilon)
    ratio = norm * input_norm / epsilon
    return 36 * ratio**2 * math.log(2 * math.ceil(4 * ratio + 2) * points + 1)


def matrix_cover(
    norm: float, input_norm: float, points: int, epsilon: float, rows: int, form: Form = "corrected"
) -> float:
    """Return a bound on the log covering number of linear maps x -> W x, in the l2 distance of outputs.

    The printed one holds up to an unnamed constant, taken as 1 here, so it is not a bound as it stands. The corrected
    one has every constant of the proof, at the best of 400 splits of the precision. (The lemma gives x as many entries
    as W has rows; it has as many as W has columns.)

    Formula: min over eps = eps2 + B_X eps1 of (B_W/eps1)^2 log(2 d1 + 1) + 36 (B_W B_X/eps2)^2
        log(2 ceil(4 B_W B_X/eps2 + 2) N + 1); printed: (B_X B_W/eps)^2 log(d1 N).
    Source: thesis, Lemma 4.10; the explicit one derived here from its proof.

    Args:
        norm: B_W, the largest sum of row norms, ||W^T||_{2,1}.
        input_norm: B_X, the largest norm of an input.
        epsilon: the precision, in the maximum over inputs.
        rows: d1, the number of rows of W.
    """
    require_positive("Lemma 4.10", norm=norm, input_norm=input_norm, points=points, epsilon=epsilon, rows=rows)
    require_form(form)
    if form == "printed":
        return (input_norm * norm / epsilon) ** 2 * math.log(rows * points)
    shares = [place / 401 for place in range(1, 401)]
    return min(
        (norm * input_norm / (share * epsilon)) ** 2 * math.log(2 * rows + 1)
        + linear_cover(norm, input_norm, points, (1 - share) * epsilon)
        for share in shares
    )


def head_cover(
    score: LogCover,
    values: LogCover,
    epsilon: float,
    *,
    input_norm: float = 1.0,
    value_bound: float = 1.0,
    output_lipschitz: float = 1.0,
    jacobian: float = 2.0,
    share: float | None = None,
) -> float:
    """Return a bound on the log covering number of attention heads, from covers of their scores and of their values.

    Formula: log N_score(alpha eps / (C_Norm L_out B_in B_X)) + log N_in((1 - alpha) eps / L_out), for any alpha in
        (0, 1); both covers are of m T points, the head's of m sequences.
    Source: thesis, Theorem 4.6.

    Args:
        score: log N of the scores, in the maximum norm, by precision.
        values: log N of the inputs' images phi_in, in l2, by precision.
        epsilon: the precision.
        input_norm: B_X.
        value_bound: B_in: ||phi_in(x)|| <= B_in ||x||.
        jacobian: C_Norm, 2 for the softmax as stated; 1 suffices (``softmax_change``).
        share: alpha; None for the best one, found numerically.
    """
    from scipy.optimize import minimize_scalar

    bounds = {"input_norm": input_norm, "value_bound": value_bound, "output_lipschitz": output_lipschitz}
    require_positive("Theorem 4.6", epsilon=epsilon, jacobian=jacobian, **bounds)
    steepness = jacobian * output_lipschitz * value_bound * input_norm

    def size(alpha: float) -> float:
        return score(alpha * epsilon / steepness) + values((1 - alpha) * epsilon / output_lipschitz)

    if share is not None:
        require(0 < share < 1, "share must lie between 0 and 1 (Theorem 4.6)", share=share)
        return size(share)
    return float(minimize_scalar(size, bounds=(1e-6, 1 - 1e-6), method="bounded", options={"xatol": 1e-12}).fun)


def readout_cover(head: LogCover, epsilon: float, readout: float) -> float:
    """Return a bound on the log covering number of scalar read-outs w . f of heads f, for one fixed w.

    Formula: log N_scalar(eps) <= log N_head(eps / B_w).
    Source: thesis, section 4.4.1, after Theorem 4.6.

    Args:
        head: log N of the heads, in l2, by precision.
        epsilon: the precision.
        readout: B_w, a bound on ||w||.
    """
    require_positive("Theorem 4.6", epsilon=epsilon, readout=readout)
    return head(epsilon / readout)


def head_change(
    score_change: float,
    value_change: float,
    *,
    input_norm: float = 1.0,
    value_bound: float = 1.0,
    output_lipschitz: float = 1.0,
    jacobian: float = 2.0,
) -> float:
    """Return a bound on how much a head's output changes when its scores and its values do.

    Formula: C_Norm L_out B_in B_X ||Score - Score'||_inf + L_out max_t ||phi_in(x_t) - phi'_in(x_t)||.
    Source: thesis, Lemma 4.7.

    Args:
        score_change: the largest change of a score.
        value_change: the largest change, in l2, of a token's image.
        input_norm: B_X.
        value_bound: B_in.
        jacobian: C_Norm.
    """
    bounds = {"input_norm": input_norm, "value_bound": value_bound, "output_lipschitz": output_lipschitz}
    require_positive("Lemma 4.7", jacobian=jacobian, **bounds)
    changes = {"score_change": score_change, "value_change": value_change}
    require(min(score_change, value_change) >= 0, "changes must be at least 0 (Lemma 4.7)", **changes)
    return output_lipschitz * (jacobian * value_bound * input_norm * score_change + value_change)
