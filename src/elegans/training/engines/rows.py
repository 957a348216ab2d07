"""Parameters of native networks that keep them in one row."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Float32, Shaped

from elegans.models.inits import Layers


class ParameterRow:
    """The order of a network's parameters in a native row.

    Args:
        parameters: the initial parameters in the model's nesting.
        arrange: yields the arrays of all parameters in the native layout and order; None for the model's order.
    """

    def __init__(self, parameters: Layers, arrange: Callable[[Layers], Iterator[np.ndarray]] | None = None) -> None:
        self.parameters = parameters
        self.arrays = {f"{layer}.{name}": array for layer, part in parameters.items() for name, array in part.items()}
        size = sum(array.size for array in self.arrays.values())
        # the position of each entry of the native row among the model's parameters
        self.positions = np.arange(size)
        if arrange is not None:
            numbers = arrange(_nested(self.positions, parameters))
            self.positions = np.concatenate([np.ravel(array) for array in numbers])

    def initial(self, training: Any) -> Iterator[Float32[np.ndarray, " size"]]:
        """Yield the rows of the initial values, of the learning rates and of the weight decays."""
        sizes = [array.size for array in self.arrays.values()]
        rates = np.repeat(np.array([training.rates(name) for name in self.arrays], np.float32), sizes, axis=0)
        for row in (np.concatenate([np.ravel(array) for array in self.arrays.values()]), *rates.T):
            yield np.ascontiguousarray(row[self.positions], np.float32)

    def nested(self, row: Float32[np.ndarray, " size"]) -> Layers:
        """Return the parameters of a native row in the model's nesting."""
        return _nested(row[np.argsort(self.positions)], self.parameters)


def _nested(flat: Shaped[np.ndarray, " size"], like: Layers) -> Layers:
    """Return consecutive entries with the nesting and shapes of other arrays."""
    layers: Layers = {}
    first = 0
    for layer, arrays in like.items():
        layers[layer] = {}
        for name, array in arrays.items():
            layers[layer][name] = flat[first : first + array.size].reshape(array.shape)
            first += array.size
    return layers
