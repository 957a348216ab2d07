"""The outcome of a trial."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from elegans.display import card, span, sparkline
from elegans.errors import TrialError, brief, counted
from elegans.models.base import Weights
from elegans.training.network import TrainedNetwork
from elegans.training.states import State
from elegans.training.trial import Trial, labels

CURVE_POINTS = 128
FINAL_LOSS = "final-loss"
"""The kind under which measures hold the final losses of a trial on real-valued targets."""
BESIDE_QUANTITIES = ("trial", "seed", "step")
"""Columns of a table of measures, which quantities must not be named after."""
LONGEST_LINE = 500  # maximum number of characters shown of a traceback's line


@dataclass(repr=False)
class Curve:
    """The minibatch loss and error, averaged over the steps between one point and the next.

    There are fewer than 128 evenly spaced points: when the curve is full, neighbours merge, and later points span as
    many steps as the merged ones. Averages stay exact.

    Args:
        step: the number of steps taken at each point.
        loss: the mean minibatch loss over the steps since the previous point.
        error: the mean fraction of minibatch examples that the network got wrong, before each of these steps; with
            real-valued targets, the loss.
    """

    step: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    error: list[float] = field(default_factory=list)

    def add(self, step: int, loss: float, error: float) -> None:
        """Add the averages over the steps since the last ones added."""
        last, begun = (self.step[-1], self.step[-2]) if len(self.step) > 1 else (0, 0)
        if last and last - begun < self.step[0]:  # the last point spans fewer steps than the first: merge these into it
            share = (step - last) / (step - begun)
            self.step[-1] = step
            self.loss[-1] += share * (loss - self.loss[-1])
            self.error[-1] += share * (error - self.error[-1])
            return
        self.step.append(step)
        self.loss.append(loss)
        self.error.append(error)
        if len(self.step) == CURVE_POINTS:
            spans = np.diff([0, *self.step]).reshape(-1, 2)
            self.step = self.step[1::2]
            for name in ("loss", "error"):
                pairs = np.reshape(getattr(self, name), (-1, 2))
                setattr(self, name, ((pairs * spans).sum(1) / spans.sum(1)).tolist())

    def __repr__(self) -> str:
        if not self.step:
            return "Curve()"
        loss, error = (f"{values[0]:.3g} to {values[-1]:.3g}" for values in (self.loss, self.error))
        return f"Curve({counted(len(self.step), 'point')} to step {self.step[-1]:,}: loss {loss}, error {error})"

    def _repr_html_(self) -> str:
        return card("Curve", {"points": len(self.step)}, self.drawing())

    def drawing(self) -> str:
        """Return the loss and the error as small drawings, in HTML."""
        curves = {"minibatch loss": self.loss, "minibatch error": self.error}
        return "".join(sparkline(self.step, values, name) for name, values in curves.items())


@dataclass(repr=False)
class ErrorCurve:
    """Train and held-out error at about a hundred steps, evenly spaced on a logarithmic axis.

    The first point is step 1, the last is the trial's last step. Trainings of few examples have fewer points, so
    these take about 2% of the time natively, and up to 5% in small trainings on the jax engine. The outcomes of earlier
    versions have none.

    Args:
        step: the number of steps taken at each point.
        loss: the mean minibatch loss over the steps since the previous point.
        train_error: the mean fraction of minibatch examples that the network got wrong, before each of these steps.
        test_error: the fraction of 64 held-out examples, the same at every point, that the network gets wrong. With
            real-valued targets, this and ``train_error`` are mean losses.
    """

    step: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    train_error: list[float] = field(default_factory=list)
    test_error: list[float] = field(default_factory=list)

    def add(self, step: int, loss: float, train_error: float, test_error: float) -> None:
        """Add a point."""
        self.step.append(step)
        self.loss.append(loss)
        self.train_error.append(train_error)
        self.test_error.append(test_error)

    def extend(self, other: "ErrorCurve") -> None:
        """Add the points of another curve."""
        for name, values in vars(other).items():
            getattr(self, name).extend(values)

    def __repr__(self) -> str:
        if not self.step:
            return "ErrorCurve()"
        parts = [f"{name} {vars(self)[f'{name}_error'][-1]:.4g}" for name in ("train", "test")]
        return (
            f"ErrorCurve({counted(len(self.step), 'point')} to step {self.step[-1]:,}: {', '.join(parts)} at the end)"
        )

    def _repr_html_(self) -> str:
        curves = {"train error": self.train_error, "held-out error": self.test_error}
        drawing = "".join(sparkline(self.step, values, name) for name, values in curves.items())
        return card("ErrorCurve", {"points": len(self.step)}, drawing)


class Measures(dict[str, dict[str, Any]]):
    """Measures of probes: by kind, ``measures["weight-movement"]``, or by class, ``measures[WeightMovement]``."""

    def __missing__(self, probe: Any) -> dict[str, Any]:
        kind = getattr(probe, "kind", probe)
        if kind is probe or kind not in self:
            raise KeyError(f"measures must come from a probe of the trial: {kind!r}, not {', '.join(self) or 'none'}")
        return self[kind]


@dataclass(frozen=True, repr=False)
class Outcome:
    """The outcome of a trial: how it ended, when it was solved, its final errors, curve and measures.

    Args:
        trial: the trial.
        state: ``solved``, ``unsolved``, ``diverged``, ``failed`` or ``interrupted``.
        solved_at: the first checked step at which the trial was solved, or None.
        test_error: the exact fraction of held-out examples wrong at the end (with clean labels), or None. An output
            for a real-valued label, as in ``MonomialSum``, is wrong if it is off by more than 1/2. For a task that
            declares ``targets``, the outcome has the attributes ``test_loss`` and ``train_loss`` instead of errors.
        train_error: the same for the first 10^4 or so examples of the sample (labels as in training); None if online.
        steps: how many steps were taken; for a diverged trial, the step at which its outputs stopped being finite.
        seconds: the trial's share of the engine's time, in seconds.
        evaluation_seconds: the part of it spent on held-out evaluation.
        engine: the engine that trained it.
        error: the traceback of a failed trial, or None.
        curve: the minibatch loss and error during training.
        errors: the train and held-out error during training.
        measures: the measured quantities by kind or class of probe: ``step``, and for each name one value per
            measurement, as a list; arrays read from a store are one array with one row per measurement.
        parameters: the final parameters as NumPy arrays, if the trial was trained in this process.
    """

    trial: Trial
    state: State
    solved_at: int | None = None
    test_error: float | None = None
    train_error: float | None = None
    steps: int = 0
    seconds: float = 0.0
    evaluation_seconds: float = 0.0
    engine: str | None = None
    error: str | None = None
    curve: Curve = field(default_factory=Curve)
    errors: ErrorCurve = field(default_factory=ErrorCurve)
    measures: dict[str, dict[str, Any]] = field(default_factory=dict)
    parameters: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "measures", Measures(self.measures))

    def __repr__(self) -> str:
        """Return in a few lines how the trial ended and what the outcome contains, without the numbers."""
        facts = self._facts()
        names = ("test error", "train error", "test loss", "train loss")
        errors = [f"{name} {facts[name]}" for name in names if facts[name] is not None]
        ending = [str(facts["state"]), f"{facts['steps']} steps", *errors]
        lines = [f"Outcome({', '.join(ending)}; {span(self.seconds)} on {self.engine}"]
        lines.append(", ".join(f"{name}={label}" for name, label in labels(self.trial).items()))
        contents = [repr(self.curve), repr(self.errors)]
        if self.measures:
            counts = (f"{kind} ({len(columns.get('step', ()))} times)" for kind, columns in self.measures.items())
            contents.append("measures " + ", ".join(counts))
        if self.parameters is not None:
            contents.append(repr(self.network))
        lines.append("; ".join(contents))
        if self.error:
            lines.append(str(facts["error"]))
        return "\n  ".join(lines) + ")"

    def _facts(self) -> dict[str, Any]:
        last_line = "".join((self.error or "").strip().splitlines()[-1:])
        return {
            "state": self.state if self.solved_at is None else f"{self.state} at step {self.solved_at:,}",
            "steps": f"{self.steps:,}",
            "test error": None if self.test_error is None else f"{self.test_error:.4g}",
            "train error": None if self.train_error is None else f"{self.train_error:.4g}",
            "test loss": None if self.test_loss is None else f"{self.test_loss:.4g}",
            "train loss": None if self.train_loss is None else f"{self.train_loss:.4g}",
            "time": f"{span(self.seconds)} on {self.engine}",
            **labels(self.trial),
            "measures": ", ".join(self.measures) or None,
            "error": brief(last_line, LONGEST_LINE) if self.error else None,
        }

    def _repr_html_(self) -> str:
        return card("Outcome", self._facts(), self.curve.drawing())

    @property
    def solved(self) -> bool:
        """Whether the trial was solved at some step (training may have continued)."""
        return self.solved_at is not None

    @property
    def test_loss(self) -> float | None:
        """The mean loss on held-out examples at the end, if the task has real-valued targets; else None."""
        return self._final_loss("test")

    @property
    def train_loss(self) -> float | None:
        """The same on the first 10^4 or so examples of the sample; None if online."""
        return self._final_loss("train")

    def _final_loss(self, part: str) -> float | None:
        values = self.measures.get(FINAL_LOSS, {}).get(part)
        return None if values is None else float(values[-1])

    @property
    def network(self) -> TrainedNetwork:
        """The trained network as a function, with its weights.

        Raises:
            TrialError: the outcome does not have its parameters.
        """
        if self.parameters is None:
            remedy = "parameters=None; el.retrain(outcome) trains it again"
            raise TrialError(f"an outcome must hold its parameters: {remedy}")
        return TrainedNetwork(self.trial, self.parameters)

    def save(self, path: str | Path) -> Path:
        """Write the final weights as a safetensors file, with the trial and its end as metadata.

        ``el.load_network`` reads it back, with hashes checked.

        Args:
            path: the file; an existing one is replaced once the new one is complete.

        Raises:
            TrialError: the outcome does not have its parameters, or the file cannot be written.
        """
        from elegans.training.weights import write_weights

        facts = {name: getattr(self, name) for name in ("state", "steps", "solved_at", "test_error", "engine")}
        return write_weights(path, self.trial, self.network.weights, **facts)

    @property
    def weights(self) -> Weights:
        """The final parameter arrays by dotted name, as in the network: ``hidden.weight``.

        Raises:
            TrialError: the outcome does not have its parameters.
        """
        return self.network.weights
