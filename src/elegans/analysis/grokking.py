"""Grokking: how long a network that fits its sample takes until it is right elsewhere."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

import pandas as pd

from elegans.training.outcome import Outcome

TRAIN, TEST = "train-error", "test-error"
"""The probes whose measures are read."""


@dataclass(frozen=True)
class Grokking:
    """The time from fitting the sample to generalising, in steps.

    Args:
        delay: t(test) - t(train); a bound where one of them was not reached, NaN where neither was.
        known: how to read ``delay``: ``exactly`` (to the spacing of the measurements), ``at least`` (the sample was
            fitted, but training ended before the test error fell: censored), ``at most`` (the other way round), or
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

    Times are those of the measurements: each is late by less than the probes' ``every``. A trial that stops when it
    is solved has its test time at once; one whose sample is never fitted has no delay but a bound.

    Args:
        outcome: of a trial with the probes ``TrainError`` and ``TestError``.
        train: the train error that counts as fitted, from 0 to 1.
        test: the test error that counts as generalising, from 0 to 1.

    Raises:
        ValueError: a threshold is no rate, or the outcome lacks a measure.

    Source: Pareto frontiers, section 5 (grokking); Power et al., "Grokking" (2022).
    """
    for name, value in (("train", train), ("test", test)):
        if not 0 <= value <= 1:
            raise ValueError(f"a threshold must lie from 0 to 1: {name}={value}")
    train_at, train_last = _first(outcome, TRAIN, train)
    test_at, test_last = _first(outcome, TEST, test)
    last = max(train_last, test_last)
    if train_at is not None and test_at is not None:
        return Grokking(float(test_at - train_at), "exactly", train_at, test_at, last)
    if train_at is not None:
        return Grokking(float(last - train_at), "at least", train_at, None, last)
    if test_at is not None:
        return Grokking(float(test_at - last), "at most", None, test_at, last)
    return Grokking(math.nan, "not at all", None, None, last)


def grokking_delays(outcomes: Iterable[Outcome], *, train: float = 0.01, test: float = 0.1) -> pd.DataFrame:
    """Return the grokking delays of trials, a row a trial: ``seed`` and the fields of ``Grokking``.

    Rows with ``known == "at least"`` are censored: give ``delay`` as NaN and as ``censored_at`` to
    ``elegans.analysis.kaplan_meier`` for a median that respects it.
    """
    rows = [
        {"seed": outcome.trial.seed, **asdict(grokking_delay(outcome, train=train, test=test))} for outcome in outcomes
    ]
    names = ("seed", *Grokking.__dataclass_fields__)
    return pd.DataFrame(rows, columns=list(names)).astype({"train_at": "Int64", "test_at": "Int64"})


def _first(outcome: Outcome, probe: str, threshold: float) -> tuple[int | None, int]:
    """Return the first measured step at which an error is small enough, and the last measured step."""
    taken = outcome.measures.get(probe)
    if not taken or not taken.get("step"):
        have = ", ".join(outcome.measures) or "none"
        raise ValueError(f"a grokking delay needs the measures of the probe {probe!r}: measures={have}")
    reached = (step for step, error in zip(taken["step"], taken["error"], strict=True) if error <= threshold)
    return next(reached, None), int(taken["step"][-1])
