"""Parametrisations as powers of the width, and the exponents of the first step that follow from them.

A layer computes with W = n^-a w, where w has standard deviation of order n^-b at the start and is trained with the
learning rate eta n^-c.

Shared arguments:
    parametrisation: ``standard``, ``ntk``, ``mean-field`` (one hidden layer only) or ``maximal-update``.
    role: ``first`` (the first layer's weights, and all biases), ``inner`` or ``last``.
    optimiser: ``sgd`` or ``adam``.
"""

import math
from fractions import Fraction
from typing import Literal, NamedTuple

from elegans.calculators.domain import require

Scaling = Literal["standard", "ntk", "mean-field", "maximal-update"]
Role = Literal["first", "inner", "last"]
UpdateRule = Literal["sgd", "adam"]
HALF = Fraction(1, 2)


class LayerScaling(NamedTuple):
    """The exponents of one layer.

    Args:
        a: minus the power of the width in the multiplier.
        b: minus the power of the width in the standard deviation of the trained weights at the start.
        c: minus the power of the width in the learning rate.
    """

    a: Fraction
    b: Fraction
    c: Fraction


_POWERS: dict[Scaling, dict[Role, tuple[Fraction | int, Fraction | int]]] = {
    "standard": {"first": (0, 0), "inner": (0, HALF), "last": (0, HALF)},
    "ntk": {"first": (0, 0), "inner": (HALF, 0), "last": (HALF, 0)},
    "mean-field": {"first": (0, 0), "last": (1, 0)},
    "maximal-update": {"first": (-HALF, HALF), "inner": (0, HALF), "last": (HALF, HALF)},
}
_RATES: dict[tuple[Scaling, UpdateRule], dict[Role, Fraction | int]] = {
    ("mean-field", "sgd"): {"first": -1, "last": -1},
    ("mean-field", "adam"): {"first": 0, "last": 0},
    ("maximal-update", "adam"): {"first": HALF, "inner": 1, "last": HALF},
}
"""Where the learning rate has a power of the width in this form."""


def abc_scaling(parametrisation: Scaling, role: Role, optimiser: UpdateRule = "sgd") -> LayerScaling:
    """Return the exponents of a layer as the sources write them.

    Formula: W = n^-a w, w ~ N(0, n^(-2b)), rate eta n^-c.
    Source: table 1 of Yang and Hu (2021); for Adam, table 3 of Yang et al. (2022).
    """
    powers = _POWERS[parametrisation]
    require(role in powers, "a mean-field network has no inner layer", role=role)
    c = _RATES.get((parametrisation, optimiser), {}).get(role, 0)
    return LayerScaling(*map(Fraction, (*powers[role], c)))


def shifted_scaling(scaling: LayerScaling, shift: float | Fraction, optimiser: UpdateRule = "sgd") -> LayerScaling:
    """Return exponents that give the same network at every step, with another multiplier.

    Formula: a + t, b - t, and c - 2t for SGD or c - t for Adam with epsilon = 0.
    Source: section 3 of Yang and Hu (2021); section J.2 of Yang et al. (2022).

    Args:
        scaling: the exponents a, b and c.
        shift: t.
    """
    t = Fraction(shift)
    return LayerScaling(scaling.a + t, scaling.b - t, scaling.c - (2 * t if optimiser == "sgd" else t))


def plain_scaling(parametrisation: Scaling, role: Role, optimiser: UpdateRule = "sgd") -> LayerScaling:
    """Return the exponents of a layer without a multiplier: only initial values and learning rates depend on the width.

    Formula: (0, a + b, c + 2a) for SGD, (0, a + b, c + a) for Adam.
    Source: follows from the symmetry (``shifted_scaling``).
    """
    scaling = abc_scaling(parametrisation, role, optimiser)
    return shifted_scaling(scaling, -scaling.a, optimiser)


class FirstStepExponents(NamedTuple):
    """Powers of the width of root mean squares at the first step of a ReLU network with two hidden layers.

    Args:
        output: of the output at the start.
        h1: of the change of the first layer's pre-activations.
        h2: of the change of the second layer's.
        change: of the change of the output to first order in the learning rate.
        product: of its change where the updates of two layers multiply, if that is larger.
    """

    output: Fraction
    h1: Fraction
    h2: Fraction
    change: Fraction
    product: Fraction


def first_step_exponents(
    parametrisation: Scaling, optimiser: UpdateRule = "sgd", decrease: float | Fraction = 0
) -> FirstStepExponents:
    """Return the exponents of the first step at a learning rate eta n^(-decrease).

    Sums over neurons of terms with independent signs grow as n^(1/2), sums of terms with one sign as n. An entry of an
    update is, apart from its rate, the product of the signals that meet there, or with Adam a sign.

    Formula: with b and c of layers 1 to 3 without multipliers, g1 = 1/2 - b2 - b3, g2 = -b3 (both 0 for Adam):
        h1 = g1 - c1; h2 = max(1 + g2 - c2, h1 + 1/2 - b2, w), w = 1 - 2 b2 - b3 - c1 (SGD) or 1/2 - b2 - c1 (Adam);
        change = max(1 - c3, 1 - b3 + h2); product = max(change, 1 - c3 + h2). The second term of the change: an update
        of the second layer has, neuron by neuron, the sign of the last layer's weight, so their products add up.
    Source: derived here; compare section 5 of Yang and Hu (2021).
    """
    require(parametrisation != "mean-field", "a mean-field network has one hidden layer", parametrisation="mean-field")
    first, inner, last = (plain_scaling(parametrisation, role, optimiser) for role in ("first", "inner", "last"))
    c1, c2, c3 = (scaling.c + Fraction(decrease) for scaling in (first, inner, last))
    b2, b3 = inner.b, last.b
    is_sgd = optimiser == "sgd"
    h1 = (HALF - b2 - b3 if is_sgd else 0) - c1
    through = (1 - 2 * b2 - b3 if is_sgd else HALF - b2) - c1
    h2 = max(1 - (b3 if is_sgd else 0) - c2, h1 + HALF - b2, through)
    change = max(1 - c3, 1 - b3 + h2)
    return FirstStepExponents(HALF - b3, h1, h2, change, max(change, 1 - c3 + h2))


def support_share(d: int, k: int, s: int, j: int) -> Fraction:
    """Return the share of neurons with s random inputs that have exactly j of the k relevant ones.

    Formula: p_j = C(k, j) C(d - k, s - j) / C(d, s).
    Source: the hypergeometric distribution.

    Args:
        d: the number of inputs.
        k: how many of them are relevant, at most d.
        s: the number of inputs of a neuron, at most d.
        j: how many of these are relevant, at least 0.
    """
    require(0 <= k <= d and 0 <= s <= d and j >= 0, "k and s must be at most d, and j at least 0", d=d, k=k, s=s, j=j)
    return Fraction(math.comb(k, j) * math.comb(d - k, s - j) if j <= s else 0, math.comb(d, s))
