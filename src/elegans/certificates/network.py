"""A trained two-layer network as exact numbers: its outputs in float64 with a bound on their error, or exactly.

The network is the real function f(x) = v . relu(W x + b) + c on {-1, +1}^n, whose float32 parameters are taken as
exact (dyadic) numbers. All statements about f here hold for that function.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from elegans.errors import CertificateError, shown
from elegans.models import MLP
from elegans.training.network import TrainedNetwork
from elegans.training.outcome import Outcome

DOUBLE, SINGLE = 2.0**-53, 2.0**-24
"""Unit roundoffs of float64 and float32."""
SMALLEST_NORMAL = 2.0**-126
"""Maximum error of an operation that treats subnormal float32 numbers as zero, as in the fused engine."""
_SCALE = 149
"""Every finite float32 is a whole multiple of 2^-149."""
_SHAPES = {"hidden.weight": 2, "hidden.bias": 1, "output.weight": 1, "output.bias": 0}


def gamma(operations: int, unit: float) -> float:
    """Return Higham's gamma, m u / (1 - m u): the relative error of a sum of m + 1 terms in any order.

    Infinite if m u is not below 1. Source: Higham, "Accuracy and Stability of Numerical Algorithms"
    (2nd edition, 2002), lemma 3.1 and section 4.2.

    Args:
        operations: m, the largest number of successive roundings.
        unit: u, the unit roundoff.
    """
    share = operations * unit
    return share / (1 - share) if share < 1 else float("inf")


@dataclass(frozen=True, eq=False)
class Network:
    """The parameters of f(x) = v . relu(W x + b) + c in float64, each a float32 number.

    Args:
        weight: W, shape (width, n).
        bias: b, shape (width,).
        output: v, shape (width,).
        offset: c.
    """

    weight: Float[np.ndarray, "width n"]
    bias: Float[np.ndarray, " width"]
    output: Float[np.ndarray, " width"]
    offset: float

    @property
    def n(self) -> int:
        """The input size."""
        return int(self.weight.shape[1])

    @property
    def width(self) -> int:
        """The number of hidden neurons."""
        return int(self.weight.shape[0])

    @cached_property
    def size(self) -> Float[np.ndarray, "width n"]:
        """|W|."""
        return np.asarray(np.abs(self.weight))

    @cached_property
    def reach(self) -> Float[np.ndarray, " width"]:
        """|b_i| + sum_j |w_ij|, an upper bound on the size of neuron i's pre-activation over all inputs."""
        return np.asarray(self.size.sum(axis=1) + np.abs(self.bias))

    @cached_property
    def rounding(self) -> float:
        """A bound on the rounding error of every output, and lower bound of outputs, computed here in float64.

        Let H_i be neuron i's ``reach`` and M = |c| + sum_i |v_i| H_i. Products with signs are exact, and no product
        of float32 numbers underflows or overflows in float64, so only sums and products round. Pre-activations and
        radii are sums of n + 1 terms: their ends err by at most 3 gamma(n+2) H_i. A relaxed neuron, slope times
        pre-activation plus intercept, is 1-Lipschitz in the ends and takes 8 operations more: v_i times it errs by
        at most 8 gamma(n+8) |v_i| H_i. Summing these, of total size 3 M at the most: 4 gamma(width+2) M. The linear
        part, sum_j |sum_i v_i slope_i w_ij|: gamma(n+width+2) M. That is below 13 gamma(n+width+8) M in all;
        32 gamma(n+width+16) M also covers the rounding of H, M and of this very product.
        """
        mass = float(np.abs(self.output) @ self.reach) + abs(self.offset)
        return 32 * gamma(self.n + self.width + 16, DOUBLE) * mass

    @cached_property
    def float32_rounding(self) -> float:
        """A bound on |f computed in float32 - f|, in any order of summation, fused multiply-adds or not.

        With unit u = 2^-24 and e = 2^-126 for each input or result that counts as zero because it is subnormal,
        a pre-activation errs by D_i = gamma(n+1) H_i + 4 (n+1) e, and the output by
        sum_i |v_i| D_i + gamma(width+1) (|c| + sum_i |v_i| (H_i + D_i)) + e (sum_i (H_i + D_i) + 4 (width+2)).
        Infinite if sums of float32 numbers may overflow. Not covered: reduced-precision products (TF32, bfloat16).
        """
        tiny, output = SMALLEST_NORMAL, np.abs(self.output)
        apart = gamma(self.n + 1, SINGLE) * self.reach + 4 * (self.n + 1) * tiny
        hidden = self.reach + apart
        mass = float(output @ hidden) + abs(self.offset)
        error = float(output @ apart) + gamma(self.width + 1, SINGLE) * mass
        error += tiny * (float(hidden.sum()) + 4 * (self.width + 2))
        fits = max(float(hidden.max(initial=0)), mass) < 2.0**127
        # this bound itself is computed in float64: 2^-20 covers that many times over
        return error * (1 + 2.0**-20) if fits else float("inf")

    def outputs(self, x: Float[np.ndarray, "count n"]) -> Float[np.ndarray, " count"]:
        """Return f at inputs in {-1, +1}^n, each within ``rounding`` of the exact value."""
        hidden = x @ self.weight.T
        hidden += self.bias
        return np.asarray(np.maximum(hidden, 0, out=hidden) @ self.output + self.offset)

    def exactly(self, x: np.ndarray) -> Fraction:
        """Return f at one input in {-1, +1}^n, shape (n,), as the exact rational number."""
        weight, bias, output, offset = self._integers
        hidden = weight @ x.astype(int).astype(object) + bias
        total = sum(v * h for v, h in zip(output, hidden, strict=True) if h > 0)
        return Fraction(total + (offset << _SCALE), 1 << 2 * _SCALE)

    @cached_property
    def _integers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """The parameters times 2^149, as Python's integers."""
        whole = [
            np.array([int(value) for value in np.ravel(part) * 2.0**_SCALE], object).reshape(np.shape(part))
            for part in (self.weight, self.bias, self.output, self.offset)
        ]
        return whole[0], whole[1], whole[2], whole[3].item()


