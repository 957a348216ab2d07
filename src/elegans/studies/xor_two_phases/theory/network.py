"""The XOR of two signs and a two-layer network on it: loss, gradients, and the parts of weights that its theory uses.

Inputs are signs of {-1, 1}^d, the label is y = -x_1 x_2: with mu1 = e1 - e2 and mu2 = e1 + e2 the plane's four points
are +-mu1, of label 1, and +-mu2, of label -1. The network is f(x) = (1/p) sum_j a_j relu(w_j . x) = E[a relu(w . x)],
the loss 2 log(1 + exp(-y f)), and gradients are scaled up by p. Everything is rotation invariant: with an orthonormal
basis Q the inputs are Q x and the two directions are Q's first two columns.

Clusters are numbered 0 to 3 for mu1, -mu1, mu2, -mu2. Weights have shape (p, d), output weights shape (p,).

Source of all functions: Glasgow, "SGD Finds then Tunes Features in Two-Layer Neural Networks with Near-Optimal Sample
Complexity: A Case Study in the XOR Problem" (ICLR 2024).

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    weight: w, shape (p, d).
    output: a, shape (p,).
    basis: an orthonormal Q where the inputs are Q times signs.
    margin: m = y f, of any shape.
"""

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float64

from elegans.calculators.domain import require

ROOT2 = math.sqrt(2)

Slope = Literal["network", "zero", "clean"]
"""The output at which the loss's slope is taken: the network's, 0, or the network's at the projection on the plane."""

_ENTRIES = 2**22


def xor_label(x: Any, basis: Any = None) -> np.ndarray:
    """Return the labels of inputs.

    Formula: y = -(x . q_1)(x . q_2), with q the basis' columns, e_1 and e_2 by default.
    Source: Glasgow (2024), section 2 and Remark 2.1.

    Args:
        x: the inputs, shape (..., d).
        basis: an orthonormal Q of shape (d, d) where the inputs are Q times signs.

    Returns:
        float64 of shape (...), -1 or 1.
    """
    plane = np.asarray(x, float)[..., :2] if basis is None else np.asarray(x, float) @ np.asarray(basis)[:, :2]
    return np.where(plane[..., 0] * plane[..., 1] < 0, 1.0, -1.0)


def xor_loss(margin: Any) -> np.ndarray:
    """Return the loss at margins y f, without overflow.

    Formula: l = 2 log(1 + exp(-m)); 2 log 2 = 1.3863 at m = 0.
    Source: Glasgow (2024), section 2.2.

    Returns:
        float64 of the same shape.
    """
    return np.asarray(2 * np.logaddexp(0, -np.asarray(margin, float)))


def xor_slope(margin: Any) -> np.ndarray:
    """Return the absolute slope of the loss at margins y f: g of a cluster, where m is the cluster's margin.

    The slope itself is -y g. It is 1/2-Lipschitz in f; the source uses the constant 2.

    Formula: g = |dl/df| = 2 exp(-m) / (1 + exp(-m)); 1 at m = 0.
    Source: Glasgow (2024), section 2.2 and Table 1.

    Returns:
        float64 of the same shape, between 0 and 2.
    """
    return np.asarray(2 * np.exp(-np.logaddexp(0, np.asarray(margin, float))))


def xor_output(weight: Any, output: Any, x: Any) -> Float64[np.ndarray, " count"]:
    """Return the network's output at inputs.

    Formula: f(x) = (1/p) sum_j a_j relu(w_j . x).
    Source: Glasgow (2024), section 2.2.

    Args:
        x: the inputs, shape (count, d).
    """
    weights, outputs = network(weight, output)
    return np.asarray(np.maximum(np.asarray(x, float) @ weights.T, 0) @ outputs / len(outputs))


class XorGradients(NamedTuple):
    """Gradients of the mean loss, scaled up by p.

    Args:
        weight: G_w, float64 of shape (p, d).
        output: G_a, float64 of shape (p,); w . G_w = a G_a holds for every neuron, loss and sample.
    """

    weight: np.ndarray
    output: np.ndarray


