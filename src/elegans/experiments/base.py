"""Experiments, their scales and options, and the result of running one."""

import base64
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans import discovery
from elegans.arguments import methods_checked
from elegans.display import card, displayed, note
from elegans.errors import ElegansError, ExperimentError, article, brief, counted, printable, shown, suggest
from elegans.experiments.claims import UNDECIDED, Claim
from elegans.experiments.record import write_json
from elegans.experiments.results import Results, Tables
from elegans.files import failure, replaced, writable
from elegans.plots.style import note_below, note_empty_panels, withhold_finding
from elegans.probes import Probe
from elegans.sweeps import Sweep
from elegans.training import Trial

NAME = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*")
"""What an experiment's name looks like; a folder has the same name."""
FEW = 5
"""Up to how many trials per cell a figure at scale smoke states no finding, unless all claims are decided."""


@displayed
@dataclass(frozen=True)
class Scale:
    """The size at which an experiment is run.

    Args:
        sweep: the cells, each with the given number of trials; or a function that takes this number and returns the
            sweep. Trials run in its order, and the first ones should already make a figure, in case a run is cut short.
        trials: the default number of trials per cell.
        rounds: how often ``further`` is asked for trials that follow from all trials so far.
        part: what part of the published setting ``paper`` or ``part`` covers, in words, if not all of it.
    """

    sweep: Sweep | Callable[[int], Sweep]
    trials: int
    rounds: int = 1
    part: str = ""

    def __post_init__(self) -> None:
        if not callable(self.sweep) and not isinstance(self.sweep, Sweep):
            rule = "a scale's sweep must be a Sweep, or a function of the number of trials per cell that returns one"
            raise ExperimentError(f"{rule}: sweep={shown(self.sweep)}")
        for name, least in (("trials", 1), ("rounds", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ExperimentError(f"{name} must be a whole number of at least {least}: {name}={shown(value)}")

    def cells(self, trials: int) -> Sweep:
        """Return the sweep with a number of trials per cell.

        Raises:
            ExperimentError: the scale's function does not return a sweep.
        """
        if isinstance(self.sweep, Sweep):
            return self.sweep.with_seeds(trials)
        sweep = self.sweep(trials)
        if not isinstance(sweep, Sweep):
            raise ExperimentError(f"a scale's function must return a Sweep: {type(sweep).__name__}")
        return sweep


@dataclass(frozen=True)
class Option:
    """An option of an experiment, in addition to its scale.

    Args:
        chooses: what the option chooses, in words.
        apply: given the experiment and the value as typed, returns the experiment with this option; refuses bad values.
    """

    chooses: str
    apply: Callable[["Experiment", Any], "Experiment"]


def parts(**each: Callable[["Experiment"], "Experiment"]) -> Callable[["Experiment", Any], "Experiment"]:
    """Return the ``apply`` of an option whose value is ``all`` for the whole experiment, or the name of a part of it.

    Args:
        each: by the name of a part, a function that returns this part of an experiment.
    """

    def apply(experiment: "Experiment", value: Any) -> "Experiment":
        if value == "all":
            return experiment
        if value not in each:
            raise ExperimentError(f"parts must be all or {' or '.join(each)}: parts={value!r}")
        return each[value](experiment)

    return apply


@dataclass(frozen=True)
class Line:
    """A line of theory in the plane of two parameters.

    Args:
        label: the line's name, with its constants.
        columns: by the dotted columns of the two parameters, their values along the line.
    """

    label: str
    columns: Mapping[str, np.ndarray]


@displayed
@dataclass(frozen=True)
@methods_checked()
class Experiment:
    """A published figure, table or theorem: its sweeps, its analysis, its plot.

    If the training of some trials depends on the outcome of others, as for lottery tickets, ``further`` makes them.

    Args:
        name: its name on the command line.
        shows: its finding, in one line.
        source: the figure, table or theorem of the study's work.
        scales: by name: ``smoke`` (seconds), ``laptop`` (minutes on 2 cores), ``paper`` (as published); ``part`` is
            the part of a larger ``paper`` that decides the claims.
        analyse: turns the trials' results into the tables behind the figure, by name.
        plot: turns these tables into the figure; None if the tables show everything, as tables of checks do.
        findings: turns these tables into numbers with intervals that bear on the claim, for ``record.json``.
        probes: the probes of all trials, or a function that takes a trial and returns the probes of its cell.
        partial: whether part of the trials can make a figure, although they are measured or others follow from them.
        further: returns the sweep of trials that follow from the trials so far, given their sweep, their results and
            the number of trials per cell; an empty sweep if there are none.
        claims: the published statements that it bears on, each with the rule that decides it from these tables.
        options: the options other than the scale, by name.
        lines: by the two dotted columns of a plane, functions from a cell's columns to the lines of theory in the plane
            of the cells that differ from it in these two.
        labels: returns the columns by which the tables name a cell, given its trial, if they are not dotted columns.
        extras: functions that write further files, such as an animation, from the tables and a path; by file name.

    Raises:
        ExperimentError: a part has the wrong type or value.
    """

    name: str
    shows: str
    source: str
    scales: Mapping[str, Scale]
    analyse: Callable[[Results], Tables]
    plot: Callable[[Tables], Figure] | None = None
    findings: Callable[[Tables], dict[str, Any]] | None = None
    probes: Callable[[Trial], Sequence[Probe]] | Sequence[Probe] | None = None
    partial: bool = False
    further: Callable[[Sweep, Results, int], Sweep] | None = None
    claims: Sequence[Claim] = ()
    options: Mapping[str, Option] = field(default_factory=dict)
    lines: Mapping[tuple[str, str], Callable[[Mapping[str, Any]], Sequence[Line]]] = field(default_factory=dict)
    labels: Callable[[Trial], Mapping[str, Any]] | None = None
    extras: Mapping[str, Callable[[Tables, Path], None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            rule = "an experiment's name must be words of small letters and digits, joined by hyphens or dots"
            raise ExperimentError(f"{rule}: name={shown(self.name)}")
        for part in ("analyse", "plot", "findings", "further", "labels"):
            value = getattr(self, part)
            if not callable(value) and (value is not None or part == "analyse"):
                raise ExperimentError(f"{part} of {self.name} must be a function: {part}={shown(value)}")
        self._check_members("scales", self.scales, Scale)
        self._check_members("options", self.options, Option)
        self._check_members("claims", self.claims, Claim)
        self._check_members("probes", () if callable(self.probes) else self.probes or (), Probe)
        if not self.scales:
            raise ExperimentError(f"{self.name} must have a scale: scales={{}}")
        for claim in self.claims:
            if not callable(claim.decide):
                raise ExperimentError(f"a claim must have a rule: {claim.id}: decide={shown(claim.decide)}")

    def _check_members(self, part: str, members: Any, kind: type) -> None:
        by_name = kind in (Scale, Option)
        if not isinstance(members, Mapping if by_name else Sequence) or isinstance(members, str):
            form = "dictionary by name" if by_name else "list"
            raise ExperimentError(f"{part} of {self.name} must be a {form}: {part}={shown(members)}")
        for member in members.values() if isinstance(members, Mapping) else members:
            if not isinstance(member, kind):
                rule = f"each of the {part} of {self.name} must be {article(kind.__name__)}"
                raise ExperimentError(f"{rule}: {part} has {shown(member)}")

    def probes_of(self, trial: Trial) -> tuple[Probe, ...]:
        """Return the probes of a cell's trials.

        Args:
            trial: one of them.
        """
        return tuple(self.probes(trial) if callable(self.probes) else self.probes or ())

    def with_options(self, options: Mapping[str, Any]) -> "Experiment":
        """Return the experiment with the given options, by name."""
        experiment = self
        for name, value in options.items():
            if name not in self.options:
                options_text = f"it has {', '.join(map(repr, self.options))}" if self.options else "it has none"
                raise ExperimentError(f"{self.name} has no option {name!r} ({options_text})")
            experiment = self.options[name].apply(experiment, value)
        return experiment

    def scale_name(self, name: str | None) -> str:
        """Return a scale's name: the given one, else ``laptop``, or where there is none the first, with a note."""
        if name is not None or "laptop" in self.scales:
            return "laptop" if name is None else name
        first = next(iter(self.scales))
        note(f"{self.name} has no scale laptop, so this is its first scale, {first}")
        return first

    def scale(self, name: str) -> Scale:
        """Return a scale by its name."""
        if name not in self.scales:
            listed = f"; known: {', '.join(self.scales)}"  # the smallest first
            raise ExperimentError(f"{self.name} has no scale {shown(name)}{listed}")
        return self.scales[name]

    def setting(self, name: str) -> str:
        """Return how the scale of a given name compares with the published setting, or with the largest scale.

        Without a scale ``paper`` or ``part``, nothing is published; the last scale is the largest.
        """
        scale, published = self.scale(name), ("paper", "part")
        if name in published:
            return f"part of the published: {scale.part}" if scale.part else "published"
        if any(one in self.scales for one in published):
            return "smaller than published"
        return "its largest scale" if name == list(self.scales)[-1] else "smaller than its largest scale"


@dataclass(frozen=True, repr=False)
class Result:
    """The result of an experiment, and where it is written.

    Args:
        experiment: the experiment.
        results: its trials, as its analysis received them.
        tables: the tables behind the figure, by name.
        record: how it was made, as in ``record.json``.
        folder: the folder of the files.
    """

    experiment: Experiment
    results: Results
    tables: Tables
    record: Mapping[str, Any]
    folder: Path

    @property
    def scale(self) -> str:
        """The name of the scale."""
        return self.results.scale

    @property
    def trials(self) -> pd.DataFrame:
        """One row per trial."""
        return self.results.trials

    @property
    def files(self) -> dict[str, Path]:
        """The written files: ``figure`` and ``print`` if there is one, ``record``, tables and extras by their names."""
        names = {"figure": "figure.png", "print": "figure.pdf"} if self.experiment.plot else {}
        names |= {"record": "record.json"}
        names |= {name: f"{name}.csv" for name in self.tables}
        names |= {name: name for name in self.experiment.extras}
        return {kind: self.folder / name for kind, name in names.items()}

    @property
    def from_trials(self) -> dict[str, Mapping[str, Any]]:
        """The verdicts that this run's trials gave, by claim, without those that are arithmetic."""
        free = {claim.id for claim in self.experiment.claims if claim.arithmetic}
        return {claim: verdict for claim, verdict in self.record["verdicts"].items() if claim not in free}

    def __repr__(self) -> str:
        trials = f"{counted(self.record['trials'], 'trial')} at scale {self.scale}"
        return f"Result({self.experiment.name}: {trials}; {self.folder})"

    def _repr_html_(self) -> str:
        name, figure = self.experiment.name, self.files.get("figure")
        judged = self.from_trials if self.scale == "smoke" else self.record["verdicts"]
        verdicts = {claim: f"{verdict['verdict']}: {verdict['because']}" for claim, verdict in judged.items()}
        open_claims = [claim for claim, verdict in judged.items() if verdict["verdict"] == UNDECIDED]
        larger = [scale for scale in self.experiment.scales if scale != "smoke"]
        if self.scale == "smoke" and larger and len(open_claims) > 1:
            verdicts = {claim: text for claim, text in verdicts.items() if claim not in open_claims}
            verdicts["note"] = f"too few trials to decide {len(open_claims)} of {len(judged)} claims; try {larger[0]}"
        facts = {"scale": self.scale, "trials": self.record["trials"], "folder": self.folder, **verdicts}
        image = ""
        if figure and figure.exists():
            encoded = base64.b64encode(figure.read_bytes()).decode()
            image = f"<img alt='{name}' style='max-width:100%' src='data:image/png;base64,{encoded}'/>"
        return card(name, facts, image)

    @property
    def failed(self) -> int:
        """How many trials failed."""
        return int(self.record["failed"])

    @property
    def interrupted(self) -> int:
        """How many trials were interrupted or not started."""
        return int(self.record["interrupted"])

    def write(self, store: str | Path | None = None) -> "Result":
        """Write tables, record, extras and figure, but not over the ``store``; each file is complete or as it was.

        Tables and record come first, so that a plot that raises costs no verdict.
        """
        for file in self.files.values():
            writable(file, "a file of results", ExperimentError, store)
        try:
            for name, table in self.tables.items():
                with replaced(self.files[name]) as draft:
                    table.to_csv(draft, index=False)
            write_json(self.files["record"], self.record)
            for name, write in self.experiment.extras.items():
                with replaced(self.files[name]) as draft:
                    write(self.tables, draft)
            if self.experiment.plot:
                for name in ("figure", "print"):
                    self.files[name].unlink(missing_ok=True)  # an earlier run's
                figure = self._drawn()
                with replaced(self.files["figure"]) as draft:
                    figure.savefig(draft, dpi=200, format="png")
                figure.set_layout_engine("none")  # it keeps the layout, which takes longer than the drawing
                with replaced(self.files["print"]) as draft:
                    figure.savefig(draft, format="pdf", metadata={"CreationDate": None})
        except OSError as error:
            raise ExperimentError(f"results must be writable: {failure(error)}") from None
        return self

    def _drawn(self) -> Figure:
        assert self.experiment.plot
        with errors_named("plot", self.experiment):
            figure = self.experiment.plot(self.tables)
        if not hasattr(figure, "savefig"):
            rule = f"plot of {self.experiment.name} must return a matplotlib figure"
            raise ExperimentError(f"{rule}: {article(type(figure).__name__)}")
        if self.scale == "smoke":
            self._tone_down(figure)
        return figure

    def _tone_down(self, figure: Figure) -> None:
        """Note what a run at scale smoke is too small for: claims, a finding in the title, panels."""
        verdicts = self.from_trials
        undecided = sum(verdict["verdict"] == UNDECIDED for verdict in verdicts.values())
        if undecided:
            which = f"{undecided} of {len(verdicts)} claims" if len(verdicts) > 1 else "the claim"
            note_below(figure, f"Scale smoke is too small to decide {which}.")
        few = 0 < self.record.get("trials", 0) <= FEW * self.record.get("cells", 0)
        if few and (undecided or not verdicts):
            withhold_finding(figure, "Scale smoke: too few trials for a finding")
        note_empty_panels(figure, "nothing to show at scale smoke")


@contextmanager
def errors_named(part: str, experiment: Experiment) -> Iterator[None]:
    """Turn whatever a part of an experiment raises into a one-line error that names the line of the user's file.

    Raises:
        ExperimentError: the part has raised something that is not an error of elegans.
        ElegansError: it has raised an error of elegans, whose message then ends with the line too.
    """
    try:
        yield
    except ElegansError as error:
        error.args = (f"{error}{_place(error)}",)
        raise
    except Exception as error:  # whatever the author's code raises
        text = _said_of_name(error) if isinstance(error, KeyError) and error.args else str(error)
        reason = f"{type(error).__name__}: {brief(text, 200)}"
        raise ExperimentError(f"{part} of {experiment.name} must not raise: {reason}{_place(error)}") from error


def _place(error: Exception) -> str:
    """Return the line of the user's file at which an error was raised, in parentheses, or nothing."""
    files = {path for path, _ in discovery.LOADED.values()}
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    return f" ({printable(Path(frames[-1].filename).name)}, line {frames[-1].lineno})" if frames else ""


def _said_of_name(error: KeyError) -> str:
    """Return what an error says of a name, with the columns where it is of a table, which the error's frames have."""
    name = error.args[0]
    if not isinstance(name, str):
        return str(error)
    text = name if " " in name else repr(name)
    for frame, _ in traceback.walk_tb(error.__traceback__):
        table = frame.f_locals.get("self")
        table = getattr(table, "obj", table)  # groups of a table's rows
        if isinstance(table, pd.DataFrame):
            return text + suggest(name, [*map(str, table)])
    return text
