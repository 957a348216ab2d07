"""Networks without biases and with one hidden layer, given by their weights: neurons, logits, norms and margins.

A neuron holds all its weights, incoming and outgoing, and a network of degree nu (its logits grow by c^nu when all
weights grow by c) is measured by its *mass*, sum_i ||omega_i||_2^nu: the nu-th power of the norm L_{2,nu} under which
the thesis bounds margins. Examples are numbered: a pair (a, b) is example a * order + b, and the number of input x of
{-1, 1}^n has bit j set where x_j = -1.

Where no other source is named in this folder, it is the thesis, chapter 7 and appendix D, "Feature emergence via margin
maximization".

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    weights: the network.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from jaxtyping import Float

from elegans.boolean.fourier import sign_table
from elegans.calculators.domain import require, whole_array

_ENTRIES = 2**23
"""The approximate number of hidden values held in memory at once."""
LARGEST_INPUT = 20
"""The largest input size at which all 2^n inputs are enumerated."""


class HomogeneousWeights(ABC):
    """A network f(x) = sum_i sigma(omega_i, x) w_i, homogeneous of some degree in all of its weights."""

    @property
    @abstractmethod
    def degree(self) -> int:
        """The power nu with which logits grow with the weights."""

    @property
    @abstractmethod
    def readout(self) -> Float[np.ndarray, "neurons outputs"]:
        """The outgoing weights w."""

    @property
    @abstractmethod
    def examples(self) -> int:
        """The size of the full population."""

    @property
    @abstractmethod
    def norms(self) -> Float[np.ndarray, " neurons"]:
        """The 2-norm of all weights of each neuron."""

    @abstractmethod
    def hidden(self, neurons: slice) -> Float[np.ndarray, "examples part"]:
        """The outputs of some neurons on all examples."""

    @abstractmethod
    def scaled(self, factor: Any) -> Self:
        """Return the network with all weights times a number, or times one number per neuron."""

    @property
    def mass(self) -> float:
        """The sum over neurons of ||omega_i||^nu."""
        return float((self.norms**self.degree).sum())

    def normalised(self) -> Self:
        """Return the network scaled to a mass of 1."""
        require(self.mass > 0, "a network must have a neuron that is not 0", mass=self.mass)
        return self.scaled(self.mass ** (-1 / self.degree))

    def logits(self) -> Float[np.ndarray, "examples outputs"]:
        """Return the logits on the full population."""
        total = np.zeros((self.examples, self.readout.shape[1]))
        for neurons in self._parts():
            total += self.hidden(neurons) @ self.readout[neurons]
        return total

    def payoffs(self, payoff: Float[np.ndarray, "examples outputs"]) -> Float[np.ndarray, " neurons"]:
        """Return each neuron's contribution to the sum over examples and outputs of payoff times logit."""
        return np.concatenate(
            [np.einsum("xi,xi->i", self.hidden(neurons), payoff @ self.readout[neurons].T) for neurons in self._parts()]
        )

    def _parts(self) -> Iterator[slice]:
        count, size = len(self.readout), max(1, _ENTRIES // self.examples)
        return (slice(first, min(first + size, count)) for first in range(0, count, size))


@dataclass(frozen=True, eq=False)
class PairWeights(HomogeneousWeights):
    """A network on pairs: f(a, b)[c] = sum_i sigma(u_i(a) + v_i(b)) w_i(c), of degree 3 (or 2 with ReLU).

    Args:
        u: the weights from the first element, shape (neurons, order).
        v: the weights from the second element, shape (neurons, order).
        w: the weights to the outputs, shape (neurons, order).
        activation: sigma: "square" or "relu".
    """

    u: Float[np.ndarray, "neurons order"]
    v: Float[np.ndarray, "neurons order"]
    w: Float[np.ndarray, "neurons order"]
    activation: Literal["square", "relu"] = "square"

    def __post_init__(self) -> None:
        for name in ("u", "v", "w"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), np.float64))
        shapes = [part.shape for part in (self.u, self.v, self.w)]
        same = len(set(shapes)) == 1 and self.u.ndim == 2 and self.u.size > 0
        require(same, "u, v and w must all have the shape (neurons, order)", shapes=shapes)
        finite = all(np.isfinite(part).all() for part in (self.u, self.v, self.w))
        require(finite, "weights must be finite", finite=finite)
        require(self.activation in ("square", "relu"), "activation must be square or relu", activation=self.activation)

    @classmethod
    def from_parameters(
        cls, parameters: Mapping[str, Any], activation: Literal["square", "relu"] = "square"
    ) -> "PairWeights":
        """Read the parameters of a two-layer network without biases on one-hot pairs.

        Args:
            parameters: ``hidden.weight`` of shape (neurons, 2 order) and ``output.weight`` of shape (order, neurons).

        Raises:
            TheoryError: shapes that do not agree.
        """
        hidden, output = _layers(parameters)
        order = output.shape[0]
        fits = hidden.shape == (output.shape[1], 2 * order)
        require(fits, "weights must have shapes (neurons, 2 order), (order, neurons)", **_shapes(hidden, output))
        return cls(hidden[:, :order], hidden[:, order:], output.T, activation)

    def parameters(self) -> dict[str, dict[str, np.ndarray]]:
        """Return the network as the parameters of a two-layer network without biases, float32."""
        hidden = np.concatenate([self.u, self.v], axis=1)
        return _parameters(hidden, self.w)

    @property
    def order(self) -> int:
        """The number of elements."""
        return int(self.u.shape[1])

    @property
    def degree(self) -> int:
        """3 for squares, 2 for ReLU."""
        return 3 if self.activation == "square" else 2

    @property
    def readout(self) -> Float[np.ndarray, "neurons order"]:
        """The outgoing weights w."""
        return self.w

    @property
    def examples(self) -> int:
        """The number of pairs."""
        return self.order**2

    @property
    def norms(self) -> Float[np.ndarray, " neurons"]:
        """(||u||^2 + ||v||^2 + ||w||^2)^(1/2)."""
        return np.asarray(np.sqrt((self.u**2 + self.v**2 + self.w**2).sum(axis=1)))

    def hidden(self, neurons: slice) -> Float[np.ndarray, "examples part"]:
        """sigma(u(a) + v(b)) at all pairs."""
        sums = self.u[neurons].T[:, None] + self.v[neurons].T[None]
        values = sums**2 if self.activation == "square" else np.maximum(sums, 0)
        return np.asarray(values.reshape(self.examples, -1))

    def scaled(self, factor: Any) -> "PairWeights":
        """Return the network with all weights times a number, or times one number per neuron."""
        column = np.reshape(np.asarray(factor, float), (-1, 1))
        return PairWeights(column * self.u, column * self.v, column * self.w, self.activation)

    def __getitem__(self, neurons: Any) -> "PairWeights":
        return PairWeights(self.u[neurons], self.v[neurons], self.w[neurons], self.activation)

    @classmethod
    def joined(cls, parts: "list[PairWeights]") -> "PairWeights":
        """Return one network with the neurons of several."""
        u, v, w = (np.concatenate([getattr(part, name) for part in parts]) for name in ("u", "v", "w"))
        return cls(u, v, w, parts[0].activation)


