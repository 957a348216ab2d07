"""Probabilities that a relu6 of fair signs is neither 0 nor capped, correctly rounded.

The neurons are v = w . x + b with weights in {-1, 0, 1} and inputs x = e / sqrt(n) of signs e. Shifts of the bias are
integer multiples of 1 / sqrt(n), so the two thresholds on a sum of signs are integers.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from elegans.boolean.learning import sums_of_signs
from elegans.calculators.domain import require
from elegans.studies.learning_parities.theory.parity import biased_support

CAP = 6
"""The cap of relu6."""

_SNAP = 1e-9
"""How far rounding may have moved a threshold off an integer."""


class InitialNeurons:
    """The initial weights of q neurons, reduced to what the closed forms need."""

    def __init__(self, weight: Any, bias: Any, support: Iterable[int]) -> None:
        weights = np.asarray(weight)
        require(weights.ndim == 2, "weight must have shape (q, n)", shape=weights.shape)
        require(
            bool(np.isin(weights, (-1, 0, 1)).all()), "weights must be -1, 0 or 1 (first step)", shape=weights.shape
        )
        self.weight = weights.astype(np.int64)
        self.q, self.n = weights.shape
        self.places = biased_support(support, self.n)
        self.k = len(self.places)
        self.relevant = self.weight[:, self.places]
        self.balance = self.relevant.sum(axis=1)
        self.zeros = (self.relevant == 0).sum(axis=1)
        self.outside = (np.delete(self.weight, self.places, axis=1) != 0).sum(axis=1)
        self.total = self.outside + self.k - self.zeros
        self.product = np.where(self.relevant == 0, 1, self.relevant).prod(axis=1)
        self.window = Window(self.n, np.broadcast_to(np.asarray(bias, float), (self.q,)))

    def win(self, m: np.ndarray, shift: Any, margin: int = 0) -> np.ndarray:
        """Return each neuron's P(margin / sqrt(n) < (S_m + shift) / sqrt(n) + b < 6 - margin / sqrt(n))."""
        return self.window.inside(m, np.broadcast_to(shift, (self.q,)), margin)

    def broadcast(self, relevant: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return (q, n) from values on A, of shape (q, k), and multiples of the weights elsewhere, of shape (q,)."""
        full = others[:, None] * self.weight
        full[:, self.places] = relevant
        return full / math.sqrt(self.n)


def signed_window(t: int, m: np.ndarray, shift: np.ndarray, window: "Window", capped: bool = False) -> np.ndarray:
    """Return kap(t, m, b + shift / sqrt(n)), or the same with relu6 instead of the indicator; 0 if m < t."""
    values = np.zeros(len(m))
    enough = m >= t
    part, mean = window.only(enough), Window.capped_mean if capped else Window.inside
    for i in range(t + 1):
        values[enough] += (-1) ** i * math.comb(t, i) * mean(part, m[enough] - t, shift[enough] + t - 2 * i)
    return np.asarray(values / 2**t)


class Window:
    """Where each of q neurons' relu6 is neither 0 nor 6: the sums of signs T with 0 < T + b sqrt(n) < 6 sqrt(n)."""

    def __init__(self, n: int, bias: np.ndarray) -> None:
        self.n, self.bias = n, bias
        self.root = math.sqrt(n)

    def only(self, chosen: np.ndarray) -> "Window":
        """Return the window of some of the neurons."""
        return Window(self.n, self.bias[chosen])

    def inside(self, m: np.ndarray, shift: np.ndarray, margin: int = 0) -> np.ndarray:
        """Return P(margin / sqrt(n) < (S_m + shift) / sqrt(n) + b < 6 - margin / sqrt(n))."""
        low, high = self._ends(margin)
        return np.asarray(_below(m, high - shift)[0] - _below(m, low - 1 - shift)[0])

    def capped_mean(self, m: np.ndarray, shift: np.ndarray) -> np.ndarray:
        """Return E[relu6((S_m + shift) / sqrt(n) + b)]."""
        low, high = self._ends(0)
        (to_high, sum_high), (to_low, sum_low) = _below(m, high - shift), _below(m, low - 1 - shift)
        middle = (sum_high - sum_low) / self.root + (shift / self.root + self.bias) * (to_high - to_low)
        return np.asarray(middle + CAP * (1 - to_high))

    def _ends(self, margin: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the smallest and the largest integer T with margin < T + b sqrt(n) < 6 sqrt(n) - margin."""
        offset = self.bias * self.root
        low, high = np.floor(_snap(margin - offset)) + 1, np.ceil(_snap(CAP * self.root - margin - offset)) - 1
        return low.astype(np.int64), high.astype(np.int64)


def _snap(value: np.ndarray) -> np.ndarray:
    """Return values with rounding errors about integers removed, so that ties are ties."""
    whole = np.round(value)
    return np.where(np.abs(value - whole) < _SNAP, whole, value)


def _below(m: np.ndarray, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return P(S_m <= limit) and E[S_m 1{S_m <= limit}] for sums of m fair signs."""
    counts, place = np.unique(m, return_inverse=True)
    width = int(counts.max(initial=0)) + 2
    chance, mean = np.ones((len(counts), width)), np.zeros((len(counts), width))
    for row, count in enumerate(counts):
        chance[row, : count + 2], mean[row, : count + 2] = sums_of_signs(int(count))
    column = np.clip((limit + m) // 2 + 1, 0, m + 1)
    return chance[place, column], mean[place, column]
