"""Tables that several experiments share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from elegans.analysis import grokking_delay, median, median_interval


def error_courses(trials: pd.DataFrame, names: Sequence[str], *, test: float = 0.1) -> pd.DataFrame:
    """Return a row a trial and measured step: both errors, and the trial's grokking delay.

    Args:
        trials: a row a trial, with a column ``outcome`` that has the measures of ``TrainError`` and ``TestError``.
        names: the columns that are kept.
        test: the test error that counts as generalising.

    Returns:
        The kept columns; ``step``, ``train_error`` and ``test_error``; and, the same in all rows of a trial,
        ``train_at`` and ``test_at`` (NaN where not reached), ``delay`` and how it is ``known``.
    """
    return pd.concat([_course(row, names, test) for row in trials.to_dict("records")], ignore_index=True)


def _course(row: dict[Any, Any], names: Sequence[str], test: float) -> pd.DataFrame:
    train, held_out = row["outcome"].measures["train-error"], row["outcome"].measures["test-error"]
    found = pd.DataFrame({"step": train["step"], "train_error": train["error"], "test_error": held_out["error"]})
    delay = grokking_delay(row["outcome"], test=test)
    return found.assign(
        **{name: row[name] for name in names},
        train_at=float("nan") if delay.train_at is None else float(delay.train_at),
        test_at=float("nan") if delay.test_at is None else float(delay.test_at),
        delay=delay.delay,
        known=delay.known,
    )


def grokking(rows: pd.DataFrame) -> dict[str, Any]:
    """Return what a cell's networks came to, for ``record.json``: when they fitted their sample, and when they learned.

    Medians, with order-statistic intervals, over the trials that fitted their sample: the delay of one that had not
    generalised at the end of its training is censored, and counts as infinite. ``test_error_when_fitted`` is the
    median test error when the sample is fitted.

    Args:
        rows: of one cell, as ``error_courses`` returns them.
    """
    last = rows.groupby("seed").last()
    fitted = last[last["train_at"].notna()]
    stated: dict[str, Any] = {
        "trials": len(last),
        "fitted": len(fitted),
        "solved": int(last["test_at"].notna().sum()),
    }
    if fitted.empty:
        return stated
    delays = fitted["delay"].where(fitted["known"] == "exactly").to_numpy()
    at_fit = rows[rows["step"] == rows["train_at"]]["test_error"]
    return stated | {
        "fitted_at": float(fitted["train_at"].median()),
        "solved_at": _finite(median(fitted["test_at"].to_numpy())),
        "test_error_when_fitted": round(float(at_fit.median()), 4),
        "delay": _finite(median(delays)),
        "delay_interval": [_finite(end) for end in median_interval(delays)],
        "censored": int(np.isnan(delays).sum()),
    }


def _finite(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None
