"""What an estimator trains: networks of their own, or networks that share a trunk."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from elegans.tabular.descent import StopSignal
from elegans.tabular.encoding import Encoder, RawRows, Standard
from elegans.tabular.network import Epoch, init_networks
from elegans.tabular.shared import SharedNetworks, init_shared
from elegans.tabular.stopping import BestEpoch

_BLOCK = 8192
"""The largest number of rows whose outputs are computed at once."""
_SAMPLE = 1000
"""The largest number of training rows on which importances are computed."""


class Targeted(NamedTuple):
    """Rows with their targets and weights, or None for equal weights."""

    rows: RawRows
    targets: np.ndarray
    weights: np.ndarray | None


class Independent:
    """Networks of their own, drawn for rows from which the encoder has learned, and their losses of each epoch."""

    def __init__(self, encoder: Encoder, rows: RawRows, settings: Any, seeds: list[int], heads: int) -> None:
        self.encoder, self.losses, self.validation_losses = encoder, list[float](), list[float]()
        self.networks = init_networks(settings, seeds, encoder.inputs.count, heads)
        if isinstance(part := encoder.part, Standard):
            self._scales = part.varies * (1.0 if part.standardise else np.sqrt(part.scaler.var_))
        else:
            self._scales = self._prepared(_sample(rows)).std(axis=0)

    def train(
        self,
        data: Targeted,
        watched: Targeted | None,
        patience: int | None,
        stop: StopSignal,
        report: Callable[[], Any],
    ) -> None:
        """Train for the epochs of the settings, and call ``report`` after each.

        Losses on the watched rows are recorded; with a patience, ``settle`` returns to the state of the lowest one.
        """
        self._before, self._patience, self._best = len(self.losses), patience, None
        if watched is not None:
            self._best = BestEpoch(self._prepared(watched.rows), watched.targets, watched.weights, patience)

        def after_epoch(epoch: Epoch) -> Any:
            self.losses.append(_mean(epoch.losses))
            stopping = None
            if self._best is not None:
                stopping = self._best(epoch)
                self.validation_losses.append(_mean(self._best.losses[-1]))
            report()
            return stopping

        x = self._prepared(data.rows)
        self.networks.train(x, data.targets, weights=data.weights, callback=after_epoch, stop=stop)

    def settle(self) -> float | None:
        """Return to the best epoch, if rows were watched for it; return the loss there, or None without an epoch."""
        losses = self.losses[self._before :]
        if self._best is not None and self._best.best is not None and self._patience is not None:
            self.networks, losses = self._best.best, [_mean(np.fmin.reduce(self._best.losses))]
        self._best = None
        return losses[-1] if losses else None

    def outputs(self, rows: RawRows, use: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return what ``use`` makes of the members' outputs (members, rows, heads)."""
        return use(self.networks.outputs(self._prepared(rows), dtype="float64"))

    def strengths(self) -> Float[np.ndarray, "members columns"]:
        """Return how strongly each member's first layer uses each column."""
        first, second = self.networks.layers[:2]
        outgoing = np.linalg.norm(second[:, :, :-1], axis=1)
        strength = np.einsum("mi,mij->mj", outgoing, np.abs(first[:, :, :-1]), dtype=np.float64) * self._scales
        result = np.zeros((len(strength), self.encoder.inputs.columns))
        np.add.at(result.T, self.encoder.inputs.owner, strength.T)
        return result

    def is_finite(self) -> bool:
        """Return whether all weights are finite."""
        return all(np.isfinite(layer).all() for layer in self.networks.layers)

    def _prepared(self, rows: RawRows) -> np.ndarray:
        return self.encoder.inputs.expand(self.encoder.transform(rows, self.networks.settings.dtype))


class Shared:
    """The same for networks that share a trunk."""

    def __init__(self, encoder: Encoder, rows: RawRows, settings: Any, seeds: list[int], heads: int) -> None:
        self.encoder, self.losses, self.validation_losses = encoder, list[float](), list[float]()
        self.networks = init_shared(settings, seeds, encoder.inputs, heads)
        self._sampled = encoder.transform(_sample(rows), "float32")

    def train(
        self,
        data: Targeted,
        watched: Targeted | None,
        patience: int | None,
        stop: StopSignal,
        report: Callable[[], Any],
    ) -> None:
        """Train as ``Independent.train``, but always for all epochs."""
        self._best: tuple[float, SharedNetworks | None] | None = None
        held_out = None if watched is None else self.encoder.transform(watched.rows)

        def after_epoch(loss: float) -> None:
            self.losses.append(loss)
            if watched is not None and held_out is not None:
                validation = self.networks.mean_loss(held_out, _columns(watched.targets), watched.weights)
                self.validation_losses.append(validation)
                if patience is not None and (self._best is None or validation <= self._best[0]):
                    self._best = validation, self.networks.copy()
            if patience is None:
                self._best = loss, None
            report()

        encoded = self.encoder.transform(data.rows, self.networks.settings.dtype)
        weights = None if data.weights is None else data.weights / data.weights.mean()
        self.networks.train(encoded, _columns(data.targets), weights=weights, callback=after_epoch, stop=stop)

    def settle(self) -> float | None:
        """Return to the last best epoch, if rows were watched for it; return the loss there, or None without one."""
        (loss, best), self._best = self._best or (None, None), None
        self.networks = best or self.networks
        return loss

    def outputs(self, rows: RawRows, use: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return what ``use`` makes of the members' outputs (members, rows, heads), block by block."""
        blocks = [rows[begin : begin + _BLOCK] for begin in range(0, len(rows), _BLOCK)]
        return np.concatenate([use(self.networks.outputs(self.encoder.transform(block))) for block in blocks])

    def strengths(self) -> Float[np.ndarray, "members columns"]:
        """Return how strongly each member's first layer uses each column."""
        return self.networks.strengths(self._sampled)

    def is_finite(self) -> bool:
        """Return whether all weights are finite."""
        return bool(np.isfinite(self.networks.values).all())


def _sample(rows: RawRows) -> RawRows:
    return rows[:: -(-len(rows) // _SAMPLE)]


def _columns(targets: np.ndarray) -> np.ndarray:
    return targets.reshape(len(targets), -1)


def _mean(losses: Float[np.ndarray, " members"]) -> float:
    """Return the mean loss, ignoring NaN; NaN if all are."""
    numbers = losses[~np.isnan(losses)]
    return float(numbers.mean()) if len(numbers) else float("nan")
