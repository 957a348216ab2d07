"""Training of a single trial."""

from collections.abc import Sequence

from elegans.display import note, wanted
from elegans.probes import Probe
from elegans.training.engines import choose, fallback
from elegans.training.loop import OnProgress, check_probes, train_together
from elegans.training.outcome import Outcome
from elegans.training.rehearsal import rehearse
from elegans.training.trial import Trial
from elegans.training.view import following


def train(
    trial: Trial,
    *,
    probes: Sequence[Probe] = (),
    engine: str = "auto",
    watch: OnProgress | None = None,
    progress: bool | None = None,
) -> Outcome:
    """Train one trial and return its outcome, with curve, measures and final parameters.

    Args:
        trial: the trial.
        probes: measures to take during training.
        engine: an engine's name, or ``auto`` for the first that can train the trial.
        watch: called with the outcome so far at each check, for a live display.
        progress: whether to show the progress; by default on a terminal and in a notebook, unless there is ``watch``.

    Raises:
        EngineError: no engine can take the trial.
        TrialError: a probe cannot measure it, or code of yours draws the same random numbers twice.
    """
    check_probes(probes, trial)
    chosen = choose(trial, engine)
    rehearse(trial, probes)
    if wanted(progress, watch is not None) and (reason := fallback(trial, engine)):
        note(reason)
    with following(progress, watch is not None, trial.steps) as advanced:
        outcomes = train_together([trial], chosen, probes=probes, watch=watch, advanced=advanced, keep_parameters=True)
        return next(outcomes)
