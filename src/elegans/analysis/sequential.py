"""A sequential test of a success rate against a level, with its error rates computed exactly."""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Float, Int

from elegans.analysis.intervals import wilson
from elegans.arguments import AtMost, methods_checked
from elegans.display import displayed
from elegans.errors import AnalysisError, shown

Verdict = Literal["below", "above", "undecided"]

BELOW, OPEN, ABOVE = -1, 0, 1
HALVINGS = 40


@displayed
@methods_checked(AnalysisError)
@dataclass(frozen=True)
class SequentialTest:
    """A test of whether a success rate lies below or above a level, made after every trial.

    The test ends as soon as a Wilson interval of the trials so far excludes the level. It also ends when no further
    outcome could make it do so (curtailment, which saves trials without changing the verdict), or when the trials are
    used up.

    Testing after every trial gives many chances of a wrong verdict: with the plain 99% interval and 20 trials, a
    rate of exactly 0.5 would be declared below 0.5 with probability 0.018. Each end of the interval is therefore
    somewhat wider (``nominal``): the narrowest for which ``error`` is at most ``1 - confidence``.

    Args:
        level: the rate to test against, between 0 and 1.
        confidence: 1 minus the largest probability of either wrong verdict, between 0 and 1.
        maximum: the largest number of trials.

    Source: Wilson (1927) for the interval; error rates by the exact distribution of the path of successes, as for any
    curtailed binomial test (Jennison and Turnbull, "Group Sequential Methods", chapter 12).
    """

    level: float = 0.5
    confidence: float = 0.99
    maximum: Annotated[int, AtMost(2_000)] = 20

    def __post_init__(self) -> None:
        for name in ("level", "confidence"):
            if not 0 < getattr(self, name) < 1:
                raise AnalysisError(f"{name} must lie between 0 and 1: {name}={shown(getattr(self, name))}")
        if not (self._clear == BELOW).any() or not (self._clear == ABOVE).any():
            raise AnalysisError(
                f"there must be enough trials to tell a rate of 0 or 1 from {self.level} at {self.confidence}: "
                f"trials={self.maximum}"
            )

    @cached_property
    def nominal(self) -> tuple[float, float]:
        """The nominal confidence of the Wilson interval for ``below`` and for ``above``: at least ``confidence``."""
        return self._nominal(0), self._nominal(1)

    def _nominal(self, side: int) -> float:
        low, high = self.confidence, 1.0
        if self._error_at(low, side) <= 1 - self.confidence:
            return low
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self._error_at(middle, side) <= 1 - self.confidence else (middle, high)
        return high

    def _error_at(self, nominal: float, side: int) -> float:
        """Return the probability of one wrong verdict, if the other one did not end the test."""
        verdicts = _clear(self.level, (nominal, nominal), self.maximum)
        verdicts[verdicts == (ABOVE, BELOW)[side]] = OPEN
        return _passage(verdicts, self.level)[side]

    @property
    def error(self) -> tuple[float, float]:
        """The exact probabilities of the verdicts ``below`` and ``above`` at a rate equal to the level.

        A rate above the level is declared below it with at most the first probability, and one below the level is
        declared above it with at most the second.
        """
        return self.probabilities(self.level)

    def probabilities(self, rate: float) -> tuple[float, float]:
        """Return the exact probabilities of the verdicts ``below`` and ``above`` at a success rate."""
        return _passage(self._clear, rate)

    def verdict(self, solved: int, trials: int) -> Verdict:
        """Return the verdict on a number of successes in a number of trials."""
        return ("below", "undecided", "above")[int(self._clear[self._place(solved, trials)]) + 1]

    def wait(self, solved: int, trials: int) -> int:
        """Return the smallest number of further trials after which the test may end: 0 if it has ended."""
        return int(self._wait[self._place(solved, trials)])

    def _place(self, solved: int, trials: int) -> tuple[int, int]:
        if not 0 <= solved <= trials <= self.maximum:
            values = f"solved={shown(solved)}, trials={shown(trials)}, maximum={self.maximum}"
            raise AnalysisError(f"successes and trials must not exceed the maximum number of trials: {values}")
        return trials, solved

    @cached_property
    def _clear(self) -> Int[np.ndarray, "trials solved"]:
        return _clear(self.level, self.nominal, self.maximum)

    @cached_property
    def _wait(self) -> Int[np.ndarray, "trials solved"]:
        wait = np.zeros(self._clear.shape, np.int64)
        decidable = self._clear != OPEN  # by some outcome of the remaining trials
        for trials in range(self.maximum - 1, -1, -1):
            decidable[trials, :-1] |= decidable[trials + 1, :-1] | decidable[trials + 1, 1:]
            least = np.minimum(wait[trials + 1, :-1], wait[trials + 1, 1:])
            wait[trials, :-1] = np.where((self._clear[trials, :-1] == OPEN) & decidable[trials, :-1], 1 + least, 0)
        return wait


def _clear(level: float, confidence: tuple[float, float], maximum: int) -> Int[np.ndarray, "trials solved"]:
    """Return on which side of the level the intervals lie, by trials and successes from 0 to ``maximum``."""
    trials, solved = np.mgrid[: maximum + 1, : maximum + 1]
    possible = (solved <= trials) & (trials > 0)
    high = wilson(np.minimum(solved, trials), trials, confidence[0])[1]
    low = wilson(np.minimum(solved, trials), trials, confidence[1])[0]
    clear: Int[np.ndarray, "trials solved"] = np.where(possible & (low > level), ABOVE, OPEN)
    clear[possible & (high < level)] = BELOW
    return clear


def _passage(clear: Int[np.ndarray, "trials solved"], rate: float) -> tuple[float, float]:
    """Return the probabilities that the path of successes ends below and above the level."""
    reached: Float[np.ndarray, " solved"] = np.zeros(len(clear))
    reached[0] = 1
    below = above = 0.0
    for verdicts in clear[1:]:
        reached = (1 - rate) * reached + rate * np.concatenate([[0], reached[:-1]])
        below += float(reached[verdicts == BELOW].sum())
        above += float(reached[verdicts == ABOVE].sum())
        reached = np.where(verdicts == OPEN, reached, 0)
    return below, above
