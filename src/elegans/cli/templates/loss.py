"""Your own loss; a training accepts it by its kind ``my-first``."""

from typing import Annotated, Any

from pydantic import Field

import elegans as el


class MyFirst(el.Loss):
    """max(1 - y f, 0)^power: the hinge loss to a power.

    Args:
        power: at least 1.
    """

    power: Annotated[float, Field(ge=1)] = 2.0

    def value(self, output: Any, label: Any) -> Any:
        """Return the loss of each example, elementwise, for labels -1 and +1. JAX computes the gradient."""
        slack = 1 - label * output
        return (slack * (slack > 0)) ** self.power
