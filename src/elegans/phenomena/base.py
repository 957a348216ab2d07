"""The parts of a phenomenon: a training, the story that it tells, and the story's pictures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from elegans.errors import PhenomenonError, shown
from elegans.training import Outcome

Numbers = Sequence[int] | Sequence[float] | np.ndarray
"""Numbers in a list or an array."""
Train = Callable[..., Outcome]
"""Trains a trial, with probes as further arguments, and shows it on the terminal meanwhile."""


@dataclass(frozen=True)
class Chart:
    """Curves over the steps of training.

    Args:
        title: what the chart shows, as a statement.
        lines: for each name the steps and the values, of equal length.
        theory: horizontal lines that theory predicts, by name.
        dashed: the names of lines that are predictions too.
        scale: of the vertical axis: ``percent`` from 0 to 1, ``linear``, or ``log``.
        logarithmic: whether steps are on a logarithmic axis.
    """

    title: str
    lines: Mapping[str, tuple[Numbers, Numbers]]
    theory: Mapping[str, float] = field(default_factory=dict)
    dashed: Sequence[str] = ()
    scale: Literal["percent", "linear", "log"] = "percent"
    logarithmic: bool = False


@dataclass(frozen=True)
class Matrix:
    """A matrix at each of the story's steps, as a map of colours.

    Args:
        title: what it shows.
        frames: shape (times, rows, columns).
        rows, columns: what a row and a column are.
        signed: whether 0 is in the middle of the colours.
        values: what an entry is, for the key of the colours.
    """

    title: str
    frames: np.ndarray
    rows: str
    columns: str
    signed: bool = False
    values: str = ""


@dataclass(frozen=True)
class Points:
    """Points in a plane at each of the story's steps.

    Args:
        title: what they show.
        frames: shape (times, points, 2).
        across, up: what the axes are.
        groups: the group of each point, by which it is coloured; one group by default.
        names: what the groups are called.
        guides: lines of theory, each from one point of the plane to another.
        targets: points of theory.
        logarithmic: whether coordinates are base-2 logarithms of the numbers on the axes, which then fit the points;
            by default both axes have one scale, and 0 is in the middle.
    """

    title: str
    frames: np.ndarray
    across: str
    up: str
    groups: Sequence[int] = ()
    names: Sequence[str] = ()
    guides: Sequence[tuple[float, float, float, float]] = ()
    targets: Sequence[tuple[float, float]] = ()
    logarithmic: bool = False


@dataclass(frozen=True)
class Bars:
    """A bar for each of several things at each of the story's steps.

    Args:
        title: what they show.
        frames: shape (times, bars).
        across: what a bar is.
        groups, names: as for ``Points``.
        relative: whether each picture has its own scale, up to its longest bar.
    """

    title: str
    frames: np.ndarray
    across: str
    groups: Sequence[int] = ()
    names: Sequence[str] = ()
    relative: bool = False


@dataclass(frozen=True)
class Moment:
    """Something that happens at a step, in a sentence."""

    step: int
    text: str


@dataclass(frozen=True)
class Story:
    """What one training showed.

    Args:
        steps: the steps at which the panels were measured, which the slider runs over.
        charts: curves, drawn with a mark at the slider's step.
        panels: pictures, one of each per step.
        moments: what happens, by step.
        finding: what was found, in one sentence with its numbers.

    Raises:
        PhenomenonError: a panel has not as many pictures as there are steps.
    """

    steps: Sequence[int]
    charts: Sequence[Chart]
    panels: Sequence[Matrix | Points | Bars]
    moments: Sequence[Moment]
    finding: str

    def __post_init__(self) -> None:
        for panel in self.panels:
            if len(panel.frames) != len(self.steps):
                rule = "a panel must have one picture per step of its story"
                raise PhenomenonError(f"{rule}: {shown(panel.title)} has {len(panel.frames)}, steps={len(self.steps)}")


@dataclass(frozen=True)
class Phenomenon:
    """A phenomenon of training that can be watched in a minute.

    A study defines it at the top level of its file ``phenomena.py``. ``name`` and ``shows`` must be literal strings.

    Args:
        name: the name after ``elegans show``.
        shows: what one sees, in one line.
        source: who found it.
        setting: what is trained, in a sentence.
        watch: what to look at while it trains.
        theory: what theory predicts, and how far.
        further: commands to try next.
        train: trains by its first argument, with the seed as its second, and returns the story.
    """

    name: str
    shows: str
    source: str
    setting: str
    watch: str
    theory: str
    further: Sequence[str]
    train: Callable[[Train, int], Story]


def thinned(steps: Numbers, most: int = 80) -> np.ndarray:
    """Return evenly spaced positions of at most ``most`` steps, including the first and the last."""
    return np.unique(np.linspace(0, len(steps) - 1, min(most, len(steps))).round().astype(int))


def first_below(steps: Numbers, values: Numbers, level: float) -> int | None:
    """Return the first step from which on values stay at or below a level, or None."""
    above = np.flatnonzero(np.asarray(values, float) > level)
    place = int(above[-1]) + 1 if len(above) else 0
    return int(steps[place]) if place < len(steps) else None


def errors_of(outcome: Outcome) -> dict[str, tuple[Numbers, Numbers]]:
    """Return the curves of the training and the held-out error."""
    measures = outcome.measures
    return {
        name: (measures[kind]["step"], measures[kind]["error"])
        for kind, name in (("train-error", "training error"), ("test-error", "held-out error"))
        if kind in measures
    }
