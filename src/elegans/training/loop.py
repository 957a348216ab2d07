"""The training loop above all engines: stopping rules, evaluation, curves and probes."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

from elegans.errors import TrialError, article, shown
from elegans.probes import Probe, Snapshot
from elegans.training.engines.base import Chunk, ChunkRequest, Engine, Interval, next_event
from elegans.training.evaluation import CURVE_EXAMPLES, LossChecks, StoppingChecks, curve_steps, error_rate
from elegans.training.outcome import BESIDE_QUANTITIES, FINAL_LOSS, Curve, ErrorCurve, Outcome
from elegans.training.states import State
from elegans.training.trial import Trial
from elegans.training.view import Advanced

PACE = 0.2  # maximum number of seconds of a chunk, which is the longest delay of an interruption
FIRST_STEPS = 8  # number of steps of the first chunk
DRAWN = "the task's draw"  # name of a value that the measurements of a trial share

OnProgress = Callable[[Outcome], None]


def train_together(
    trials: Sequence[Trial],
    engine: Engine,
    *,
    probes: Sequence[Probe] = (),
    stopped: Callable[[], bool] = lambda: False,
    watch: OnProgress | None = None,
    advanced: Advanced | None = None,
    keep_parameters: bool = False,
) -> Iterator[Outcome]:
    """Train trials that share a signature side by side, and yield each outcome when it is known.

    Args:
        trials: at least one; the engine must be able to train all of them.
        engine: the engine.
        probes: measures to take during training, checked by ``check_probes``.
        stopped: called about every fifth of a second; once it is True, the remaining trials end as ``interrupted``.
        watch: called with the outcome so far at each check (with its curve and measures).
        advanced: called after each chunk of steps, about every fifth of a second.
        keep_parameters: whether outcomes carry the final parameters.
    """
    yield from _Loop(trials, engine, probes, stopped, watch, advanced, keep_parameters).run()


def check_probes(probes: Sequence[Probe], trial: Trial) -> None:
    """Refuse probes that cannot measure a trial.

    Raises:
        TrialError: states the rule and the value.
    """
    for probe in probes:
        try:
            probe.check(trial.task, trial.model)
        except TrialError:
            raise
        except ValueError as error:
            raise TrialError(str(error)) from None


@dataclass
class _Running:
    """A trial under way, with its outcome so far; its fields are the fields of ``Outcome``."""

    trial: Trial
    engine: str
    solved_at: int | None = None
    seconds: float = 0.0
    evaluation_seconds: float = 0.0
    curve: Curve = field(default_factory=Curve)
    errors: ErrorCurve = field(default_factory=ErrorCurve)
    measures: dict[str, dict[str, Any]] = field(default_factory=dict)

    def outcome(self, state: State, steps: int, **final: Any) -> Outcome:
        return Outcome(**vars(self), state=state, steps=steps, **final)


class _Loop:
    def __init__(
        self,
        trials: Sequence[Trial],
        engine: Engine,
        probes: Sequence[Probe],
        stopped: Callable[[], bool],
        watch: OnProgress | None,
        advanced: Advanced | None,
        keep_parameters: bool,
    ) -> None:
        self.engine, self.probes, self.stopped, self.watch = engine, probes, stopped, watch
        self.advanced, self.keep_parameters = advanced, keep_parameters
        self.steps, self.stopping = trials[0].steps, trials[0].stopping
        self.clock = time.perf_counter()
        self.state = engine.init(trials)
        self.running: list[_Running | None] = [_Running(trial, engine.name) for trial in trials]
        self.real = trials[0].task.targets is not None
        self.held_out = (LossChecks if self.real else StoppingChecks)(len(trials), self.stopping)
        self.step = 0
        self.pace = FIRST_STEPS
        self.intervals: list[Interval] = []
        self.since_point: list[Interval] = []
        batch_size = getattr(trials[0].training, "batch_size", 1)
        self.points = list(curve_steps(self.steps, batch_size, engine.point_cost))
        self.chunk = Chunk([], [])
        self.memories: dict[str, dict[str, Any]] = {}

    def run(self) -> Iterator[Outcome]:
        self._measure()
        while any(self.running):
            self._advance()
            if self.advanced is not None:
                self.advanced(self.step, sum(running is not None for running in self.running))
            if self.stopped():
                for position, _ in list(self._current()):
                    yield self._end(position, "interrupted", steps=self.step)
                return
            at_point = bool(self.points) and self.step >= self.points[0]
            if self.step < self.steps and not at_point and not self._is_due():
                continue
            yield from self._end_diverged()
            if not any(self.running):
                return
            if at_point:
                self._record_errors()
            self._measure()
            if self.step % self.stopping.every == 0 or self.step == self.steps:
                yield from self._check()
            self._drop_ended()

    def _is_due(self) -> bool:
        """Return whether a check or a measurement is due now."""
        return self.step % self.stopping.every == 0 or any(probe.due(self.step) for probe in self.probes)

    def _advance(self) -> None:
        """Advance by a chunk short enough for an interruption."""
        begun, first = time.perf_counter(), self.step
        watched = self.watch is not None
        undecided = self._undecided()
        plan = ChunkRequest(
            first, self.steps, self.pace, PACE, self.stopping, self.probes, undecided, watched, self.points
        )
        self.state, self.chunk = self.engine.advance(self.state, plan)
        self._take(self.chunk)
        spent = time.perf_counter() - begun
        if spent < PACE / 2:
            self.pace = min(self.pace * 2, 2**30)
        elif spent > PACE:
            self.pace = max(1, int((self.step - first) * PACE / spent))
        if len(self.running) == 1 and self.chunk.diverged_at[0] >= 0:  # further steps do not change it
            self.step = next_event(int(self.chunk.diverged_at[0]), self.steps, [self.stopping.every], self.probes)

    def _take(self, chunk: Chunk) -> None:
        checks = 0
        if chunk.points is None:
            self.since_point.extend(chunk.intervals)
        else:
            self.since_point = list(chunk.since_point)
            for _, running in self._current():
                running.errors.extend(chunk.points)
            del self.points[: len(chunk.points.step)]
        for interval in chunk.intervals:
            self.step += interval.steps
            self.intervals.append(interval)
            if chunk.checked and self.step % self.stopping.every == 0:
                self._record_curve()
                checks += 1
        if checks > (chunk.mistakes is not None):
            self.held_out.take(None)
        if chunk.evaluation_seconds:
            self._charge_evaluation(chunk.evaluation_seconds)
        for _, running in self._current():
            for kind, columns in chunk.measures.items():
                for name, values in columns.items():
                    running.measures[kind][name].extend(values)

    def _current(self) -> Iterator[tuple[int, _Running]]:
        return ((position, trial) for position, trial in enumerate(self.running) if trial is not None)

    def _charge(self) -> None:
        now = time.perf_counter()
        current = [running for _, running in self._current()]
        for running in current:
            running.seconds += (now - self.clock) / len(current)
        self.clock = now

    def _end_diverged(self) -> Iterator[Outcome]:
        for position, _ in list(self._current()):
            if self.chunk.diverged_at[position] >= 0:
                yield self._end(position, "diverged", steps=int(self.chunk.diverged_at[position]))

    def _check(self) -> Iterator[Outcome]:
        self._record_curve()
        begun = time.perf_counter()
        at_end = self.step == self.steps
        solved = self._decide(at_end)
        for position, running in self._current():
            if solved[position] and running.solved_at is None:
                running.solved_at = self.step
        ending = [
            position
            for position, running in self._current()
            if at_end or (running.solved_at is not None and self.stopping.stop)
        ]
        errors = self._final_errors() if ending else None
        self._charge_evaluation(time.perf_counter() - begun)
        if self.watch is not None:
            self._charge()
            for _, running in self._current():
                self.watch(running.outcome("interrupted", self.step))
        for position in ending:
            assert errors is not None
            running_now = self.running[position]
            assert running_now is not None
            state: State = "unsolved" if running_now.solved_at is None else "solved"
            final = {"test": float(errors[0][position]), "train": errors[1][position]}
            if self.real:
                columns = {name: [value] for name, value in final.items() if value is not None}
                running_now.measures[FINAL_LOSS] = {"step": [self.step], **columns}
                final = {}
            yield self._end(position, state, self.step, **{f"{name}_error": value for name, value in final.items()})

    def _undecided(self) -> bool:
        return any(running.solved_at is None for _, running in self._current())

    def _decide(self, at_end: bool) -> Bool[np.ndarray, " trials"]:
        """Return which trials are now solved, by the engine's check or by counting."""
        undecided = self._undecided()
        if undecided and self.chunk.checked and self.step % self.stopping.every == 0:
            return self.held_out.take(self.chunk.mistakes)
        if undecided or at_end:  # the final error uses these counts
            return self.held_out.decide(self._wrong_on("test"))
        return np.zeros(len(self.running), bool)

    def _charge_evaluation(self, seconds: float) -> None:
        current = [running for _, running in self._current()]
        for running in current:
            running.evaluation_seconds += seconds / len(current)

    def _final_errors(self) -> tuple[Float[np.ndarray, " trials"], list[float | None]]:
        """Return each network's exact test error, and its error on the sample (None for online trials)."""
        test = self.held_out.error(self._wrong_on("test"))
        sizes = [_sample_size(running.trial) if running else None for running in self.running]
        train: list[float | None] = [None] * len(sizes)
        for size in {size for size in sizes if size is not None}:
            errors = error_rate(self._wrong_on("sample"), len(sizes), min(size, self.stopping.examples))
            train = [float(new) if of == size else old for new, old, of in zip(errors, train, sizes, strict=True)]
        return test, train

    def _end(self, position: int, state: State, steps: int, **final: Any) -> Outcome:
        if self.probes and state != "interrupted":
            self._measure(position)
        if state in ("solved", "unsolved"):
            self._record_errors(position)
        self._charge()
        running = self.running[position]
        assert running is not None
        if self.keep_parameters:
            final["parameters"] = self.engine.parameters(self.state)[position]
        if self.memories:
            self.memories.pop(running.trial.identity, None)
        self.running[position] = None
        return running.outcome(state, steps, **final)

    def _record_curve(self) -> None:
        intervals, self.intervals = self.intervals, []
        if not intervals:
            return
        _, loss, error = _merge(intervals)
        for position, running in self._current():
            running.curve.add(self.step, float(loss[position]), float(error[position]))

    def _record_errors(self, only: int | None = None) -> None:
        """Evaluate a point of the curves of errors: of every network where one is due, or of one that ends."""
        current = [running for position, running in self._current() if only in (None, position)]
        if self.since_point and any(running.errors.step[-1:] != [self.step] for running in current):
            begun = time.perf_counter()
            self._add_point(error_rate(self._wrong_on("test"), len(self.running), CURVE_EXAMPLES), only)
            self._charge_evaluation(time.perf_counter() - begun)

    def _add_point(self, test_error: Float[np.ndarray, " trials"], only: int | None = None) -> None:
        while self.points and self.points[0] <= self.step:
            del self.points[0]
        _, loss, error = _merge(self.since_point)
        for position, running in self._current():
            if only in (None, position):
                running.errors.add(
                    self.step, float(loss[position]), float(error[position]), float(test_error[position])
                )
        if only is None:
            self.since_point = []

    def _measure(self, only: int | None = None) -> None:
        """Take the measurements that are due of every network, or all measurements of one that ends."""
        due = [probe for probe in self.probes if only is not None or probe.due(self.step)]
        if not due:
            return
        parameters: list[Any] = []
        answers: dict[tuple[str, bytes], np.ndarray] = {}

        def read(position: int) -> Any:
            if not parameters:
                parameters.extend(self.engine.parameters(self.state))
            return parameters[position]

        for position, running in self._current():
            if only is not None and position != only:
                continue
            snapshot = self._snapshot(position, running.trial, partial(read, position), answers)
            for probe in due:
                columns = running.measures.setdefault(probe.kind, {"step": []})
                if columns["step"] and columns["step"][-1] == self.step:
                    continue
                measures = _measure(probe, snapshot)
                _refuse_change(probe, columns, measures, self.step)
                columns["step"].append(self.step)
                for name, value in measures.items():
                    columns.setdefault(name, []).append(value)

    def _snapshot(
        self, position: int, trial: Trial, read: Callable[[], Any], answers: dict[tuple[str, bytes], np.ndarray]
    ) -> Snapshot:
        def wrong(stream: str, index: np.ndarray) -> Shaped[np.ndarray, " count"]:
            # an engine answers for all of its networks at once, so each question is asked only once
            question = stream, index.tobytes()
            if question not in answers:
                indices = np.broadcast_to(index, (len(self.running), len(index)))
                answers[question] = self.engine.wrong(self.state, stream, indices)
            return np.asarray(answers[question][position])

        return snapshot(trial, self.step, read, wrong, self.memories.setdefault(trial.identity, {}))

    def _wrong_on(self, stream: str) -> Callable[[np.ndarray], np.ndarray]:
        return lambda index: self.engine.wrong(self.state, stream, index)

    def _drop_ended(self) -> None:
        """Once half of the batch has ended, continue with only the other half."""
        left = [position for position, _ in self._current()]
        if left and 2 * len(left) <= len(self.running):
            self.state = self.engine.select(self.state, left)
            self.held_out.select(left)
            self.running = [self.running[position] for position in left]
            for intervals in (self.intervals, self.since_point):
                for number, (steps, loss, error) in enumerate(intervals):
                    columns = [loss[position] for position in left], [error[position] for position in left]
                    intervals[number] = Interval(steps, *columns)


