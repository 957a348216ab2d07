"""From trials on tables to statements: one row a trial, paired differences, and the model that is selected."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from elegans.analysis import bootstrap_interval
from elegans.probes import Probe
from elegans.studies.tabular_benchmark.settings import FRACTIONS, fraction_of
from elegans.tabular.datasets import is_reduced
from elegans.tabular.learners import Forest, TabularNetwork
from elegans.tabular.probes import ValidationError
from elegans.training import Outcome, Trial

SEED = 0
"""Of the resampling."""
RESAMPLES = 2000
FEWEST = 5
"""The fewest trials from which a verdict is given: the interval's coverage is 94% then, and 75% with 3."""
AT_END = 2**31
"""A number of steps that no trial takes: what is measured every so many steps is measured at the end."""
SETTINGS = ("optimiser", "width", "depth", "init", "weight_decay")
"""What networks of the published grid differ in."""


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the error on the validation rows, measured at the end."""
    return (ValidationError(every=AT_END),)


def errors(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a trial that ended: what was trained on what, and its two errors.

    Args:
        trials: a row a trial, with a column ``outcome``.

    Returns:
        ``table``, ``reduced`` (whether it is a part of the benchmark's), ``rows`` and ``fraction`` of the sample,
        ``learner`` (``network`` or ``forest``), ``model`` in words, the settings of either (NaN or None for the other),
        ``seed``, ``test_error``, ``validation_error`` and ``train_error`` from 0 to 1, and ``seconds``.
    """
    found = [_row(outcome) for outcome in trials["outcome"] if outcome.test_error is not None]
    return pd.DataFrame(found, columns=list(found[0]) if found else None)


def _row(outcome: Outcome) -> dict[str, Any]:
    one, task = outcome.trial, outcome.trial.task
    columns = one.columns()
    name, size = columns["task.name"], columns["regime.size"]
    return {
        "table": name,
        "reduced": is_reduced(name),
        "rows": size,
        "fraction": fraction_of(task, size),  # type: ignore[arg-type]
        **_settings(one.model),
        "seed": one.seed,
        "test_error": outcome.test_error,
        "validation_error": outcome.measures["validation-error"]["error"][-1],
        "train_error": outcome.train_error,
        "seconds": outcome.seconds,
    }


def _settings(model: Any) -> dict[str, Any]:
    if isinstance(model, Forest):
        depth = "no limit" if model.max_depth is None else f"depth {model.max_depth}"
        features = {"sqrt": "the root of all", None: "all"}.get(model.max_features, str(model.max_features))  # type: ignore[arg-type]
        words = f"{model.n_estimators} trees, {depth}, {features} features a split"
        return {"learner": "forest", "model": words, **dict.fromkeys(SETTINGS)}
    assert isinstance(model, TabularNetwork)
    hidden, init = "x".join(map(str, model.hidden)), model.init.label()
    decay = f", decay {model.weight_decay:g}" if model.weight_decay else ""
    even = len(set(model.hidden)) == 1
    values = (model.optimiser, model.hidden[0] if even else None, len(model.hidden), init, model.weight_decay)
    words = f"{model.optimiser} {hidden}, {init}{decay}"
    return {"learner": "network", "model": words, **dict(zip(SETTINGS, values, strict=True))}


@dataclass(frozen=True)
class Claim:
    """That one value of a setting leads to smaller errors than another, all else being equal.

    Args:
        name: in words.
        factor: which of ``SETTINGS``.
        pairs: values (``from``, ``to``) of it, the second claimed to be the better.
    """

    name: str
    factor: str
    pairs: tuple[tuple[Any, Any], ...]


CLAIMS = (
    Claim("2T: wider is better", "width", ((100, 300), (300, 1000), (1000, 3000), (3000, 10_000), (10_000, 30_000))),
    Claim("3T: sparse:2 is better than dense", "init", (("dense", "sparse:2"),)),
    Claim("sparse:2 is better than sparse:4", "init", (("sparse:4", "sparse:2"),)),
    Claim("depth 2 is better than 1", "depth", ((1, 2),)),
    Claim("depth 3 is better than 1", "depth", ((1, 3),)),
    Claim("weight decay 0.01 changes little", "weight_decay", ((0.0, 0.01),)),
    Claim("adamw is better than sgd", "optimiser", (("sgd", "adamw"),)),
)
"""What is said of networks, but for the last, which is ours."""


def differences(table: pd.DataFrame, claim: Claim) -> pd.DataFrame:
    """Return the paired differences behind a claim: test errors with the second value less those with the first.

    Trials are paired that have the same table, sample, held-out rows and settings but for the factor.

    Args:
        table: as ``errors`` returns it.
        claim: which.

    Returns:
        A row a pair: what the two have in common, ``pair`` in words, and ``difference`` in percentage points.
    """
    ours = table[(table["learner"] == "network") & table["width"].notna()]
    common = ["table", "reduced", "rows", "fraction", *(name for name in SETTINGS if name != claim.factor), "seed"]
    found: list[pd.DataFrame] = []
    for first, second in claim.pairs:
        left, right = (ours.loc[ours[claim.factor] == value, [*common, "test_error"]] for value in (first, second))
        joined: pd.DataFrame = left.merge(right, on=common, suffixes=("_first", "_second"))
        change = 100 * (joined["test_error_second"] - joined["test_error_first"])
        found.append(joined[common].assign(pair=f"{first} to {second}", difference=change))
    paired: pd.DataFrame = pd.concat(found, ignore_index=True)
    return paired


