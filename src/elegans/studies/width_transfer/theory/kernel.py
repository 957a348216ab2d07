"""The tangent kernel of a ReLU network without biases, layer by layer, and the largest rate that it lets be stable."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from elegans.calculators.domain import require


def tangent_kernel_parts(hidden: Sequence[Any], output: Any, inputs: Any) -> np.ndarray:
    """Return each layer's part of the tangent kernel of f(x) = v . relu(W_L … relu(W_1 x)), over the number of inputs.

    Formula: K_l(x, x') = (z_{l-1}(x) . z_{l-1}(x')) (g_l(x) . g_l(x')) / count, with the layer's inputs z and the
        gradients g of f with respect to its pre-activations; for the last layer g = 1.
    Source: Jacot, Gabriel and Hongler (2018).

    Args:
        hidden: W_1, …, W_L, each of shape (neurons, inputs of the layer).
        output: v, shape (neurons of the last hidden layer,).
        inputs: shape (count, d).

    Returns:
        Shape (L + 1, count, count), the first layer first.
    """
    z = [np.asarray(inputs, float)]
    weights = [np.asarray(weight, float) for weight in hidden]
    v = np.asarray(output, float)
    sizes = [part.shape[-1] for part in (*weights, v)]
    rows = [z[0].shape[-1], *(weight.shape[0] for weight in weights)]
    require(sizes == rows, "each layer must take what the one before gives", inputs=rows, weights=sizes)
    for weight in weights:
        z.append(np.maximum(z[-1] @ weight.T, 0))
    gradient = np.broadcast_to(v, z[-1].shape) * (z[-1] > 0)
    parts = [z[-1] @ z[-1].T]
    for layer in range(len(weights) - 1, -1, -1):
        parts.append((z[layer] @ z[layer].T) * (gradient @ gradient.T))
        gradient = gradient @ weights[layer] * (z[layer] > 0)
    return np.stack(parts[::-1]) / len(z[0])


def kernel_stable_rate(parts: Any, factors: Sequence[float] | None = None) -> float:
    """Return the largest learning rate at which gradient descent on the linearised network is stable, square loss.

    Formula: 2 / lambda_max(sum_l factor_l K_l), for the loss (f - y)^2 / 2, averaged over the inputs.
    Source: Jacot, Gabriel and Hongler (2018); stability of gradient descent on a quadratic function.

    Args:
        parts: each layer's part of the kernel, as ``tangent_kernel_parts`` returns them.
        factors: the factor of each layer's learning rate, the first layer's first; 1 by default.
    """
    kernels = np.asarray(parts, float)
    weights = np.ones(len(kernels)) if factors is None else np.asarray(factors, float)
    require(weights.shape == kernels.shape[:1], "factors must be one per layer", factors=weights.shape)
    largest = float(np.linalg.eigvalsh(np.tensordot(weights, kernels, 1))[-1])
    require(largest > 0, "the kernel must not be zero", largest=largest)
    return 2 / largest
