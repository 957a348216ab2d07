"""Settings of networks for tables and of their training."""

import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal

from elegans.component import LARGEST
from elegans.errors import shown
from elegans.models.inits import Init

DEEPEST = 100
"""The largest number of hidden layers."""
CHOICES = {
    "head": ("logistic", "softmax", "square"),
    "init_layers": ("first", "all"),
    "optimiser": ("sgd", "adamw"),
    "dtype": ("float32", "float64"),
}
NUMBERS: dict[str, tuple[type, str, Callable[[Any], bool]]] = {
    "learning_rate": (Real, "above 0 and finite", lambda rate: 0 < rate <= sys.float_info.max),
    "weight_decay": (Real, "at least 0 and finite", lambda decay: 0 <= decay <= sys.float_info.max),
    "batch_size": (Integral, "at least 1 and below 2^31", lambda rows: 1 <= rows < LARGEST),
    "epochs": (Integral, "at least 0 and below 2^31", lambda epochs: 0 <= epochs < LARGEST),
}


@dataclass(frozen=True)
class Settings:
    """The settings of networks and of their training.

    Args:
        hidden: the numbers of neurons of the hidden layers, the first layer's first; see ``layers``.
        head: ``logistic`` (one output, classes 0 and 1), ``softmax`` (one output per class) or ``square`` (half the
            squared error, summed over targets).
        init: the distribution of the weights, a component or its shorthand (``sparse:2``, ``dense``). Biases and output
            weights are uniform on plus or minus 1/sqrt(fan-in).
        init_layers: which hidden layers have that initialisation, ``first`` or ``all``; the others are dense.
        optimiser: ``sgd``, with weight decay in the gradient, or ``adamw``, decoupled (Loshchilov and Hutter, 2019).
        learning_rate: above 0.
        weight_decay: the decay of all weights and biases, at least 0.
        batch_size: rows per step, at least 1; an epoch's last step takes the remaining rows.
        epochs: passes over the rows, at least 0.
        dtype: the type of all arithmetic, ``float32`` or ``float64``.
    """

    hidden: tuple[int, ...] = (300, 300)
    head: Literal["logistic", "softmax", "square"] = "logistic"
    init: Init | str = "sparse:2"
    init_layers: Literal["first", "all"] = "first"
    optimiser: Literal["sgd", "adamw"] = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    batch_size: int = 256
    epochs: int = 100
    dtype: Literal["float32", "float64"] = "float32"

    def __post_init__(self) -> None:
        try:
            widths = tuple(self.hidden)
            if isinstance(self.hidden, bytes) or any(isinstance(width, bool) for width in widths):
                raise TypeError
            object.__setattr__(self, "hidden", tuple(map(operator.index, widths)))
        except TypeError:
            raise ValueError(f"hidden must be whole numbers: hidden={shown(self.hidden)}") from None
        if not self.hidden or min(self.hidden) < 1:
            raise ValueError(f"hidden must be one or more widths of at least 1: hidden={shown(self.hidden)}")
        if len(self.hidden) > DEEPEST or max(self.hidden) >= LARGEST:
            raise ValueError(f"hidden must be at most {DEEPEST} widths below 2^31: hidden={shown(self.hidden)}")
        object.__setattr__(self, "init", Init.parse(self.init))
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if not isinstance(value, str) or value not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}: {name}={shown(value)}")
        for name, (kind, rule, allowed) in NUMBERS.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, kind):
                raise ValueError(f"{name} must be a {'whole ' * (kind is Integral)}number: {name}={shown(value)}")
            if not allowed(value):
                raise ValueError(f"{name} must be {rule}: {name}={shown(value)}")