def settings_of(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return a row a setting: the median paired difference over trials, its interval, and what that says.

    Args:
        pairs: as ``differences`` returns it.

    Returns:
        What a setting's trials have in common, ``trials``, ``difference``, its 95% bootstrap interval ``low`` to
        ``high``, and ``verdict``: ``better`` or ``worse`` where the interval of at least 5 trials lies on one side of
        0, else ``open``.
    """
    by = [str(name) for name in pairs if name not in ("seed", "difference")]
    rows: list[dict[str, Any]] = []
    for values, group in pairs.groupby(by, sort=False):
        rows.append({**dict(zip(by, values, strict=True)), **interval(group["difference"].to_numpy(float))})
    found = pd.DataFrame(rows, columns=[*by, "trials", "difference", "low", "high"])
    enough = found["trials"] >= FEWEST
    verdict = np.select([enough & (found["high"] < 0), enough & (found["low"] > 0)], ["better", "worse"], "open")
    return found.assign(verdict=verdict)


def interval(values: np.ndarray) -> dict[str, float]:
    """Return how many values there are, their median as ``difference``, and its 95% bootstrap interval."""
    generator = np.random.default_rng(SEED)
    low, high = bootstrap_interval(values, generator=generator, resamples=RESAMPLES)
    return {"trials": len(values), "difference": float(np.median(values)), "low": low, "high": high}


def summary(pairs: pd.DataFrame) -> dict[str, Any]:
    """Return what paired differences come to, for ``record.json``: of all settings, by fraction and by table.

    By table, a trial counts by its mean difference over settings: the interval is over trials, which are drawn anew
    from the table's rows, and says nothing of other tables.
    """
    if pairs.empty:
        return {"settings": 0}
    each = settings_of(pairs)
    return {
        **_counts(each),
        "by fraction": {str(name): _counts(rows) for name, rows in each.groupby(each["fraction"].map(_fraction))},
        "by table": {
            str(name): {
                **_rounded(interval(pairs[pairs["table"] == name].groupby("seed")["difference"].mean().to_numpy())),
                **_counts(rows),
            }
            for name, rows in each.groupby("table", sort=False)
        },
    }


def _fraction(fraction: float) -> str:
    return f"{fraction:g}" if fraction in FRACTIONS[1:] else "largest"


def _counts(each: pd.DataFrame) -> dict[str, Any]:
    counts = {verdict: int((each["verdict"] == verdict).sum()) for verdict in ("better", "open", "worse")}
    smaller = int((each["difference"] < 0).sum())
    middle = round(float(each["difference"].median()), 2)
    return {"settings": len(each), "median_of_settings": middle, "smaller_error": smaller, **counts}


def _rounded(found: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 2) if isinstance(value, float) else value for name, value in found.items()}


def claims(table: pd.DataFrame) -> dict[str, Any]:
    """Return what the trials say of every claim, for each optimiser apart."""
    found: dict[str, Any] = {}
    for claim in CLAIMS:
        pairs = differences(table, claim)
        parts = {"": pairs} if claim.factor == "optimiser" else dict(list(pairs.groupby("optimiser")))
        found[claim.name] = {str(name) or "both": summary(rows) for name, rows in parts.items()}
    return found


def selected(
    table: pd.DataFrame, rule: str, by: Sequence[str] = ("table", "rows", "fraction", "learner")
) -> pd.DataFrame:
    """Return the selected model of every group: the one with the smallest median error, and its median test error.

    Args:
        table: as ``errors`` returns it. Models are compared on the trials that all of their group have; those with
            fewer than half as many as others are left out, and groups without a trial in common.
        rule: by which error models are selected: ``test_error``, as published, which reports the error it has selected
            by, or ``validation_error``.
        by: what makes a group.

    Returns:
        A row a group: ``model``, ``trials``, ``error`` and its 95% bootstrap interval ``low`` to ``high``, from 0 to 1.
    """
    rows = []
    for values, group in table.groupby(list(by), sort=False):
        group = _in_common(group)
        if group.empty:
            continue
        middle = group.groupby("model")[rule].median()
        best = str(middle.idxmin())
        found = interval(group.loc[group["model"] == best, "test_error"].to_numpy(float))
        rows.append(
            {
                **dict(zip(by, values, strict=True)),
                "model": best,
                "models": len(middle),
                "trials": int(found["trials"]),
                "error": found["difference"],
                "low": found["low"],
                "high": found["high"],
            }
        )
    return pd.DataFrame(rows)


def _in_common(group: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the seeds that all models have, without models that have fewer than half as many as others."""
    counts = group.groupby("model")["seed"].transform("count")
    kept = group[2 * counts >= counts.max()]
    models = kept.groupby("seed")["model"].transform("count")
    found: pd.DataFrame = kept[models == kept["model"].nunique()]
    return found
