"""Grokking: how long a network that has memorised its training set takes to generalise."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from elegans.analysis.intervals import median, median_interval
from elegans.analysis.reporting import finite_or_none
from elegans.display import displayed
from elegans.errors import AnalysisError
from elegans.training.outcome import Outcome

TRAIN, TEST = "train-error", "test-error"
"""The probes whose measures are used."""


@displayed
@dataclass(frozen=True)
class Grokking:
    """The time from memorising the sample to generalising, in steps.

    Args:
        delay: t(test) - t(train); a bound if one of them was not reached, NaN if neither was.
        known: how to read ``delay``: ``exactly`` (up to the spacing of the measurements), ``at least`` (the sample was
            memorised, but training ended before the test error fell: censored), ``at most`` (the other way round), or
            ``not at all``.
        train_at: the first measured step with a train error of at most ``train``, or None.
        test_at: the first measured step with a test error of at most ``test``, or None.
        last: the last measured step.
    """

    delay: float
    known: Literal["exactly", "at least", "at most", "not at all"]
    train_at: int | None
    test_at: int | None
    last: int


def grokking_delay(outcome: Outcome, *, train: float = 0.01, test: float = 0.1) -> Grokking:
    """Return the grokking delay of one trial, t(test error <= 10%) - t(train error <= 1%).

    Times are steps of measurements, and late by less than the probes' ``every``. The delay of a trial that stops when
    it is solved, or never memorises its sample, may be only a bound.

    Args:
        outcome: the outcome of a trial with the probes ``TrainErrorRate`` and ``HeldOutErrorRate``.
        train: the train error that counts as memorising, from 0 to 1.
        test: the test error that counts as generalising, from 0 to 1.

    Source: Pareto frontiers, section 5 (grokking); Power et al., "Grokking" (2022).
    """

    def measured(probe: str) -> tuple[Sequence[int], Sequence[float]]:
        measures = outcome.measures.get(probe)
        if not measures or not measures.get("step"):
            have = ", ".join(outcome.measures) or "none"
            raise AnalysisError(f"a grokking delay needs the measures of the probe {probe!r}: measures={have}")
        return measures["step"], measures["error"]

    return _delay(measured(TRAIN), measured(TEST), train, test)


def _delay(
    train_errors: tuple[Sequence[int], Sequence[float]],
    test_errors: tuple[Sequence[int], Sequence[float]],
    train: float,
    test: float,
) -> Grokking:
    """Return the delay, given measured steps and the error at each of them."""
    for name, value in (("train", train), ("test", test)):
        if not 0 <= value <= 1:
            raise AnalysisError(f"a threshold must lie from 0 to 1: {name}={value}")
    train_at, test_at = (
        next((int(step) for step, error in zip(*errors, strict=True) if error <= threshold), None)
        for errors, threshold in ((train_errors, train), (test_errors, test))
    )
    last = int(max(train_errors[0][-1], test_errors[0][-1]))
    if train_at is not None and test_at is not None:
        return Grokking(float(test_at - train_at), "exactly", train_at, test_at, last)
    if train_at is not None:
        return Grokking(float(last - train_at), "at least", train_at, None, last)
    if test_at is not None:
        return Grokking(float(test_at - last), "at most", None, test_at, last)
    return Grokking(math.nan, "not at all", None, None, last)


def grokking_delays(outcomes: Iterable[Outcome], *, train: float = 0.01, test: float = 0.1) -> pd.DataFrame:
    """Return the grokking delays of trials, one row per trial: ``seed`` and the fields of ``Grokking``.

    Rows with ``known == "at least"`` are censored: for a median that accounts for this, pass their ``delay`` to
    ``elegans.analysis.kaplan_meier`` as ``censored_at``, with NaN as the time.
    """
    rows = [
        {"seed": outcome.trial.seed, **asdict(grokking_delay(outcome, train=train, test=test))} for outcome in outcomes
    ]
    names = ["seed", *Grokking.__dataclass_fields__]
    return pd.DataFrame(rows, columns=names).astype({"train_at": "Int64", "test_at": "Int64"})


def error_courses(
    trials: pd.DataFrame,
    measures: Mapping[str, pd.DataFrame],
    names: Sequence[str],
    *,
    train: float = 0.01,
    test: float = 0.1,
) -> pd.DataFrame:
    """Return one row per trial and measured step: both errors, and the trial's grokking delay.

    Args:
        trials: one row per trial.
        measures: the measures of ``TrainErrorRate`` and ``HeldOutErrorRate`` by kind of probe, as in
            ``Store.measures``.
        names: the columns of ``trials`` to keep.
        train: as in ``grokking_delay``.
        test: as in ``grokking_delay``.

    Returns:
        ``step``, ``train_error``, ``test_error`` and the kept columns; then, with one value per trial, ``train_at`` and
        ``test_at`` (NaN where not reached), ``delay`` and how it is ``known``.
    """
    both = measures[TRAIN].merge(measures[TEST], on=["trial", "step"], suffixes=("", "_of_test"))
    both = both.rename(columns={"error": "train_error", "error_of_test": "test_error"})
    delays = {}
    for trial, rows in both.groupby("trial"):
        steps, train_errors, test_errors = (rows[name].tolist() for name in ("step", "train_error", "test_error"))
        delays[trial] = asdict(_delay((steps, train_errors), (steps, test_errors), train, test))
    columns = ["train_at", "test_at", "delay", "known"]
    by_trial = pd.DataFrame.from_dict(delays, orient="index", columns=columns)
    by_trial = by_trial.astype(dict.fromkeys(columns[:3], float))
    errors = both[["trial", "step", "train_error", "test_error"]]
    return errors.join(trials[list(names)], on="trial").join(by_trial, on="trial").drop(columns="trial")


def grokking_summary(rows: pd.DataFrame) -> dict[str, Any]:
    """Return when a cell's networks memorised their samples and when they generalised, for an experiment's findings.

    ``rows`` are the cell's rows of ``error_courses``. Medians, with order-statistic intervals, are over the trials that
    memorised their sample: if one had not generalised by the end of training, its delay is censored and counts as
    infinite. ``test_error_when_fitted`` is the median test error when the sample is memorised.
    """
    last = rows.groupby("seed").last()
    fitted = last[last["train_at"].notna()]
    counts = {"trials": len(last), "fitted": len(fitted), "solved": int(last["test_at"].notna().sum())}
    if fitted.empty:
        return counts
    delays = fitted["delay"].where(fitted["known"] == "exactly").to_numpy()
    at_fit = rows[rows["step"] == rows["train_at"]]["test_error"]
    return counts | {
        "fitted_at": float(fitted["train_at"].median()),
        "solved_at": finite_or_none(median(fitted["test_at"].to_numpy())),
        "test_error_when_fitted": round(float(at_fit.median()), 4),
        "delay": finite_or_none(median(delays)),
        "delay_interval": [finite_or_none(end) for end in median_interval(delays)],
        "censored": int(np.isnan(delays).sum()),
    }
