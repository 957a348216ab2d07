"""How far linear attention has learned the preconditioned step, and what a fit answers on other tasks."""

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from elegans.models import Model
from elegans.probes.base import Probe, Snapshot
from elegans.studies.in_context_regression.models import (
    LinearAttention,
    RidgeFit,
    SequenceTransformer,
    task_moments,
)
from elegans.studies.in_context_regression.tasks import LinearRegressionSequences
from elegans.studies.in_context_regression.theory.bayes import pool_predictions, ridge_predictions
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


class AttentionMatrix(OfAttention, kind="attention-matrix"):
    """What linear attention multiplies its context by, entry by entry, for pictures."""

    def measure(self, snapshot: Snapshot) -> dict[str, Any]:
        """Return ``matrix``, M in Lambda's basis, shape (d, d)."""
        model, task = snapshot.model, snapshot.task
        assert isinstance(model, LinearAttention) and isinstance(task, LinearRegressionSequences)
        return {"matrix": model.matrix(snapshot.parameters)[-1, : task.d]}


class SampleFit(OfAttention, kind="sample-fit"):
    """Attention's M against the best matrix for its sample, and its error on prompts of another length.

    Source: Zhang, Frei and Bartlett (2023), theorems 4.1 and 4.2.

    Args:
        longer: how many times as long as in training the other prompts are.
    """

    longer: Annotated[int, Field(ge=1, le=2**20)] = 100

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``from_sample``, ``deviations`` and ``longer``.

        They are |M - B| / |B|, for B the best matrix on the sample; the largest distance of an entry of M from
        Gamma^-1, in standard deviations of B's entry over samples; and the error on longer prompts.
        """
        model, task = snapshot.model, snapshot.task
        assert isinstance(model, LinearAttention) and isinstance(task, LinearRegressionSequences)
        assert snapshot.sample_size is not None and model.blocks == "reduced"
        m = model.matrix(snapshot.parameters)[0]

        def least_squares() -> tuple[np.ndarray, np.ndarray]:
            x, y = snapshot.examples("sample", snapshot.sample_size or 0)
            z = model.features(x)
            inverse = np.linalg.inv(z.T @ z)
            best = inverse @ (z.T @ y)
            scores = z * (y - z @ best)[:, None]
            return best, np.sqrt(np.diag(inverse @ (scores.T @ scores) @ inverse))

        best, errors = snapshot.remember("least-squares", least_squares)
        target = np.diag(context_optimum(task.spectrum, task.length, task.noise)).ravel()
        return {
            "from_sample": float(np.linalg.norm(m.ravel() - best) / np.linalg.norm(best)),
            "deviations": float((np.abs(m.ravel() - target) / errors).max()),
            "longer": context_risk(task.spectrum, self.longer * task.length, task.noise, m),
        }


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
    """The mean square errors of a ``RidgeFit`` on fresh tasks and on its pool's tasks, in closed form.

    Noise of the query's label counts where the task has it. Tasks must be on the sphere and inputs N(0, I/d).
    """

    def check(self, task: Task, model: Model) -> None:
        if not isinstance(model, RidgeFit):
            raise ValueError(f"diversity-errors must measure a ridge-fit: model={model.kind!r}")
        assert isinstance(task, LinearRegressionSequences)
        if not task.is_on_sphere:
            fields = f"vectors={task.vectors!r}, covariance={task.covariance!r}, trace={task.trace:g}"
            raise ValueError(f"diversity-errors must measure tasks on the sphere, with inputs N(0, I/d): {fields}")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``fresh`` and ``pool``; for a task without a pool they are equal."""
        task = snapshot.task
        assert isinstance(task, LinearRegressionSequences)
        gamma, d = np.asarray(snapshot.parameters["gamma"], float), task.d
        noise = task.noise if task.query_noise else 0.0
        errors = [
            gamma_error(gamma, *task_moments(tasks, d), task.length, task.noise) + noise
            for tasks in (None, snapshot.hidden)
        ]
        return {"fresh": errors[0], "pool": errors[1]}


class BayesDistance(Probe, kind="bayes-distance"):
    """How far a network's answers are from the predictors that are best for its pool and for fresh tasks.

    Inputs must be N(0, I) and tasks normal, with noise on all labels, as the predictors assume.

    Source: Raventós et al. (2023), section 3.

    Args:
        sequences: how many sequences of each kind of task are answered.
    """

    sequences: Annotated[int, Field(ge=1, le=2**16)] = 512

    def check(self, task: Task, model: Model) -> None:
        if not isinstance(model, SequenceTransformer):
            raise ValueError(f"{self.kind} must measure a sequence-transformer: model={model.kind!r}")
        assert isinstance(task, LinearRegressionSequences)
        if task.covariance != "white" or task.trace != task.d or task.vectors != "normal" or not task.noise:
            fields = f"trace={task.trace:g}, vectors={task.vectors!r}, noise={task.noise:g}"
            raise ValueError(f"{self.kind} must measure normal tasks and inputs N(0, I), with noise: {fields}")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return mean square differences and errors over all places of sequences.

        ``ridge_fresh``, ``known_fresh``, ``ridge_pool`` and ``known_pool`` are differences from ridge regression and
        from the predictor for a known pool (NaN without a pool), on fresh tasks and on the pool's; ``error_fresh`` and
        ``error_pool`` are errors.
        """
        measures: dict[str, float] = {}
        for name, (x, y, ridge, known) in snapshot.remember(self.kind, lambda: self._answers(snapshot)).items():
            answers = np.asarray(snapshot.model.apply(snapshot.parameters, x), float)
            for of, wanted in (("error", y), ("ridge", ridge), ("known", known)):
                measures[f"{of}_{name}"] = float(np.square(answers - wanted).mean())
        return measures

    def _answers(self, snapshot: Snapshot) -> dict[str, tuple[np.ndarray, ...]]:
        """Return sequences of fresh tasks and of the pool's, with labels and both predictors' answers."""
        task, index = snapshot.task, np.arange(self.sequences, dtype=np.uint32)
        assert isinstance(task, LinearRegressionSequences)
        answers: dict[str, tuple[np.ndarray, ...]] = {}
        for name, hidden in (("fresh", None), ("pool", snapshot.hidden)):
            x, y = (np.asarray(part) for part in task.examples(hidden, snapshot.key("test"), index))
            tokens = x.reshape(len(x), -1, task.d + 1).astype(float)
            places = [
                (tokens[:, :k, :-1], tokens[:, :k, -1], tokens[:, k, :-1], task.noise) for k in range(task.length + 1)
            ]
            ridge = np.stack([ridge_predictions(*given) for given in places], axis=1)
            known = np.full_like(ridge, np.nan)
            if snapshot.hidden is not None:
                known = np.stack([pool_predictions(*given, snapshot.hidden) for given in places], axis=1)
            answers[name] = x, y, ridge, known
        return answers


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
