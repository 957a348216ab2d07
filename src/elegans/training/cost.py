"""The cost of a trial on this machine: short trainings measure a step, a check and a measurement."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from elegans.probes import Probe
from elegans.tasks import Sample
from elegans.training.engines import Engine, choose
from elegans.training.layerwise.base import Layerwise
from elegans.training.loop import train_together
from elegans.training.outcome import Outcome
from elegans.training.trial import Trial

INTERVAL = 0.02  # seconds between two checks while the cost of a step is measured
LARGEST_PASS = 2**22
"""Maximum number of inputs' entries in a sample that is passed over while the cost is measured."""
PASSES = 2  # steps of a layerwise training that pass over its sample: of the hidden layer, and the readout's first


@dataclass(frozen=True)
class Cost:
    """The measured costs of a trial, in seconds of one worker.

    Args:
        step: the cost of a training step.
        check: the cost of a check of the stopping rule, while most examples are still wrong.
        probes: the cost of one measurement by each probe.
        passes: the cost of the first two steps of a layerwise training, which pass over the whole sample; else None.
    """

    step: float
    check: float
    probes: tuple[float, ...]
    passes: float | None = None

    def of(self, trial: Trial, probes: Sequence[Probe]) -> float:
        """Return the cost of a trial that uses all its steps."""
        steps = trial.steps if self.passes is None else trial.steps - PASSES
        checks = trial.steps // trial.stopping.every + 1
        measures = sum(cost * (trial.steps // probe.every + 1) for cost, probe in zip(self.probes, probes, strict=True))
        return (self.passes or 0.0) + steps * self.step + checks * self.check + measures


def cost_of(cell: Trial, seeds: Sequence[int], probes: Sequence[Probe], budget: float, workers: int = 1) -> Cost:
    """Return the costs of steps, checks and measurements of a cell's trials, for one worker.

    As many trainings as there are workers are timed at once, since they may share cores: JAX uses all of them for one
    training. A layerwise training passes over its sample, which may take minutes. We time a smaller sample, and scale
    its passes.

    Args:
        cell: the trial.
        seeds: its seeds; as many train side by side as the engine allows.
        probes: its probes.
        budget: seconds for measuring, shared by the probes.
        workers: the number of workers that train at the same time.
    """
    engine = choose(cell)
    seeds = seeds[: engine.together(cell)]
    if cell.training is None:
        step, check = _step([cell.with_seed(seed) for seed in seeds], engine, budget, workers)
        return Cost(step, check, tuple(0.0 for _ in probes))

    def trials(every: int) -> list[Trial]:
        trial = cell.replace("training.stopping.stop", False)
        trial = trial.replace("training.stopping.every", min(every, cell.steps))
        return [trial.with_seed(seed) for seed in seeds]

    share, passes = budget / (1 + len(probes)), None
    if isinstance(cell.training, Layerwise):
        larger = 1.0
        if isinstance(cell.regime, Sample):
            size = max(1, min(cell.regime.size, LARGEST_PASS // cell.task.input_size))
            cell, larger = cell.replace("regime.size", size), cell.regime.size / size
        short = cell.replace("training.steps", PASSES).with_seed(seeds[0])
        passes = larger * sum(outcome.seconds for outcome in train_together([short], engine))
    first, _ = _step(trials(2), engine, share / 3, workers)
    every = int(np.clip(INTERVAL / max(first, 1e-9), 2, max(2, cell.steps // 2)))
    step, check = _step(trials(every), engine, share, workers)
    timed = partial(_step, trials(every), engine, share, workers)
    slower = [timed((probe.replace("every", every),))[0] for probe in probes]
    return Cost(step, check, tuple(max(0.0, (seconds - step) * every) for seconds in slower), passes)


def _step(
    trials: Sequence[Trial], engine: Engine, budget: float, workers: int, probes: Sequence[Probe] = ()
) -> tuple[float, float]:
    """Return the seconds of a step and of a check per trial, without compilation, while all workers train."""
    timed = partial(_timed, trials, engine, budget, probes)
    with ThreadPoolExecutor(workers) as pool:
        steps, checks = zip(*(future.result() for future in [pool.submit(timed) for _ in range(workers)]), strict=True)
    return float(np.mean(steps)), float(np.mean(checks))


def _timed(trials: Sequence[Trial], engine: Engine, budget: float, probes: Sequence[Probe]) -> tuple[float, float]:
    checks: list[Outcome] = []

    def watch(outcome: Outcome) -> None:
        if outcome.trial.seed == trials[0].seed:
            checks.append(outcome)

    def over() -> bool:
        return len(checks) > 1 and time.perf_counter() > deadline

    deadline = time.perf_counter() + budget
    outcomes = list(train_together(trials, engine, probes=probes, stopped=over, watch=watch))
    if len(checks) < 2:
        return max(outcome.seconds for outcome in outcomes) / max(1, outcomes[0].steps), 0.0
    first, last = checks[0], checks[-1]
    seconds, evaluation = last.seconds - first.seconds, last.evaluation_seconds - first.evaluation_seconds
    return max(0.0, seconds - evaluation) / max(1, last.steps - first.steps), evaluation / (len(checks) - 1)
