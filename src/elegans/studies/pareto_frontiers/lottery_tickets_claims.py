"""What figure 5 states about tickets, decided by weight decay and time of choice, which the source leaves open."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from elegans.experiments import InsufficientData, Tables, Verdict, claim
from elegans.experiments.claims import FAILS, HOLDS, IN_PART, UNDECIDED
from elegans.experiments.rules import LEVEL, by_pairs, combine, table
from elegans.studies.pareto_frontiers.rules import mean_interval, times

DECAYS = (0.0, 0.001, 0.003, 0.01)
CHOSEN = ("solved", "end")
STRATA = [(decay, chosen) for decay in DECAYS for chosen in CHOSEN]
NEEDS = "wide networks on (50, 5) at four weight decays, at least 15 each that solve (the scale paper)"
FEWEST = 15
POOR, QUICK = 0.4, 2.0
"""The first error that counts as poor, and up to what multiple of the wide network's median time counts as quick
(ours)."""
SETTING = (
    "(50, 5), online, 100 neurons, s = 2, batches of 32, learning rate 0.1, the 5 neurons of largest weight norm at "
    "the end of training; silent: weight decay, steps of both trainings, which norm, numbers of networks and seeds; "
    "ours: hinge loss, 150000 steps"
)
NEURON_RULE = (
    "50 wide networks per weight decay (0, 0.001, 0.003, 0.01) and time of choice (when solved; after 150000 steps), "
    "5 retrainings each; per stratum the mean over wide networks that solved, with limits by the bootstrap over "
    "networks at 5% over the 8 strata (Bonferroni). "
)


@claim(
    id="pareto/lottery-ticket-learns",
    statement="The five strongest neurons of a trained wide sparse network, rewound to their initial values, begin at "
    "a poor error and quickly learn the parity when trained alone, for various seeds.",
    source="figure 5 (center), appendix C.2",
    setting=SETTING,
    rule=NEURON_RULE
    + "Holds if in some stratum in which 90% of wide networks solve the tickets' lower limit exceeds one half, "
    "their first error 40%, and their median time is at most twice the wide network's; in part if only the first "
    "is met; fails if all upper limits lie below one half. Thresholds are ours.",
)
def ticket_learns(tables: Tables) -> Verdict:
    """Decide whether tickets start with a poor error and learn quickly, in at least one stratum."""
    strata = _strata(tables)
    mostly = {name: one for name, one in strata.items() if one["ticket"][1] > 0.5}
    learning = [name for name, one in strata.items() if one["learns"]]
    because = "; ".join(f"{name}: {_words(one)}" for name, one in strata.items())
    if learning:
        return Verdict(HOLDS, f"tickets learn at {', '.join(learning)}. {because}", strata, LEVEL)
    if mostly:
        needs = f"most tickets solve at {', '.join(mostly)}, but not so quickly or not where 90% of wide networks solve"
        return Verdict(IN_PART, because, strata, LEVEL, needs)
    if all(one["ticket"][2] < 0.5 for one in strata.values()):
        return Verdict(FAILS, because, strata, LEVEL)
    return Verdict(UNDECIDED, because, strata, LEVEL, "more wide networks: a share's limits contain one half")


@claim(
    id="pareto/lottery-random-fails",
    statement="Of freshly initialised networks with five neurons the large majority do not learn: the ticket's "
    "neurons are unusually lucky.",
    source="figure 5 (right), appendix C.2",
    setting=SETTING + "; fresh networks have the wide one's distribution at width 5",
    rule=NEURON_RULE
    + "Holds if in a stratum where tickets learn (pareto/lottery-ticket-learns) the upper limit of fresh networks "
    "lies below 25% and tickets solve more often than these and than five others of the same network's neurons; "
    "in part if no stratum has all three but one has the last two; fails if in all the lower limit of fresh "
    "networks exceeds 25% or tickets solve less often.",
)
def random_fails(tables: Tables) -> Verdict:
    """Decide whether fresh networks mostly fail where tickets do better than both these and other neurons."""
    strata = _strata(tables)
    good = [name for name, one in strata.items() if one["fresh"][2] < 0.25 and one["lucky"]]
    both = [name for name in good if strata[name]["learns"]]
    never = [one["fresh"][1] > 0.25 or one["ticket_less_fresh"][2] < 0 for one in strata.values()]
    because = "; ".join(f"{name}: {_words(one)}" for name, one in strata.items())
    if both:
        return Verdict(HOLDS, f"at {', '.join(both)}. {because}", strata, LEVEL)
    if good:
        needs = f"fresh networks mostly fail and tickets do better at {', '.join(good)}, where tickets do not learn so"
        return Verdict(IN_PART, because, strata, LEVEL, needs)
    if all(never):
        return Verdict(FAILS, because, strata, LEVEL)
    return Verdict(UNDECIDED, because, strata, LEVEL, "more wide networks")


@claim(
    id="pareto/lucky-neurons-have-larger-fourier-gaps",
    statement="Learning is carried by neurons that are lucky at initialisation (large initial Fourier gaps); wider "
    "networks hold luckier ones.",
    source="sections 1 and 3.2.1, appendix C.2",
    setting="silent: a view that the paper does not measure; ours: the wide networks of figure 5",
    rule="Luck is the number of a neuron's two non-zero initial weights that are on the support, on which its initial "
    "gap depends. Per weight decay, sign test over wide networks that solved: the five strongest by weight norm, "
    "chosen when solved, had more than the network's neurons on average (ties count against; 5% over four decays). "
    "That the luckiest of more neurons is luckier needs no test.",
)
def lucky_neurons(tables: Tables) -> Verdict:
    """Decide at each weight decay whether the strongest neurons began with more weights on the support than others."""
    parts = {}
    for decay, rows in _networks(tables).groupby("decay"):
        arms = rows[rows["chosen"] == "solved"].pivot_table(index="seed", columns="arm", values="overlap")
        differences = arms["weight"] - arms["wide"]
        what = "networks whose strongest neurons began with more weights on the support than its neurons on average"
        parts[f"weight decay {decay:g}"] = by_pairs(what, differences, level=LEVEL / len(DECAYS))
    return combine(parts)


def _networks(tables: Tables) -> pd.DataFrame:
    """Return the rows of solved wide networks and of the networks derived from them."""
    rows = table(tables, "networks", NEEDS, task__n=50, task__k=5, decay=list(DECAYS))
    wide = rows[(rows["arm"] == "wide") & (rows["share"] == 1)]
    if set(zip(wide["decay"], wide["chosen"], strict=True)) != set(STRATA):
        raise InsufficientData(NEEDS)
    if wide.groupby(["decay", "chosen"]).size().min() < FEWEST:
        raise InsufficientData(NEEDS)
    return rows.merge(wide[["decay", "seed"]].drop_duplicates(), on=["decay", "seed"])


def _strata(tables: Tables) -> dict[str, dict[str, Any]]:
    solved = _networks(tables)
    return dict(_stratum(tables["networks"], solved, *stratum) for stratum in STRATA)


def _stratum(every: pd.DataFrame, solved: pd.DataFrame, decay: float, chosen: str) -> tuple[str, dict[str, Any]]:
    here = solved[solved["decay"] == decay]
    arms = {arm: rows.set_index("seed") for arm, rows in _arms(here, chosen)}
    ticket, fresh, others = (arms[arm]["share"] for arm in ("weight", "fresh", "others"))
    level = LEVEL / len(STRATA)
    wide = every[(every["decay"] == decay) & (every["chosen"] == chosen) & (every["arm"] == "wide")]
    found: dict[str, Any] = {
        "wide_networks": len(wide),
        "wide_solved": wide["share"].mean(),
        "ticket": mean_interval(ticket, level),
        "ticket_by_product": mean_interval(arms["product"]["share"], level),
        "fresh": mean_interval(fresh, level),
        "others": mean_interval(others, level),
        "ticket_less_fresh": mean_interval((ticket - fresh).dropna(), level),
        "ticket_less_others": mean_interval((ticket - others).dropna(), level),
        "first_error": float(arms["weight"]["first_error"].median()),
        "median_steps": float(np.median(times(arms["weight"]))),
        "wide_median_steps": float(np.median(times(wide))),
    }
    found["lucky"] = found["ticket_less_fresh"][1] > 0 and found["ticket_less_others"][1] > 0
    quick = found["median_steps"] <= QUICK * found["wide_median_steps"] and found["first_error"] > POOR
    found["learns"] = found["ticket"][1] > 0.5 and found["wide_solved"] >= 0.9 and quick
    return f"decay {decay:g} ({'when solved' if chosen == 'solved' else 'after 150000 steps'})", found


def _arms(rows: pd.DataFrame, chosen: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield each arm's rows: fresh networks and other neurons are the same for both times of choice."""
    for arm in ("weight", "product", "others", "fresh"):
        own = rows[rows["arm"] == arm]
        yield arm, own if arm in ("others", "fresh") else own[own["chosen"] == chosen]


def _words(one: Mapping[str, Any]) -> str:
    share, low, high = one["ticket"]
    return (
        f"wide {one['wide_solved']:.0%}, tickets {share:.0%} ({low:.0%} to {high:.0%}), fresh {one['fresh'][0]:.0%}, "
        f"others {one['others'][0]:.0%}"
    )


CLAIMS = (
    ticket_learns,
    random_fails,
    lucky_neurons,
)
