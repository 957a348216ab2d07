"""Finding phenomena in the studies, training one, and writing its page."""

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from elegans import discovery
from elegans.errors import PhenomenonError, printable, shown, suggest
from elegans.files import replaced, writable
from elegans.phenomena.base import Phenomenon, Story, Train
from elegans.phenomena.listing import phenomena
from elegans.probes import HeldOutErrorRate, Probe, TrainErrorRate
from elegans.training import Outcome, Trial, train as train_one

DIGITS = 3
"""Significant digits of numbers on a page."""
MEASURED = 200
"""The largest number of times that errors are measured, but for the start and the end."""


@dataclass(frozen=True)
class Shown:
    """A phenomenon that was trained, with its story. In a notebook it is displayed as its page.

    Args:
        phenomenon: the phenomenon.
        story: what its training showed.
        seed: the seed.
        seconds: how long it trained.
    """

    phenomenon: Phenomenon
    story: Story
    seed: int
    seconds: float

    def html(self) -> str:
        """Return the page: one file without links to others."""
        return page(self.phenomenon, self.measured())

    def measured(self) -> dict[str, Any]:
        """Return what the training showed, as the part of the page's data that is not text of the phenomenon."""
        story = self.story
        record: dict[str, Any] = _plain(
            {
                "seed": self.seed,
                "seconds": self.seconds,
                "finding": story.finding,
                "steps": list(story.steps),
                "charts": [asdict(chart) for chart in story.charts],
                "panels": [{"kind": type(panel).__name__.lower(), **asdict(panel)} for panel in story.panels],
                "moments": [asdict(moment) for moment in sorted(story.moments, key=lambda moment: moment.step)],
            }
        )
        return record

    def write(self, path: str | Path) -> Path:
        """Write the page and return its path.

        Raises:
            PhenomenonError: the file cannot be written.
        """
        file = writable(path, "a page", PhenomenonError)
        try:
            with replaced(file) as draft:
                draft.write_bytes(self.html().encode())
        except OSError as error:
            raise PhenomenonError(f"a page must be writable: {printable(str(path))} ({error.strerror})") from None
        return file

    def _repr_html_(self) -> str:
        text = _escaped(self.html()).replace('"', "&quot;")
        return f'<iframe srcdoc="{text}" style="width: 100%; height: 46rem; border: 0"></iframe>'


def page(phenomenon: Phenomenon, measured: Mapping[str, Any]) -> str:
    """Return the page of a phenomenon and of what a training of it showed: one file without links to others."""
    texts = {name: getattr(phenomenon, name) for name in ("name", "shows", "source", "setting", "watch", "theory")}
    record = {**texts, "further": list(phenomenon.further), **measured}
    data = json.dumps(record, allow_nan=False, ensure_ascii=False).replace("</", "<\\/")
    template = (files("elegans.phenomena") / "page.html").read_text(encoding="utf-8")
    return template.replace("{{title}}", _escaped(phenomenon.shows)).replace("{{data}}", data)


def show(name: str, *, seed: int = 0, trainer: Train | None = None) -> Shown:
    """Train a phenomenon and return it with its story; ``write`` makes a page of it.

    Args:
        name: the phenomenon's name; ``phenomena()`` has all.
        seed: the seed of all its random draws.
        trainer: trains a trial with probes; by default with the usual view of the progress.

    Raises:
        PhenomenonError: there is no such phenomenon, or the seed is negative.
    """
    if name not in phenomena():
        near = suggest(name, list(phenomena()), "; `elegans show` lists all")
        raise PhenomenonError(f"unknown phenomenon {shown(name)}{near}")
    if seed < 0:
        raise PhenomenonError(f"seed must be at least 0: seed={seed}")
    found = phenomena()[name]
    phenomenon: Phenomenon = discovery.load(found.module, found.attribute)
    begun = time.perf_counter()
    story = phenomenon.train(trainer or watched(), seed)
    return Shown(phenomenon, story, seed, time.perf_counter() - begun)


def watched(watch: Callable[[Trial], Any] | None = None) -> Train:
    """Return a function that trains a trial and measures its errors and what further probes measure.

    Args:
        watch: returns a view of a trial: a context manager whose value is called with the outcome so far at each check.
    """

    def train(trial: Trial, *probes: Probe, errors: bool = True) -> Outcome:
        every = trial.stopping.every * max(1, -(-trial.steps // (MEASURED * trial.stopping.every)))
        measured = [HeldOutErrorRate(every=every), TrainErrorRate(every=every)] if errors else []
        if watch is None or not errors:
            return train_one(trial, probes=[*measured, *probes])
        with watch(trial) as view:
            outcome = train_one(trial, probes=[*measured, *probes], watch=view)
            view.end(outcome)
        return outcome

    return train


def _plain(value: Any) -> Any:
    """Return a value as what JSON has, numbers with few digits; what is not finite is null."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple | range):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
