"""Rules shared by claims about features: how many seeds have a property, at several thresholds for a neuron's norm."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from elegans.experiments import Tables, Verdict
from elegans.experiments.claims import HOLDS, IN_PART, shared
from elegans.experiments.rules import LEVEL, at_least, by_median, by_share, table

COUNTS, STRONG = 0.05, 0.5
"""Neurons with at least this share of the largest norm count; the verdict is also given for one half, and for all."""
NEAR = 0.9
"""The ratio to the largest margin from which a network counts as approaching it.

Exact minimisers at the published penalties have as little as 0.946 on S_4 and 0.932 on S_5: 0.95 asks for too much.
"""
SINGLE = 0.99
"""The share of power from which a neuron counts as having a single feature."""
RANDOM = 0.1
"""How far the mean initial power may be from that of random vectors."""
MOST = 0.95
"""The share of a seed's neurons from which a property counts as holding for most of them."""


@shared(1)
def published(tables: Tables, name: str, needs: str, seeds: int, **where: Any) -> pd.DataFrame:
    """Return the rows of a table with given values, of at least so many seeds."""
    rows = table(tables, name, needs, **where)
    at_least(seeds, rows["seed"].unique(), needs)
    return rows


@shared(1)
def last(tables: Tables, needs: str, **where: Any) -> pd.DataFrame:
    """Return the last row of ``margins`` of each seed that did not diverge."""
    rows = table(tables, "margins", needs, **where)
    return rows[rows["state"] != "diverged"].sort_values("step").groupby("seed").last()


@shared(3)
def approaches(
    tables: Tables,
    needs: str,
    *,
    above: float = NEAR,
    part: float | None = None,
    least: int,
    level: float = LEVEL,
    **where: Any,
) -> Verdict:
    """Decide by the median over seeds of the final ratio to the largest margin; growth and optimum are reported too."""
    rows = table(tables, "margins", needs, **where)
    ends = last(tables, needs, **where)
    late = rows[rows["step"] >= 0.75 * rows["step"].max()].sort_values("step").groupby("seed")["ratio"]
    what = "last ratio to the largest margin"
    ratios = by_median(what, ends["ratio"], above=above, part_above=part, least=least, level=level)
    return ratios.but(
        growth_in_last_quarter=(late.last() - late.first()).median(),
        of_the_minimiser=(ends["ratio"] / ends["optimum"]).median(),
        minimiser=ends["optimum"].iloc[0],
        steps=int(rows["step"].max()),
    )


@shared(4)
def single_features(
    neurons: pd.DataFrame, what: str, start: float, level: float = LEVEL, *, of_all: float = 0.0
) -> Verdict:
    """Decide whether the neurons of a typical seed have single features and were initially spread over them.

    Initially their mean power has to be within 0.1 of ``start``, which random vectors have. At least the share
    ``of_all`` of all neurons, the weakest too, has to have single features.

    ``holds`` by the majority of seeds if all neurons of at least 5% of the largest norm have single features; in part
    if only the neurons of at least one half of it have them, or at least 95% of the neurons (tested only where not all
    have them).
    """
    spread = neurons.groupby("seed")["initial_power"].mean()
    whole = neurons.groupby("seed")["power"].agg(lambda powers: (powers >= SINGLE).mean())

    def share(least: float, most: float, of_all: float = 0.0) -> Verdict:
        counted = neurons[neurons["size"] > least]
        single = counted.groupby("seed")["power"].agg(lambda powers: (powers >= SINGLE).mean())
        random = (spread - start).abs() <= RANDOM
        has = (single >= most) & (random & (whole >= of_all)).reindex(single.index)
        return by_share(f"seeds whose {what}", int(has.sum()), int(spread.size), level=level)

    weaker = {"one half of the largest norm": share(STRONG, 1.0), "95% of neurons": share(COUNTS, MOST)}
    numbers: dict[str, Any] = {
        "all neurons": share(0.0, 1.0).numbers["successes"],
        **{name: verdict.numbers["successes"] for name, verdict in weaker.items()},
        "least share of all neurons": whole.min(),
        "least power": neurons[neurons["size"] > COUNTS]["power"].min(),
        "neurons given up": (neurons["size"] <= COUNTS).mean(),
        "initial power": spread.mean(),
    }
    every = share(COUNTS, 1.0, of_all).but(**numbers)
    held = ", ".join(name for name, verdict in weaker.items() if verdict.verdict == HOLDS)
    if every.verdict == HOLDS or not held:
        return every
    return every.but(IN_PART, because=f"with {held} they are", needs=f"holds for {held}")


@shared(1)
def either(parts: Mapping[str, Verdict]) -> Verdict:
    """Return the verdict of the first of several thresholds, or in part where a weaker one holds."""
    first, *weaker = parts.items()
    verdict = replace(first[1], numbers={name: part.numbers for name, part in parts.items()})
    held = [(name, part) for name, part in weaker if part.verdict == HOLDS]
    if verdict.verdict == HOLDS or not held:
        return verdict
    name, part = held[0]
    return verdict.but(IN_PART, because=f"but {name}: {part.because}", needs=f"holds for {name}")
