"""The claims of ``more-symbols``."""

import math
from collections.abc import Mapping

import pandas as pd

from elegans.experiments.claims import FAILS, HOLDS, UNDECIDED, Verdict, claim
from elegans.experiments.rules import combine
from elegans.studies.induction_heads.rules import most, runs_of
from elegans.studies.induction_heads.tables import transition

NEEDS = "13 seeds of four and eight symbols with 200 and with 100 tokens"
SYMBOLS = (4, 8)
SHARE, NEAR, STILL = 0.25, 0.5, 0.1


def visible(run: pd.DataFrame) -> bool:
    """Return whether unigrams are the closest strategy for a quarter of the time, then half as far as bigrams."""
    moved = transition(run)
    before = run[run["step"] < (moved if math.isfinite(moved) else math.inf)]
    phase = before[before["phase"] == "unigram"]
    if phase.empty or len(phase) < SHARE * len(before):
        return False
    return bool((phase["distance.unigram"] / phase["distance.bigram"]).min() <= NEAR)


def plateau(run: pd.DataFrame) -> bool:
    """Return whether the loss changes by less than a tenth over a quarter of the time to the transition."""
    moved = transition(run)
    if not math.isfinite(moved):
        return False
    before = run[run["step"] <= moved]
    steps, losses = before["step"].to_numpy(), before["loss"].to_numpy()
    for start in range(len(steps)):
        inside = losses[start:][steps[start:] <= steps[start] + SHARE * moved]
        whole = steps[start] + SHARE * moved <= moved
        if whole and inside.max() - inside.min() < STILL * losses[start]:
            return True
    return False


@claim(
    id="induction/more-symbols",
    statement="The phases extend to more than three symbols at 200 tokens; at 100 tokens the unigram phase is not "
    "visible, since unigrams and bigrams are too close; in either case there is a plateau before the final drop.",
    source="figure E.4",
    setting="200 and 100 tokens, learning rate 1e-3; silent: k, the learning rate, whether both lengths had the "
    "same k, what is visible",
    rule="13 seeds, k = 4 and 8: visible if unigrams are the closest strategy for a quarter of the checks before "
    "the transition and once at most half as far as bigrams (ours); (a) visible at 200 tokens in 10 of 13 runs; "
    "(b) not visible at 100 in 12 of 13 for some k at which (a) holds, fails if at most 3 are not for every such "
    "k; (c) the loss changes by less than 10% over a quarter of the time to the transition in 10 of 13 runs. "
    "Error rate 4.6% each",
)
def more_symbols(tables: Mapping[str, pd.DataFrame]) -> Verdict:
    """Decide (a) phases at 200 tokens, (b) none visible at 100 for some k, (c) a plateau at both lengths."""
    cells = [(k, length) for k in SYMBOLS for length in (200, 100)]
    runs = {(k, length): runs_of(tables, NEEDS, trials=13, k=k, length=length) for k, length in cells}
    seen = {cell: [visible(run) for run in found] for cell, found in runs.items()}
    parts = {f"(a) k = {k}": most("a unigram phase at 200 tokens", seen[k, 200]) for k in SYMBOLS}
    unseen = {k: 13 - sum(seen[k, 100]) for k in SYMBOLS if parts[f"(a) k = {k}"].verdict == HOLDS}
    because = "runs without a visible unigram phase at 100 tokens: "
    because += ", ".join(f"{count} of 13 at k = {k}" for k, count in unseen.items())
    kind = HOLDS if any(count >= 12 for count in unseen.values()) else FAILS
    if kind == FAILS and (not unseen or any(count > 3 for count in unseen.values())):
        kind = UNDECIDED
    numbers = {f"k = {k}": count for k, count in unseen.items()}
    parts["(b)"] = Verdict(kind, because, numbers, 0.01, "more symbols, or more seeds" if kind == UNDECIDED else "")
    for (k, length), cell in runs.items():
        parts[f"(c) k = {k}, {length} tokens"] = most("a plateau before the transition", [plateau(run) for run in cell])
    return combine(parts)


CLAIMS = (more_symbols,)
