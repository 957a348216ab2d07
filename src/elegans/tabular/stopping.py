"""Early stopping: the best state of a network on validation rows, and when to stop waiting for a better one."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from elegans.tabular.network import Epoch, Networks


@dataclass
class BestEpoch:
    """A callback that watches the loss on validation rows and keeps each member's best state.

    Args:
        X: the validation rows.
        y: their classes or targets.
        weights: weights of the rows, or None.
        patience: the number of epochs in a row without a lower loss after which a member stops, or None for never.
        losses: the losses of every epoch, one per member; NaN for a member that had stopped.
        best: the networks, each in its state of lowest loss, or None before the first epoch.
    """

    X: Any
    y: Any
    weights: Any = None
    patience: int | None = None
    losses: list[Float[np.ndarray, " members"]] = field(default_factory=list)
    best: Networks | None = None

    def __call__(self, epoch: Epoch) -> Bool[np.ndarray, " members"]:
        """Evaluate the networks, and return which members should stop."""
        networks, trained = epoch.networks, ~np.isnan(epoch.losses)
        loss = np.full(len(networks), np.nan)
        loss[trained] = networks.select(np.flatnonzero(trained).tolist()).mean_loss(self.X, self.y, self.weights)
        if self.best is None:
            self.best = networks.select(range(len(networks)))
            self._lowest, self._waited = loss, np.zeros(len(networks), np.int64)
        better = loss < self._lowest
        for member in np.flatnonzero(better).tolist():
            self.best.put(member, networks, member)
        self.losses.append(loss)
        self._lowest = np.where(better, loss, self._lowest)
        self._waited = np.where(better, 0, self._waited + (len(self.losses) > 1))
        if self.patience is None:
            return np.zeros(len(networks), bool)
        return self._waited >= self.patience
