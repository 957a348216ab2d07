"""Initialisations of networks."""

from __future__ import annotations

import math
from abc import abstractmethod
from inspect import isabstract
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, SerializeAsAny

from elegans import random
from elegans.component import Component, Later, none_if_zero
from elegans.tasks import Task

if TYPE_CHECKING:
    from jaxtyping import Float32

Layers = dict[str, dict[str, np.ndarray]]
Size = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Role = Literal["first", "inner", "last"]
"""A layer on the inputs, between hidden layers, or of outputs."""


class Init(Component, family=True):
    """The distribution of the initial parameters."""

    @abstractmethod
    def weights(self, key: random.Key, width: int, n: int) -> Float32[np.ndarray, "width n"]:
        """Draw the hidden weights: one row per neuron."""

    def hidden(self, key: random.Key, width: int, task: Task) -> dict[str, np.ndarray]:
        """Draw hidden weights and biases; biases uniform on plus or minus 1/sqrt(fan-in)."""
        n = task.input_size
        return {"weight": self.weights(key.fold(0), width, n), "bias": fan_in_uniform(key.fold(1), (width,), n)}

    def parameters(self, key: random.Key, width: int, task: Task) -> Layers:
        """Draw all parameters of a network with one output, whose weights and bias are uniform like the biases."""
        weight, bias = fan_in_uniform(key.fold(2), (width,), width), fan_in_uniform(key.fold(3), (), width)
        return {"hidden": self.hidden(key, width, task), "output": {"weight": weight, "bias": bias}}

    def readout(self, key: random.Key, width: int, outputs: int) -> dict[str, np.ndarray]:
        """Draw weights (outputs, width) and biases (outputs,) of several outputs; not every initialisation can."""
        raise NotImplementedError(f"{self.kind} has no distribution for several outputs")

    @property
    def has_readout(self) -> bool:
        """Whether there is a distribution for several outputs."""
        return type(self).readout is not Init.readout

    def check(self, width: int, task: Task) -> None:
        """Refuse a width or a task that this initialisation does not cover."""


class AffineInit(Init):
    """A distribution of independent weights and biases of an affine map, which fits any layer."""

    def check(self, width: int, task: Task) -> None:
        self.check_layer(task.input_size)

    def check_layer(self, fan_in: int) -> None:
        """Refuse a layer with this number of inputs, if this distribution does not cover it."""

    def for_role(self, role: Role) -> AffineInit:
        """Return the distribution of the layers of a role."""
        return self

    @abstractmethod
    def entries(self, key: random.Key, shape: tuple[int, ...], fan_in: int, fan_out: int) -> Float32[np.ndarray, ...]:
        """Draw one array of a layer.

        Args:
            key: the key of this array.
            shape: (rows, columns), (rows,) or ().
            fan_in: how many inputs the layer has.
            fan_out: how many outputs it has.
        """

    def weights(self, key: random.Key, width: int, n: int) -> Float32[np.ndarray, "width n"]:
        return self.entries(key, (width, n), n, width)

    def layer(self, weight: random.Key, bias: random.Key, fan_out: int, fan_in: int) -> dict[str, np.ndarray]:
        """Draw weights (fan_out, fan_in) and biases (fan_out,) of a layer, each from its own key."""
        return {
            "weight": self.entries(weight, (fan_out, fan_in), fan_in, fan_out),
            "bias": self.entries(bias, (fan_out,), fan_in, fan_out),
        }

    def hidden(self, key: random.Key, width: int, task: Task) -> dict[str, np.ndarray]:
        return self.layer(key.fold(0), key.fold(1), width, task.input_size)

    def parameters(self, key: random.Key, width: int, task: Task) -> Layers:
        """Draw all parameters of a network with one output from one distribution, scaled by each layer's sizes."""
        weight, bias = self.entries(key.fold(2), (width,), width, 1), self.entries(key.fold(3), (), width, 1)
        return {"hidden": self.hidden(key, width, task), "output": {"weight": weight, "bias": bias}}

    def readout(self, key: random.Key, width: int, outputs: int) -> dict[str, np.ndarray]:
        return self.layer(key.fold(2), key.fold(3), outputs, width)


