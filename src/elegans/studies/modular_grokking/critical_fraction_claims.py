"""The claims on critical fractions: symmetric operations need less, and some operations are not learned at all."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from jaxtyping import Float

from elegans.analysis import crossings
from elegans.experiments.claims import Claim, Lacking, Verdict
from elegans.experiments.rules import by_interval, decided, share_limits, table, together

SEED, RESAMPLES = 0, 1000
NEEDS = "six trials or more at each fraction of x+y, x-y, x*y and x/y with one modulus: the laptop scale"
RARELY = 0.2
"""The share of trials below which an operation is not learned; ours."""
PAIRS = {"x+y and x-y": ("x+y", "x-y"), "x*y and x/y": ("x*y", "x/y")}


def crossing_draws(rows: pd.DataFrame) -> Float[np.ndarray, " resamples"]:
    """Return the critical fraction of each bootstrap sample, infinite where no fraction suffices.

    Trials of each fraction are resampled from a Beta-smoothed share, (solved + 1/2) / (trials + 1), so that fractions
    with all or none of few trials solved vary too.
    """
    ordered = rows.sort_values("fraction")
    solved, trials = ordered["solved"].to_numpy(int), ordered["trials"].to_numpy(int)
    generator = np.random.default_rng(SEED)
    draws = generator.binomial(trials, (solved + 0.5) / (trials + 1), (RESAMPLES, len(trials))) / trials
    found = [crossings(ordered["fraction"], rates) for rates in draws]
    return np.array([each[0] if each else np.inf for each in found])


def interval_of(draws: Float[np.ndarray, " resamples"], level: float = 0.05) -> tuple[float, float]:
    """Return the percentile interval of draws, some of which may be infinite."""
    low, high = np.quantile(draws, [level / 2, 1 - level / 2], method="nearest")
    return float(low), float(high)


def symmetric_need_less(tables: Mapping[str, pd.DataFrame]) -> Verdict:
    """Decide by bootstrap whether the symmetric one of two operations has a smaller critical fraction."""
    rows = table(tables, "table", NEEDS)
    named = rows["task"].str.extract(r"^(?P<operation>.*) mod (?P<p>\d+)$")
    rows = rows.assign(operation=named["operation"], modulus=named["p"])
    parts = {}
    for name, (symmetric, other) in PAIRS.items():
        both = rows[rows["operation"].isin([symmetric, other])]
        shared = both.groupby("modulus")["operation"].nunique()
        if not (shared == 2).any():
            raise Lacking(NEEDS)
        p = max(shared.index[shared == 2], key=int)
        own = both[both["modulus"] == p]
        if own["trials"].min() < 6:
            raise Lacking(NEEDS)
        first, second = (crossing_draws(own[own["operation"] == each]) for each in (symmetric, other))
        if np.isinf(first).any() or np.isinf(second).any():
            raise Lacking(NEEDS)
        difference = np.random.default_rng(SEED).permutation(second) - first
        interval = interval_of(difference, 0.1)
        what = f"the critical fraction of {other} less that of {symmetric}, modulo {p},"
        parts[name] = by_interval(what, float(np.median(difference)), interval, above=0.0)
    return together(parts)


def not_learned(tables: Mapping[str, pd.DataFrame]) -> Verdict:
    """Decide whether x^3 + xy^2 + y is learned from no fraction."""
    needs = "eight trials or more at each fraction of x^3+xy^2+y, up to 0.9: the laptop scale"
    rows = table(tables, "table", needs)
    rows = rows[rows["task"].str.startswith("x^3+xy^2+y ")]
    if rows.empty or rows["trials"].min() < 8 or rows["fraction"].max() < 0.9:
        raise Lacking(needs)
    solved, trials = int(rows["solved"].sum()), int(rows["trials"].sum())
    low, high = share_limits(solved, trials)
    largest = rows.sort_values("fraction").iloc[-1]
    because = (
        f"{solved} of {trials} trials generalise, {largest['solved']} of {largest['trials']} from 90% of the pairs"
    )
    numbers = {"solved": solved, "trials": trials, "limits": [low, high]}
    return decided(high < RARELY, low > RARELY, because, numbers, 0.05, "more trials")


SETTING = "transformers, AdamW, p = 97; ours: two-layer quadratic networks, p = 23, 3000 steps"
CLAIMS = (
    Claim(
        id="modular/symmetric-operations-need-less",
        statement="Operations that are symmetric in their operands need less data than those that are not.",
        source="Power et al. (2022), section 3.1.2",
        setting=SETTING,
        rule="The interpolated fraction at which half of the trials generalise is larger for x-y than for x+y, and for "
        "x/y than for x*y: 90% bootstrap intervals of the differences above 0; below 0 fails.",
        decide=symmetric_need_less,
    ),
    Claim(
        id="modular/some-operations-are-not-learned",
        statement="x^3 + xy^2 + y is not generalised within the budget from any fraction up to 95%.",
        source="Power et al. (2022), section 3.1.2, figure 2 (right)",
        setting=SETTING,
        rule="Under 20% (ours) of all trials at fractions up to 90% generalise, by an exact limit at 5%; above fails.",
        decide=not_learned,
    ),
)
