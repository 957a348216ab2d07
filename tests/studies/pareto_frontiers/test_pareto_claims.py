"""The rules of the claims on training, on made-up tables: each verdict that a rule can give."""

from itertools import product

import pandas as pd
import pytest

from elegans.experiments.claims import Lacking
from elegans.studies.pareto_frontiers import lottery_tickets_claims as lottery

TICKETS = {"weight": 1.0, "product": 1.0, "fresh": 0.0, "others": 0.0}


def tickets(networks=24, steps=2000, wide=1.0, overlap=1.0, **changed):
    """Return the table of wide networks and their tickets: the share solved by arm, alike in all strata."""
    shares = TICKETS | changed
    rows = []
    for (decay, chosen), seed in product(lottery.STRATA, range(networks)):
        base = {"task.n": 50, "task.k": 5, "decay": decay, "chosen": chosen, "seed": seed, "first_error": 0.5}
        rows.append(base | {"arm": "wide", "share": float(seed < wide * networks), "times": "1000", "overlap": 0.2})
        for arm, share in shares.items():
            rows.append(base | {"arm": arm, "share": share, "times": f"{steps}", "overlap": overlap})
    return {"networks": pd.DataFrame(rows)}


@pytest.mark.parametrize(
    ("made", "learns", "fails"),
    [
        (tickets(), "holds", "holds"),
        (tickets(steps=2100), "holds in part", "holds in part"),
        (tickets(networks=30, wide=0.8), "holds in part", "holds in part"),
        (tickets(weight=0.4), "fails", "holds in part"),
        (tickets(weight=0.5), "undecided", "holds in part"),
        (tickets(fresh=0.6), "holds", "fails"),
        (tickets(others=1.0), "holds", "undecided"),
    ],
)
def test_tickets_are_judged_by_their_share_their_time_and_what_fresh_networks_do(made, learns, fails):
    assert lottery.ticket_learns(made).verdict == learns
    assert lottery.random_fails(made).verdict == fails


@pytest.mark.parametrize(("overlap", "expected"), [(1.0, "holds"), (0.0, "fails"), (0.2, "undecided")])
def test_lucky_neurons_begin_with_more_weights_on_the_support(overlap, expected):
    assert lottery.lucky_neurons(tickets(overlap=overlap)).verdict == expected


def test_luck_at_some_weight_decays_alone_holds_in_part():
    made = tickets()["networks"]
    made.loc[(made["decay"] == 0) & (made["arm"] == "weight"), "overlap"] = 0.0
    assert lottery.lucky_neurons({"networks": made}).verdict == "holds in part"


@pytest.mark.parametrize("rule", [lottery.ticket_learns, lottery.random_fails, lottery.lucky_neurons])
def test_tickets_of_few_networks_or_of_another_task_decide_nothing(rule):
    other = tickets()["networks"].assign(**{"task.k": 4})
    for made in ({}, {"networks": other}, tickets(networks=14), tickets(networks=24, wide=0.5)):
        with pytest.raises(Lacking):
            rule(made)
