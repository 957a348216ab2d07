"""Errors of the models trained on tables, and model selection by them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from elegans.analysis import bootstrap_interval
from elegans.experiments import Results
from elegans.studies.tabular_benchmark.settings import fraction_of
from elegans.tabular.datasets import benchmark_task, is_reduced
from elegans.tabular.learners import Forest, TabularNetwork
from elegans.tabular.probes import ValidationErrorRate
from elegans.tabular.table import Table
from elegans.tasks import Sample
from elegans.training import Trial

SEED = 0
"""The seed of the resampling."""
RESAMPLES = 2000
AT_END = 2**31
"""More steps than any trial has: a probe with this interval measures only at the end."""
PROBES = (ValidationErrorRate(every=AT_END),)
SETTINGS = ("optimiser", "width", "depth", "init", "weight_decay")
"""The settings in which networks of the published grid differ."""


def errors(results: Results) -> pd.DataFrame:
    """Return the models, their data and their errors: one row per completed trial.

    Returns:
        ``table``, ``reduced`` (whether it is a part of the benchmark's), ``rows`` and ``fraction`` of the sample,
        ``learner`` (``network`` or ``forest``), ``model`` in words, the settings of either (NaN or None for the other),
        ``seed``, ``test_error``, ``validation_error`` and ``train_error`` from 0 to 1, and ``seconds``.
    """
    validation = results.measures["validation-error"].groupby("trial")["error"].last()
    ended = results.trials.join(validation.rename("validation_error")).dropna(subset=["test_error"])
    described = pd.DataFrame([_described(results.trial(place)) for place in ended.index], ended.index)
    measured = ended[["seed", "test_error", "validation_error", "train_error", "seconds"]]
    return described.join(measured).reset_index(drop=True)


def _described(one: Trial) -> dict[str, Any]:
    assert isinstance(one.task, Table) and isinstance(one.regime, Sample)
    return {
        "table": one.task.name,
        "reduced": is_reduced(one.task.name),
        "rows": one.regime.size,
        "fraction": fraction_of(one.task, one.regime.size),
        **_settings(one.model),
    }


def _settings(model: Any) -> dict[str, Any]:
    if isinstance(model, Forest):
        depth = "no limit" if model.max_depth is None else f"depth {model.max_depth}"
        features = {"sqrt": "the root of all", None: "all"}.get(model.max_features, str(model.max_features))  # type: ignore[arg-type]
        words = f"{model.n_estimators} trees, {depth}, {features} features per split"
        return {"learner": "forest", "model": words, **dict.fromkeys(SETTINGS)}
    assert isinstance(model, TabularNetwork)
    hidden, init = "x".join(map(str, model.hidden)), model.init.label()
    decay = f", decay {model.weight_decay:g}" if model.weight_decay else ""
    even = len(set(model.hidden)) == 1
    values = (model.optimiser, model.hidden[0] if even else None, len(model.hidden), init, model.weight_decay)
    words = f"{model.optimiser} {hidden}, {init}{decay}"
    return {"learner": "network", "model": words, **dict(zip(SETTINGS, values, strict=True))}


def interval(values: np.ndarray) -> dict[str, float]:
    """Return the number of values, their median as ``difference``, and its 95% bootstrap interval."""
    generator = np.random.default_rng(SEED)
    low, high = bootstrap_interval(values, generator=generator, resamples=RESAMPLES)
    return {"trials": len(values), "difference": float(np.median(values)), "low": low, "high": high}


def selected(
    table: pd.DataFrame, rule: str, by: Sequence[str] = ("table", "rows", "fraction", "learner")
) -> pd.DataFrame:
    """Return the selected model of every group: the one with the smallest median error, and its median test error.

    Args:
        table: as ``errors`` returns it. Models are compared on the trials that their whole group has in common; models
            with fewer than half as many trials as others are left out, as are groups without common trials.
        rule: the error by which models are selected: ``test_error``, as published, which reports the same error that it
            selects by, or ``validation_error``.
        by: the columns that define a group.

    Returns:
        One row per group: ``model``, how many ``models``, ``trials``, ``error`` and its 95% bootstrap interval ``low``
        to ``high``, from 0 to 1.
    """
    rows = []
    for values, group in table.groupby(list(by), sort=False):
        group = _in_common(group)
        if group.empty:
            continue
        middle = group.groupby("model")[rule].median()
        best = str(middle.idxmin())
        errors = interval(group.loc[group["model"] == best, "test_error"].to_numpy(float))
        errors["error"] = errors.pop("difference")
        rows.append({**dict(zip(by, values, strict=True)), "model": best, "models": len(middle), **errors})
    columns = [*by, "model", "models", "trials", "error", "low", "high"]
    return pd.DataFrame(rows, columns=columns if rows else None)


def _in_common(group: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the seeds that all models have, leaving out models with fewer than half as many as others."""
    counts = group.groupby("model")["seed"].transform("count")
    often: pd.DataFrame = group[2 * counts >= counts.max()]
    models = often.groupby("seed")["model"].transform("count")
    return often.loc[models == often["model"].nunique()]


def label_of(name: str, reduced: bool) -> str:
    """Return a table's name for a figure: the benchmark's, with an asterisk if only part of its rows is at hand."""
    task = benchmark_task(name)
    return f"{task.name if task else name}{'*' * bool(reduced)}"
