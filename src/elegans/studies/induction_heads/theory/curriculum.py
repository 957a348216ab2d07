"""The curriculum of two steps for two symbols: one on flat rows, one on chains close to coin flips.

``length`` is t, at least 2; ``epsilon``, in (0, 1/2], is half the length of the interval around 1/2 on which a = b is
uniform in the second step; ``form`` is the corrected formula or the printed one. Arguments outside a function's
hypotheses or domain raise ``TheoryError``.
"""

import math
from typing import Annotated

from elegans.calculators.domain import AtMost, Form, Listed, require, require_form, require_positive
from elegans.studies.induction_heads.theory.minimal import MinimalWeights, minimal_constant, minimal_step
from elegans.studies.induction_heads.theory.two_states import (
    first_step_constants,
    flat_tensor,
    symmetric_moments,
    symmetric_tensor,
)


def two_step_curriculum(
    length: Annotated[int, AtMost(2_000)],
    epsilon: float,
    first_rate: float,
    second_rate: float,
    *,
    start: tuple[float, float] = (0.0, 1.0),
    keep_position: bool = False,
) -> MinimalWeights:
    """Return the weights after two steps: one on flat rows, one on the hardest chains with all before forgotten.

    W ends as a multiple of the identity and v_2 as the largest coordinate of v: the bigram solution, coordinate by
    coordinate. The sum of the others does not vanish relative to v_2, whatever epsilon: see ``curriculum_background``.

    Formula: W_1 = W_0 + rate_1 sum_j v_j E[T_j], v_1 likewise, on flat rows; W_2 = rate_2 sum_j v_{1,j} T_j and v_2
        likewise with T = ``symmetric_tensor``, weight decay 1 having erased W_1, and v_1 unless it is kept.
    Source: thesis, Propositions 8.5 and E.3. Equation E.54 erases v, E.59 keeps it; the predictor as stated needs W and
        v erased.

    Args:
        first_rate: of order 1/t^2.
        second_rate: of order 1/t.
        start: w of W_0 = w 1 1^T and the constant of v. W must be small relative to what the first step adds.
        keep_position: whether weight decay leaves v alone.
    """
    require_positive("Proposition E.3", first_rate=first_rate, second_rate=second_rate)
    second = symmetric_tensor(length, epsilon)
    aligned = minimal_step(flat_tensor(length), minimal_constant(2, length, *start), first_rate)
    return minimal_step(second, aligned, second_rate, pair_decay=1.0, position_decay=0.0 if keep_position else 1.0)


def curriculum_diagonal(epsilon: float, form: Form = "corrected") -> float:
    """Return the factor in the diagonal of W after the curriculum's second step.

    The diagonal tends to the constant of v times rate_2 t, times this; for small epsilon this is close to epsilon^2/6.

    Formula: (artanh(2 eps)/(2 eps) - 1)/8 = -E[(a-1/2)/(a-1)]/8, a uniform on 1/2 - eps to 1/2 + eps. Printed is
        the integral without the density 1/(2 eps): 2 eps + (1/2) ln((1/2 - eps)/(1/2 + eps)), about -(8/3) eps^3.
    Source: thesis, equation E.53, corrected here.
    """
    require_form(form)
    require(0 < epsilon < 0.5, "epsilon must lie between 0 and 1/2 (Proposition E.3)", epsilon=epsilon)
    if form == "printed":
        return 2 * epsilon + 0.5 * math.log((0.5 - epsilon) / (0.5 + epsilon))
    return (math.atanh(2 * epsilon) / (2 * epsilon) - 1) / 8


def curriculum_position(place: Listed, epsilon: float, form: Form = "corrected") -> float:
    """Return the factor in the leading term of v_j after the curriculum's second step.

    The term is rate_2 (rho - c') n(n+1)/(2t) times this, rho - c' being the difference of W's entries after the first.

    Formula: E[lambda^j]/4 = (2 eps)^j/(4 (j+1)) for even j, 0 for odd. Printed, without the factor 1/2 of E.55 and
        without the density: the integral of (a-1/2)(2a-1)^(j-1), 2^j eps^(j+1)/(j+1).
    Source: thesis, equations E.55 and E.57, corrected here.

    Args:
        place: j, at least 1.
    """
    require_form(form)
    require(place >= 1, "place must be at least 1", place=place)
    moment = float(symmetric_moments(place, epsilon)[-1])
    if form == "printed":
        return 0.0 if place % 2 else 2.0**place * epsilon ** (place + 1) / (place + 1)
    return moment / 4


def curriculum_background(epsilon: float) -> float:
    """Return the sum of v's other coordinates relative to v_2 after the curriculum, in the limit of long sequences.

    It does not vanish with epsilon, so logits keep a component of unigram counts; the proposition's remainder
    O(epsilon^6) holds for coordinates, not for logits.

    Formula: lim sum_{j != 2} v_j / v_2 = ((B+A)/(B-A)) (3/L^2)(artanh(L)/L - 1) + sum_{even j >= 4} 3 L^(j-2)/(j+1),
        L = 2 eps, the second sum being (3/L^2)(artanh(L)/L - 1 - L^2/3), for W_0 = 0.
    Source: derived here, for the thesis' equation E.60.
    """
    require(0 < epsilon < 0.5, "epsilon must lie between 0 and 1/2 (Proposition E.3)", epsilon=epsilon)
    constants, length = first_step_constants(), 2 * epsilon
    series = 3 / length**2 * (math.atanh(length) / length - 1)
    shares = constants.diagonal + constants.off_diagonal, constants.diagonal - constants.off_diagonal
    return shares[0] / shares[1] * series + series - 1
