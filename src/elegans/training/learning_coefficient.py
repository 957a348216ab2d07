"""The local learning coefficient of a network, which Langevin dynamics on its loss estimates."""

import math
import warnings
from typing import Annotated, Any

import numpy as np
from pydantic import Field, SerializeAsAny

from elegans import random
from elegans.learners.base import Learner
from elegans.models import Model
from elegans.probes import Langevin, Probe, Snapshot
from elegans.probes.langevin import Count, NoisyPotential, Positive, Potential
from elegans.tasks import Task
from elegans.training.losses import Loss, Square, example_losses

MOST_LEFT, LEAST_ACCEPTED, MOST_NOISE = 0.05, 0.5, 0.1
"""Diagnostics beyond which an estimate means nothing: the share of chains that left, the mean acceptance of Metropolis
steps, and the noise of the baseline relative to the estimate."""


class LocalLearningCoefficient(Probe):
    """The local learning coefficient of a network: n beta times the mean excess of the loss around its parameters.

    The loss is the task's exact mean loss where it has one, else the mean over examples of the trial's sample stream.
    The estimate depends on n beta, step size and localisation; three diagnostics say where it means nothing, and then
    a warning is given and ``trusted`` is 0: chains leave the basin, a Metropolis step would refuse many steps, or the
    baseline is noisy.

    Source: Lau et al., "The local learning coefficient" (2023), with the choices n beta = n/ln n, all examples at each
    step, and the exact baseline.

    Args:
        sampler: chains, draws, burn-in, step size and localisation.
        loss: the loss; of several targets it is summed.
        examples: n, at least 2.
        nbeta: n beta; None for n/ln n.
        batch_size: the examples of a step, drawn with replacement; None for all.
        batches: the number of batches over which the baseline is averaged, of ``batch_size`` each; None for all
            examples. Few batches add one error to all chains.
    """

    sampler: Langevin = Langevin()
    loss: SerializeAsAny[Loss] = Square(scale=2.0)
    examples: Annotated[int, Field(ge=2, le=10**6)] = 1000
    nbeta: Positive | None = None
    batch_size: Count | None = None
    batches: Count | None = None

    def check(self, task: Task, model: Model) -> None:
        if isinstance(model, Learner):
            raise ValueError(f"{self.kind} needs a network: {model.kind}")
        if self.batches is not None and self.batch_size is None:
            raise ValueError(f"batches of the baseline must have a size: batches={self.batches}, batch_size=None")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return the estimate and its diagnostics.

        They are ``estimate`` and ``standard_error`` over chains; ``left``, the share of chains that end in another
        basin; ``acceptance``, the mean probability with which a Metropolis step would accept a step; ``noise``, the
        standard deviation that the baseline adds to the estimate; and ``trusted``, 1 if the three allow an estimate,
        else 0.
        """
        from jax.flatten_util import ravel_pytree

        key = snapshot.key("probe").fold(snapshot.step)
        flat, unravel = ravel_pytree(snapshot.parameters)
        potential, noisy = snapshot.remember(self.kind, lambda: _potentials(self, snapshot, unravel))
        n = self.examples
        nbeta = n / math.log(n) if self.nbeta is None else self.nbeta
        context = snapshot.remember(f"{self.kind} data", lambda: self._data(snapshot))
        chains = self.sampler.sample(potential, flat, nbeta, key, context, noisy)
        baseline, noise = self._baseline(snapshot, chains.start, nbeta, key)
        values = nbeta * (chains.mean - baseline)
        error = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
        estimate, acceptance = float(values.mean()), float(chains.acceptance.mean())
        trusted = chains.left <= MOST_LEFT and not acceptance < LEAST_ACCEPTED and noise <= MOST_NOISE * abs(estimate)
        if not (trusted and math.isfinite(estimate)):
            reasons = "chains leave, steps are refused or the baseline is noisy (see left, acceptance, noise)"
            warnings.warn(f"this local learning coefficient means nothing: {reasons}", stacklevel=2)
        return {
            "estimate": estimate,
            "standard_error": error,
            "left": chains.left,
            "acceptance": acceptance,
            "noise": noise,
            "trusted": float(trusted and math.isfinite(estimate)),
        }

    def _data(self, snapshot: Snapshot) -> Any:
        return tuple(np.asarray(part) for part in snapshot.examples("sample", self.examples))

    def _baseline(self, snapshot: Snapshot, start: float, nbeta: float, key: random.Key) -> tuple[float, float]:
        """Return the loss that is subtracted, and the noise that it adds to the estimate."""
        if self.batches is None or self.batch_size is None:
            return start, 0.0
        x, y = self._data(snapshot)
        losses = np.asarray(
            example_losses(self.loss, snapshot.task, np.asarray(snapshot.model.apply(snapshot.parameters, x)), y)
        )
        count = self.batches * self.batch_size
        place = random.integers(key.fold(2**31), np.arange(count, dtype=np.uint32), bound=np.uint32(len(losses)))
        return float(losses[place].mean()), nbeta * float(losses.std()) / math.sqrt(count)


def _potentials(
    probe: LocalLearningCoefficient, snapshot: Snapshot, unravel: Any
) -> tuple[Potential, NoisyPotential | None]:
    """Return the loss of all examples and of a minibatch as functions of flat parameters."""
    model, task, loss = snapshot.model, snapshot.task, probe.loss
    exact = task.expected_loss(model, snapshot.parameters) is not None

    def losses(w: Any, x: Any, y: Any) -> Any:
        return example_losses(loss, task, model.apply(unravel(w), x), y).mean()

    def potential(w: Any, context: Any) -> Any:
        return task.expected_loss(model, unravel(w)) if exact else losses(w, *context)

    def noisy(w: Any, context: Any, key: random.Key) -> Any:
        index = np.arange(probe.batch_size or 1, dtype=np.uint32)
        place = random.integers(key, index, bound=np.uint32(probe.examples))
        return losses(w, *(part[place] for part in context))

    return potential, noisy if probe.batch_size is not None else None
