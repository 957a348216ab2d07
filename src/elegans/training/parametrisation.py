"""Parametrisations: how initial values and learning rates change with the width."""

from typing import Any, Literal

from pydantic import Field

from elegans.component import Component
from elegans.errors import TrialError
from elegans.models import MLP, DeepMLP
from elegans.models.inits import LayeredInit, Role, ScaledInit
from elegans.training.optimisers import SGD, Adam, Descent, LayerRates
from elegans.training.trial import Trial

_Powers = dict[Role, float]
_MAXIMAL: dict[type[Descent], _Powers] = {
    SGD: {"first": 1, "inner": 0, "last": -1},
    Adam: {"first": 0, "inner": -1, "last": -1},
}
POWERS: dict[str, dict[type[Descent], _Powers]] = {
    "standard": {SGD: {}, Adam: {}},
    "ntk": {SGD: {"inner": -1, "last": -1}, Adam: {"inner": -0.5, "last": -0.5}},
    "mean-field": _MAXIMAL,
    "maximal-update": _MAXIMAL,
}
"""The powers of width / base width in the learning rates of each role; 0 where there is none."""


class Parametrisation(Component):
    """How a network changes with its width: which initial values and learning rates are scaled, without multipliers.

    A trial of any width becomes one whose learning rate is quoted at the base width, where all kinds agree:
    ``Parametrisation(name="maximal-update").apply(trial)``. Hidden weights keep their variance over the fan-in. The
    learning rates of first, inner and last weights are multiplied by powers of m = width / base width. Biases have the
    first layer's factor, but the output bias has none.

    | name | output weights | SGD: first, inner, last | Adam: first, inner, last |
    | --- | --- | --- | --- |
    | ``standard`` | 1 | 1, 1, 1 | 1, 1, 1 |
    | ``ntk`` | 1 | 1, 1/m, 1/m | 1, m^-1/2, m^-1/2 |
    | ``mean-field`` (one hidden layer), ``maximal-update`` | m^-1/2 | m, 1, 1/m | 1, 1/m, 1/m |

    Weight decay that is multiplied by the learning rate is divided by the factor, so that their product does not
    depend on the width.

    Source: Yang and Hu (2021), table 1; Yang et al., "Tensor Programs V" (2022), tables 3 and 8.

    Args:
        name: ``standard``, ``ntk``, ``mean-field`` or ``maximal-update``.
        base_width: the width at which learning rates are quoted, at least 1.
        zero_readout: whether output weights and the output bias are 0 at the start.
    """

    name: Literal["standard", "ntk", "mean-field", "maximal-update"]
    base_width: int = Field(default=64, ge=1)
    zero_readout: bool = False

    def apply(self, trial: Trial) -> Trial:
        """Return the trial in this parametrisation; its rates by layer must not be set.

        Raises:
            TrialError: the model is no ``MLP`` or ``DeepMLP`` of one width, or the training neither SGD nor Adam.
        """
        model, training = trial.model, trial.training
        if not isinstance(model, MLP | DeepMLP) or not isinstance(training, SGD | Adam) or training.layers:
            kinds = f"model={model.kind!r}, training={getattr(training, 'kind', None)!r}"
            raise TrialError(f"a parametrisation must have an mlp or deep-mlp, and sgd or adam without layers: {kinds}")
        widths = set(model.widths) if isinstance(model, DeepMLP) else {model.width}
        is_deep = isinstance(model, DeepMLP) and len(model.widths) > 1
        if len(widths) > 1 or (is_deep and self.name == "mean-field"):
            rule = "a parametrisation must have hidden layers of one width, and mean-field only one hidden layer"
            raise TrialError(f"{rule}: name={self.name!r}, widths={sorted(widths)}")
        ratio = widths.pop() / self.base_width
        (powers,) = (powers for kind, powers in POWERS[self.name].items() if isinstance(training, kind))
        factors = {name: ratio ** powers.get(_role(name), 0) for name in model.parameter_names(trial.task)}
        layers = {name: _scaled(training, factor) for name, factor in factors.items() if name != "output.bias"}
        changed = trial.replace("training.layers", layers)
        scale = 0.0 if self.zero_readout else 1.0 if self.name in ("standard", "ntk") else ratio**-0.5
        return changed if scale == 1 else changed.replace("model.init", _with_last(model.init, scale))


def _role(parameter: str) -> Role:
    if parameter == "output.weight":
        return "last"
    return "first" if parameter.startswith("hidden.") or parameter.endswith(".bias") else "inner"


def _scaled(training: SGD | Adam, factor: float) -> LayerRates:
    """Return a parameter's rates; weight decay that shrinks parameters directly has no learning rate to make up for."""
    in_gradient = getattr(training, "decay", "gradient") == "gradient"
    decay = training.weight_decay / factor if in_gradient and training.weight_decay else None
    return LayerRates(learning_rate=training.learning_rate * factor, weight_decay=decay)


def _with_last(init: Any, scale: float) -> LayeredInit:
    """Return an initialisation with its output layer scaled."""
    first, inner, last = (init.for_role(role) for role in ("first", "inner", "last"))
    return LayeredInit(first=first, inner=None if inner == first else inner, last=ScaledInit(factor=scale, of=last))
