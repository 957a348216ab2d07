"""The exact Walsh-Hadamard spectrum of a small network."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from elegans.arguments import methods_checked
from elegans.boolean.fourier import fourier_coefficients, set_index, sign_table
from elegans.certificates.network import DOUBLE, Network, gamma, network_of
from elegans.display import displayed
from elegans.errors import CertificateError, shown
from elegans.training.network import TrainedNetwork
from elegans.training.outcome import Outcome

LARGEST_N = 20
"""Maximum input size for enumerating all 2^n inputs."""
_BLOCK = 2**20
"""Hidden values held at once, about."""


@displayed
@dataclass(frozen=True, eq=False)
@methods_checked(CertificateError)
class Spectrum:
    """All 2^n Fourier coefficients of a network's outputs, or of their signs.

    The coefficient of a set T is the mean of f(x) prod_{j in T} x_j over all x in {-1, +1}^n.

    Args:
        n: the input size.
        coefficients: each set's coefficient, at the index whose 1 bits are its members, shape (2^n,).
        error: the largest possible deviation of each coefficient from the exact one, due to rounding.
    """

    n: int
    coefficients: Float[np.ndarray, " sets"]
    error: float

    def coefficient(self, members: Iterable[int]) -> float:
        """Return the coefficient of the set with these members."""
        distinct = set(members)
        if distinct and not 0 <= min(distinct) <= max(distinct) < self.n:
            raise CertificateError(f"members must lie in 0..n-1: n={self.n}, members={tuple(sorted(distinct))}")
        return float(self.coefficients[set_index(distinct)])

    def largest(self, count: int = 10) -> list[tuple[tuple[int, ...], float]]:
        """Return the sets with the largest absolute coefficients, largest first, each with its coefficient."""
        largest = np.argsort(-np.abs(self.coefficients), kind="stable")[:count]
        return [
            (tuple(j for j in range(self.n) if index >> j & 1), float(self.coefficients[index])) for index in largest
        ]

    @property
    def weights(self) -> Float[np.ndarray, " degrees"]:
        """The Fourier weight at each degree 0..n: the sum of squared coefficients of the sets of that size."""
        degree = np.bitwise_count(np.arange(2**self.n))
        return np.bincount(degree, weights=self.coefficients**2, minlength=self.n + 1)


def spectrum(
    source: Outcome | TrainedNetwork | Mapping[str, Any], *, of: Literal["outputs", "signs"] = "outputs"
) -> Spectrum:
    """Return the exact Walsh-Hadamard spectrum of a two-layer network on n <= 20 inputs, by the fast transform.

    Outputs are computed in float64, each within ``Network.rounding`` of the exact value, and the transform adds at
    most gamma(n) times the mean absolute output: ``Spectrum.error`` is the sum. Signs are exact (an output of 0
    counts as 0) unless rounding could change one: twice the fraction of such inputs is part of the error.

    Args:
        source: an outcome with its parameters, or the parameters of an ``MLP``.
        of: ``outputs`` for f itself, ``signs`` for its sign.

    Source: O'Donnell, "Analysis of Boolean Functions" (2014), section 1.4; Higham (2002), section 4.2.
    """
    network = network_of(source)
    if of not in ("outputs", "signs"):
        raise CertificateError(f"of must be outputs or signs: of={shown(of)}")
    if network.n > LARGEST_N:
        raise CertificateError(
            f"n must be at most {LARGEST_N} for all 2^n coefficients: n={network.n}; read_out(outcome,"
            " by='influence') estimates influences from a sample, and certify needs no enumeration"
        )
    values, error = output_table(network), network.rounding
    if of == "signs":
        error = 2 * float((np.abs(values) <= network.rounding).mean()) if network.rounding else 0.0
        values = np.sign(values)
    error += gamma(network.n, DOUBLE) * float(np.abs(values).mean())
    return Spectrum(network.n, np.asarray(fourier_coefficients(values)), error)


def output_table(network: Network) -> Float[np.ndarray, " inputs"]:
    """Return f at all 2^n inputs, in float64: x_j is -1 if bit j of the index is 1.

    Pre-activations are sums of two tables, one over the lower and one over the upper half of the coordinates.
    """
    half = network.n // 2
    low = sign_table(half) @ network.weight[:, :half].T
    high = sign_table(network.n - half) @ network.weight[:, half:].T + network.bias
    values = np.empty((len(high), len(low)))
    size = max(1, _BLOCK // low.size)
    for first in range(0, len(high), size):
        hidden = high[first : first + size, None] + low
        values[first : first + size] = np.maximum(hidden, 0, out=hidden) @ network.output
    return np.asarray(values.ravel() + network.offset)
