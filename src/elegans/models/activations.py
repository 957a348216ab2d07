"""Activation functions of hidden neurons, with exact derivatives.

Four of them oscillate so that one neuron computes a parity: with weights 1 on the k coordinates of a support and 0
elsewhere, the sum of an input is k - 2j, where j counts the -1s on the support, and the activation there is (-1)^j.

Source: thesis, chapter 5, section 5.3 and appendix B.4 (settings vii to xiv).
"""

import math
from abc import abstractmethod
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field

from elegans.component import Component

Degree = Annotated[int, Field(ge=1, le=32)]


class Activation(Component, family=True):
    """An element-wise function, written with operators that NumPy and JAX arrays share."""

    @abstractmethod
    def value(self, z: Any) -> Any:
        """Return the function of each element; same shape."""

    @abstractmethod
    def derivative(self, z: Any) -> Any:
        """Return the derivative at each element, the left one at a kink; same shape."""


class ReLU(Activation, kind="relu"):
    """max(z, 0)."""

    def value(self, z: Any) -> Any:
        return z * (z > 0)

    def derivative(self, z: Any) -> Any:
        return (z > 0).astype(z.dtype)


class ReLU6(Activation, kind="relu6"):
    """min(max(z, 0), 6).

    Source: Daniely and Malach, "Learning Parities with Neural Networks" (2020), section 2.
    """

    def value(self, z: Any) -> Any:
        return z * ((z > 0) & (z < 6)) + 6 * (z >= 6)

    def derivative(self, z: Any) -> Any:
        return ((z > 0) & (z < 6)).astype(z.dtype)


class LeakyReLU(Activation, kind="leaky-relu"):
    """z for z > 0, slope z elsewhere.

    Args:
        slope: the slope on the left, from 0 to 1.
    """

    shorthand = "slope"
    slope: Annotated[float, Field(ge=0, le=1)] = 0.01

    def value(self, z: Any) -> Any:
        return z * (z > 0) + self.slope * z * (z <= 0)

    def derivative(self, z: Any) -> Any:
        positive = (z > 0).astype(z.dtype)
        return positive + self.slope * (1 - positive)


class ELU(Activation, kind="elu"):
    """z for z > 0, alpha (e^z - 1) elsewhere.

    Source: Clevert et al., "Fast and Accurate Deep Network Learning by Exponential Linear Units" (2016).

    Args:
        alpha: minus the limit on the left, above 0.
    """

    shorthand = "alpha"
    alpha: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0

    def value(self, z: Any) -> Any:
        return z * (z > 0) + self.alpha * _namespace(z).expm1(z * (z <= 0))

    def derivative(self, z: Any) -> Any:
        negative = (z <= 0).astype(z.dtype)
        return 1 - negative + self.alpha * negative * _namespace(z).exp(z * negative)


class Tanh(Activation):
    """The hyperbolic tangent."""

    def value(self, z: Any) -> Any:
        return _namespace(z).tanh(z)

    def derivative(self, z: Any) -> Any:
        return 1 - _namespace(z).tanh(z) ** 2


class Sigmoid(Activation):
    """The logistic function 1 / (1 + e^-z)."""

    def value(self, z: Any) -> Any:
        return _sigmoid(z)

    def derivative(self, z: Any) -> Any:
        return _sigmoid(z) * _sigmoid(-z)


class SiLU(Activation, kind="silu"):
    """z / (1 + e^-z), also called swish.

    Source: Elfwing et al., "Sigmoid-Weighted Linear Units" (2018).
    """

    def value(self, z: Any) -> Any:
        return z * _sigmoid(z)

    def derivative(self, z: Any) -> Any:
        return _sigmoid(z) * (1 + z * _sigmoid(-z))


class Softplus(Activation):
    """log(1 + e^z)."""

    def value(self, z: Any) -> Any:
        return _namespace(z).logaddexp(z, 0 * z)

    def derivative(self, z: Any) -> Any:
        return _sigmoid(z)


