"""How far linear attention has learned the preconditioned step, and what a fit answers on other tasks."""

from typing import Any

import numpy as np

from elegans.models import Model
from elegans.probes.base import Probe, Snapshot
from elegans.studies.in_context_regression.models import LinearAttention, RidgeFit
from elegans.studies.in_context_regression.tasks import LinearRegressionSequences
from elegans.studies.in_context_regression.theory.descent import context_levels, context_optimum, context_risk
from elegans.studies.in_context_regression.theory.diversity import statistics_moments
from elegans.tasks import Task


class OfAttention(Probe):
    """The part of a probe that measures ``LinearAttention``; inherit from this."""

    def check(self, task: Task, model: Model) -> None:
        if not isinstance(model, LinearAttention):
            raise ValueError(f"{self.kind} must measure a linear-attention: model={model.kind!r}")

    def risk(self, snapshot: Snapshot) -> float:
        """Return the mean square error on fresh tasks: in closed form, or with all blocks on 5000 held-out sequences.

        Noise of the query's label does not count.
        """
        model, task = snapshot.model, snapshot.task
        assert isinstance(model, LinearAttention) and isinstance(task, LinearRegressionSequences)
        matrix = model.matrix(snapshot.parameters)
        if model.blocks == "reduced":
            return context_risk(task.spectrum, task.length, task.noise, matrix[0])

        def held_out() -> tuple[np.ndarray, np.ndarray]:
            x, y = snapshot.examples("test", 5000)
            return model.features(x), np.asarray(y, float)

        features, y = snapshot.remember("features", held_out)
        return float(np.square(features @ matrix.ravel() - y).mean())


class Preconditioner(OfAttention, kind="preconditioner"):
    """What linear attention multiplies its context by, M, against the best matrix Gamma^-1.

    Source: Zhang, Frei and Bartlett (2023), theorem 4.1.
    """

    def measure(self, snapshot: Snapshot) -> dict[str, Any]:
        """Return ``risk``, the error on fresh tasks; ``distance``, |M - Gamma^-1| / |Gamma^-1|; and ``shares``.

        The shares are M's diagonal in Lambda's basis over Gamma^-1's, shape (d,), the largest eigenvalue first.
        """
        model, task = snapshot.model, snapshot.task
        assert isinstance(model, LinearAttention) and isinstance(task, LinearRegressionSequences)
        m = model.matrix(snapshot.parameters)[-1, : task.d]
        best = context_optimum(task.spectrum, task.length, task.noise)
        distance = float(np.linalg.norm(m - np.diag(best)) / np.linalg.norm(best))
        return {"risk": self.risk(snapshot), "distance": distance, "shares": np.diag(m) / best}


class LevelCrossings(OfAttention, kind="level-crossings"):
    """The first measured steps at which the error on fresh tasks passes the middles between its plateaus.

    Source: Zhang, Singh, Latham and Saxe (2025), section 4, for the plateaus.
    """

    def measure(self, snapshot: Snapshot) -> dict[str, Any]:
        """Return ``crossings``, shape (d,): the step at which each middle was passed, NaN before."""
        task = snapshot.task
        assert isinstance(task, LinearRegressionSequences)
        levels = context_levels(task.spectrum, task.length, task.noise)
        crossings: np.ndarray = snapshot.remember("crossings", lambda: np.full(task.d, np.nan))
        passed = self.risk(snapshot) < (levels[1:] + levels[:-1]) / 2
        crossings[passed & np.isnan(crossings)] = snapshot.step
        return {"crossings": crossings.copy()}


class DiversityErrors(Probe, kind="diversity-errors"):
    """The mean square errors of a ``RidgeFit`` on fresh tasks and on those of its pool, in closed form.

    Noise of the query's label counts where the task has it. Tasks must be on the sphere and inputs N(0, I/d).
    """

    def check(self, task: Task, model: Model) -> None:
        if not isinstance(model, RidgeFit):
            raise ValueError(f"diversity-errors must measure a ridge-fit: model={model.kind!r}")
        assert isinstance(task, LinearRegressionSequences)
        if task.vectors != "sphere" or task.covariance != "white" or task.trace != 1:
            fields = f"vectors={task.vectors!r}, covariance={task.covariance!r}, trace={task.trace:g}"
            raise ValueError(f"diversity-errors must measure tasks on the sphere, with inputs N(0, I/d): {fields}")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``fresh`` and ``pool``; for a task without a pool they are equal."""
        task = snapshot.task
        assert isinstance(task, LinearRegressionSequences)
        gamma, d = np.asarray(snapshot.parameters["gamma"], float), task.d
        noise = task.noise if task.query_noise else 0.0
        fresh = gamma_error(gamma, np.eye(d), np.zeros(d), task.length, task.noise) + noise
        if snapshot.hidden is None:
            return {"fresh": fresh, "pool": fresh}
        w = np.asarray(snapshot.hidden, float)
        pool = gamma_error(gamma, w.T @ w / len(w), w.mean(axis=0), task.length, task.noise) + noise
        return {"fresh": fresh, "pool": pool}


def gamma_error(gamma: np.ndarray, second_moment: np.ndarray, mean: np.ndarray, n: int, noise: float) -> float:
    """Return the mean square error of x_q^T Gamma [d s, yy], without noise of the query's label.

    Args:
        gamma: Gamma, shape (d, d + 1).
        second_moment: the tasks' E w w^T, shape (d, d).
        mean: the tasks' E w, shape (d,).
        n: the number of examples.
        noise: the variance of their noise.
    """
    features, labels = statistics_moments(n, noise, second_moment, mean)
    d = len(mean)
    return float((np.trace(second_moment) - 2 * (gamma * labels).sum() + ((gamma @ features) * gamma).sum()) / d)
