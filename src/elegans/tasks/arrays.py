"""Types of the arrays that tasks and regimes take and return."""

from collections.abc import Callable
from typing import Any

from jaxtyping import Float32, Shaped, UInt32

from elegans import random

Indices = UInt32[Any, " count"]
"""The indices of examples."""
Minibatch = UInt32[Any, " batch_size"]
"""The indices of the examples in a minibatch."""
Examples = tuple[Float32[Any, "count input_size"], Shaped[Any, "count ..."]]
"""Inputs, and labels, the numbers of classes, or several targets each."""
SignedExamples = tuple[Float32[Any, "count input_size"], Float32[Any, " count"]]
"""Inputs, and labels in {-1, +1}."""
Keys = Callable[[str], random.Key]
"""Returns the key of one of a trial's streams by its name."""
