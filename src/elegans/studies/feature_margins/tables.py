"""Tables shared by these experiments: margins during training, and properties of the trained networks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from elegans.analysis import describe, proportion, round_significant
from elegans.experiments import Results, Tables
from elegans.studies.feature_margins.families import largest_margin, optimum_of
from elegans.training import Trial
from elegans.training.states import FINISHED

MEASUREMENTS = 200
"""How many times the margin is measured."""
NEGLIGIBLE = 0.05
"""Below this share of the largest norm a neuron counts as inactive."""
SINGLE = 0.99
"""The share of power from which on a neuron counts as one of a single frequency or irrep."""
middle, rounded = partial(describe, digits=6), partial(round_significant, digits=6)
THEORY = ("gamma", "optimum", "optimum_margin", "optimum_mass")


def networks(results: Results, describe: Callable[[Trial], dict[str, Any]]) -> pd.DataFrame:
    """Return one row per completed trial, including diverged ones, with the index of ``results.trials``.

    Columns: the trial's description, ``seed``, ``state``, and theoretical values, NaN where unknown: ``gamma``
    and, of the exact optimum at the trial's penalty, ``optimum`` (its ratio), ``optimum_margin`` and ``optimum_mass``.
    """
    ended = results.trials[results.trials["state"].isin(FINISHED)]
    rows = []
    for index, state in zip(ended.index.tolist(), ended["state"], strict=True):
        trial = results.trial(index)
        best, gamma = optimum_of(trial), largest_margin(trial.task, trial.model)
        values = (np.nan,) * 4 if best is None else (gamma, best.ratio, best.margin, best.mass)
        theory = dict(zip(THEORY, values, strict=True))
        rows.append({**describe(trial), "seed": trial.seed, "state": state, **theory})
    return pd.DataFrame(rows, index=ended.index)


def margins(results: Results, ended: pd.DataFrame) -> pd.DataFrame:
    """Return one row per trial and measured step, with the columns of ``networks``.

    Columns: ``step``, ``normalised`` (the normalised margin), ``ratio`` (to gamma*), ``margin``, ``mass`` (sum
    ||omega||^nu), ``accuracy`` and ``spread`` (the largest margin minus the smallest).
    """
    names = ["normalised", "margin", "mass", "accuracy", "spread"]
    measures = results.measures["normalised-margin"].rename(columns={"norm": "mass"}).set_index("trial")
    rows = ended.join(measures[["step", *names]].astype(dict.fromkeys(names, float)), how="inner")
    return rows.assign(ratio=rows["normalised"] / rows["gamma"]).reset_index(drop=True)


def measured(results: Results, ended: pd.DataFrame, kind: str, keep: Literal["first", "last"] = "last") -> pd.DataFrame:
    """Return the first or last measurement of a probe in each trial that did not diverge."""
    rows = results.measures[kind]
    rows = rows[rows["trial"].isin(ended.index[ended["state"] != "diverged"])]
    return rows.drop_duplicates("trial", keep=keep).set_index("trial").drop(columns="seed")


def described(ended: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of trials, with the trials' description and ``seed``."""
    return ended.drop(columns=["state", *THEORY]).join(rows, how="inner").reset_index(drop=True)


def unfolded(ended: pd.DataFrame, columns: Mapping[str, Any], index: pd.Index) -> pd.DataFrame:
    """Return one row per entry of columns whose values are arrays, one per trial."""
    rows = pd.DataFrame({name: pd.Series(list(cells), index, dtype=object) for name, cells in columns.items()})
    return described(ended, rows.explode(list(columns)).infer_objects())


def neurons(results: Results, ended: pd.DataFrame, kind: str, *others: str) -> pd.DataFrame:
    """Return one row per neuron: its largest share of power at the end and the start, and whether it is ``kept``.

    ``size`` is its norm as a share of the largest; inactive neurons are not kept.

    Args:
        results: the results.
        ended: see ``networks``.
        kind: the probe that measured the powers.
        others: further quantities that it measured, by name.
    """
    last, first = measured(results, ended, kind), measured(results, ended, kind, "first")
    columns = {
        "neuron": [np.arange(len(powers)) for powers in last["power"]],
        "power": last["power"],
        "initial_power": first["power"],
        "size": last["size"],
        "kept": [np.asarray(sizes) > NEGLIGIBLE for sizes in last["size"]],
    }
    return unfolded(ended, columns | {name: last[name] for name in others}, last.index)


