"""Quadratic relaxation: a lower bound that uses that neurons cannot all be at their worst for one input."""

import numpy as np
from jaxtyping import Float

from elegans.certificates.bounds import relax
from elegans.certificates.network import DOUBLE, Network, gamma

LARGEST_N = 256
"""Maximum input size for decomposing matrices (n, n) at every node."""
_HEADROOM = 1e-6
"""The relative increase of the computed largest eigenvalue before it is verified."""
_SMALL = 2**17
"""Approximate number of multiplications in one product of matrices."""
_SPREAD = 2.0
"""The squared deviation from its centre for which a neuron is relaxed, in units of its mean."""


def quadratic(network: Network, node: Float[np.ndarray, " n"], label: float) -> float:
    """Bound y f from below over every input of a node, whose entries are -1 and +1 or 0 for both signs; ``label`` is y.

    If a neuron counts against the label and its sign is undetermined, relu(z) = (z + |z|) / 2 is at most
    z / 2 + z^2 / (4 t) + t / 4 for any t > 0. With z = a + w . x the sum over such neurons is affine in x but for
    x' Q x, Q = sum_i |v_i| / (4 t_i) w_i w_i', and on signs x' Q x <= sum_j d_j for any diagonal D for which D - Q is
    positive semidefinite. Neurons with different weights sum to a Q without a large eigenvalue, whereas intervals sum
    the worst case of each. Other neurons are relaxed as in ``bounds``.

    Rounding: any t > 0 is sound, so it matters only in evaluating the bound. By the same count as in
    ``Network.rounding`` that costs 32 gamma(n+width+16) sum_i |v_i| (H_i^2 / t_i + t_i) more. D is verified, not
    trusted: a floating-point Cholesky factorisation of D - Q that runs to its end shows that its smallest eigenvalue is
    at least -gamma(m+1) / (1 - gamma(m+1)) times its trace, which costs less than 4 m gamma(m+2) sum_j d_j.

    Source: AM-GM for the neurons; the diagonal is a feasible point of the dual of the semidefinite relaxation in
    Raghunathan et al., "Semidefinite relaxations for certifying robustness to adversarial examples" (2018); Rump,
    "Verification of positive definiteness" (2006), and Higham (2002), theorem 10.3, for the factorisation.

    Returns:
        The bound; minus infinity if there is no neuron of that kind, or D could not be verified.
    """
    free = node == 0
    centre = network.weight @ node + network.bias
    radius = network.size @ free
    weight = network.weight[:, free]
    neurons = relax(centre - radius, centre, centre + radius, label * network.output)
    rows, peak, bent = _parabolas(neurons.signed, neurons.value, centre, radius, weight)
    if not len(rows):
        return -np.inf
    slope, value = neurons.slope, neurons.value
    slope[rows] = 0.5 + centre[rows] / (2 * peak)
    value[rows] = bent
    against = -neurons.signed[rows]
    curvature = _largest_quadratic_form(weight[rows], against / (4 * peak))
    linear = (neurons.signed * slope) @ weight
    size = float(against @ (network.reach[rows] ** 2 / peak + peak))
    rounding = network.rounding + 32 * gamma(network.n + network.width + 16, DOUBLE) * size
    return float(label * network.offset + neurons.signed @ value - np.abs(linear).sum() - curvature - rounding)


def _parabolas(
    signed: np.ndarray, chord: np.ndarray, centre: np.ndarray, radius: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the neurons to relax by a parabola, their t, and the parabola's value at the centre.

    Their parabola is expected to be below the chord: at the centre, with the mean squared deviation.
    """
    rows = np.flatnonzero((signed < 0) & (centre < radius) & (-centre < radius))
    spread = _SPREAD * (weight[rows] ** 2).sum(axis=1)
    centre, chord = centre[rows], chord[rows]
    peak = np.sqrt(centre**2 + spread)
    value = centre / 2 + centre**2 / (4 * peak) + peak / 4
    less = value + spread / (4 * peak) < chord
    return rows[less], peak[less], value[less]


def _largest_quadratic_form(weight: np.ndarray, factor: np.ndarray) -> float:
    """Bound x' Q x over signs x, Q = sum_i factor_i w_i w_i', from above; infinite if that cannot be verified."""
    form = _form(weight, factor)
    used = form.diagonal() > 0
    form = form[np.ix_(used, used)]
    scale = np.sqrt(form.diagonal())
    try:
        largest = np.linalg.eigvalsh(form / np.outer(scale, scale))[-1]
        diagonal = largest * (1 + _HEADROOM) * scale**2
        np.linalg.cholesky(np.diag(diagonal) - form)
    except np.linalg.LinAlgError:
        return float("inf")
    size = len(diagonal)
    return float(diagonal.sum()) * (1 + 4 * size * gamma(size + 2, DOUBLE))


def _form(weight: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Return sum_i factor_i w_i w_i', in products too small for BLAS to start threads, which wait on a busy machine."""
    size = weight.shape[1]
    rows = max(8, _SMALL // size**2)
    form = np.zeros((size, size))
    for first in range(0, len(weight), rows):
        part = weight[first : first + rows]
        form += (part.T * factor[first : first + rows]) @ part
    return form