class GELU(Activation, kind="gelu"):
    """z Phi(z), where Phi is the standard normal distribution function.

    Source: Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016), which has both forms.

    Args:
        form: ``exact``, or ``tanh`` for z (1 + tanh(sqrt(2 / pi) (z + 0.044715 z^3))) / 2, which differs from it by at
            most 0.0005.
    """

    shorthand = "form"
    form: Literal["exact", "tanh"] = "exact"

    def value(self, z: Any) -> Any:
        if self.form == "tanh":
            return z * _sigmoid(2 * _GELU_SCALE * (z + _GELU_CUBE * power(z, 3)))
        return z * (1 + _erf(z * math.sqrt(0.5))) / 2

    def derivative(self, z: Any) -> Any:
        if self.form == "tanh":
            inner = 2 * _GELU_SCALE * (z + _GELU_CUBE * power(z, 3))
            slope = 2 * _GELU_SCALE * (1 + 3 * _GELU_CUBE * power(z, 2))
            return _sigmoid(inner) * (1 + z * _sigmoid(-inner) * slope)
        density = _namespace(z).exp(-power(z, 2) / 2) / math.sqrt(2 * math.pi)
        return (1 + _erf(z * math.sqrt(0.5))) / 2 + z * density


class Sine(Activation):
    """sin(frequency z), as in SIREN.

    Source: Sitzmann et al., "Implicit Neural Representations with Periodic Activation Functions" (2020).

    Args:
        frequency: the factor of z, above 0.
    """

    shorthand = "frequency"
    frequency: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0

    def value(self, z: Any) -> Any:
        return _namespace(z).sin(self.frequency * z)

    def derivative(self, z: Any) -> Any:
        return self.frequency * _namespace(z).cos(self.frequency * z)


class Power(Activation):
    """z^degree, by repeated multiplication.

    Args:
        degree: the exponent, from 1 to 32.
    """

    shorthand = "degree"
    degree: Degree

    def __init__(self, degree: int) -> None:
        super().__init__(degree=degree)  # type: ignore[call-arg]

    def value(self, z: Any) -> Any:
        return power(z, self.degree)

    def derivative(self, z: Any) -> Any:
        return self.degree * power(z, self.degree - 1)


class Oscillation(Activation):
    """An activation through the k + 1 points (k - 2j, (-1)^j), j = 0, …, k: one neuron of it computes a k-parity.

    Args:
        degree: the size k of the parity, from 1 to 32.
    """

    shorthand = "degree"
    degree: Degree

    def __init__(self, degree: int, **fields: Any) -> None:
        super().__init__(degree=degree, **fields)  # type: ignore[call-arg]


class Zigzag(Oscillation):
    """The k-zigzag: k straight pieces through the points; the outer two extend to infinity."""

    def value(self, z: Any) -> Any:
        k = self.degree
        above, below = z > k, z < -k
        inner = z * ~(above | below) + k * above - k * below
        return _triangle(inner, k) + above * (z - k) - (-1) ** k * below * (z + k)

    def derivative(self, z: Any) -> Any:
        k = self.degree
        above, below = z > k, z < -k
        return _triangle_slope(z, k) * ~(above | below) + above - (-1) ** k * below


class TriangleWave(Oscillation):
    """The infinite zigzag: a triangle wave of amplitude 1 and period 4 through the points.

    The thesis' text gives it a period of 2, which fits half of the weights above; with 4 it equals the zigzag inside.
    """

    def value(self, z: Any) -> Any:
        return _triangle(z, self.degree)

    def derivative(self, z: Any) -> Any:
        return _triangle_slope(z, self.degree)


