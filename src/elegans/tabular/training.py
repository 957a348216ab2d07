"""What an estimator trains: networks of their own, or networks that share a trunk."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from elegans.tabular.descent import StopSignal
from elegans.tabular.encoding import Encoder, RawRows, Standard
from elegans.tabular.network import Epoch, Networks, init_networks
from elegans.tabular.settings import Settings
from elegans.tabular.shared import SharedNetworks, SharedSettings, init_shared
from elegans.tabular.stopping import BestEpoch

_BLOCK = 8192
"""The largest number of rows whose outputs are computed at once."""
_SAMPLE = 1000
"""The largest number of training rows on which importances are computed."""


@dataclass
class Watched:
    """Validation rows, and whether training returns to its state of lowest loss on them.

    Args:
        rows: the rows.
        targets: their targets.
        weights: their weights.
        patience: for networks of their own, the epochs without a lower loss after which one stops.
        returns: whether training returns; else losses are only recorded.
    """

    rows: RawRows
    targets: np.ndarray
    weights: np.ndarray
    patience: int
    returns: bool


@dataclass
class TableTraining(ABC):
    """Networks of an estimator, and their training.

    Args:
        encoder: how rows are encoded.
        networks: the networks.
        losses: the loss of each epoch so far.
        validation_losses: the loss on validation rows after each epoch.
    """

    encoder: Encoder
    networks: Any = None
    losses: list[float] = field(default_factory=list)
    validation_losses: list[float] = field(default_factory=list)

    @abstractmethod
    def begin(self, rows: RawRows, settings: Any, seeds: list[int], heads: int) -> None:
        """Draw networks for rows like these, from which the encoder has learned."""

    @abstractmethod
    def train(
        self,
        rows: RawRows,
        targets: np.ndarray,
        weights: np.ndarray | None,
        stop: StopSignal,
        watched: Watched | None,
        report: Callable[[], Any],
    ) -> None:
        """Train for the epochs of the settings, and call ``report`` after each."""

    @abstractmethod
    def settle(self) -> float | None:
        """Return to the best epoch, if rows were watched for it; return the loss there, or None without an epoch."""

    @abstractmethod
    def outputs(self, rows: RawRows, use: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return what ``use`` makes of the members' outputs (members, rows, heads)."""

    @abstractmethod
    def strengths(self) -> Float[np.ndarray, "members columns"]:
        """Return how strongly each member's first layer uses each column."""

    @abstractmethod
    def is_finite(self) -> bool:
        """Return whether all weights are finite."""


class Independent(TableTraining):
    """Networks of their own."""

    networks: Networks

    def begin(self, rows: RawRows, settings: Settings, seeds: list[int], heads: int) -> None:
        inputs, part = self.encoder.inputs, self.encoder.part
        self.networks = init_networks(settings, seeds, inputs.count, heads)
        if isinstance(part, Standard):
            self._scales = part.varies * (1.0 if part.standardise else np.sqrt(part.scaler.var_))
        else:
            self._scales = self._prepared(_sample(rows)).std(axis=0)

    def train(
        self,
        rows: RawRows,
        targets: np.ndarray,
        weights: np.ndarray | None,
        stop: StopSignal,
        watched: Watched | None,
        report: Callable[[], Any],
    ) -> None:
        self._before, self._returns, self._best = len(self.losses), watched is not None and watched.returns, None
        if watched is not None:
            patience = watched.patience if watched.returns else None
            self._best = BestEpoch(self._prepared(watched.rows), watched.targets, watched.weights, patience)

        def after_epoch(epoch: Epoch) -> Any:
            self.losses.append(_mean(epoch.losses))
            stopping = None
            if self._best is not None:
                stopping = self._best(epoch)
                self.validation_losses.append(_mean(self._best.losses[-1]))
            report()
            return stopping

        self.networks.train(self._prepared(rows), targets, weights=weights, callback=after_epoch, stop=stop)

    def settle(self) -> float | None:
        losses = self.losses[self._before :]
        if self._best is not None and self._best.best is not None and self._returns:
            self.networks, losses = self._best.best, [_mean(np.fmin.reduce(self._best.losses))]
        self._best = None
        return losses[-1] if losses else None

    def outputs(self, rows: RawRows, use: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        return use(self.networks.outputs(self._prepared(rows), dtype="float64"))

    def strengths(self) -> Float[np.ndarray, "members columns"]:
        first, second = self.networks.layers[:2]
        outgoing = np.linalg.norm(second[:, :, :-1], axis=1)
        strength = np.einsum("mi,mij->mj", outgoing, np.abs(first[:, :, :-1]), dtype=np.float64) * self._scales
        result = np.zeros((len(strength), self.encoder.inputs.columns))
        np.add.at(result.T, self.encoder.inputs.owner, strength.T)
        return result

    def is_finite(self) -> bool:
        return all(np.isfinite(layer).all() for layer in self.networks.layers)

    def _prepared(self, rows: RawRows) -> np.ndarray:
        return self.encoder.inputs.expand(self.encoder.transform(rows, self.networks.settings.dtype))


class Shared(TableTraining):
    """Networks that share a trunk."""

    networks: SharedNetworks

    def begin(self, rows: RawRows, settings: SharedSettings, seeds: list[int], heads: int) -> None:
        self.networks = init_shared(settings, seeds, self.encoder.inputs, heads)
        self._sampled = self.encoder.transform(_sample(rows), "float32")

    def train(
        self,
        rows: RawRows,
        targets: np.ndarray,
        weights: np.ndarray | None,
        stop: StopSignal,
        watched: Watched | None,
        report: Callable[[], Any],
    ) -> None:
        self._last: float | None = None
        self._best: tuple[float, SharedNetworks] | None = None
        dtype = self.networks.settings.dtype
        held_out = None if watched is None else self.encoder.transform(watched.rows)

        def after_epoch(loss: float) -> None:
            self.losses.append(loss)
            self._last = loss
            if watched is not None and held_out is not None:
                loss = self.networks.mean_loss(held_out, _columns(watched.targets), watched.weights)
                self.validation_losses.append(loss)
                if watched.returns and (self._best is None or loss <= self._best[0]):
                    self._best = loss, self.networks.copy()
            report()

        encoded = self.encoder.transform(rows, dtype)
        del rows
        mean = None if weights is None else weights / weights.mean()
        self.networks.train(encoded, _columns(targets), weights=mean, callback=after_epoch, stop=stop)

    def settle(self) -> float | None:
        if self._best is not None:
            self._last, self.networks = self._best
            self._best = None
        return self._last

    def outputs(self, rows: RawRows, use: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        blocks = [rows[begin : begin + _BLOCK] for begin in range(0, len(rows), _BLOCK)]
        return np.concatenate([use(self.networks.outputs(self.encoder.transform(block))) for block in blocks])

    def strengths(self) -> Float[np.ndarray, "members columns"]:
        return self.networks.strengths(self._sampled)

    def is_finite(self) -> bool:
        return bool(np.isfinite(self.networks.values).all())


def _sample(rows: RawRows) -> RawRows:
    return rows[:: -(-len(rows) // _SAMPLE)]


def _columns(targets: np.ndarray) -> np.ndarray:
    return targets.reshape(len(targets), -1)


def _mean(losses: Float[np.ndarray, " members"]) -> float:
    """Return the mean loss, ignoring NaN; NaN if all are."""
    numbers = losses[~np.isnan(losses)]
    return float(numbers.mean()) if len(numbers) else float("nan")
