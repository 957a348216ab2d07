"""What the tables of these experiments share: courses of losses and distances, and what a course comes to."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax

from elegans.analysis import median, median_interval, wilson
from elegans.studies.induction_heads.theory.metrics import transition_step
from elegans.tasks import MarkovChains
from elegans.training import SGD, Adam, Outcome, Trial
from elegans.training.outcome import FINISHED

CONFIDENCE = 0.9
"""Of the intervals of medians: with five trials they are the whole range, which has the median 15 times in 16."""
KINDS = ("distance", "reverse", "line")
PLATEAU, BEFORE = 0.6, 0.9
"""The shares of the time to the transition at which an encoding is shown."""
FARTHEST = 12
"""The largest distance of which an encoding is shown."""


def outcomes_of(trials: pd.DataFrame) -> list[Outcome]:
    """Return the outcomes of the trials that ran to their ends, diverged ones too."""
    return [one for one in trials["outcome"] if one.state in FINISHED]


def course(outcome: Outcome, prior: str | None = None) -> pd.DataFrame:
    """Return a row a measured step: losses and distances on held-out sequences, all about the last position, in nats.

    Columns: ``step``, ``sequences`` (how many were seen), ``loss`` and ``cross_entropy``; by strategy
    ``distance.unigram``, …, ``reverse.unigram``, … and ``line.unigram``, …; ``phase``, the name of the closest
    strategy, "none" of a network that diverged; and, the same in all rows, ``k``, ``length`` and ``seed``.

    Args:
        outcome: of a trial whose probes include ``ChainLosses``.
        prior: the label of another law of chains that the network was tried on, or None for the task's own.
    """
    one, taken = outcome.trial, outcome.measures["chain-losses"]
    assert isinstance(one.task, MarkovChains)
    before = "" if prior is None else f"{prior}."
    names = {str(name).removeprefix(before): name for name in taken if str(name).startswith(before)}
    kept = [name for name in names if name in ("loss", "cross_entropy") or name.partition(".")[0] in KINDS]
    columns = {name: np.asarray(taken[names[name]], float) for name in kept if not name.endswith(".positions")}
    step, closest = np.asarray(taken["step"], int), np.asarray(taken[names["phase"]], float)
    strategies = strategies_of(columns)
    phases = [strategies[int(place)] if np.isfinite(place) else "none" for place in closest]
    found = {"step": step, "sequences": sequences(one, step), **columns, "phase": phases}
    return pd.DataFrame(found).assign(k=one.task.k, length=one.task.length, seed=one.seed)


def sequences(one: Trial, steps: Any) -> Any:
    """Return how many sequences a trial has seen after so many steps."""
    assert isinstance(one.training, SGD | Adam)
    return steps * one.training.batch_size


def runs_of(rows: pd.DataFrame) -> dict[int, pd.DataFrame]:
    """Return the rows of each trial by its seed."""
    return {int(run["seed"].iloc[0]): run for _, run in rows.groupby("seed")}


def strategies_of(names: Any) -> list[str]:
    """Return the strategies that columns named ``distance.unigram``, … are about, in order."""
    return [str(name).removeprefix("distance.") for name in names if str(name).startswith("distance.")]


def lines_of(run: pd.DataFrame) -> dict[str, float]:
    """Return the strategies' own losses on a run's held-out sequences, by name."""
    return {name: float(run[f"line.{name}"].iloc[0]) for name in strategies_of(run)}


def transition(run: pd.DataFrame, before: str = "unigram", after: str = "bigram") -> float:
    """Return the first measured step at which a run's loss is below the middle of two strategies', or NaN.

    Args:
        run: one trial's rows, as ``course`` makes them.
        before: the strategy that is left.
        after: the strategy that is reached.
    """
    lines = lines_of(run)
    found = transition_step(list(run["step"]), list(run["loss"]), lines[before], lines[after])
    return np.nan if found is None else float(found)


def encodings(outcome: Outcome, moved: float) -> pd.DataFrame:
    """Return the effective positional encoding at four moments: a row a moment, symbol and distance, over heads' mean.

    Moments are the beginning, 60% and 90% of the time to the transition, and the end, or shares of the whole training
    where there was none. Columns: ``moment``, ``step``, ``sequences``, ``symbol`` (that asks), ``distance`` (0 is the
    token itself; up to 12) and ``encoding``.

    Args:
        outcome: of a transformer whose probes include ``PositionalProfile``.
        moved: the step of the transition, or NaN.
    """
    taken = outcome.measures["positional-profile"]
    steps = np.asarray(taken["step"], int)
    laws = softmax(np.asarray(taken["logits"], float), axis=-1).mean(axis=1)[:, :, : FARTHEST + 1]
    whole = moved if np.isfinite(moved) else steps[-1]
    parts = []
    for moment, time in {"start": 0, "plateau": PLATEAU * whole, "before": BEFORE * whole, "end": steps[-1]}.items():
        place = int(np.searchsorted(steps, time, side="right")) - 1
        symbol, distance = np.indices(laws.shape[1:])
        at = {"moment": moment, "step": steps[place], "sequences": sequences(outcome.trial, steps[place])}
        columns = {"symbol": symbol.ravel(), "distance": distance.ravel(), "encoding": laws[place].ravel()}
        parts.append(pd.DataFrame(at | columns))
    return pd.concat(parts, ignore_index=True)


def counted(holds: pd.Series) -> dict[str, Any]:
    """Return how many trials something holds of, with the Wilson 95% interval, and those of which it does not."""
    low, high = wilson(int(holds.sum()), len(holds))
    exceptions = [int(seed) for seed in holds.index[~holds.astype(bool)]]
    interval = [round(low, 3), round(high, 3)]
    return {"count": int(holds.sum()), "of": len(holds), "interval": interval, "exceptions": exceptions}


def summary(
    rows: pd.DataFrame,
    stated: Callable[[pd.DataFrame], dict[str, Any]],
    claims: Callable[[dict[str, Any]], dict[str, bool]],
    named: str,
) -> dict[str, Any]:
    """Return what the trials of one series come to: of how many each claim holds, and the spread of what is stated.

    Args:
        rows: a row a look, of all trials.
        stated: from the rows of a trial to what it states: numbers, and one list of names.
        claims: from that to whether each claim holds.
        named: the list of names, which is given trial by trial.
    """
    runs = {int(seed): stated(rows[rows["seed"] == seed]) for seed in rows["seed"].unique()}
    held = pd.DataFrame({seed: claims(one) for seed, one in runs.items()}).T
    numbers = pd.DataFrame(runs).T.drop(columns=named).astype(float)
    return {
        "trials": len(runs),
        "claims": {str(name): counted(held[name]) for name in held},
        named: {str(seed): one[named] for seed, one in runs.items()},
        **{str(quantity): spread(numbers[quantity]) for quantity in numbers},
    }


def spread(values: Any, digits: int = 4) -> dict[str, Any]:
    """Return the median over trials, what was not reached being infinite, its interval of at least 90% and the range.

    The interval is None where there are fewer than five trials.
    """
    numbers = np.asarray(values, float)
    ends = [significant(end, digits) for end in median_interval(numbers, CONFIDENCE)]
    kept = numbers[np.isfinite(numbers)]
    return {
        "median": significant(median(numbers), digits),
        "interval": None if None in ends else ends,
        "range": [significant(end, digits) for end in (kept.min(), kept.max())] if len(kept) else None,
        "reached": f"{len(kept)} of {len(numbers)}",
    }


def significant(number: float, digits: int = 4) -> float | None:
    """Return a number for JSON to so many significant digits, None where it is not finite."""
    return float(f"{number:.{digits}g}") if np.isfinite(number) else None