def features(
    results: Results, ended: pd.DataFrame, kind: str, named: Callable[[Trial], Mapping[str, Sequence[Any]]]
) -> pd.DataFrame:
    """Return one row per feature: its number of neurons, its share of the mass, and the theoretical share.

    Columns: ``neurons``, ``share``, ``theory`` (the share of the exact optimum at the penalty) and the columns that
    ``named`` gives.

    Args:
        results: the results.
        ended: see ``networks``.
        kind: the probe that measured the shares.
        named: of a trial: more columns, such as ``feature`` and ``limit`` (the share at gamma*), one entry per feature.
    """
    last = measured(results, ended, kind)
    rows: list[dict[str, Any]] = []
    for trial, counts in zip(map(results.trial, last.index.tolist()), last["neurons"], strict=True):
        best = optimum_of(trial)
        rows.append({**named(trial), "theory": np.full(len(counts), np.nan) if best is None else best.shares})
    theory = pd.DataFrame(rows, index=last.index)
    return unfolded(ended, {**theory, "neurons": last["neurons"], "share": last["share"]}, last.index)


def summary(results: Results, ended: pd.DataFrame, quantities: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Return one row per trial that did not diverge: quantities measured at its end, by kind of probe."""
    ends = [measured(results, ended, kind)[list(names)].astype(float) for kind, names in quantities.items()]
    return described(ended, pd.concat(ends, axis=1))


def by_network(tables: Tables, names: Sequence[str]) -> Iterator[tuple[Any, Tables]]:
    """Yield the parts of all tables with equal entries in some columns, and these entries."""
    for key, _ in tables["margins"].groupby(list(names), sort=False):
        yield key, {kind: table[(table[list(names)] == list(key)).all(axis=1)] for kind, table in tables.items()}


def reached(tables: Tables, quantities: Sequence[str]) -> dict[str, Any]:
    """Return how close the networks of a cell are to theory, for ``record.json``.

    ``ratio`` is the normalised margin over gamma*, ``optimum`` the same for the exact optimum at the penalty,
    ``of_optimum`` the ratio of the two; margins and masses come with the optimum's.

    Args:
        tables: of one cell.
        quantities: columns of its summary.
    """
    curves = tables["margins"]
    diverged = curves["state"] == "diverged"
    last = curves[~diverged].groupby("seed").last()
    distances: dict[str, Any] = {
        "trials": int(curves["seed"].nunique()),
        "diverged": int(curves[diverged]["seed"].nunique()),
        "accuracy": middle(last["accuracy"]),
        "normalised_margin": middle(last["normalised"], digits=8),
    }
    if not last["gamma"].isna().all():
        distances |= {
            "gamma": rounded(last["gamma"].iloc[0]),
            "ratio": middle(last["ratio"]),
            "optimum": rounded(last["optimum"].iloc[0]),
            "of_optimum": middle(last["ratio"] / last["optimum"]),
            "mass": middle(last["mass"]),
            "optimum_mass": rounded(last["optimum_mass"].iloc[0]),
            "margin": middle(last["margin"]),
            "optimum_margin": rounded(last["optimum_margin"].iloc[0]),
        }
    return distances | {name: middle(tables["summary"][name]) for name in quantities}


def pure(tables: Tables) -> dict[str, Any]:
    """Return in how many trials all active neurons have a single feature, and how pure they were initially."""
    neurons, active = tables["neurons"], tables["neurons"]["kept"].astype(bool)
    return {
        "initial_power.mean": middle(neurons.groupby("seed")["initial_power"].mean()),
        "single": proportion(neurons[active].groupby("seed")["power"].min() >= SINGLE),
    }


def present(features: pd.DataFrame, count: int) -> dict[str, Any]:
    """Return in how many trials of a cell each of so many features has a neuron."""
    return proportion(features[features["neurons"] > 0].groupby("seed").size() >= count)