class BoundedInit(AffineInit):
    """A distribution on [-c, c], with c from one of the two conventions called Xavier.

    Args:
        convention: ``fan-in`` for c = 1/sqrt(fan-in), ``glorot`` for c = sqrt(6 / (fan-in + fan-out)).
    """

    convention: Literal["fan-in", "glorot"] = "fan-in"

    def bound(self, fan_in: int, fan_out: int) -> np.float32:
        """Return c for a layer of these sizes."""
        return np.float32(math.sqrt(1 / fan_in if self.convention == "fan-in" else 6 / (fan_in + fan_out)))


class DenseInit(BoundedInit, kind="dense"):
    """Every weight and bias uniform on [-c, c]; by default c = 1/sqrt(fan-in), as in ``torch.nn.Linear``.

    Source: Pareto frontiers, section 4 and appendix C ("dense"); thesis, appendix B.4 ("uniform").

    Args: as ``BoundedInit``.
    """

    def entries(self, key: random.Key, shape: tuple[int, ...], fan_in: int, fan_out: int) -> Float32[np.ndarray, ...]:
        index, lane = _counters(shape)
        entries = random.uniform_signed(key, index, lane=lane) * self.bound(fan_in, fan_out)
        return np.asarray(entries, np.float32).reshape(shape)


class BernoulliInit(BoundedInit, kind="bernoulli"):
    """Every weight and bias -c or +c, each with probability 1/2.

    Source: thesis, appendix B.4 ("Bernoulli").

    Args: as ``BoundedInit``, and
        size: c itself instead of a convention's, or None; with 1 every entry is a sign.
    """

    size: Size | None = None

    def entries(self, key: random.Key, shape: tuple[int, ...], fan_in: int, fan_out: int) -> Float32[np.ndarray, ...]:
        size = self.bound(fan_in, fan_out) if self.size is None else np.float32(self.size)
        index, lane = _counters(shape)
        signs = np.where(random.uniform_signed(key, index, lane=lane) < 0, np.float32(-1), np.float32(1))
        return np.asarray(signs * size, np.float32).reshape(shape)


class GaussianInit(AffineInit, kind="gaussian"):
    """Every weight and bias normal, with mean 0, and variance by one of two conventions, or a given standard deviation.

    Source: thesis, appendix B.4 ("Gaussian", by Kaiming's convention).

    Args:
        convention: ``kaiming`` for a variance of 2 / fan-in, ``glorot`` for 2 / (fan-in + fan-out).
        std: the standard deviation of every entry instead of a convention's, or None.
    """

    convention: Literal["kaiming", "glorot"] = "kaiming"
    std: Size | None = None

    def entries(self, key: random.Key, shape: tuple[int, ...], fan_in: int, fan_out: int) -> Float32[np.ndarray, ...]:
        std = self.std
        if std is None:
            std = math.sqrt(2 / fan_in if self.convention == "kaiming" else 2 / (fan_in + fan_out))
        index, lane = _counters(shape)
        return np.asarray(random.normal(key, index, lane=lane) * np.float32(std), np.float32).reshape(shape)


class ConstantInit(AffineInit, kind="constant"):
    """Every weight and bias the same number, without randomness: for models whose units have different inputs.

    Args:
        value: the number.
    """

    shorthand = "value"
    value: Annotated[float, Field(allow_inf_nan=False)] = 1.0

    def __init__(self, value: float = 1.0) -> None:
        super().__init__(value=value)  # type: ignore[call-arg]

    def entries(self, key: random.Key, shape: tuple[int, ...], fan_in: int, fan_out: int) -> Float32[np.ndarray, ...]:
        return np.full(shape, self.value, np.float32)


