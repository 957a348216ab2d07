"""The claims of ``one-layer-fails``."""

from collections.abc import Mapping

import pandas as pd

from elegans.experiments.claims import HOLDS, InsufficientData, Verdict, claim
from elegans.experiments.rules import by_share, combine
from elegans.studies.induction_heads.rules import most, runs_of

NEEDS = "30 and 6 networks of each kind with one layer and 13 with two, on two and three symbols of 100 tokens"
ONE = ("one layer", "one layer, absolute", "one layer and MLP", "one layer and MLP, absolute")
EACH = {2: 30, 3: 6}
"""The number of networks of each kind, by number of symbols."""
LEAST, STEEPEST, SHARE = 0.75, 0.2, 0.88


def never_drops(run: pd.DataFrame) -> bool:
    """Return whether the loss stays near the unigram line at all checks, without a sudden drop."""
    return bool((run["loss"] / run["line.unigram"]).min() >= LEAST and run["steepest"].iloc[0] <= STEEPEST)


@claim(
    id="induction/one-layer-never-transitions",
    statement="Transformers of one layer, with or without an MLP, with absolute or relative positions, have no "
    "second drop and end no notably better than unigrams, even if trained 8 times as long.",
    source="section 8.3.1, figure E.8",
    setting="main setting with one layer, learning rate 1e-3, which fits the printed axis; silent: k, the MLP's "
    "width (64), 8 times what, the number of runs",
    rule="30 runs of each of four kinds for k = 2 and six for k = 3, 8 times as long as networks of two layers, of "
    "which 10 of 13 must have a transition. A network counts if its loss is at least 0.75 of the unigram line at "
    "every check and no fall between checks 1% apart exceeds 20% after the first 5%. Holds if the exact one-sided "
    "95% limit of the share of these exceeds 0.88 (112 of 120; 24 of 24), fails if it lies below (all ours)",
    revised="Six runs of each kind were judged first, all 24 of which had to count: 23 did at k = 2, which leaves "
    "open whether the share exceeds 0.88. There are 30 of each kind at k = 2 since.",
)
def one_layer(tables: Mapping[str, pd.DataFrame]) -> Verdict:
    """Decide whether nearly all networks of one layer stay there, pooled over kinds, while two layers do not."""
    parts = {}
    for k, each in EACH.items():
        two = runs_of(tables, NEEDS, trials=13, k=k, network="two layers")
        longest = max(float(run["step"].max()) for run in two)
        if most("two layers", [run["transition"].notna().iloc[0] for run in two]).verdict != HOLDS:
            raise InsufficientData("networks of two layers that learn bigrams in the same setting")
        found = {}
        for network in ONE:
            runs = runs_of(tables, NEEDS, trials=each, k=k, network=network)
            if min(float(run["step"].max()) for run in runs) < 8 * longest:
                raise InsufficientData("networks of one layer trained 8 times as long as those of two")
            found[network] = sum(never_drops(run) for run in runs)
        what = "networks of one layer that stay at 0.75 of the unigram line or above, without a drop"
        one = by_share(what, sum(found.values()), each * len(ONE), above=SHARE)
        numbers = {**one.numbers, "by_kind": found}
        parts[f"k = {k}"] = Verdict(one.verdict, one.because, numbers, one.error_rate, one.needs)
    return combine(parts)


CLAIMS = (one_layer,)
