"""Networks that share a trunk, as learners in trials."""

from typing import Annotated, Any

import numpy as np
from jaxtyping import Float, Float32
from pydantic import Field, SerializeAsAny

from elegans import random
from elegans.learners.base import LearnerData, LearnerRun
from elegans.models import DenseInit, Init
from elegans.tabular.encoding import Bins, RawRows
from elegans.tabular.learners import TableLearner
from elegans.tabular.shared import (
    MANY_ROWS,
    SharedNetworks,
    SharedSettings,
    automatic_dropout,
    automatic_epochs,
    init_shared,
)
from elegans.tasks import Task


class BinnedNetworks(TableLearner):
    """Networks that share a trunk, on quantile bins, as the estimators train them; in one round.

    Its parameters are ``{"networks": …}``, a pair of ``Bins`` and ``SharedNetworks``, or None.

    Source: as ``elegans.tabular.shared``.

    Args:
        hidden: the widths of the hidden layers, the first layer's first.
        init: the initialisation of the first layer's weights; the others are dense.
        n_members: how many networks share the trunk.
        steps: None, or 1.
        stopping: when the trial counts as solved, as returned by ``exact``.
    """

    hidden: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1, max_length=16)] = (256, 256)
    init: SerializeAsAny[Init] = DenseInit()
    n_members: Annotated[int, Field(ge=1, le=1000)] = 16

    def rounds(self, task: Task) -> int:
        """Return 1."""
        return 1

    def initialise(self, key: random.Key, task: Task) -> dict[str, Any]:
        return {"networks": None}

    def apply(self, parameters: Any, x: Float32[Any, "count features"]) -> Float[Any, " count"]:
        if parameters["networks"] is None:
            return np.zeros(len(x))
        bins, networks = parameters["networks"]
        outputs = networks.outputs(bins.transform(RawRows(np.asarray(x, float))), 1)
        return np.tanh(outputs[:, :, 0] / 2).mean(axis=0)

    def begin(self, lesson: LearnerData) -> LearnerRun:
        return _BinnedFit(self, lesson)


class _BinnedFit(LearnerRun):
    def __init__(self, model: BinnedNetworks, lesson: LearnerData) -> None:
        self.model, self.lesson = model, lesson
        self.x, self.second = model.sample(lesson)
        self.networks: tuple[Bins, SharedNetworks] | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """The bins and the networks, or None."""
        return {"networks": self.networks}

    def advance(self, rounds: int) -> None:
        rows, key = RawRows(self.x.astype(float)), self.lesson.key("init")
        high, low = random.bits(key, np.arange(self.model.n_members))
        seeds = [int(first) << 32 | int(second) for first, second in zip(high, low, strict=True)]
        bins = Bins().fit(rows, range(self.x.shape[1]))
        settings = SharedSettings(
            hidden=self.model.hidden,
            init=self.model.init,
            dtype="float32" if len(rows) >= MANY_ROWS else "float64",
            epochs=automatic_epochs(len(rows), SharedSettings.batch_size),
            dropout=automatic_dropout(len(rows)),
        )
        networks = init_shared(settings, seeds, bins.inputs, 1)
        encoded = bins.transform(rows, settings.dtype)
        self.loss = networks.train(encoded, self.second[:, None].astype(float), threads=1)[-1]
        self.networks = bins, networks
