"""The cost of a trial on this machine: short trainings measure a step, a check and a measurement."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elegans.probes import Probe
from elegans.training.engines import Engine, choose
from elegans.training.loop import train_together
from elegans.training.trial import Trial

INTERVAL = 0.02
"""Seconds between two checks while the cost of a step is measured."""


@dataclass(frozen=True)
class Cost:
    """The measured costs of a trial, in seconds of one worker.

    Args:
        step: the cost of a training step.
        check: the cost of a check of the stopping rule, while most examples are still wrong.
        probes: the cost of one measurement by each probe.
    """

    step: float
    check: float
    probes: tuple[float, ...]

    def of(self, trial: Trial, probes: Sequence[Probe]) -> float:
        """Return the cost of a trial that uses all its steps."""
        checks = trial.steps // trial.stopping.every + 1
        measured = sum(cost * (trial.steps // probe.every + 1) for cost, probe in zip(self.probes, probes, strict=True))
        return trial.steps * self.step + checks * self.check + measured


def cost_of(cell: Trial, seeds: Sequence[int], probes: Sequence[Probe], budget: float) -> Cost:
    """Return the costs of steps, checks and measurements of a cell's trials, for one worker.

    Args:
        cell: the trial.
        seeds: its seeds; as many train side by side as the engine allows.
        probes: its probes.
        budget: seconds for measuring, shared by the probes.
    """
    engine = choose(cell)
    together = [cell.with_seed(seed) for seed in seeds[: engine.together(cell)]]
    if cell.training is None:
        step, check = _step(together, engine, budget)
        return Cost(step, check, tuple(0.0 for _ in probes))
    together = [one.replace("training.stopping.stop", False) for one in together]
    share = budget / (1 + len(probes))
    first, _ = _step([_checked(one, 2) for one in together], engine, share / 3)
    every = int(np.clip(INTERVAL / max(first, 1e-9), 2, max(2, cell.steps // 2)))
    calm = [_checked(one, every) for one in together]
    step, check = _step(calm, engine, share)
    extra = [_step(calm, engine, share, (probe.replace("every", every),)) for probe in probes]
    return Cost(step, check, tuple(max(0.0, (slower - step) * every) for slower, _ in extra))


def _checked(trial: Trial, every: int) -> Trial:
    return trial.replace("training.stopping.every", min(every, trial.steps))


def _step(trials: Sequence[Trial], engine: Engine, budget: float, probes: Sequence[Probe] = ()) -> tuple[float, float]:
    """Return the seconds of a step and of a check per trial, without compilation."""
    seen: list[tuple[int, float, float]] = []

    def watch(outcome: Any) -> None:
        if outcome.trial.seed == trials[0].seed:
            seen.append((outcome.steps, outcome.seconds, outcome.evaluation_seconds))

    def over() -> bool:
        return len(seen) > 1 and time.perf_counter() > deadline

    deadline = time.perf_counter() + budget
    outcomes = list(train_together(trials, engine, probes=probes, stopped=over, watch=watch))
    if len(seen) < 2:
        return max(one.seconds for one in outcomes) / max(1, outcomes[0].steps), 0.0
    (first, *_), (last, *_) = seen[0], seen[-1]
    seconds, evaluation = (seen[-1][place] - seen[0][place] for place in (1, 2))
    return max(0.0, seconds - evaluation) / max(1, last - first), evaluation / (len(seen) - 1)