@dataclass(frozen=True, eq=False)
class ParityWeights(HomogeneousWeights):
    """A network on signs: f(x) = sum_i (u_i . x)^k w_i with two outputs, the first for y = 1; of degree k + 1.

    Args:
        u: the incoming weights, shape (neurons, n).
        w: the outgoing weights, shape (neurons, 2).
        power: k, at least 1.
    """

    u: Float[np.ndarray, "neurons n"]
    w: Float[np.ndarray, "neurons 2"]
    power: int

    def __post_init__(self) -> None:
        for name in ("u", "w"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), np.float64))
        fits = self.u.ndim == 2 and self.u.size > 0 and self.w.shape == (len(self.u), 2)
        require(fits, "u and w must have shapes (neurons, n) and (neurons, 2)", u=self.u.shape, w=self.w.shape)
        finite = bool(np.isfinite(self.u).all() and np.isfinite(self.w).all())
        require(finite, "weights must be finite", finite=finite)
        require(self.power >= 1, "power must be at least 1", power=self.power)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any], power: int) -> "ParityWeights":
        """Read the parameters of a two-layer network without biases on signs.

        Args:
            parameters: ``hidden.weight`` of shape (neurons, n) and ``output.weight`` of shape (2, neurons).

        Raises:
            TheoryError: shapes that do not agree.
        """
        hidden, output = _layers(parameters)
        fits = output.shape == (2, len(hidden))
        require(fits, "weights must have shapes (neurons, n), (2, neurons)", **_shapes(hidden, output))
        return cls(hidden, output.T, power)

    def parameters(self) -> dict[str, dict[str, np.ndarray]]:
        """Return the network as the parameters of a two-layer network without biases, float32."""
        return _parameters(self.u, self.w)

    @property
    def n(self) -> int:
        """The input size."""
        return int(self.u.shape[1])

    @property
    def degree(self) -> int:
        """The degree k + 1."""
        return self.power + 1

    @property
    def readout(self) -> Float[np.ndarray, "neurons 2"]:
        """The outgoing weights w."""
        return self.w

    @property
    def examples(self) -> int:
        """The number 2^n of inputs."""
        return int(2**self.n)

    @property
    def norms(self) -> Float[np.ndarray, " neurons"]:
        """(||u||^2 + ||w||^2)^(1/2)."""
        return np.asarray(np.sqrt((self.u**2).sum(axis=1) + (self.w**2).sum(axis=1)))

    def hidden(self, neurons: slice) -> Float[np.ndarray, "examples part"]:
        """(u . x)^k at all inputs."""
        require(self.n <= LARGEST_INPUT, f"n must be at most {LARGEST_INPUT} for all 2^n inputs", n=self.n)
        return np.asarray((sign_table(self.n) @ self.u[neurons].T) ** self.power)

    def scaled(self, factor: Any) -> "ParityWeights":
        """Return the network with all weights times a number, or times one number per neuron."""
        column = np.reshape(np.asarray(factor, float), (-1, 1))
        return ParityWeights(column * self.u, column * self.w, self.power)


