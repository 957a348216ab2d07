"""Linear predictors on fixed features, as baselines for networks.

Each is f(x) = w . Psi(x), with an embedding Psi that is drawn once and fixed: no gradient reaches it, but weight decay
does, unless it is 0 in the training's ``layers``.

Source: Daniely and Malach, "Learning Parities with Neural Networks" (2020), sections 3 and 6.1.
"""

import math
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float, Float32
from pydantic import Field, SerializeAsAny

from elegans import random
from elegans.models.base import Model
from elegans.models.inits import DenseInit, Init, Layers
from elegans.models.mlp import preactivations
from elegans.tasks import Task

NEIGHBOURS = 256
"""Number of inputs for the median distance."""
Width = Annotated[int, Field(ge=1)]


class LinearPredictor(Model, kind="linear-predictor"):
    """f(x) = w . x + c, from w = 0 and c = 0; and the base of predictors on other features.

    Its parameters are ``{"output": {"weight": (n,), "bias": ()}}``.
    """

    def initialise(self, key: random.Key, task: Task) -> Layers:
        """Return zeros: the loss is convex, so the initial values do not matter."""
        return {"output": _zeros(task.input_size)}

    def apply(self, parameters: Any, x: Float32[Any, "count n"]) -> Float32[Any, " count"]:
        return x @ parameters["output"]["weight"] + parameters["output"]["bias"]

    def bounds(self, parameters: Any, radius: float) -> Float[np.ndarray, " features"]:
        """Return bounds on the size of each feature, for inputs whose coordinates are at most ``radius`` in size.

        The last feature is the constant 1, whose weight is the output's bias.
        """
        return np.append(np.full(len(parameters["output"]["weight"]), radius), 1.0)

    def readout(self, parameters: Any) -> Float[np.ndarray, " features"]:
        """Return the weights w of the features, the constant's last."""
        return np.append(parameters["output"]["weight"], parameters["output"]["bias"])

    def size(self, parameters: Any, radius: float) -> tuple[int, float]:
        """Return the number N of features and the norm B of their weights, once all features are scaled into [-1, 1].

        Lower bounds on the loss of linear predictors depend on these (``theory.biased_linear_bound``).
        """
        weights = self.readout(parameters) * self.bounds(parameters, radius)
        return len(weights), float(np.linalg.norm(weights))


class RandomReLU(LinearPredictor, kind="random-relu"):
    """ReLU random features: f(x) = a . relu(W x + b) + c, in which only a and c are trained.

    Its parameters are drawn like an ``MLP``'s, and its initial function is that network's.

    Args:
        width: the number of features, at least 1.
        init: the distribution of the initial parameters.
    """

    width: Width
    init: SerializeAsAny[Init] = DenseInit()

    def parameter_count(self, task: Task) -> int:
        return self.width * (task.input_size + 2)

    def check(self, task: Task) -> None:
        self.init.check(self.width, task)

    def initialise(self, key: random.Key, task: Task) -> Layers:
        return self.init.parameters(key, self.width, task)

    def apply(self, parameters: Any, x: Float32[Any, "count n"]) -> Float32[Any, " count"]:
        z = preactivations(_frozen(parameters["hidden"]), x)
        return super().apply(parameters, z * (z > 0))

    def bounds(self, parameters: Any, radius: float) -> Float[np.ndarray, " features"]:
        hidden = parameters["hidden"]
        largest = hidden["bias"] + radius * np.abs(hidden["weight"]).sum(axis=1)
        return np.append(np.maximum(largest, 0), 1.0)


