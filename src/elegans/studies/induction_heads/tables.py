"""Parts of tables that these experiments share: learning curves of losses and distances, and summaries of trials."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from elegans.analysis import describe, proportion
from elegans.experiments import Results
from elegans.training import Trial
from elegans.training.states import FINISHED

STRATEGIES = ("distance.", "reverse.", "line.")
"""The prefix of columns about strategies."""
MASSES = {"previous": "layer1.previous", "induction": "layer2.induction"}
MIRRORED = 0.5
"""A first layer whose previous-token mass, relative to uniform attention, is below this attends to all other tokens."""
EARLY, BEFORE = 0.6, 0.9
"""The shares of the time to the transition at which a plateau is taken to end, and shortly before the drop."""


def measured(results: Results, kind: str) -> pd.DataFrame:
    """Return one kind of measure of all completed trials, including diverged ones."""
    found = results.measures[kind]
    return found[found["trial"].map(results.trials["state"]).isin(FINISHED)].reset_index(drop=True)


def curves(results: Results, prior: str | None = None) -> pd.DataFrame:
    """Return losses and distances at the last position of held-out sequences, one row per trial and measured step.

    Columns: ``trial``, ``seed``, ``step``, ``sequences`` (how many the trial was trained on), ``k``, ``cell``
    ("k = 2", "k = 2, plain form"), ``loss`` and ``cross_entropy`` in nats; by strategy ``distance.unigram``, …,
    ``reverse.unigram``, … and ``line.unigram``, …; ``phase``, the name of the closest strategy, "none" for a diverged
    network.

    Args:
        results: results of trials whose probes include ``ChainLosses``.
        prior: the label of another distribution of chains to evaluate on, or None for the task's own.
    """
    taken, prefix = measured(results, "chain-losses"), "" if prior is None else f"{prior}."
    names = [name.removeprefix(prefix) for name in map(str, taken) if name.startswith(prefix)]
    kept = [name for name in names if name in ("loss", "cross_entropy") or name.startswith(STRATEGIES)]
    found = taken[["trial", "seed", "step"]].assign(**{name: taken[prefix + name] for name in kept})
    phases = taken[f"{prefix}phase"].map(dict(enumerate(strategies_of(found)))).fillna("none")
    own = results.trials.loc[taken["trial"]].reset_index(drop=True)
    plain = own["model.form"].eq("plain") if "model.form" in own else False
    found.insert(3, "sequences", found["step"] * own["training.batch_size"])
    return found.assign(
        phase=phases, k=own["task.k"], cell="k = " + own["task.k"].astype(str) + np.where(plain, ", plain form", "")
    )


def attention_curves(results: Results) -> pd.DataFrame:
    """Return ``curves`` with attention masses; trials that behave in the same way form one ``series``.

    Besides: ``previous`` and ``induction``, the masses of the first layer on the previous token and of the second on
    what followed the current token, averaged over heads; ``uniform_previous`` and ``uniform_induction``, the same two
    masses for uniform attention; ``series``, the cell, with ", mirrored" of trials whose first layer ends up attending
    to all tokens but the previous one; ``transition``; and whether the trial is its series' ``typical`` one, the one
    with the median transition.
    """
    scores = measured(results, "attention-scores")
    masses = {name: np.stack(list(scores[mass])).mean(axis=1) for name, mass in MASSES.items()}
    uniform = {f"uniform_{name}": scores[f"uniform.{name}"] for name in MASSES}
    found = curves(results).merge(scores[["trial", "step"]].assign(**masses, **uniform), on=["trial", "step"])
    moved = transitions(found)
    found = found.assign(series=series_of(found), transition=found["trial"].map(moved))
    return found.assign(typical=typical(found, moved)).sort_values("series", kind="stable", ignore_index=True)


def series_of(rows: pd.DataFrame) -> pd.Series:
    """Return the cell of each row, with ", mirrored" if the trial's first layer ends up mirrored; see ``MIRRORED``."""
    last = (rows["previous"] / rows["uniform_previous"]).groupby(rows["trial"]).transform("last")
    return rows["cell"] + (last < MIRRORED).map({True: ", mirrored", False: ""})