def pointwise_margins(weights: HomogeneousWeights, labels: Any) -> Float[np.ndarray, " examples"]:
    """Return every example's margin.

    Formula: g(x, y) = f(x)[y] - max_{y' != y} f(x)[y'].
    Source: thesis, section 7.2.

    Args:
        labels: y of all examples, whole numbers of shape (examples,) or, for pairs, (order, order).
    """
    right, wrong = split_logits(weights.logits(), checked_labels(weights, labels))
    return np.asarray(right - wrong.max(axis=1))


def normalised_margin(weights: HomogeneousWeights, labels: Any) -> float:
    """Return the margin of a network with its weights scaled to an L_{2,nu} norm of 1.

    Formula: h(theta / ||theta||) = min_x g(x, y) / sum_i ||omega_i||_2^nu.
    Source: thesis, section 7.2, with a = 2 and b = nu.

    Args:
        labels: as for ``pointwise_margins``.
    """
    require(weights.mass > 0, "a network must have a neuron that is not 0", mass=weights.mass)
    return float(pointwise_margins(weights, labels).min() / weights.mass)


def checked_labels(weights: HomogeneousWeights, labels: Any) -> np.ndarray:
    """Return labels as integers of shape (examples,), refusing anything but one output per example."""
    flat = whole_array("labels", labels).ravel()
    require(
        len(flat) == weights.examples,
        "there must be one label per example",
        labels=flat.size,
        examples=weights.examples,
    )
    outputs = weights.readout.shape[1]
    inside = flat.min() >= 0 and flat.max() < outputs
    require(bool(inside), "labels must name outputs", smallest=flat.min(), largest=flat.max(), outputs=outputs)
    return flat


def split_logits(logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the correct logits, shape (examples,), and all logits with -inf at the correct ones."""
    rows = np.arange(len(labels))
    right, wrong = logits[rows, labels], logits.copy()
    wrong[rows, labels] = -np.inf
    return right, wrong


def _layers(parameters: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    hidden, output = (np.asarray(parameters[name]["weight"], np.float64) for name in ("hidden", "output"))
    biases = [name for name in ("hidden", "output") if "bias" in parameters[name]]
    require(not biases, "a homogeneous network has no biases", biases=biases)
    require(hidden.ndim == 2 and output.ndim == 2, "weights must be matrices", **_shapes(hidden, output))
    return hidden, output


def _shapes(hidden: np.ndarray, output: np.ndarray) -> dict[str, tuple[int, ...]]:
    return {"hidden": hidden.shape, "output": output.shape}


def _parameters(hidden: np.ndarray, readout: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
    return {
        "hidden": {"weight": hidden.astype(np.float32)},
        "output": {"weight": np.ascontiguousarray(readout.T, np.float32)},
    }
