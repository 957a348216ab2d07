"""Your own activation; every model with an ``activation`` accepts it, by its kind ``my-first``."""

from typing import Any

import elegans as el


class MyFirst(el.Activation):
    """z^2 for z > 0, and 0 elsewhere."""

    def value(self, z: Any) -> Any:
        """Return the activation, elementwise; use operators that NumPy and JAX arrays share."""
        return z * z * (z > 0)

    def derivative(self, z: Any) -> Any:
        """Return the exact derivative, elementwise."""
        return 2 * z * (z > 0)