def _for_any_layer(value: Any) -> AffineInit:
    init = Init.parse(value)
    if not isinstance(init, AffineInit):
        members = Init.members().items()
        kinds = sorted(kind for kind, cls in members if issubclass(cls, AffineInit) and not isabstract(cls))
        raise ValueError(f"init must fit any layer (one of {', '.join(kinds)}): init={init.kind!r}")
    return init


LayerInit = Annotated[SerializeAsAny[AffineInit], BeforeValidator(_for_any_layer)]
"""A field for an initialisation that fits any layer, by name or as a component."""


class SparseInit(AffineInit, kind="sparse"):
    """Exactly ``nonzeros`` non-zero weights per neuron, at uniformly random distinct coordinates.

    Biases and output weights are drawn as with ``DenseInit``.

    Source: Pareto frontiers, section 4 (random 2-hot rows); it names no value for the non-zeros, its theory uses 1.

    Args:
        nonzeros: the number of non-zero weights of each neuron, from 1 to n.
        value: their value.
        signed: True for non-zeros of either sign, each with probability 1/2; None (or False) for the value's own sign.
    """

    shorthand = "nonzeros"
    nonzeros: Annotated[int, Field(ge=1)] = 2
    value: Annotated[float, Field(allow_inf_nan=False)] = 1.0
    signed: Annotated[Literal[True] | None, BeforeValidator(none_if_zero), Later] = None

    def __init__(self, nonzeros: int = 2, value: float = 1.0, **fields: Any) -> None:
        super().__init__(nonzeros=nonzeros, value=value, **fields)  # type: ignore[call-arg]

    def check_layer(self, fan_in: int) -> None:
        if self.nonzeros > fan_in:
            raise ValueError(f"nonzeros of a sparse init must be at most n: nonzeros={self.nonzeros}, n={fan_in}")

    def for_role(self, role: Role) -> AffineInit:
        return DenseInit() if role == "last" else self

    def entries(self, key: random.Key, shape: tuple[int, ...], fan_in: int, fan_out: int) -> Float32[np.ndarray, ...]:
        if len(shape) < 2:
            return DenseInit().entries(key, shape, fan_in, fan_out)
        rows = np.zeros(shape, np.float32)
        coordinates = random.subsets(key, rows=shape[0], n=shape[1], size=self.nonzeros)
        values: Any = np.float32(self.value)
        if self.signed:
            values = BernoulliInit(size=1.0).entries(key.fold(0), coordinates.shape, fan_in, fan_out) * values
        np.put_along_axis(rows, coordinates, values, axis=1)
        return rows

    def readout(self, key: random.Key, width: int, outputs: int) -> dict[str, np.ndarray]:
        return DenseInit().readout(key, width, outputs)


class ScaledInit(AffineInit, kind="scaled"):
    """Another distribution, with everything that it draws multiplied by a factor.

    Source: thesis, appendix B.4.1 (the scale c).

    Args:
        factor: what every weight and bias is multiplied by, at least 0.
        of: the distribution, which fits any layer; None for ``DenseInit``.
    """

    shorthand = "factor"
    factor: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    of: Annotated[LayerInit | None, Later] = None

    def check_layer(self, fan_in: int) -> None:
        self._unscaled.check_layer(fan_in)

    def entries(self, key: random.Key, shape: tuple[int, ...], fan_in: int, fan_out: int) -> Float32[np.ndarray, ...]:
        return np.asarray(self._unscaled.entries(key, shape, fan_in, fan_out) * np.float32(self.factor))

    @property
    def _unscaled(self) -> AffineInit:
        return DenseInit() if self.of is None else self.of


