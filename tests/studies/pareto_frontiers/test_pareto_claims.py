"""The rules of the claims on training, on made-up tables: each verdict that a rule can give."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from elegans.experiments.claims import InsufficientData
from elegans.studies.pareto_frontiers import (
    coarse_optimum as optimum,
    double_descent as descent,
    few_examples as few,
    frontier_zoom as zoom,
    lottery_tickets_claims as lottery,
    sparsity_sweep as sparsity,
    success_frontier as grids,
    training_curves as curves,
    weight_decay_sweep as decaying,
)
from elegans.studies.pareto_frontiers.rules import STEPS, edges, listed

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
        (tickets(steps=2100), "holds in part", "holds"),
        (tickets(networks=30, wide=0.8), "holds in part", "holds"),
        (tickets(steps=2100, fresh=1.0), "undecided", "fails"),
        (tickets(weight=0.4), "undecided", "holds"),
        (tickets(weight=0.0), "undecided", "undecided"),
        (tickets(weight=0.0, fresh=0.2), "undecided", "fails"),
        (tickets(fresh=0.6), "holds", "fails"),
        (tickets(others=1.0), "holds", "undecided"),
    ],
)
def test_tickets_are_judged_by_their_share_their_time_and_what_fresh_networks_do(made, learns, fails):
    assert lottery.ticket_learns(made).verdict == learns
    assert lottery.random_fails(made).verdict == fails


def test_luck_without_the_published_weight_decay_holds_in_part():
    made = tickets()["networks"]
    for decay, expected in ((0.003, "holds"), (0.01, "holds in part")):
        changed = made.copy()
        changed.loc[(made["decay"] == decay) & (made["arm"] == "weight"), "share"] = 0.0
        verdict = lottery.random_fails({"networks": changed})
        assert verdict.verdict == expected
    assert "not shown at decay 0.01 (when solved)" in verdict.needs


def test_tickets_that_fail_need_more_steps_and_not_more_networks():
    made = tickets(weight=0.4)
    assert "300000 steps" in lottery.ticket_learns(made).needs
    longer = {"networks": made["networks"].assign(budget=300_000)}
    assert "600000 steps" in lottery.ticket_learns(longer).needs


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
        with pytest.raises(InsufficientData):
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
        ([LATE[0], (5000, 0.0, 0.5), (11_000, 0.0, 0.45), (12_000, 0.0, 0.1), LATE[-1]], "fails"),
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
    [
        ([0.0] * 50, "holds"),
        ([0.0] * 30 + [0.01] * 10, "holds"),
        ([0.0] * 20 + [0.01] * 20, "undecided"),
        ([0.0] * 10 + [0.01] * 30, "fails"),
    ],
)
def test_perfect_generalisation_is_no_error_at_the_end(errors, expected):
    assert curves.perfect(final(errors)).verdict == expected


def test_curves_that_are_short_or_few_decide_nothing():
    for made in ({}, course(LATE[:-1]), course(LATE, seeds=9)):
        with pytest.raises(InsufficientData):
            curves.grokking(made)
    for made in ({}, final([0.0] * 29)):
        with pytest.raises(InsufficientData):
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
        for init, width, size in product(inits, zoom.PRINTED, (*zoom.SIZES, None))
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
        (zoom.edge_costs_time, ("holds", "fails", "fails", "undecided")),
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


def test_a_width_whose_interval_of_ratios_ends_at_one_is_not_slower():
    """At width 100 a little more than half of the trials on 2000 examples take half as long again."""

    def times(width, size):
        if size != 2000 or width > 100:
            return 1000 * (1 + 0.001 * np.arange(50))
        return np.where(np.arange(50) < (28 if width == 100 else 0), 1500.0, 1000.0)

    rows = [
        made_cell(init, width, size, times(width, size), steps=STEPS)
        for init, width, size in product(zoom.INITS, zoom.PRINTED, (*zoom.SIZES, None))
    ]
    found = zoom.width_saves_steps({"table": pd.DataFrame(rows)})
    ratio, _, high = min(numbers["ratio_of_medians"] for numbers in found.numbers.values())
    assert (ratio, high, found.verdict) == (pytest.approx(2 / 3), 1, "undecided")


def test_a_frontier_that_may_rise_with_width_is_undecided():
    """Just over half of the networks of width 1000 solve 1000 examples, which all those of width 100 do."""

    def share(width, size):
        edge = 27 / 50 if width == 1000 else 1
        return edge if size == 1000 else float(size >= {10: 3000, 100: 1000, 1000: 1000}[width])

    def made(width, size):
        return some(0 if width == 10 and size == 1000 else share(width, size))

    rows = [
        made_cell(init, width, size, made(width, size))
        for init, width, size in product(zoom.INITS, zoom.PRINTED, zoom.SIZES)
    ]
    found = zoom.width_replaces_data({"table": pd.DataFrame(rows)})
    assert 0.1 < found.numbers["dense"]["rises"] < 0.9 and found.verdict == "undecided"


def test_a_frontier_is_stated_with_its_counts_at_1000_examples():
    made = frontier(lambda init, width, size: INFINITE if (width, size) == (1000, 1000) else 1000)
    assert "width 1000 solves 0 and width 10 50 of 50" in zoom.width_replaces_data(made).because


@pytest.mark.parametrize("rule", [zoom.width_replaces_data, zoom.width_saves_steps, zoom.edge_costs_time, zoom.alike])
def test_few_trials_or_fewer_steps_than_published_decide_nothing(rule):
    for made in ({}, frontier(published, trials=29), frontier(published, steps=20_000)):
        with pytest.raises(InsufficientData):
            rule(made)


def some(share, trials=50, time=1000.0):
    """Return times to solve of which a share is finite."""
    return np.where(np.arange(trials) < round(share * trials), time, INFINITE)


def dip(dense, sparse, n=100):
    """Return the cells at width 100: the shares solved of the smaller sample, of the larger one, and online."""
    rows = [
        made_cell(init, 100, size, some(share), n=n)
        for init, shares in (("dense", dense), ("sparse:2", sparse))
        for size, share in zip((descent.FEW, descent.MANY, None), shares, strict=True)
    ]
    return {"table": pd.DataFrame(rows)}


@pytest.mark.parametrize(
    ("dense", "sparse", "expected"),
    [
        ((1, 0.5, 1), (1, 0.5, 1), "holds"),
        ((1, 0.5, 1), (1, 1, 1), "undecided"),
        ((1, 0.5, 0.5), (1, 0.5, 0.4), "undecided"),
        ((1, 0.86, 1), (1, 0.86, 1), "undecided"),  # p = 0.006: not below 2% over four tests and three looks
        ((1, 1, 1), (1, 1, 1), "undecided"),
    ],
)
def test_success_is_lost_and_regained_only_if_both_changes_are_significant(dense, sparse, expected):
    assert descent.lost_and_regained(dip(dense, sparse)).verdict == expected


@pytest.mark.parametrize(
    ("slower", "expected"),
    [
        ((2, 2), "holds"),
        ((2, 0.8), "undecided"),
        ((0.8, 0.8), "undecided"),
        ((1.1, 1.1), "undecided"),
        ((1.25, 1.25), "undecided"),
    ],
)
def test_times_worsen_if_medians_rise_by_a_fifth(slower, expected):
    spread = 1000 * (1 + 0.2 * np.linspace(-1, 1, 50))
    rows = [
        made_cell(init, width, size, spread * factor, n=n)
        for (init, width, n), ratio in zip((("dense", 300, 100), ("sparse:2", 30, 50)), slower, strict=True)
        for size, factor in ((descent.FEW, 1), (descent.MANY, ratio))
    ]
    assert descent.times_worsen({"table": pd.DataFrame(rows)}).verdict == expected


@pytest.mark.parametrize(
    ("narrow", "wide", "slower", "expected"),
    [
        ((1, 0.5), (1, 1), 1.0, "holds"),
        ((1, 0.5), (1, 1), 2.0, "holds in part"),
        ((1, 1), (1, 0.5), 2.0, "fails"),
        ((1, 0.96), (1, 1), 1.0, "undecided"),
    ],
)
def test_a_dip_disappears_in_success_and_in_times(narrow, wide, slower, expected):
    shares = {100: narrow, 1000: wide}
    rows = [
        made_cell("dense", width, size, some(share), n=100)
        for width, both in shares.items()
        for size, share in zip((descent.FEW, descent.MANY), both, strict=True)
    ]
    rows += [
        made_cell("dense", descent.WIDEST, size, some(1, time=1000 * factor), n=100)
        for size, factor in ((descent.FEW, 1), (descent.MANY, slower))
    ]
    assert descent.dip_disappears({"table": pd.DataFrame(rows)}).verdict == expected


@pytest.mark.parametrize(
    ("dense", "sparse", "expected"),
    [((1, 0.4), (1, 0.7), "holds"), ((1, 0.4), (1, 0.4), "undecided"), ((1, 0.4), (0.4, 1), "holds in part")],
)
def test_sparse_networks_dip_less_and_still_dip(dense, sparse, expected):
    rows = [
        made_cell(init, width, size, some(share, trials=180), n=200)
        for init, shares in (("dense", dense), ("sparse:2", sparse))
        for size, share in zip((3 * descent.FEW, 3 * descent.MANY), shares, strict=True)
        for width in (100, 300)
    ]
    assert f"{descent.FEW} and {descent.MANY} examples" in descent.SETTING
    assert descent.sparse_weakens_dip({"table": pd.DataFrame(rows)}).verdict == expected


@pytest.mark.parametrize(
    "rule", [descent.lost_and_regained, descent.times_worsen, descent.dip_disappears, descent.sparse_weakens_dip]
)
def test_a_dip_at_another_n_decides_nothing(rule):
    with pytest.raises(InsufficientData):
        rule(dip((1, 0.5, 1), (1, 0.5, 1), n=150))


def sparsities(best, trials=50):
    """Return cells of all sparsities: in each setting one of them is twice as fast as the others."""
    spread = np.linspace(0.9, 1.1, trials)
    names = [*((*setting, False) for setting in sparsity.SETTINGS), (*sparsity.SETTINGS[0], True)]
    rows = []
    for (n, k, size, scaled), winner in zip(names, best, strict=True):
        for nonzeros in (*sparsity.NONZEROS, None):
            init = "dense" if nonzeros is None else f"sparse:{nonzeros}"
            value = 1 / np.sqrt(nonzeros) if scaled and nonzeros else 1.0 if nonzeros else np.nan
            times = spread * (1000 if nonzeros == winner else 2000)
            rows.append(made_cell(init, 1000, size, times, n=n, k=k) | {"model.init.value": value})
    return {"table": pd.DataFrame(rows).drop_duplicates(["task.n", "task.k", "model.init", "model.init.value"])}


@pytest.mark.parametrize(
    ("best", "expected"),
    [
        ((2, 2, 2, 2), "holds"),
        ((2, 2, 3, 2), "undecided"),
        ((2, 3, 3, 2), "undecided"),
        ((3, 3, 3, 3), "fails"),
        ((3, 3, 0, 3), "fails"),
        ((0, 0, 0, 0), "undecided"),
    ],
)
def test_two_non_zeros_are_best_if_faster_than_all_others_in_each_setting(best, expected):
    assert sparsity.two_is_best(sparsities(best)).verdict == expected


def test_sparsities_of_few_trials_or_of_one_size_of_weights_decide_nothing():
    for made in ({}, sparsities((2, 2, 2, 2), trials=39)):
        with pytest.raises(InsufficientData):
            sparsity.two_is_best(made)
    with pytest.raises(InsufficientData, match="another size"):
        sparsity.two_is_best({"table": sparsities((2, 2, 2, 2))["table"].drop(columns="model.init.value")})


def test_an_exactly_sparse_initialisation_holds_neurons_on_the_support():
    """Of 50^3 log(150) neurons 31.96 are expected on the support: the Poisson probability of 3 or more."""
    found = sparsity.exact_subnetwork({})
    assert found.verdict == "holds"
    mean = 50**3 * np.log(150) / 19_600
    assert found.numbers["(50, 3)"] == pytest.approx(1 - np.exp(-mean) * (1 + mean + mean**2 / 2), abs=1e-12)


def decays(spans, trials=20, steps=STEPS):
    """Return cells that all trials solve from the first of two sample sizes to before the second, by weight decay."""
    rows = [
        made_cell(init, decaying.EDGE_WIDTH, size, some(first <= size < last, trials=trials), n=200, steps=steps)
        | {"training.weight_decay": value}
        for init in ("dense", "sparse:2")
        for value, (first, last) in zip(decaying.DECAYS[1:], spans, strict=True)
        for size in decaying.EDGE_SIZES
    ]
    return {"table": pd.DataFrame(rows)}


NEVER = (10**6, 10**6)
STILL = ((9000, 60_000),) * 4


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        (((30_000, 10**6), (13_000, 200_000), (9000, 60_000), NEVER), "holds"),
        (((13_000, 10**6), (13_000, 200_000), (13_000, 60_000), (13_000, 30_000)), "undecided"),
        (((13_000, 10**6), (11_000, 200_000), (9000, 60_000), NEVER), "undecided"),
        (STILL, "fails"),
    ],
)
def test_weight_decay_moves_both_edges_by_more_than_a_factor_of_two(spans, expected):
    """The control: edges that stay fail, an edge that stays beside one that moves decides nothing."""
    assert decaying.moves(decays(spans)).verdict == expected


def test_edges_are_interpolated_and_lie_at_the_end_where_there_are_none():
    sizes = [100, 400, 1600, 6400]
    rates = np.array([[0, 1, 1, 0.25], [0.6, 1, 1, 1], [0, 0, 0, 0], [0, 1, 0, 1]], float)
    sets_in, is_lost = edges(rates, sizes)
    assert sets_in == pytest.approx([200, 100, 6400, 200])
    assert (
        is_lost[:2] == pytest.approx([1600 * 4 ** (2 / 3), 6400])
        and np.isnan(is_lost[2])
        and is_lost[3] == pytest.approx(800)
    )


def test_edges_need_the_published_steps_enough_trials_and_networks_that_learn():
    for lacking in ({}, decays(STILL, trials=19), decays(STILL, steps=20_000), decays((NEVER,) * 4)):
        with pytest.raises(InsufficientData):
            decaying.moves(lacking)


def grid_of(rates, trials=50, widths=(300, 1000, 3000), tasks=((50, 3),), inits=("dense",)):
    """Return columns of cells with given rates over widths, online last."""
    rows = [
        made_cell(init, width, None if column == len(rates) - 1 else 1000 * (column + 1), some(rate, trials), n=n, k=k)
        for n, k in tasks
        for init in inits
        for column, shares in enumerate(rates)
        for width, rate in zip(widths, shares, strict=True)
    ]
    found = pd.DataFrame(rows)
    return {"table": found.assign(rate=found["solved"] / found["trials"])}


@pytest.mark.compiles
@pytest.mark.slow
def test_width_never_lowers_success_unless_a_fall_is_significant():
    def columns(rates, others=(1.0, 1.0, 1.0), **options):
        return grid_of([*rates, *[others] * (18 - len(rates))], inits=grids.INITS, **options)

    rising = [(0.2, 0.5, 1.0), (1.0, 0.98, 1.0)]
    found = grids.never_lower(columns(rising))
    assert found.verdict == "holds" and "tried: (50, 3) up to width 3000" in found.because
    assert grids.never_lower(columns(rising, tasks=((50, 3), (100, 3)))).verdict == "holds"
    assert grids.never_lower(columns([(0.2, 0.5, 1.0), (1.0, 0.6, 1.0)])).verdict == "fails"
    for flat in ((0.0, 0.0, 0.0), (0.5, 0.5, 0.54)):
        found = grids.never_lower(columns([], flat))
        assert found.verdict == "undecided" and "success rises with no initialisation" in found.because
    assert grids.never_lower(columns([], (1.0, 0.94, 1.0))).verdict == "undecided"
    with pytest.raises(InsufficientData, match="all columns of both panels"):
        grids.never_lower(grid_of([(0.2, 0.5, 1.0)] * 17, inits=grids.INITS))


def test_columns_go_from_none_to_all_if_one_does():
    assert grids.none_to_all(grid_of([(0.0, 0.5, 1.0), (1.0, 1.0, 1.0)])).verdict == "holds"
    lower = [(0.3, 0.5, 1.0), (1.0, 1.0, 1.0)]
    assert grids.none_to_all(grid_of(lower)).verdict == "undecided"
    tasks = (50, 3), (100, 3)
    assert grids.none_to_all(grid_of(lower, widths=(300, 3000, 100_000), tasks=tasks)).verdict == "undecided"
    narrow = [(0.5, 0.5, 1.0), (1.0, 1.0, 1.0)]
    assert grids.none_to_all(grid_of(narrow, widths=(300, 3000, 100_000), tasks=tasks)).verdict == "fails"
    near = [
        (0.04, 0.5, 0.96),
        (1.0, 1.0, 1.0),
    ]  # one-sided limits of 0.187 and 0.813, over three widths 0.208 and 0.792
    assert grids.none_to_all(grid_of(near)).verdict == "undecided"
    half = grid_of([(0.0, 0.5, 0.5)])["table"]
    whole = grid_of([(0.0, 0.5, 1.0)], tasks=((100, 3),))["table"]
    assert grids.none_to_all({"table": pd.concat([half, whole])}).verdict == "holds"


def wide(dense, sparse, tasks=((150, 4),), **options):
    """Return cells of width 3000 with 100,000 examples and online, with a rate for each initialisation."""
    tables = [
        grid_of([(rate,)] * 2, widths=(3000,), tasks=tasks, inits=(init,), **options)["table"]
        for init, rate in zip(grids.INITS, (dense, sparse), strict=True)
    ]
    cells = pd.concat(tables)
    return cells.assign(**{"regime.size": cells["regime.size"] * 100})


@pytest.mark.parametrize(
    ("dense", "sparse", "expected"),
    [(0, 1, "holds"), (0.02, 0.9, "holds"), (0.2, 1, "undecided"), (0, 0.5, "undecided"), (1, 1, "undecided")],
)
def test_sparse_networks_open_large_n_if_dense_ones_solve_nothing_there(dense, sparse, expected):
    assert grids.opens_large_n({"table": wide(dense, sparse)}).verdict == expected


def test_dense_networks_that_learn_all_large_n_refute_that_only_sparse_ones_do():
    large = [task for task in grids.TASKS if task[0] >= 150]
    assert grids.opens_large_n({"table": wide(1, 1, large)}).verdict == "fails"
    assert grids.opens_large_n({"table": wide(1, 1, large[1:])}).verdict == "undecided"
    mixed = pd.concat([wide(1, 1, large[1:]), wide(0, 1, large[:1])])
    assert grids.opens_large_n({"table": mixed}).verdict == "holds"


def test_large_n_need_both_initialisations_wide_networks_enough_trials_and_large_samples():
    cells = wide(0, 1)
    for lacking in (
        cells[cells["model.init"] == "dense"],
        cells.assign(**{"model.width": 1000}),
        cells.assign(trials=39),
        cells.assign(**{"regime.size": 60_000}),
    ):
        with pytest.raises(InsufficientData):
            grids.opens_large_n({"table": lacking})


def test_the_published_grid_has_about_200000_trainings():
    found = grids.size_of_study({})
    assert (found.verdict, found.numbers["trainings"]) == ("holds", 194_400)
    assert {n for n, _ in grids.TASKS} == {50, 100, 150, 200, 250, 300} and {k for _, k in grids.TASKS} == {3, 4}


@pytest.mark.parametrize("rule", [grids.never_lower, grids.none_to_all, grids.opens_large_n])
def test_a_grid_of_few_trials_or_narrow_networks_decides_nothing(rule):
    rates = [(0.0, 0.5, 1.0)]
    for made in ({}, grid_of(rates, trials=49), grid_of(rates, widths=(10, 300, 1000))):
        with pytest.raises(InsufficientData):
            rule(made)
    with pytest.raises(InsufficientData):
        grids.opens_large_n(grid_of(rates))


def examples(edges=((0.2, 0.8),) * 3, shares=(1.0, 1.0, 1.0), large=(1.0, 1.0), trials=50):
    """Return the cells at the edges (dense and sparse), and those of sparse networks on few examples."""
    cells = [
        (*edge, init, share)
        for edge, both in zip(few.EDGES, edges, strict=True)
        for init, share in zip(zoom.INITS, both, strict=True)
    ]
    cells += [(*one, "sparse:2", share) for one, share in zip((*few.FEW, *few.LARGE), (*shares, *large), strict=True)]
    rows = [made_cell(init, 1000, size, some(share, trials), n=n, k=k) for n, k, size, init, share in cells]
    return {"table": pd.DataFrame(rows)}


@pytest.mark.parametrize(
    ("rule", "made", "expected"),
    [
        (few.few_suffice, examples(), "holds"),
        (few.few_suffice, examples(shares=(1.0, 0.84, 1.0)), "undecided"),
        (few.sparse_saves_data, examples(), "holds"),
        (few.sparse_saves_data, examples(edges=((0.2, 0.8), (0.2, 0.8), (0.2, 0.24))), "undecided"),
        (few.sparse_saves_data, examples(edges=((0.2, 0.8), (0.2, 0.8), (0.8, 0.2))), "fails"),
        (few.larger_k, examples(), "holds"),
        (few.larger_k, examples(large=(1.0, 0.0)), "undecided"),
    ],
)
def test_few_examples_suffice_sooner_for_sparse_networks(rule, made, expected):
    assert rule(made).verdict == expected


@pytest.mark.parametrize("rule", [few.few_suffice, few.sparse_saves_data, few.larger_k])
def test_cells_of_few_trials_decide_nothing(rule):
    for made in ({}, examples(trials=39)):
        with pytest.raises(InsufficientData):
            rule(made)


def neighbours(time, trials=10, n=200):
    """Return the chosen setting, solved at about 1000 steps, and its neighbours at the times of a function."""
    spread = np.linspace(0.95, 1.05, trials)
    rows = []
    for init, size, (name, value) in product(zoom.INITS, optimum.SIZES, [("", None), *optimum.NEIGHBOURS]):
        changed = {name: value} if name else {}
        times = spread * (time(name, value, size) if name else 1000)
        own = optimum.CHOSEN | changed
        rows.append(made_cell(init, 10_000, size, times, n=n) | own | {"setting": optimum._setting(own)})
    return {"table": pd.DataFrame(rows)}


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (lambda name, value, size: 4000, "holds"),
        (lambda name, value, size: 500 if value == 0.3 else 4000, "fails"),
        (lambda name, value, size: 500 if value == (0.3 if size else 0.03) else 4000, "fails"),
        (lambda name, value, size: 500 if value == 0.3 and size else 4000, "holds in part"),
        (lambda name, value, size: 500 if value == 96 else 4000, "holds"),
        (lambda name, value, size: 950 if value == 0.3 else 4000, "holds"),
        (lambda name, value, size: np.inf, "holds"),
        (lambda name, value, size: 850 if value == 0.3 else 4000, "undecided"),
    ],
)
def test_hyperparameters_are_an_optimum_if_no_neighbour_is_faster(time, expected):
    assert optimum.coarse_optimum(neighbours(time)).verdict == expected


def test_neighbours_of_few_trials_or_at_another_n_or_that_learn_nothing_decide_nothing():
    nothing_learned = neighbours(lambda *_: 1000)
    nothing_learned["table"].loc[nothing_learned["table"]["regime"] == "online", "times"] = "inf"
    few = (neighbours(lambda *_: 1000, trials=9), neighbours(lambda *_: 1000, n=50))
    for made in ({}, *few, nothing_learned):
        with pytest.raises(InsufficientData):
            optimum.coarse_optimum(made)
