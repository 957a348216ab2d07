"""Double-precision networks for checking lemmas: random, constructed to be signal-heavy, and trained step by step.

All are in the mean-field scaling. Generators have fixed seeds, so that the same scale checks the same networks.
"""

import math
from collections.abc import Iterator

import numpy as np

from elegans.studies.xor_two_phases.theory.network import ROOT2, XorGradients, xor_gradients

Network = tuple[np.ndarray, np.ndarray]
"""Weights (p, d) and output weights (p,)."""
CLUSTERS = np.array([[1.0, -1], [-1, 1], [1, 1], [-1, -1]]) / ROOT2
"""The unit vectors along mu1, -mu1, mu2 and -mu2, in the plane."""


def signs(generator: np.random.Generator, count: int, d: int) -> np.ndarray:
    """Return uniform inputs, float64 of shape (count, d)."""
    return np.asarray(2.0 * generator.integers(0, 2, (count, d), dtype=np.int8) - 1)


def on_sphere(generator: np.random.Generator, p: int, d: int, theta: float) -> Network:
    """Return the theorem's initial network: ||w|| = |a| = theta."""
    weight = generator.standard_normal((p, d))
    weight *= theta / np.linalg.norm(weight, axis=1, keepdims=True)
    return weight, theta * generator.choice([-1.0, 1.0], p)


def random_networks(generator: np.random.Generator, count: int, p: int, d: int) -> Iterator[Network]:
    """Yield Gaussian networks of sizes from 0.03 to 3; in half of them the plane's weights match all others in norm."""
    for number in range(count):
        size = 10 ** generator.uniform(-1.5, 0.5)
        weight, output = size * generator.standard_normal((p, d)), size * generator.standard_normal(p)
        weight[:, :2] *= math.sqrt(d) if number % 2 else 1
        yield weight, output


def lopsided_network(p: int, d: int, scale: float) -> Network:
    """Return a signal-heavy network of neurons along the signal, 1% of them on each cluster and 97% on the first.

    Source: it meets Definition 4.2 for every zeta up to exp(-10 H).

    Args:
        p: a multiple of 100.
        d: at least 2.
        scale: H, which is also E||w||^2 and E||a w||.
    """
    cluster = np.repeat(np.arange(4), [p - 3 * (p // 100), *[p // 100] * 3])
    weight = math.sqrt(scale) * np.pad(CLUSTERS[cluster], ((0, 0), (0, d - 2)))
    return weight, np.where(cluster < 2, 1.0, -1.0) * np.linalg.norm(weight, axis=1)


def heavy_network(
    generator: np.random.Generator, p: int, d: int, zeta: float, scale: float = 1.0, one_sided: bool = False
) -> Network:
    """Return a (zeta, H)-signal-heavy network with unequal clusters that narrowly meets the conditions.

    Every neuron's burden exp(6 H) ||w_perp|| + ||w_opp|| is nearly zeta ||w_sig||, split at random between its two
    parts; a tenth of the neurons is outside S and half as heavy as the definition allows; output weights lie below
    ||w||.

    Args:
        generator: for all draws.
        p: at least 12.
        d: at least 3.
        zeta: at most exp(-10 H).
        scale: H.
        one_sided: whether all parts outside the plane lie in one direction.
    """
    light = p // 10
    cluster = np.arange(p) % 4
    outward = CLUSTERS[cluster]
    across = CLUSTERS[(cluster + 2) % 4] * generator.choice([-1.0, 1.0], (p, 1))
    strength = generator.uniform(0.4, 1.0, 4)[cluster] * generator.uniform(0.8, 1.2, p)
    share, burden = generator.uniform(0, 1, p), 0.999 * zeta
    rest = generator.standard_normal((1 if one_sided else p, d - 2)) * np.ones((p, 1))
    rest /= np.linalg.norm(rest, axis=1, keepdims=True)
    weight = np.zeros((p, d))
    weight[:, :2] = strength[:, None] * (outward + ((1 - share) * burden)[:, None] * across)
    weight[:, 2:] = (strength * share * burden * math.exp(-6 * scale))[:, None] * rest
    margins = np.bincount(cluster[light:], strength[light:] ** 2, 4) * ROOT2 / p
    outside = generator.standard_normal((light, d))
    outside *= math.sqrt(0.5 * zeta * margins.min() * p / light) / np.linalg.norm(outside, axis=1, keepdims=True)
    weight[:light] = outside
    norms = np.linalg.norm(weight, axis=1)
    loss = 0.9 * zeta * scale * generator.uniform(0, 1, p)
    return weight, np.where(cluster < 2, 1.0, -1.0) * np.sqrt(norms**2 - np.minimum(loss, norms**2 / 2))


def steps(
    network: Network, rate: float, batch: int, count: int, generator: np.random.Generator, *, frozen: bool = False
) -> Iterator[tuple[Network, XorGradients]]:
    """Yield every network of a run of minibatch SGD, including the last, with the gradients of its next step.

    Args:
        network: the initial one.
        rate: the step size.
        batch: the number of fresh examples per step.
        count: the number of steps.
        generator: for the examples.
        frozen: whether output weights are frozen.
    """
    weight, output = network
    for _ in range(count + 1):
        gradient = xor_gradients(weight, output, signs(generator, batch, weight.shape[1]))
        yield (weight, output), gradient
        weight = weight - rate * gradient.weight
        output = output if frozen else output - rate * gradient.output