def xor_gradients(weight: Any, output: Any, x: Any, *, slope: Slope = "network", basis: Any = None) -> XorGradients:
    """Return the gradients over a sample; over ``sign_table(d)`` they are the population's.

    Formula: G_w = E[a l' 1{w . x > 0} x], G_a = E[l' relu(w . x)], with the slope l' = -y g of the loss at f(x)
        ("network"), at 0 ("zero": the surrogate L_0, slope -y) or at f(z), z the projection of x on the plane
        ("clean").
    Source: Glasgow (2024), sections 2.2 and 4; Equation 4.7 for the clean slope.

    Args:
        x: the inputs, shape (count, d).
        slope: the output at which the loss's slope is taken.
    """
    weights, outputs = network(weight, output)
    require(slope in ("network", "zero", "clean"), "slope must be one of network, zero, clean", slope=slope)
    inputs = np.asarray(x)
    into_weight, into_output = np.zeros(weights.shape), np.zeros(len(outputs))
    size = max(1, _ENTRIES // len(outputs))
    for first in range(0, len(inputs), size):
        part = inputs[first : first + size].astype(float)
        pre = part @ weights.T
        hidden = np.maximum(pre, 0)
        slopes = _slopes(weights, outputs, part, hidden, slope, basis)
        into_weight += ((pre > 0) * slopes[:, None]).T @ part
        into_output += slopes @ hidden
    return XorGradients(outputs[:, None] * into_weight / len(inputs), into_output / len(inputs))


def _slopes(
    weight: np.ndarray, output: np.ndarray, x: np.ndarray, hidden: np.ndarray, slope: Slope, basis: Any
) -> np.ndarray:
    label = xor_label(x, basis)
    if slope == "zero":
        return np.asarray(-label)
    if slope == "network":
        return np.asarray(-label * xor_slope(label * (hidden @ output) / len(output)))
    clusters = xor_slope(xor_margins(weight, output, basis))
    return np.asarray(-label * clusters[cluster_of(rotated(x, basis), label)])


def cluster_of(x: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Return the cluster, 0 to 3, of inputs in the basis' coordinates, from x_1 and the label."""
    return np.asarray(np.where(label > 0, 0, 2) + (x[:, 0] < 0))


class XorParts(NamedTuple):
    """The orthogonal parts of every neuron's weights, each of shape (p, d), which sum to the weights.

    Args:
        signal: the part along the direction selected by the sign of a: mu1 for a >= 0, mu2 for a < 0.
        opposite: the part along the other of the two.
        rest: the part outside the plane.
    """

    signal: np.ndarray
    opposite: np.ndarray
    rest: np.ndarray


def xor_parts(weight: Any, output: Any, basis: Any = None) -> XorParts:
    """Return the parts of every neuron's weights.

    Formula: for a >= 0: w_sig = mu1 mu1^T w / 2, w_opp = mu2 mu2^T w / 2; for a < 0 exchanged; w_perp = the rest.
    Source: Glasgow (2024), section 4.
    """
    weights, outputs = network(weight, output)
    inner = rotated(weights, basis)
    difference, total = (inner[:, 0] - inner[:, 1]) / 2, (inner[:, 0] + inner[:, 1]) / 2
    along_first, along_second = np.zeros((2, *inner.shape))
    along_first[:, 0], along_first[:, 1] = difference, -difference
    along_second[:, 0], along_second[:, 1] = total, total
    rest = inner.copy()
    rest[:, :2] = 0
    positive = (outputs >= 0)[:, None]
    parts = (np.where(positive, along_first, along_second), np.where(positive, along_second, along_first), rest)
    return XorParts(*(part if basis is None else part @ np.asarray(basis).T for part in parts))


class XorSizes(NamedTuple):
    """The norms of the parts of every neuron's weights, each of shape (p,).

    Args:
        signal: s = ||w_sig||.
        opposite: o = ||w_opp||.
        rest: r = ||w_perp||.
        cluster: the cluster mu with w_sig . mu > 0, 0 to 3; -1 where w_sig is 0.
        facing: the cluster nu with w_opp . nu > 0, 0 to 3; -1 where w_opp is 0.
    """

    signal: np.ndarray
    opposite: np.ndarray
    rest: np.ndarray
    cluster: np.ndarray
    facing: np.ndarray


def xor_sizes(weight: Any, output: Any, basis: Any = None) -> XorSizes:
    """Return the norms of the parts of every neuron's weights, and the clusters that they face.

    Formula: with c1 = (w_1 - w_2) / sqrt(2) and c2 = (w_1 + w_2) / sqrt(2): s = |c1|, o = |c2| for a >= 0, exchanged
        for a < 0; r = ||w_perp||.
    Source: Glasgow (2024), section 4.
    """
    weights, outputs = network(weight, output)
    inner = rotated(weights, basis)
    along = plane(inner)
    faces = np.where(along == 0, -1, np.where(along > 0, 0, 1) + np.array([0, 2]))
    signal = (outputs < 0).astype(int)
    rows = np.arange(len(outputs))
    return XorSizes(
        np.abs(along[rows, signal]),
        np.abs(along[rows, 1 - signal]),
        np.linalg.norm(inner[:, 2:], axis=1),
        faces[rows, signal],
        faces[rows, 1 - signal],
    )


def xor_margins(weight: Any, output: Any, basis: Any = None) -> Float64[np.ndarray, " 4"]:
    """Return the network's margins at the four points of the plane.

    Formula: gamma_mu = y(mu) f(mu) = y(mu) E[a relu(w . mu)], mu = mu1, -mu1, mu2, -mu2.
    Source: Glasgow (2024), Table 1.
    """
    weights, outputs = network(weight, output)
    return xor_points(plane(rotated(weights, basis)), outputs, np.ones(len(outputs), bool))


def xor_points(along: np.ndarray, output: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Return y(mu) E[1{member} a relu(w . mu)] for the four mu, given the coordinates along mu1 and mu2."""
    sides = np.stack([along[:, 0], -along[:, 0], along[:, 1], -along[:, 1]])
    signs = np.array([1, 1, -1, -1])
    return np.asarray(signs * (np.maximum(sides, 0) @ (output * members)) * ROOT2 / len(output))


def xor_heaviness(weight: Any, output: Any) -> float:
    """Return H_rho, the network's total weight, which bounds its output at inputs of norm 1.

    Formula: H_rho = E ||a w||.
    Source: Glasgow (2024), section D.
    """
    weights, outputs = network(weight, output)
    return float((np.abs(outputs) * np.linalg.norm(weights, axis=1)).mean())


def network(weight: Any, output: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return weights and output weights as float arrays, refusing shapes that do not agree."""
    weights, outputs = np.asarray(weight, float), np.asarray(output, float)
    require(weights.ndim == 2 and weights.shape[1] >= 2, "weight must have shape (p, d), d >= 2", shape=weights.shape)
    require(outputs.shape == weights.shape[:1], "output must have shape (p,)", shape=outputs.shape, p=len(weights))
    return weights, outputs


def rotated(vectors: np.ndarray, basis: Any) -> np.ndarray:
    """Return the coordinates of row vectors in a basis."""
    if basis is None:
        return vectors
    columns = np.asarray(basis, float)
    d = vectors.shape[1]
    require(columns.shape == (d, d), "basis must have shape (d, d)", shape=columns.shape, d=d)
    return np.asarray(vectors @ columns)


def plane(inner: np.ndarray) -> np.ndarray:
    """Return the coordinates along mu1 / sqrt(2) and mu2 / sqrt(2), shape (p, 2)."""
    return np.stack([inner[:, 0] - inner[:, 1], inner[:, 0] + inner[:, 1]], axis=1) / ROOT2
