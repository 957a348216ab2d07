"""Many trials, lazily: one template for each cell, and the seeds of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from elegans.arguments import methods_checked
from elegans.errors import SweepError, shown
from elegans.training.trial import Trial

Seeds = Sequence[int]
LARGEST_SWEEP = 10**8
"""Maximum number of trials in a sweep: a run keeps a few bytes of each in memory."""


@dataclass(frozen=True, repr=False)
@methods_checked()
class TrialSet:
    """Many trials, as stores know them. Iterating yields them cell by cell, and seed by seed within a cell.

    Args:
        parts: each cell's template, a trial with seed 0, and its distinct seeds.

    Raises:
        SweepError: the parts are no trials with seeds from 0 to 2^64 - 1, each once.
    """

    parts: tuple[tuple[Trial, Seeds], ...]

    def __post_init__(self) -> None:
        listed = isinstance(self.parts, Sequence) and not isinstance(self.parts, str)
        if not listed or not all(map(_is_part, self.parts)):
            raise SweepError(f"the parts of a sweep must be trials with their seeds: parts={shown(self.parts)}")
        for seeds in {id(seeds): seeds for _, seeds in self.parts}.values():
            if not isinstance(seeds, range) and not all(type(seed) is int for seed in seeds):
                wrong = next(seed for seed in seeds if type(seed) is not int)
                raise SweepError(f"the seeds of a sweep must be whole numbers: seed={shown(wrong)}")
            if not isinstance(seeds, range) and len(set(seeds)) < len(seeds):
                raise SweepError(f"the seeds of a cell must be distinct: seeds={shown(seeds)}")
            if len(seeds):
                check_ends(seeds)

    @property
    def cells(self) -> tuple[Trial, ...]:
        """The template trial of every cell."""
        return tuple(template for template, _ in self.parts)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of all cells, in the order of first appearance."""
        distinct = {id(seeds): seeds for _, seeds in self.parts}
        return tuple(dict.fromkeys(seed for seeds in distinct.values() for seed in seeds))

    def __len__(self) -> int:
        return int(self.first[-1])

    @cached_property
    def first(self) -> np.ndarray:
        """The number of the first trial of each cell, counted from 0, and then the number of all trials."""
        lengths = [len(seeds) for _, seeds in self.parts]
        check_size(sum(lengths))
        return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

    def trial(self, number: int) -> Trial:
        """Return the trial at a position in this order, from 0 to ``len(sweep) - 1``."""
        if not 0 <= number < len(self):
            raise SweepError(f"a trial's number must lie in 0..{len(self) - 1}: number={shown(number)}")
        part = int(np.searchsorted(self.first, number, side="right")) - 1
        template, seeds = self.parts[part]
        return template.with_seed(seeds[int(number - self.first[part])])

    def __iter__(self) -> Iterator[Trial]:
        for template, seeds in self.parts:
            for seed in seeds:
                yield template.with_seed(seed)


AnySet = TypeVar("AnySet", bound=TrialSet)


def _is_part(part: Any) -> bool:
    return isinstance(part, tuple) and len(part) == 2 and isinstance(part[0], Trial) and hasattr(part[1], "__len__")


def check_ends(seeds: Seeds) -> None:
    """Refuse seeds out of bounds; of a range, which may have any length, only the ends are checked."""
    for seed in (seeds[0], seeds[-1]) if isinstance(seeds, range) else (min(seeds), max(seeds)):
        if not 0 <= seed < 2**64:
            raise SweepError(f"a seed must be from 0 to 2^64 - 1: seed={shown(seed)}")


def check_size(trials: int) -> None:
    """Refuse more trials than a run can keep in memory."""
    if trials > LARGEST_SWEEP:
        raise SweepError(f"a sweep must have at most {LARGEST_SWEEP:,} trials: {shown(trials)}")