class LayeredInit(Init, kind="layered"):
    """A distribution for each role of a layer: the first layer, layers between hidden layers, and the last.

    Args:
        first: the distribution of the first layer's weights and biases, on the inputs.
        last: the distribution of the output weights and biases.
        inner: the distribution of further hidden layers; by default as the first.
    """

    first: LayerInit
    last: LayerInit = DenseInit()
    inner: LayerInit | None = None

    def for_role(self, role: Role) -> AffineInit:
        """Return the distribution of the layers of a role."""
        return {"first": self.first, "inner": self.inner or self.first, "last": self.last}[role]

    def check(self, width: int, task: Task) -> None:
        self.first.check_layer(task.input_size)
        self.last.check_layer(width)

    def weights(self, key: random.Key, width: int, n: int) -> Float32[np.ndarray, "width n"]:
        return self.first.weights(key, width, n)

    def hidden(self, key: random.Key, width: int, task: Task) -> dict[str, np.ndarray]:
        return self.first.hidden(key, width, task)

    def parameters(self, key: random.Key, width: int, task: Task) -> Layers:
        weight, bias = self.last.entries(key.fold(2), (width,), width, 1), self.last.entries(key.fold(3), (), width, 1)
        return {"hidden": self.hidden(key, width, task), "output": {"weight": weight, "bias": bias}}

    def readout(self, key: random.Key, width: int, outputs: int) -> dict[str, np.ndarray]:
        return self.last.readout(key, width, outputs)


def _for_each_layer(value: Any) -> AffineInit | LayeredInit:
    init = Init.parse(value)
    return init if isinstance(init, LayeredInit) else _for_any_layer(init)


LayersInit = Annotated[SerializeAsAny[AffineInit | LayeredInit], BeforeValidator(_for_each_layer)]
"""A field for one initialisation of all layers, or one for each role."""


class SphereInit(Init, kind="sphere"):
    """Hidden weights uniform on a sphere, output weights of equal magnitude with random signs, no biases.

    By default that magnitude is the radius, so |a| = ||w|| for every neuron; gradient steps disturb this balance
    only to second order. For a network of ``MLP(scaling="mean-field")`` the radius is the source's theta; in the
    standard scaling it is theta / sqrt(width).

    Source: Glasgow, "SGD Finds then Tunes Features in Two-Layer Neural Networks" (2024), section 2.2; Remark 4.3 for
    output weights of magnitude 1.

    Args:
        radius: the radius of the sphere, above 0.
        output: the magnitude of the output weights, above 0, or None for the radius.
    """

    shorthand = "radius"
    radius: Size
    output: Size | None = None

    def __init__(self, radius: float, output: float | None = None) -> None:
        super().__init__(radius=radius, output=output)  # type: ignore[call-arg]

    def weights(self, key: random.Key, width: int, n: int) -> Float32[np.ndarray, "width n"]:
        index, lane = _counters((width, n))
        rows = np.asarray(random.normal(key, index, lane=lane), np.float64)
        return np.asarray(self.radius * rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)

    def parameters(self, key: random.Key, width: int, task: Task) -> Layers:
        size = self.radius if self.output is None else self.output
        positive = random.uniform_signed(key.fold(2), np.arange(width, dtype=np.uint32)) >= 0
        weight = self.weights(key.fold(0), width, task.input_size)
        return {
            "hidden": {"weight": weight, "bias": np.zeros(width, np.float32)},
            "output": {"weight": np.where(positive, size, -size).astype(np.float32), "bias": np.zeros((), np.float32)},
        }


def fan_in_uniform(key: random.Key, shape: tuple[int, ...], fan_in: int) -> np.ndarray:
    """Draw float32 uniform on [-1/sqrt(fan_in), 1/sqrt(fan_in)], one counter per element."""
    return DenseInit().entries(key, shape, fan_in, fan_out=1)


def _counters(shape: tuple[int, ...]) -> tuple[Any, Any]:
    rows, columns = (*shape, 1, 1)[:2]
    return np.arange(rows, dtype=np.uint32)[:, None], np.arange(columns, dtype=np.uint32)[None, :]
