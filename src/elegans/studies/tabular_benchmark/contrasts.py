"""Paired differences of errors between two values of one setting, on the same samples and with all else equal."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from elegans.studies.tabular_benchmark.comparisons import SETTINGS, interval
from elegans.studies.tabular_benchmark.settings import FRACTIONS

FEWEST = 5
"""The smallest number of trials for a verdict: the interval's coverage is then 94%, and 75% with 3."""


@dataclass(frozen=True)
class Contrast:
    """The hypothesis that one value of a setting leads to smaller errors than another, all else being equal.

    Args:
        name: in words.
        factor: which of ``SETTINGS``.
        pairs: values (``from``, ``to``) of it, the second claimed to be better.
    """

    name: str
    factor: str
    pairs: tuple[tuple[Any, Any], ...]


CONTRASTS = (
    Contrast("2T: wider is better", "width", ((100, 300), (300, 1000), (1000, 3000), (3000, 10_000), (10_000, 30_000))),
    Contrast("3T: sparse:2 is better than dense", "init", (("dense", "sparse:2"),)),
    Contrast("sparse:2 is better than sparse:4", "init", (("sparse:4", "sparse:2"),)),
    Contrast("depth 2 is better than 1", "depth", ((1, 2),)),
    Contrast("depth 3 is better than 1", "depth", ((1, 3),)),
    Contrast("weight decay 0.01 changes little", "weight_decay", ((0.0, 0.01),)),
    Contrast("adamw is better than sgd", "optimiser", (("sgd", "adamw"),)),
)
"""Published claims on networks; the last one is ours."""


def differences(table: pd.DataFrame, contrast: Contrast) -> pd.DataFrame:
    """Return the paired differences of a contrast: test errors with the second value minus test errors with the first.

    Paired trials have the same table, sample, held-out rows and settings, apart from the factor.

    Returns:
        One row per pair: what the two trials have in common, ``pair`` in words, and ``difference`` in percentage
            points.
    """
    ours = table[(table["learner"] == "network") & table["width"].notna()]
    common = ["table", "reduced", "rows", "fraction", *(name for name in SETTINGS if name != contrast.factor), "seed"]
    pairs: list[pd.DataFrame] = []
    for first, second in contrast.pairs:
        left, right = (ours.loc[ours[contrast.factor] == value, [*common, "test_error"]] for value in (first, second))
        joined = left.merge(right, on=common, suffixes=("_first", "_second"))
        change = 100 * (joined["test_error_second"] - joined["test_error_first"])
        pairs.append(joined[common].assign(pair=f"{first} to {second}", difference=change))
    return pd.concat(pairs, ignore_index=True)


def settings_of(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return one row per setting: the median paired difference over trials, its interval, and the verdict.

    Returns:
        What a setting's trials have in common, ``trials``, ``difference``, its 95% bootstrap interval ``low`` to
        ``high``, and ``verdict``: ``better`` or ``worse`` where the interval of at least 5 trials lies on one side of
        0, else ``open``.
    """
    by = [str(name) for name in pairs if name not in ("seed", "difference")]
    rows = [
        {**dict(zip(by, values, strict=True)), **interval(group["difference"].to_numpy(float))}
        for values, group in pairs.groupby(by, sort=False)
    ]
    settings = pd.DataFrame(rows, columns=[*by, "trials", "difference", "low", "high"])
    enough = settings["trials"] >= FEWEST
    verdict = np.select([enough & (settings["high"] < 0), enough & (settings["low"] > 0)], ["better", "worse"], "open")
    return settings.assign(verdict=verdict)


def summary(pairs: pd.DataFrame) -> dict[str, Any]:
    """Return a summary of paired differences: of all settings, by fraction and by table.

    By table, a trial counts by its mean difference over settings: the interval is over trials, which are resampled from
    the table's rows, and says nothing about other tables.
    """
    if pairs.empty:
        return {"settings": 0}
    each = settings_of(pairs)
    fractions = [f"{share:g}" if share in FRACTIONS[1:] else "largest" for share in each["fraction"]]
    by_table = {}
    for name, rows in each.groupby("table", sort=False):
        errors = interval(pairs[pairs["table"] == name].groupby("seed")["difference"].mean().to_numpy())
        rounded = {key: round(value, 2) if isinstance(value, float) else value for key, value in errors.items()}
        by_table[str(name)] = rounded | _counts(rows)
    by_fraction = {str(name): _counts(rows) for name, rows in each.groupby(np.array(fractions))}
    return {**_counts(each), "by fraction": by_fraction, "by table": by_table}


def _counts(each: pd.DataFrame) -> dict[str, Any]:
    counts = {verdict: int((each["verdict"] == verdict).sum()) for verdict in ("better", "open", "worse")}
    smaller = int((each["difference"] < 0).sum())
    middle = round(float(each["difference"].median()), 2)
    return {"settings": len(each), "median_of_settings": middle, "smaller_error": smaller, **counts}


def summaries(table: pd.DataFrame) -> dict[str, Any]:
    """Return the summary of every claim's paired differences, separately for each optimiser."""
    found: dict[str, Any] = {}
    for contrast in CONTRASTS:
        pairs = differences(table, contrast)
        parts = {"": pairs} if contrast.factor == "optimiser" else dict(list(pairs.groupby("optimiser")))
        found[contrast.name] = {str(name) or "both": summary(rows) for name, rows in parts.items()}
    return found
