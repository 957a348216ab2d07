"""What the tests of transformers with one query share."""

from collections.abc import Callable
from typing import Any

import numpy as np

import elegans as el


def drawn(model: el.Model, task: el.Task) -> Any:
    """Return random parameters, biases too."""
    found = model.initialise(el.random.stream(0, "init"), task)
    generator = np.random.default_rng(2)
    for layer in ("hidden", "residual"):
        found[layer]["bias"] = generator.normal(size=found[layer]["bias"].shape).astype(np.float32)
    return found


def compiled(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a function of parameters and inputs that is compiled once, not once for each operation."""
    import jax

    return jax.jit(lambda parameters, x: function(parameters, x))
