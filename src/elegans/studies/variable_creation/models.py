"""The transformer that computes its task's function at initialisation."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from elegans import random
from elegans.models import BooleanTransformer
from elegans.models.inits import Layers
from elegans.studies.variable_creation.theory.construction import SelectingTransformer, selecting_transformer_for
from elegans.studies.variable_creation.theory.selection import Target
from elegans.tasks import Task
from elegans.tasks.parity import Supported


class ConstructedTransformer(BooleanTransformer):
    """A plain transformer initialised at, or near, the constructed weights of its task's function.

    The weights come from ``theory.selecting_transformer`` for the support, which the task must fix; spare heads,
    dimensions and neurons are 0, and stay so without noise.

    Source: thesis, Proposition A.18.

    Args:
        target: ``scalar``, ``vector``, or None for the scalar one where it suffices.
        std: the standard deviation of normal noise on weights and trained embeddings, including spare entries; 0 for
            none.
        width: at least n + 3; with trained positions 4, or k + 3 with the vector target.
        heads: at least 1, or k with the vector target and positions.
        head_size: at least 1, or k for a bag; by default width / heads.
        form: ``plain`` alone.
        encoding: ``trained`` or ``fixed`` positions, or a ``bag`` of vectors.
        mlp: the widths of two hidden layers, at least 4 (k + 1) and 2 (k + 1), or 4 k 2^k and 2 2^k; by default
            4 width and 2 width.
        dropout: None alone.
    """

    heads: Annotated[int, Field(ge=1)] = 1
    form: Literal["plain"] = "plain"
    target: Target | None = None
    std: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0

    def check(self, task: Task) -> None:
        super().check(task)
        self._constructed(task).parameters_of(self)

    def initialise(self, key: random.Key, task: Task) -> Layers:
        """Return the constructed parameters, with noise if requested."""
        made = self._constructed(task).parameters_of(self)
        if not self.std:
            return made
        noise = super().initialise(key, task)
        if self.encoding != "trained":
            noise["embedding"]["position"] = np.zeros_like(made["embedding"]["position"])
        return {
            layer: {name: part + noise[layer][name] for name, part in parts.items()} for layer, parts in made.items()
        }

    def _constructed(self, task: Task) -> SelectingTransformer:
        if not isinstance(task, Supported) or task.support is None:
            rule = "a constructed transformer must have a task with a support of its own"
            raise ValueError(f"{rule}: task={task.label()!r}")
        return selecting_transformer_for(task, task.support, encoding=self.encoding, target=self.target)
