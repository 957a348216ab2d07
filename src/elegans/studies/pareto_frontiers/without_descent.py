"""What finds a parity without descent: enumeration on a sample, and regression with the tangent kernel."""

import math
from functools import reduce
from itertools import combinations
from operator import xor

import numpy as np


def ambiguous(n: int, k: int, sample: int, generator: np.random.Generator) -> bool:
    """Return whether another k-parity agrees with the parity of the first k inputs on a random sample."""
    words = [int.from_bytes(generator.bytes(-(-sample // 8))) >> (-sample % 8) for _ in range(n)]
    target = reduce(xor, words[:k])
    fits = 0
    for head in combinations(range(n), k - 1):
        rest = reduce(xor, (words[place] for place in head), target)
        fits += words[head[-1] + 1 if head else 0 :].count(rest)
        if fits > 1:
            return True
    return False


def tangent_kernel(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return the tangent kernel of a two-layer ReLU network of infinite width on signs.

    Both layers are trained. The bias is as large as all weights together: without it no odd parity of more than one
    input is in the kernel's range.
    Source: Jacot, Gabriel and Hongler (2018); Cho and Saul, "Kernel methods for deep learning" (2009).
    """
    cosine = np.clip((1 + x @ z.T / x.shape[1]) / 2, 0, 1)
    hidden = cosine * (math.pi - np.arccos(cosine))
    return np.asarray((np.sqrt(1 - cosine**2) + 2 * hidden) / (2 * math.pi))


def kernel_errors(n: int, k: int, sample: int, generator: np.random.Generator) -> tuple[float, float]:
    """Return the smallest squared error and error rate on held-out examples, each at its best ridge."""
    x = generator.choice([-1.0, 1.0], (sample, n))
    z = generator.choice([-1.0, 1.0], (1000, n))
    values, vectors = np.linalg.eigh(tangent_kernel(x, x))
    across = tangent_kernel(z, x) @ vectors
    moment, label = vectors.T @ x[:, :k].prod(axis=1), z[:, :k].prod(axis=1)
    found = [across @ (moment / (values + ridge)) for ridge in 10.0 ** np.arange(-6, 3)]
    return (
        min(float(((output - label) ** 2).mean()) for output in found),
        min(float((output * label <= 0).mean()) for output in found),
    )


def kernel_sample(n: int, k: int, seed: int) -> float:
    """Return the sample size at which the squared error falls to 1/2, interpolated between powers of sqrt(2)."""
    generator = np.random.default_rng([24, n, k, seed])
    sample, before = 8.0, 1.0
    while (error := kernel_errors(n, k, round(sample), generator)[0]) > 0.5:
        sample, before = sample * math.sqrt(2), max(error, 0.5)
    return float(sample * 2 ** (-0.5 * (0.5 - error) / (before - error)))