def typical(rows: pd.DataFrame, values: pd.Series) -> pd.Series:
    """Return which rows belong to their series' trial with the median value (the lower of two); ties by seed.

    Args:
        rows: of all trials, with ``trial``, ``seed`` and ``series``.
        values: by trial; missing ones are infinite. Trials without an entry are not chosen.
    """
    trials = rows.groupby("trial")[["series", "seed"]].first().join(values.rename("value"), how="inner")
    ordered = trials.sort_values(["value", "seed"], na_position="last").groupby("series")
    chosen = ordered.cumcount() == (ordered["seed"].transform("size") - 1) // 2
    return rows["trial"].isin(chosen.index[chosen])


def strategies_of(names: Iterable[Any]) -> list[str]:
    """Return the strategies that columns named ``distance.unigram``, … are about, in order."""
    return [str(name).removeprefix("distance.") for name in names if str(name).startswith("distance.")]


def lines_of(run: pd.DataFrame) -> dict[str, float]:
    """Return the strategies' own losses on a run's held-out sequences, by name."""
    return {name: float(run[f"line.{name}"].iloc[0]) for name in strategies_of(run)}


def transitions(rows: pd.DataFrame, before: str = "unigram", after: str = "bigram") -> pd.Series:
    """Return by trial the first measured step at which the loss is below the middle of two strategies', or NaN.

    Our own measure of the second drop in the thesis' figure 8.1.
    """
    below = rows["loss"] < (rows[f"line.{before}"] + rows[f"line.{after}"]) / 2
    return rows["step"].where(below).groupby(rows["trial"]).min()


def transition(run: pd.DataFrame, before: str = "unigram", after: str = "bigram") -> float:
    """Return the transition of one trial; see ``transitions``."""
    return float(transitions(run, before, after).iloc[0])


def until(run: pd.DataFrame) -> float:
    """Return a run's ``transition``, or its last step where there is none."""
    return float(np.nan_to_num(run["transition"].iloc[0], nan=run["step"].max()))


def plateau_length(run: pd.DataFrame, phase: str = "unigram") -> float:
    """Return for how many steps a strategy is the closest to a trial's network."""
    return float((run["step"].shift(-1) - run["step"])[run["phase"] == phase].sum())


def summaries(
    rows: pd.DataFrame,
    by: str,
    stated: Callable[[pd.DataFrame], dict[str, Any]],
    claims: Callable[[Any], dict[str, bool]],
    *,
    by_series: bool = False,
) -> dict[str, Any]:
    """Return by group for how many trials each claim holds, what each lists, and the spread of their numbers.

    Args:
        rows: one row per trial and measured step.
        by: the column whose values make a group.
        stated: maps the rows of a trial to its summary: numbers, and lists of names.
        claims: maps that to whether each claim holds.
        by_series: whether spreads are by series.
    """
    findings = {}
    for name, group in rows.groupby(by, sort=False):
        runs = {int(run["seed"].iloc[0]): stated(run) for _, run in group.groupby("seed")}
        held = pd.DataFrame({seed: claims(run) for seed, run in runs.items()}).T
        summary = pd.DataFrame.from_dict(runs, orient="index")
        listed = [column for column in summary if isinstance(summary[column].iloc[0], list)]
        numbers = summary.drop(columns=listed)
        series: Any = group.groupby("series", sort=False)["seed"].unique() if by_series else {}
        of_series = {str(key): spreads(numbers.loc[seeds]) for key, seeds in series.items()}
        findings[str(name)] = {
            "claims": {str(claim): proportion(holds) for claim, holds in held.items()},
            **{str(column): {str(seed): names for seed, names in summary[column].items()} for column in listed},
            **({"series": of_series} if by_series else spreads(numbers)),
        }
    return findings


def spreads(numbers: pd.DataFrame) -> dict[str, Any]:
    """Return the number of trials, and the spread of each of their numbers."""
    return {"trials": len(numbers), **describe_columns(numbers)}


def describe_columns(numbers: pd.DataFrame) -> dict[str, Any]:
    """Return ``describe`` of each column."""
    return {str(name): describe(values) for name, values in numbers.items()}


def of_trials(results: Results, rows: pd.DataFrame, value: Callable[[Trial], Any]) -> pd.Series:
    """Return for each row of a table a value of its trial, which is computed once."""
    return rows["trial"].map({index: value(results.trial(index)) for index in rows["trial"].unique()})
