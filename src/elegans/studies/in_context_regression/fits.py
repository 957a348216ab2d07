"""Trials and tables of the experiments that fit attention's answers at once."""

import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from elegans.analysis.intervals import mean_interval, percentile_interval
from elegans.experiments import InsufficientData, Results, Verdict, rules
from elegans.experiments.rules import by_interval
from elegans.probes import Probe
from elegans.stopping import StoppingRule
from elegans.studies.in_context_regression.models import RidgeFit
from elegans.studies.in_context_regression.probes import DiversityErrors
from elegans.studies.in_context_regression.tasks import LinearRegressionSequences
from elegans.studies.in_context_regression.theory.bayes import pool_predictions, ridge_predictions
from elegans.tasks import Online, Sample
from elegans.training import Trial

LEVEL = rules.LEVEL / 2
"""The error rate of a claim of this study: half of the usual one, to keep the sum over all studies below three."""
NOISE = 0.1
"""The variance of the noise on labels, which the source leaves open."""
PROBES: tuple[Probe, ...] = (DiversityErrors(),)
RESAMPLES = 2000
CHUNK = 128
"""Sequences whose errors on all tasks of a pool are in memory at once."""


def fitted(d: int, alpha: float, kappa: float, sequences: int | None = None, noise: float = NOISE) -> Trial:
    """Return a fit to a number of sequences of a pool of kappa d tasks, or to infinitely many."""
    pool = None if math.isinf(kappa) else round(kappa * d)
    task = LinearRegressionSequences(
        d=d, length=round(alpha * d), noise=noise, query_noise=True, pool=pool, vectors="sphere"
    )
    regime = Online() if sequences is None else Sample(sequences)
    return Trial(task=task, regime=regime, model=RidgeFit(stopping=StoppingRule(error=0, examples=1)))


def errors(results: Results) -> pd.DataFrame:
    """Return one row per fit: ``d``, ``alpha``, ``kappa``, ``noise``, ``sequences``, ``seed``, ``fresh`` and ``pool``.

    The last two are errors on fresh tasks and on the pool's tasks.

    A fit to infinitely many sequences has 0 of them.
    """
    names = {
        "task.d": "d",
        "task.length": "length",
        "task.pool": "tasks",
        "task.noise": "noise",
        "regime.size": "sequences",
    }
    present = [name for name in names if name in results.trials]
    rows = results.measured("diversity-errors", *present)
    rows = rows[rows["step"] > 0].rename(columns=names)
    d = rows["d"].astype(float)
    sequences = rows["sequences"].fillna(0) if "sequences" in rows else pd.Series(0, rows.index)
    table = pd.DataFrame(
        {
            "d": rows["d"].astype(int),
            "alpha": rows["length"].astype(float) / d,
            "kappa": rows["tasks"].astype(float) / d,
            "noise": rows["noise"].astype(float),
            "sequences": sequences.astype(int),
            "seed": rows["seed"].astype(int),
            "fresh": rows["fresh"].astype(float).round(8),
            "pool": rows["pool"].astype(float).round(8),
        }
    )
    return table.reset_index(drop=True)


def bayes(count: int, d: int, points: int, noise: float, pools: Iterable[int], first_seed: int) -> pd.DataFrame:
    """Return the errors of the predictors for a known pool and for fresh tasks, by pool size and kind of task.

    Args:
        count: the number of sequences.
        d: dimensions of inputs N(0, I) and of normal tasks.
        points: how many labels of a sequence are predicted, each from the examples before it; errors are averaged over
            them.
        noise: the variance of the noise on all labels.
        pools: sizes of pools.
        first_seed: another one draws other pools and sequences.
    """
    rows = []
    for tasks in pools:
        generator = np.random.default_rng([first_seed, tasks])
        pool = generator.standard_normal((tasks, d))
        fresh, known = generator.standard_normal((count, d)), pool[generator.integers(tasks, size=count)]
        for kind, w in (("fresh", fresh), ("pool", known)):
            x = generator.standard_normal((count, points, d))
            y = np.einsum("cni,ci->cn", x, w) + noise**0.5 * generator.standard_normal((count, points))
            squares = np.zeros((2, count))
            for k, start in itertools.product(range(points), range(0, count, CHUNK)):
                part = slice(start, start + CHUNK)
                given = x[part, :k], y[part, :k], x[part, k], noise
                answers = pool_predictions(*given, pool), ridge_predictions(*given)
                squares[:, part] += np.square(np.stack(answers) - y[part, k]) / points
            for name, values in zip(("for the pool", "ridge"), squares, strict=True):
                error = float(values.std() / np.sqrt(count))
                rows.append([name, kind, tasks, round(float(values.mean()), 6), round(error, 6)])
    return pd.DataFrame(rows, columns=["predictor", "tested", "tasks", "error", "standard_error"])


def by_mean(
    what: str, values: Any, level: float, *, above: float = -math.inf, below: float = math.inf, least: int = 10
) -> Verdict:
    """Decide where a mean over draws lies, by its t interval."""
    numbers = np.asarray(values, float)
    if len(numbers) < least:
        raise InsufficientData(f"{what} of at least {least} draws")
    low, high = mean_interval(numbers, 1 - level)
    return by_interval(
        what, float(numbers.mean()), (float(low), float(high)), above=above, below=below, error_rate=level
    )


def slope_of_log(groups: Iterable[tuple[float, np.ndarray]], theory: Any, level: float) -> tuple[float, float, float]:
    """Return the slope, on log d, of the logarithm of how far means over draws deviate from their theory.

    Args:
        groups: for each d, the errors of its draws.
        theory: the value that the mean is to be compared with.
        level: one minus the confidence of the interval, which resamples draws.
    """
    sizes, draws = zip(*groups, strict=True)
    if len(sizes) < 3:
        raise InsufficientData("three dimensions of each setting")
    generator = np.random.default_rng(0)
    estimate = [abs(values.mean() / theory - 1) for values in draws]
    resampled = [
        np.abs(values[generator.integers(len(values), size=(RESAMPLES, len(values)))].mean(axis=1) / theory - 1)
        for values in draws
    ]
    logs = np.log(np.array(sizes, float))
    slopes = np.polyfit(logs, np.log(np.maximum(np.stack(resampled), 1e-12)), 1)[0]
    low, high = percentile_interval(slopes, 1 - level)
    return float(np.polyfit(logs, np.log(estimate), 1)[0]), low, high
