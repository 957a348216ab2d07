"""The rules of the claims on training, on made-up tables: each verdict that a rule can give."""

from itertools import product

import pandas as pd
import pytest

from elegans.experiments.claims import Lacking
from elegans.studies.pareto_frontiers import (
    frontier_zoom_claims as zoom,
    lottery_tickets_claims as lottery,
    training_curves_claims as curves,
)
from elegans.studies.pareto_frontiers.rules import STEPS, listed

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


def course(points, seeds=10):
    """Return the errors of equal runs on 1000 examples: (step, train error, test error) each."""
    cell = {"task.n": 50, "task.k": 3, "model.init": "dense", "model.width": 1000, "regime.size": 1000}
    rows = [
        cell | {"seed": seed, "step": step, "train_error": train, "test_error": test}
        for seed in range(seeds)
        for step, train, test in points
    ]
    return {"table": pd.DataFrame(rows)}


LATE = [(250, 0.3, 0.5), (500, 0.0, 0.5), (7000, 0.0, 0.45), (8000, 0.0, 0.1), (STEPS, 0.0, 0.0)]


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        (LATE, "holds"),
        ([*LATE[:2], (1000, 0.0, 0.3), *LATE[3:]], "holds in part"),
        ([LATE[0], (500, 0.0, 0.5), (1000, 0.0, 0.05), LATE[-1]], "fails"),
        ([LATE[0], (500, 0.0, 0.5), (STEPS, 0.0, 0.5)], "fails"),
    ],
)
def test_grokking_is_a_late_and_abrupt_fall_after_the_sample_is_fitted(points, expected):
    assert curves.grokking(course(points)).verdict == expected


def final(errors):
    """Return final test errors of both cells, of networks that succeeded."""
    rows = [
        {"task.n": 50, "task.k": 3, "model.init": init, "model.width": 1000, "regime.size": size}
        | {"step": STEPS, "seed": seed, "test_at": 5000.0, "test_error": error}
        for init, size in (("dense", 1000), ("sparse:2", 600))
        for seed, error in enumerate(errors)
    ]
    return {"final": pd.DataFrame(rows)}


@pytest.mark.parametrize(
    ("errors", "expected"),
    [([0.0] * 40, "holds"), ([0.0] * 30 + [0.01] * 10, "holds in part"), ([0.0] * 5 + [0.01] * 35, "fails")],
)
def test_perfect_generalisation_is_no_error_at_the_end(errors, expected):
    assert curves.perfect(final(errors)).verdict == expected


def test_curves_that_are_short_or_few_decide_nothing():
    for made in ({}, course(LATE[:-1]), course(LATE, seeds=9)):
        with pytest.raises(Lacking):
            curves.grokking(made)
    for made in ({}, final([0.0] * 29)):
        with pytest.raises(Lacking):
            curves.perfect(made)


def made_cell(init, width, size, times, n=50, k=3, steps=STEPS):
    """Return a row of a table of cells, with the times to solve of its trials."""
    regime = "online" if size is None else f"sample:{size}"
    solved = sum(time < float("inf") for time in times)
    cell = {"task.n": n, "task.k": k, "model.init": init, "model.width": width, "regime": regime, "regime.size": size}
    return cell | {"trials": len(times), "solved": solved, "steps": steps, "times": listed(times)}


def frontier(time, inits=zoom.INITS, trials=50, steps=STEPS):
    """Return cells whose trials are solved at the times that a function of initialisation, width and size gives."""
    rows = [
        made_cell(
            init, width, size, [time(init, width, size) * (1 + 0.001 * one) for one in range(trials)], steps=steps
        )
        for init, width, size in product(inits, zoom.WIDTHS, (*zoom.SIZES, None))
    ]
    return {"table": pd.DataFrame(rows)}


INFINITE = float("inf")


def published(init, width, size):
    """Wider networks need less data and fewer steps, sparse ones still fewer; the edge of the widest costs time."""
    if size is not None and size < {10: 3000, 100: 2000, 1000: 1000}[width]:
        return INFINITE
    return {10: 4000, 100: 2000, 1000: 1000}[width] * (5 if size == 1000 else 1) / (1 if init == "dense" else 2)


def unlike(init, width, size):
    """Narrow networks need less data and fewer steps, sparse ones more steps; the edge costs nothing."""
    if size is not None and size < {10: 1000, 100: 2000, 1000: 3000}[width] and size != 1000:
        return INFINITE
    return {10: 1000, 100: 2000, 1000: 4000}[width] * (1 if init == "dense" else 2)


def even(init, width, size):
    """Neither width nor initialisation matters."""
    return 1000


def mixed(init, width, size):
    """Width 100 is faster than 10, and width 1000 slower again; the edge costs half as much again."""
    return {10: 4000, 100: 1000, 1000: 3000}[width] * (1.5 if size == 1000 else 1)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (zoom.width_replaces_data, ("holds", "fails", "fails", "fails")),
        (zoom.width_saves_steps, ("holds", "fails", "undecided", "holds in part")),
        (zoom.edge_costs_time, ("holds", "fails", "fails", "holds in part")),
        (zoom.sparse_saves_steps, ("holds", "fails", "undecided", "undecided")),
        (zoom.alike, ("holds", "fails", "undecided", "holds in part")),
    ],
)
def test_the_frontier_is_judged_by_its_edges_and_its_times(rule, expected):
    for time, verdict in zip((published, unlike, even, mixed), expected, strict=True):
        assert rule(frontier(time)).verdict == verdict, time.__name__


def test_a_frontier_between_close_edges_is_undecided():
    def close(init, width, size):
        return INFINITE if size == 600 and width == 10 else 1000

    assert zoom.width_replaces_data(frontier(close)).verdict == "undecided"


@pytest.mark.parametrize("rule", [zoom.width_replaces_data, zoom.width_saves_steps, zoom.edge_costs_time, zoom.alike])
def test_few_trials_or_fewer_steps_than_published_decide_nothing(rule):
    for made in ({}, frontier(published, trials=29), frontier(published, steps=20_000)):
        with pytest.raises(Lacking):
            rule(made)
