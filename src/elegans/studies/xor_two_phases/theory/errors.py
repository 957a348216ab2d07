"""XOR: distances between the true loss, the surrogate and minibatches, and what the two layers conserve.

Every bound is for one neuron of weights w and output weight a; means are over the network's neurons. Source of all
here: Glasgow (2024), sections B and C.1.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    weight: w, shape (p, d).
    output: a, shape (p,).
    lipschitz: c, 2 as in the source or the sharper 1/2.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float64

from elegans.calculators.domain import require, require_positive
from elegans.studies.xor_two_phases.theory.network import network, xor_heaviness, xor_output

LIPSCHITZ = 2.0
"""The source's constant for the slope's dependence on the output; 1/2 is valid too."""


class SurrogateErrors(NamedTuple):
    """Bounds on the distance between gradients of the loss and gradients of the surrogate L_0.

    Args:
        weight: on ||grad_w L_0 - grad_w L||, shape (p,).
        output: on |grad_a L_0 - grad_a L|, shape (p,).
        slope: on the mean square of l' - l'_0.
        flip: on how much flipping one sign of x changes l', shape (d,).
    """

    weight: np.ndarray
    output: np.ndarray
    slope: float
    flip: np.ndarray


def xor_surrogate_errors(weight: Any, output: Any, lipschitz: float = LIPSCHITZ) -> SurrogateErrors:
    """Return bounds on the distance between the loss and the surrogate.

    Formula: with c = 2: ||grad_w L_0 - grad_w L|| <= c |a| E||a w||; |grad_a L_0 - grad_a L| <= c ||w|| E||a w||;
        E[(l' - l'_0)^2] <= c^2 (E||a w||)^2; a flip of x_i changes l' by at most 2 c E|a w_i|.
    Source: Glasgow (2024), Lemmas C.2 and C.5; with c = 1/2 derived here.
    """
    weights, outputs = network(weight, output)
    _require_lipschitz(lipschitz)
    heaviness = xor_heaviness(weights, outputs)
    single = (np.abs(outputs)[:, None] * np.abs(weights)).mean(axis=0)
    return SurrogateErrors(
        lipschitz * np.abs(outputs) * heaviness,
        lipschitz * np.linalg.norm(weights, axis=1) * heaviness,
        (lipschitz * heaviness) ** 2,
        2 * lipschitz * single,
    )


def xor_coordinate_errors(weight: Any, output: Any, x: Any, lipschitz: float = LIPSCHITZ) -> Float64[np.ndarray, "p d"]:
    """Return bounds on |grad_{w_i} L_0 - grad_{w_i} L|, weight by weight.

    The source's remainder d^(-omega(1)) is given here as its proof has it.

    Formula: with c = 2: |a| (2 c E|a w_i| + c log(d) E||a w|| P(|x_{-i} . w| <= |w_i|) + c sqrt(d) E||a w||
        P(|f| > log(d) E||a w||)).
    Source: Glasgow (2024), Lemma C.3.

    Args:
        x: the inputs over which probabilities are taken, ``sign_table(d)`` for exact ones, shape (count, d).
    """
    weights, outputs = network(weight, output)
    _require_lipschitz(lipschitz)
    inputs, d = np.asarray(x, float), weights.shape[1]
    heaviness, log = xor_heaviness(weights, outputs), math.log(d)
    single = (np.abs(outputs)[:, None] * np.abs(weights)).mean(axis=0)
    large = float((np.abs(xor_output(weights, outputs, inputs)) > log * heaviness).mean())
    pre = inputs @ weights.T
    near = np.stack(
        [
            (np.abs(pre - inputs[:, i : i + 1] * weights[:, i]) <= np.abs(weights[:, i]) + 1e-12).mean(axis=0)
            for i in range(d)
        ],
        axis=1,
    )
    inner = 2 * single + log * heaviness * near + math.sqrt(d) * heaviness * large
    return np.asarray(lipschitz * np.abs(outputs)[:, None] * inner)


def xor_balance_change(
    weight_gradient: Float[Any, "p d"], output_gradient: Float[Any, " p"], rate: float
) -> Float64[np.ndarray, " p"]:
    """Return by how much one step changes a^2 - ||w||^2 of every neuron, exactly, for any loss and sample.

    Formula: eta^2 (G_a^2 - ||G_w||^2), since w . G_w = a G_a.
    Source: derived here; in the proof of Glasgow (2024), Lemma B.13.

    Args:
        rate: the step size eta.
    """
    into_weight, into_output = np.asarray(weight_gradient, float), np.asarray(output_gradient, float)
    return np.asarray(rate**2 * (into_output**2 - (into_weight**2).sum(axis=1)))


class LayerBounds(NamedTuple):
    """Bounds that hold for every neuron while |a| <= ||w||, each of shape (p,).

    Args:
        weight: on ||G_w||.
        output: on |G_a|.
        gap: on how much ||w||^2 - a^2 grows in one step.
    """

    weight: np.ndarray
    output: np.ndarray
    gap: np.ndarray


def xor_layer_bounds(weight: Any, output: Any, rate: float) -> LayerBounds:
    """Return Lemma B.13's bounds on gradients and on the balance of the layers, for any 2-Lipschitz loss.

    With them |a| <= ||w|| is preserved.

    Formula: ||G_w|| <= 2 |a|; |G_a| <= 2 ||w||; ||w||^2 - a^2 grows by at most 4 eta^2 a^2 per step.
    Source: Glasgow (2024), Lemma B.13, for eta <= 1/4 and m >= d log(d)^2.

    Args:
        rate: the step size eta, at most 1/4.
    """
    weights, outputs = network(weight, output)
    require(0 < rate <= 0.25, "rate must lie in (0, 1/4] (Lemma B.13)", rate=rate)
    norms = np.linalg.norm(weights, axis=1)
    return LayerBounds(2 * np.abs(outputs), 2 * norms, 4 * rate**2 * outputs**2)


class GradientNoise(NamedTuple):
    """Bounds on the squared distance of a minibatch's gradients from the population's.

    Args:
        weight: on ||G_w - grad_w||^2 / a^2.
        coordinate: on |G_{w_i} - grad_{w_i}|^2 / a^2.
        output: on |G_a - grad_a|^2 / ||w||^2.
    """

    weight: float
    coordinate: float
    output: float


def xor_gradient_noise(d: int, batch: int) -> GradientNoise:
    """Return bounds on minibatch gradients' distance from the population's, with probability 1 - d^(-omega(1)).

    Formula: d log(d)^2 / m; log(d)^2 / m; log(d)^2 / m.
    Source: Glasgow (2024), Lemma B.12, for any 2-Lipschitz loss and m >= d log(d)^2.

    Args:
        d: the number of inputs, at least 2.
        batch: the size m of the minibatch, at least d log(d)^2.
    """
    require(d >= 2, "d must be at least 2 (Lemma B.12)", d=d)
    square = math.log(d) ** 2
    require(batch >= d * square, "batch must be at least d log(d)^2 (Lemma B.12)", batch=batch, least=d * square)
    return GradientNoise(d * square / batch, square / batch, square / batch)


def berry_esseen_bound(vector: Float[Any, "*shape size"], constant: float = 0.56) -> Float64[np.ndarray, "*shape"]:
    """Return a bound on the distance of the distribution of w . xi, xi uniform signs, from a Gaussian's.

    Formula: sup_t |P(w . xi >= t) - P(N(0, ||w||_2^2) >= t)| <= C ||w||_3^3 / ||w||_2^3.
    Source: Glasgow (2024), Theorem B.5; C = 0.56 by Shevtsova, "An improvement of convergence rate estimates in the
        Lyapunov theorem" (2010).

    Args:
        constant: C.
    """
    require_positive("Theorem B.5", constant=constant)
    size = np.abs(np.asarray(vector, float))
    return np.asarray(constant * (size**3).sum(axis=-1) / (size**2).sum(axis=-1) ** 1.5)


def is_well_spread(vector: Float[Any, "*shape d"], constant: float) -> Bool[np.ndarray, "*shape"]:
    """Return whether vectors are c-well-spread: no entries are large, and enough of them are small but not 0.

    The powers of c are hard to read in print and reconstructed from the proof that uniform vectors have the property.

    Formula: ||v||_3^3 <= 20 ||v||^3 / sqrt(d); ||v||_inf <= (log(d) / sqrt(d)) ||v||; for the d / c^2 entries S of
        smallest size, sum_S |v_i| >= sqrt(d) ||v|| / c^5 and max_S |v_i| <= ||v|| / (c sqrt(d)).
    Source: Glasgow (2024), Definition B.1.

    Args:
        constant: c, from 1 to sqrt(d).
    """
    size = np.sort(np.abs(np.asarray(vector, float)), axis=-1)
    d = size.shape[-1]
    require(1 <= constant <= math.sqrt(d), "c must lie in 1..sqrt(d) (Definition B.1)", c=constant, d=d)
    norm, root = np.linalg.norm(size, axis=-1), math.sqrt(d)
    small = size[..., : int(d / constant**2)]
    conditions = (
        (size**3).sum(axis=-1) <= 20 * norm**3 / root,
        size[..., -1] <= math.log(d) / root * norm,
        small.sum(axis=-1) >= root * norm / constant**5,
        small[..., -1] <= norm / (constant * root),
    )
    return np.asarray(np.logical_and.reduce(conditions))


def _require_lipschitz(lipschitz: float) -> None:
    require(lipschitz >= 0.5, "the slope's Lipschitz constant is at least 1/2", lipschitz=lipschitz)