def network_of(source: Outcome | TrainedNetwork | Mapping[str, Any]) -> Network:
    """Return the network of an outcome, a trained network or a model's parameters.

    Args:
        source: an outcome or network of an ``MLP``, or its parameters: ``hidden`` and ``output``, each with ``weight``
            and ``bias``; finite float32 numbers.
    """
    parameters: Any = source
    if isinstance(source, Outcome | TrainedNetwork):
        if type(source.trial.model) is not MLP:
            raise CertificateError(f"only a two-layer mlp can be certified: model={source.trial.model.kind!r}")
        if source.trial.model.outputs(source.trial.task) > 1:
            raise CertificateError(
                "only a network with one output can be certified here (feature_margins.certify takes others): "
                f"outputs={source.trial.model.outputs(source.trial.task)}"
            )
        if not source.trial.model.is_plain:
            raise CertificateError(f"only relu neurons with both biases can be certified: {source.trial.model!r}")
        parameters = source.parameters
        if parameters is None:
            raise CertificateError(
                "an outcome must hold its parameters: parameters=None; el.retrain(outcome) trains it again"
                " and keeps them"
            )
    weight, bias, output, offset = (_part(parameters, name) for name in _SHAPES)
    if bias.shape != output.shape or weight.shape[:1] != bias.shape:
        shapes = f"{weight.shape}, {bias.shape}, {output.shape}"
        raise CertificateError(f"weights must have shapes (width, n), (width,), (width,): {shapes}")
    return Network(weight, bias, output, float(offset))


def _part(parameters: Any, name: str) -> np.ndarray:
    layer, entry = name.split(".")
    try:
        array = np.asarray(parameters[layer][entry], np.float64)
    except (KeyError, IndexError, TypeError, ValueError):
        raise CertificateError(f"parameters must hold numbers {name!r}: parameters={shown(parameters)}") from None
    if array.ndim != _SHAPES[name]:
        raise CertificateError(f"{name} must have {_SHAPES[name]} axes: shape={array.shape}")
    with np.errstate(over="ignore"):
        suitable = np.isfinite(array) & (array == array.astype(np.float32))
    if not suitable.all():
        raise CertificateError(f"parameters must be finite float32 numbers: {name} holds {array[~suitable][0]!r}")
    return array
