"""When networks fit their training set, and when they know the rest of the table."""

import pandas as pd

from elegans.analysis import error_courses
from elegans.experiments import Results
from elegans.probes import HeldOutErrorRate, Probe, TrainErrorRate
from elegans.studies.modular_grokking.settings import FITTED, SOLVED
from elegans.training import Trial


def error_probes(trial: Trial) -> tuple[Probe, ...]:
    """Return the two errors, of all pairs, whenever the stopping rule is checked."""
    rule, size = trial.stopping, trial.regime.sample_size(trial.task)
    assert size is not None
    return TrainErrorRate(every=rule.every, examples=size), HeldOutErrorRate(every=rule.every, examples=rule.examples)


def error_tables(results: Results) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return both errors by step, as ``error_courses``, and their last row of each trial, indexed by it.

    The latter has in addition ``test_error_when_fitted``, NaN where the training set is not fitted.
    """
    trials = results.trials.assign(place=results.trials.index)
    courses = error_courses(trials, results.measures, ["place", "seed"], train=FITTED, test=SOLVED)
    fitted = courses[courses["step"] == courses["train_at"]].groupby("place")["test_error"].first()
    last = courses.groupby("place").last()
    return courses, last.assign(test_error_when_fitted=fitted.reindex(last.index))
