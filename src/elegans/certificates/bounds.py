"""Lower bounds of a network's margin over a box of inputs: intervals, and affine relaxations of its neurons."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from elegans.certificates.network import Network

Nodes = Float[np.ndarray, "count n"]
"""Boxes of inputs, one per row: -1 and +1 are fixed coordinates, 0 means either sign."""


@dataclass(frozen=True, eq=False)
class Bounds:
    """The results of relaxation for some nodes.

    Args:
        intervals: a lower bound of y f by interval arithmetic, shape (count,).
        affine: a lower bound of y f by affine relaxation, at least as good, shape (count,).
        candidate: an input of each node that minimises its relaxation, shape (count, n).
        blame: by how much each free coordinate widens neurons of undetermined sign, shape (count, n); 0 if fixed.
    """

    intervals: Float[np.ndarray, " count"]
    affine: Float[np.ndarray, " count"]
    candidate: Nodes
    blame: Float[np.ndarray, "count n"]


def bounds(network: Network, nodes: Nodes, labels: Float[np.ndarray, " count"]) -> Bounds:
    """Bound y f from below over every input of each node.

    With the centre a_i and radius r_i of neuron i's pre-activation, l_i = a_i - r_i and u_i = a_i + r_i are its
    smallest and largest values. For any slope t_i in [0, 1], relu(z) - t_i z has its extremes over [l_i, u_i] in
    closed form, so y f is at least a function that is affine in the inputs, whose minimum is a sum of absolute
    values. Slopes of 0 give interval arithmetic. The affine bound uses the chord u / (u - l) if the neuron counts
    against the label, and the nearer of 0 and 1 if it counts for it. Any slopes in [0, 1] are sound, so rounding
    matters only in evaluating the bound; ``Network.rounding`` covers that and is subtracted.

    Source: Zhang et al., "Efficient neural network robustness certification with general activation functions"
    (CROWN, 2018).
    """
    centre = nodes @ network.weight.T
    centre += network.bias
    free = (nodes == 0).astype(np.float64)
    radius = free @ network.size.T
    low, high = centre - radius, centre + radius
    neurons = relax(low, centre, high, labels[:, None] * network.output)
    signed = neurons.signed
    linear = ((signed * neurons.slope) @ network.weight) * free
    constant = (signed * neurons.value).sum(axis=1)
    intervals = (signed * np.where(signed >= 0, np.maximum(low, 0), np.maximum(high, 0))).sum(axis=1)
    base = labels * network.offset - network.rounding
    unsettled = np.abs(signed) * ((low < 0) & (high > 0))
    intervals = base + intervals
    return Bounds(
        intervals=intervals,
        affine=np.maximum(intervals, base + constant - np.abs(linear).sum(axis=1)),
        candidate=np.where(free > 0, np.where(linear > 0, -1.0, 1.0), nodes),
        blame=(unsettled @ network.size) * free,
    )


@dataclass(frozen=True, eq=False)
class NeuronBounds:
    """An affine bound of each neuron: from below if it counts for the label, from above if against it.

    Args:
        signed: y v, shape (..., width).
        slope: the bound's slope in the pre-activation, from 0 to 1, shape (..., width).
        value: the bound's value at the centre, shape (..., width).
    """

    signed: Float[np.ndarray, "*nodes width"]
    slope: Float[np.ndarray, "*nodes width"]
    value: Float[np.ndarray, "*nodes width"]


def relax(low: np.ndarray, centre: np.ndarray, high: np.ndarray, signed: np.ndarray) -> NeuronBounds:
    """Return the affine bounds of neurons whose pre-activations lie in [low, high]; see ``bounds``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        chord = np.where(low >= 0, 1.0, np.where(high <= 0, 0.0, high / (high - low)))
    nearer = np.where(low >= 0, 1.0, np.where(high <= 0, 0.0, (centre > 0).astype(np.float64)))
    slope = np.where(signed >= 0, nearer, chord)
    least = (1 - slope) * np.maximum(low, 0) + slope * np.maximum(-high, 0)
    most = np.maximum(np.maximum(low, 0) - slope * low, np.maximum(high, 0) - slope * high)
    return NeuronBounds(signed, slope, slope * centre + np.where(signed >= 0, least, most))
