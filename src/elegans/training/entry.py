"""Training one trial by itself."""

from collections.abc import Sequence

from elegans.probes import Probe
from elegans.training.engines import choose
from elegans.training.loop import Watch, check_probes, train_together
from elegans.training.outcome import Outcome
from elegans.training.trial import Trial


def train(trial: Trial, *, probes: Sequence[Probe] = (), engine: str = "auto", watch: Watch | None = None) -> Outcome:
    """Train one trial and return its outcome, with curve, measures and final parameters.

    Args:
        trial: what to train.
        probes: measures to take along the way.
        engine: an engine's name, or ``auto`` for the first that takes the trial.
        watch: called with the outcome so far at each check, for a live display.

    Raises:
        EngineError: no engine can take the trial.
        TrialError: a probe cannot look into it.
    """
    check_probes(probes, trial)
    outcomes = train_together([trial], choose(trial, engine), probes=probes, watch=watch, keep_parameters=True)
    return next(iter(outcomes))
