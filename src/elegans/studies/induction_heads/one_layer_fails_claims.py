"""The claims of ``one-layer-fails``."""

from collections.abc import Mapping

import pandas as pd

from elegans.experiments.claims import HOLDS, UNDECIDED, Claim, Lacking, Verdict
from elegans.experiments.rules import share_limits, together
from elegans.studies.induction_heads.rules import most, runs_of

NEEDS = "six networks of each kind with one layer and 13 with two, on two and three symbols of 100 tokens"
ONE = ("one layer", "one layer, absolute", "one layer and MLP", "one layer and MLP, absolute")
LEAST, STEEPEST = 0.75, 0.2


def never_drops(run: pd.DataFrame) -> bool:
    """Return whether the loss stays near the unigram line at all checks, without a sudden drop."""
    return bool((run["loss"] / run["line.unigram"]).min() >= LEAST and run["steepest"].iloc[0] <= STEEPEST)


def one_layer(tables: Mapping[str, pd.DataFrame]) -> Verdict:
    """Decide whether all 24 networks of one layer stay there, pooled and by kind, while two layers do not."""
    parts = {}
    for k in (2, 3):
        two = runs_of(tables, NEEDS, trials=13, k=k, network="two layers")
        longest = max(float(run["step"].max()) for run in two)
        if most("two layers", [run["transition"].notna().iloc[0] for run in two]).verdict != HOLDS:
            raise Lacking("networks of two layers that learn bigrams in the same setting")
        found = {}
        for network in ONE:
            runs = runs_of(tables, NEEDS, trials=6, k=k, network=network)
            if min(float(run["step"].max()) for run in runs) < 8 * longest:
                raise Lacking("networks of one layer trained 8 times as long as those of two")
            found[network] = sum(never_drops(run) for run in runs)
        count = sum(found.values())
        because = f"{count} of 24 networks of one layer stay at 0.75 of the unigram line or above, without a drop"
        numbers = {"shown": count, "by_kind": found, "limits": list(share_limits(count, 24))}
        needs = "30 networks of each kind" if count < 24 else ""
        parts[f"k = {k}"] = Verdict(HOLDS if count == 24 else UNDECIDED, because, numbers, 0.05, needs)
    return together(parts)


CLAIMS = (
    Claim(
        id="induction/one-layer-never-transitions",
        statement="Transformers of one layer, with or without an MLP, with absolute or relative positions, have no "
        "second drop and end no notably better than unigrams, even if trained 8 times as long.",
        source="section 8.3.1, figure E.8",
        setting="main setting with one layer, learning rate 1e-3, which fits the printed axis; silent: k, the MLP's "
        "width (64), 8 times what, the number of runs",
        rule="Six runs of each of four kinds for k = 2 and 3, 8 times as long as networks of two layers, of which 10 "
        "of 13 must have a transition: in all 24 the loss is at least 0.75 of the unigram line at every check and no "
        "fall between checks 1% apart exceeds 20% after the first 5% (ours); a share of 0.88 passes with 5%, fewer "
        "than 24 are undecided",
        decide=one_layer,
    ),
)