class RandomFourier(LinearPredictor, kind="random-fourier"):
    """Random Fourier features: f(x) = sqrt(2 / m) a . cos(W x + b) + c, in which only a and c are trained.

    W is normal with deviation 1 / bandwidth and b uniform on [0, 2 pi], so the features' inner products are about
    exp(-||x - x'||^2 / (2 bandwidth^2)). It has the parameters of an ``MLP``; a and c are initially 0.

    Source: Rahimi and Recht, "Random features for large-scale kernel machines" (2007).

    Args:
        width: the number m of features, at least 1.
        bandwidth: above 0, or None for the median distance of two inputs, among 256 of the same task.
    """

    width: Width
    bandwidth: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    def parameter_count(self, task: Task) -> int:
        return self.width * (task.input_size + 2)

    def initialise(self, key: random.Key, task: Task) -> Layers:
        row, column = np.arange(self.width, dtype=np.uint32), np.arange(task.input_size, dtype=np.uint32)
        bandwidth = self.bandwidth or _median_distance(key.fold(2), task)
        weight = random.normal(key.fold(0), row[:, None], lane=column[None, :]) * np.float32(1 / bandwidth)
        phase = random.uniform(key.fold(1), row) * np.float32(2 * math.pi)
        return {"hidden": {"weight": weight, "bias": phase}, "output": _zeros(self.width)}

    def apply(self, parameters: Any, x: Float32[Any, "count n"]) -> Float32[Any, " count"]:
        z = preactivations(_frozen(parameters["hidden"]), x)
        return super().apply(parameters, z.__array_namespace__().cos(z) * np.float32(math.sqrt(2 / self.width)))

    def bounds(self, parameters: Any, radius: float) -> Float[np.ndarray, " features"]:
        return np.append(np.full(self.width, math.sqrt(2 / self.width)), 1.0)


class GatedLinear(RandomReLU, kind="gated-linear"):
    """A network that stays in the regime of its tangent kernel: f(x) = sum_j a_j (w_j . x + b_j) 1{gate_j is open} + c.

    The two factors of relu(z) = z 1{z > 0} have separate weights. The gates' weights stay fixed, and the other
    weights start equal to them, so the initial function is the same as an ``MLP``'s. The features are the n + 1
    inputs of each neuron whose gate is open. With a learning rate of 0 for ``output.weight`` the predictor is linear in
    the trained weights; otherwise a and w are both trained, and their products span the same predictors.

    Source: Daniely and Malach (2020), section 6.1; Fiat, Malach and Shalev-Shwartz, "Decoupling gating from linearity"
    (2019).

    Args: as ``RandomReLU``.
    """

    def initialise(self, key: random.Key, task: Task) -> Layers:
        """Draw the parameters of a network, with its hidden layer twice: ``gates`` and ``hidden``."""
        parameters = super().initialise(key, task)
        return {"gates": dict(parameters["hidden"]), **parameters}

    def apply(self, parameters: Any, x: Float32[Any, "count n"]) -> Float32[Any, " count"]:
        is_open = preactivations(_frozen(parameters["gates"]), x) > 0
        return LinearPredictor.apply(self, parameters, preactivations(parameters["hidden"], x) * is_open)

    def bounds(self, parameters: Any, radius: float) -> Float[np.ndarray, " features"]:
        """Return the radius for every gated input and 1 for the gates themselves, neuron by neuron."""
        n = parameters["hidden"]["weight"].shape[1]
        return np.append(np.tile(np.append(np.full(n, radius), 1.0), self.width), 1.0)

    def readout(self, parameters: Any) -> Float[np.ndarray, " features"]:
        hidden, output = parameters["hidden"], parameters["output"]
        inner = np.concatenate([hidden["weight"], hidden["bias"][:, None]], axis=1)
        return np.append((output["weight"][:, None] * inner).ravel(), output["bias"])


def _zeros(count: int) -> dict[str, np.ndarray]:
    return {"weight": np.zeros(count, np.float32), "bias": np.zeros((), np.float32)}


def _frozen(layer: Any) -> Any:
    import jax

    return jax.tree.map(jax.lax.stop_gradient, layer)


def _median_distance(key: random.Key, task: Task) -> float:
    # the draw belongs to no trial
    x, _ = task.examples(task.draw(key.fold(0)), key.fold(1), np.arange(NEIGHBOURS, dtype=np.uint32))
    x = np.asarray(x, np.float64)
    squares = (x**2).sum(axis=1)
    distances = squares[:, None] + squares[None, :] - 2 * x @ x.T
    return float(np.sqrt(np.median(np.maximum(distances[np.triu_indices(len(x), 1)], 0))))
