"""The statistics of cells, each with its interval."""

from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from elegans.analysis.intervals import mean_intervals, median_intervals, medians, wilson
from elegans.store.aggregates import CellSums
from elegans.training.states import FINISHED, STATES


class Statistic(NamedTuple):
    """A number that a cell has.

    Args:
        label: its name on the page.
        column, low, high: the columns of ``Cells.table`` that hold it and its interval.
        trials: the column that holds the number of trials behind it.
        interval: what the interval is.
        percent: whether it is a share.
        logarithmic: whether its colours are.
    """

    label: str
    column: str
    low: str
    high: str
    trials: str
    interval: str
    percent: bool = False
    logarithmic: bool = False


STATISTICS: Mapping[str, Statistic] = {
    "rate": Statistic("success rate", "rate", "low", "high", "trials", "Wilson 95%", percent=True),
    "median_steps": Statistic(
        "median steps to solve",
        "median_steps",
        "median_low",
        "median_high",
        "trials",
        "order statistics, 95%",
        logarithmic=True,
    ),
    "test_error": Statistic(
        "mean test error", "test_error", "test_error_low", "test_error_high", "errors", "Student 95%", percent=True
    ),
    "seconds": Statistic(
        "mean seconds per trial", "seconds", "seconds_low", "seconds_high", "ended", "Student 95%", logarithmic=True
    ),
}


class Computed:
    """The statistics of cells, each computed when it is first asked for."""

    def __init__(self, sums: CellSums, active: np.ndarray, wanted: np.ndarray) -> None:
        self.sums = sums
        self.solved = np.diff(sums.first)
        self.trials = np.sum([sums.ended[state] for state in FINISHED], axis=0)
        self.ended = np.sum([sums.ended[state] for state in STATES], axis=0)
        self.known: dict[str, np.ndarray] = {name: sums.ended[name] for name in STATES[1:]}
        self.known |= {"trials": self.trials, "solved": self.solved, "ended": self.ended, "errors": sums.errors}
        self.known |= {"running": active, "missing": np.maximum(wanted - self.ended - active, 0)}

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.known:
            self.known |= next(compute for names, compute in self._MADE.items() if name in names)(self)
        return self.known[name]

    def _rates(self) -> dict[str, np.ndarray]:
        low, high = wilson(self.solved, self.trials)
        with np.errstate(invalid="ignore", divide="ignore"):
            return {"rate": self.solved / self.trials, "low": low, "high": high}

    def _medians(self) -> dict[str, np.ndarray]:
        of = (self.sums.times, self.solved, self.trials)
        low, high = median_intervals(*of)
        return {"median_steps": medians(*of), "median_low": low, "median_high": high}

    def _errors(self) -> dict[str, np.ndarray]:
        error, low, high = mean_intervals(self.sums.errors, self.sums.error, self.sums.error_squared)
        return {"test_error": error, "test_error_low": np.maximum(low, 0), "test_error_high": np.minimum(high, 1)}

    def _seconds(self) -> dict[str, np.ndarray]:
        seconds, low, high = mean_intervals(self.ended, self.sums.seconds, self.sums.seconds_squared)
        return {"seconds": seconds, "seconds_low": np.maximum(low, 0), "seconds_high": high}

    _MADE: ClassVar[Mapping[tuple[str, ...], Callable[["Computed"], dict[str, np.ndarray]]]] = {
        ("rate", "low", "high"): _rates,
        ("median_steps", "median_low", "median_high"): _medians,
        ("test_error", "test_error_low", "test_error_high"): _errors,
        ("seconds", "seconds_low", "seconds_high"): _seconds,
    }


COLUMNS = (
    *("trials", *STATES, "rate", "low", "high", "median_steps", "median_low", "median_high"),
    *("test_error", "test_error_low", "test_error_high", "errors", "seconds", "seconds_low", "seconds_high"),
    *("ended", "running", "missing"),
)
"""The statistics, in the order of the table."""