def snapshot(
    trial: Trial, step: int, read: Callable[[], Any], wrong: Callable[[str, np.ndarray], Any], memory: dict[str, Any]
) -> Snapshot:
    """Return the snapshot of a trial's network at a step; the other arguments are as in ``Snapshot``."""
    task, regime = trial.task, trial.regime
    if DRAWN not in memory:
        memory[DRAWN] = task.draw(trial.key("task"))
    return Snapshot(step, task, trial.model, memory[DRAWN], _sample_size(trial), trial.key, read, wrong, memory, regime)


def _merge(intervals: Sequence[Interval]) -> Interval:
    if len(intervals) == 1:
        return intervals[0]
    lengths = np.array([interval.steps for interval in intervals], float)
    steps = lengths.sum()
    loss = lengths @ np.array([interval.loss for interval in intervals]) / steps
    return Interval(int(steps), loss, lengths @ np.array([interval.error for interval in intervals]) / steps)


def _sample_size(trial: Trial) -> int | None:
    return trial.regime.sample_size(trial.task)


def _measure(probe: Probe, snapshot: Snapshot) -> Mapping[str, Any]:
    """Return a probe's measures; refuse, naming the probe, anything other than numbers by name."""
    measures = probe.measure(snapshot)
    rule = f"the probe {probe.kind!r} must return numbers or arrays by name"
    if not isinstance(measures, Mapping):
        raise TrialError(f"{rule}: got {article(type(measures).__name__)}")
    for name, value in measures.items():
        if not isinstance(name, str) or not name or not name.isprintable() or name in BESIDE_QUANTITIES:
            raise TrialError(f"the probe {probe.kind!r} must give each quantity its own name: {shown(name)}")
        if getattr(value, "dtype", np.asarray(value).dtype).kind not in "biufc":
            raise TrialError(f"{rule}: {name}={shown(value)}")
    return measures


def _refuse_change(probe: Probe, before: Mapping[str, list[Any]], now: Mapping[str, Any], step: int) -> None:
    if not before["step"]:
        return
    if changes := sorted(now.keys() ^ before.keys() - {"step"}):
        rule = f"the probe {probe.kind!r} must measure the same quantities at all steps"
        raise TrialError(f"{rule}: {shown(changes[0])} is {'new' if changes[0] in now else 'missing'} at step {step}")
    for name, value in now.items():
        if np.shape(before[name][-1]) != np.shape(value):
            rule = f"the probe {probe.kind!r} must measure {name!r} in a constant shape"
            raise TrialError(f"{rule}: {np.shape(before[name][-1])} before, {np.shape(value)} at step {step}")