class OscillatingPolynomial(Oscillation):
    """The polynomial of degree k through the points; its leading coefficient is 1/k!."""

    @property
    def coefficients(self) -> tuple[Fraction, ...]:
        """The exact coefficients, of degree 0 first."""
        return _interpolate(self.degree)

    def value(self, z: Any) -> Any:
        return _horner(z, [float(coefficient) for coefficient in self.coefficients])

    def derivative(self, z: Any) -> Any:
        return _horner(z, [degree * float(part) for degree, part in enumerate(self.coefficients) if degree])


class Sinusoid(Oscillation):
    """sin(scale pi z / 2 + pi (1 - k) / 2): a sinusoid through the points (at ``scale`` 1).

    Args:
        degree: the size k of the parity, from 1 to 32.
        scale: the factor of z; with 2 a neuron with weights 1/2 on the support computes the parity, which is
            equivalent to larger initial weights and a larger learning rate.
    """

    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0

    def __init__(self, degree: int, scale: float = 1.0) -> None:
        super().__init__(degree, scale=scale)

    def value(self, z: Any) -> Any:
        """Return the sinusoid: a sine for odd k and a cosine for even k, with a sign that keeps it exact."""
        angle, xp = z * self.frequency, _namespace(z)
        return self._sign * (xp.sin(angle) if self.degree % 2 else xp.cos(angle))

    def derivative(self, z: Any) -> Any:
        angle, xp = z * self.frequency, _namespace(z)
        return self._sign * self.frequency * (xp.cos(angle) if self.degree % 2 else -xp.sin(angle))

    @property
    def frequency(self) -> Any:
        """The factor of z: scale pi / 2, in radians."""
        return self.scale * (math.pi / 2)

    @property
    def phase(self) -> float:
        """The constant added to the argument: pi (1 - k) / 2, in radians."""
        return math.pi * (1 - self.degree) / 2

    @property
    def _sign(self) -> float:
        """sin(z + pi (1 - k) / 2) is this times sin z for odd k, and times cos z for even k."""
        return float((-1) ** (self.degree // 2))


def power(z: Any, degree: int) -> Any:
    """Return z^degree by repeated multiplication, which is many times faster than powers of floats."""
    result = 1 + 0 * z
    for _ in range(degree):
        result = result * z
    return result


_GELU_SCALE, _GELU_CUBE = math.sqrt(2 / math.pi), 0.044715


def _namespace(z: Any) -> Any:
    """Return the module of the functions of an array: NumPy or JAX's."""
    return z.__array_namespace__()


def _sigmoid(z: Any) -> Any:
    return (1 + _namespace(z).tanh(z / 2)) / 2


def _erf(z: Any) -> Any:
    if _namespace(z).__name__ == "numpy":
        from scipy.special import erf

        return erf(z)
    import jax

    return jax.scipy.special.erf(z)


def _horner(z: Any, coefficients: list[float]) -> Any:
    result = 0 * z
    for coefficient in reversed(coefficients):
        result = result * z + coefficient
    return result


def _triangle(z: Any, k: int) -> Any:
    return abs((k - z) % 4 - 2) - 1


def _triangle_slope(z: Any, k: int) -> Any:
    return 1 - 2 * ((k - z) % 4 >= 2).astype(z.dtype)


@lru_cache
def _interpolate(k: int) -> tuple[Fraction, ...]:
    """Return the coefficients of the polynomial through (k - 2j, (-1)^j), by Newton's divided differences."""
    nodes = [Fraction(k - 2 * j) for j in range(k + 1)]
    differences = [Fraction((-1) ** j) for j in range(k + 1)]
    for order in range(1, k + 1):
        for j in range(k, order - 1, -1):
            differences[j] = (differences[j] - differences[j - 1]) / (nodes[j] - nodes[j - order])
    coefficients = [Fraction(0)]
    for difference, node in zip(reversed(differences), reversed(nodes), strict=True):
        shifted = [Fraction(0), *coefficients]
        coefficients = [high - node * low for high, low in zip(shifted, [*coefficients, Fraction(0)], strict=True)]
        coefficients[0] += difference
    return tuple(coefficients[: k + 1])
