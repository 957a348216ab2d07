"""The claims on slingshots: that they occur without weight decay, that they are Adam's, and what epsilon does."""

from collections.abc import Mapping

import pandas as pd

from elegans.experiments.claims import InsufficientData, Verdict, claim
from elegans.experiments.rules import by_share, combine, decided, share_limits, table

NEEDS = "ten trials or more of each kind of training: the laptop scale"
LEAST, RARELY = 10, 0.3
"""The least number of trials, and the share of them below which slingshots are prevented; ours."""


SETTING = "transformers and deeper networks, Adam, no weight decay; ours: two layers, p = 13, learning rate 0.01"


@claim(
    id="modular/slingshots-are-of-adaptive-optimisers",
    statement="Late in training without weight decay adaptive optimisers cycle: the last layer's norm jumps and "
    "the training loss spikes.",
    source="Thilak et al. (2022), section 2, figure 1",
    setting=SETTING,
    rule="Most of ten trials or more have a training loss above 1e-3 after one below 1e-5 (ours; exact limits, 5% "
    "each), (a) with the cross-entropy as frameworks round it and (b) with one that keeps small probabilities.",
)
def occur(tables: Mapping[str, pd.DataFrame]) -> Verdict:
    """Decide whether most trials have spikes, with either way to compute the loss."""
    return combine(
        {
            "rounded loss": by_share("trials with spikes", *_with_spikes(tables, "rounded"), above=0.5),
            "small terms kept": by_share("trials with spikes", *_with_spikes(tables, "small terms kept"), above=0.5),
        }
    )


@claim(
    id="modular/epsilon-prevents-slingshots",
    statement="A larger epsilon of Adam prevents slingshots.",
    source="Thilak et al. (2022), section 3 and appendix",
    setting=SETTING,
    rule="Given spikes in most trials with epsilon 1e-8 and a rounded loss: in under 30% (ours) with 1e-4, by an "
    "exact limit at 5%; above fails.",
)
def prevented(tables: Mapping[str, pd.DataFrame]) -> Verdict:
    """Decide whether few trials have spikes with a larger epsilon, given that most have with the usual one."""
    usual, trials = _with_spikes(tables, "rounded")
    if 2 * usual <= trials:
        raise InsufficientData("spikes in most trials with the usual epsilon")
    hits, count = _with_spikes(tables, "rounded, larger epsilon")
    low, high = share_limits(hits, count)
    because = f"{hits} of {count} trials have spikes with epsilon 1e-4, {usual} of {trials} with 1e-8"
    numbers = {"larger": [hits, count], "usual": [usual, trials], "limits": [low, high]}
    return decided(high < RARELY, low > RARELY, because, numbers, 0.05, "more trials")


def _with_spikes(tables: Mapping[str, pd.DataFrame], arm: str) -> tuple[int, int]:
    """Return how many of how many trials of an arm have spikes."""
    rows = table(tables, "table", NEEDS, arm=arm)
    if len(rows) < LEAST:
        raise InsufficientData(NEEDS)
    return int((rows["spikes"] > 0).sum()), len(rows)


CLAIMS = (
    occur,
    prevented,
)
