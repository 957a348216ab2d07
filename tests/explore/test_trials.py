"""The table of all trials: sorted, filtered, searched and paged as the whole table in memory would be."""

from contextlib import closing

import pytest
from exploring import SWEEP
from stores import postgres  # noqa: F401

from elegans.errors import ExperimentError
from elegans.explorer import trials
from elegans.explorer.cells import Cells
from elegans.explorer.trials import TrialsQuery, trials_page
from elegans.store import Store

NUMBERS = ("seed", "solved_at", "test_error", "train_error", "steps", "seconds")


def page(store, cells, **query):
    return trials_page(store, cells, TrialsQuery.parse(query, cells))


def whole(store, cells):
    """Return all trials in memory, in the order of cells and seeds."""
    table = store.table()
    table["cell"] = [number for number in cells.numbers for _ in range(len(table) // len(cells.numbers))]
    return table


@pytest.fixture(scope="module")
def store(whole):
    """The store itself: no test of this file changes it."""
    with Store(whole, create=False) as opened:
        yield opened


@pytest.fixture(scope="module")
def cells(store):
    with closing(Cells(store)) as found:
        yield found


@pytest.fixture(params=[False, True], ids=["in one piece", "cells in a list"])
def listed(request, monkeypatch):
    """Read some cells by a list of them even where all are read."""
    if request.param:
        monkeypatch.setattr(trials, "WHOLE", 2.0)


@pytest.mark.parametrize("sort", [*NUMBERS, "state", "regime.size", "model.init", "cell"])
@pytest.mark.parametrize("falling", [False, True])
def test_pages_put_together_are_the_sorted_table(store, cells, monkeypatch, listed, sort, falling):
    monkeypatch.setattr(trials, "PAGE", 7)
    rows, total = [], 1
    while len(rows) < total:
        found = page(store, cells, sort=f"-{sort}" if falling else sort, offset=str(len(rows)))
        rows, total = rows + found["rows"], found["total"]
    assert total == len(SWEEP) == len({(row["cell"], row["seed"]) for row in rows})
    if sort in ("regime.size", "model.init"):
        index, _ = cells.axis(sort)
        keys = [cells.codes[cells.places(row["cell"]), index] for row in rows]
    else:
        keys = [row[sort] for row in rows]
    known = [key for key in keys if key is not None]
    assert known == sorted(known, reverse=falling)
    assert all(key is None for key in keys[len(known) :])  # trials without a value come last
    ties = [(key, row["cell"], row["seed"]) for key, row in zip(keys, rows, strict=True) if key is not None]
    groups = {key: [tie[1:] for tie in ties if tie[0] == key] for key in known}
    assert all(group == sorted(group) for group in groups.values())


def test_a_row_has_the_trial_as_the_store_has_it(store, cells):
    (row,) = page(
        store, cells, q="seed=3", **{"at.model.width": "20", "at.model.init": "dense", "at.regime.size": "300"}
    )["rows"]
    own = store.table().query("seed == 3 and `model.width` == 20 and `model.init` == 'dense' and `regime.size` == 300")
    assert (row["state"], row["solved_at"], row["test_error"]) == ("solved", 4, 0.05) and len(own) == 1
    assert row["axes"] == ["300", "20", "dense"] and row["engine"] == "toy"
    assert cells.name(row["cell"]) == "m = 300, width 20, init dense"


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ({"state": "failed"}, lambda row: row["state"] == "failed"),
        ({"at.model.width": "10"}, lambda row: row["model.width"] == 10),
        (
            {"at.regime.size": "online", "state": "solved"},
            lambda row: row["regime"] == "online" and row["state"] == "solved",
        ),
        ({"q": "seed<3"}, lambda row: row["seed"] < 3),
        ({"q": "solved_at>=2 solved_at<=3"}, lambda row: row["solved_at"] in (2, 3)),
        ({"q": "test_error!=0.5 width=20"}, lambda row: row["test_error"] == 0.05 and row["model.width"] == 20),
        ({"q": "m>100 state=unsolved"}, lambda row: row["regime"] == "sample:300" and row["state"] == "unsolved"),
        ({"q": "init=sparse:2"}, lambda row: row["model.init"] == "sparse:2"),
        ({"q": "Sparse ONLINE"}, lambda row: row["model.init"] == "sparse:2" and row["regime"] == "online"),
        ({"q": "valueerror width>=20"}, lambda row: row["state"] == "failed" and row["model.width"] == 20),
        ({"q": "nothing-has-this"}, lambda row: False),
    ],
)
@pytest.mark.parametrize("sort", ["cell", "-seconds"])
def test_filters_and_search_keep_the_rows_of_which_they_hold(store, cells, listed, query, holds, sort):
    found = page(store, cells, sort=sort, **query)
    table = whole(store, cells).to_dict("records")
    assert sorted((row["cell"], row["seed"]) for row in found["rows"]) == [
        (row["cell"], row["seed"]) for row in table if holds(row)
    ]
    assert found["total"] == len(found["rows"])


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"sort": "colour"}, "trials are sorted by cell, seed, state, .*: sort='colour'"),
        ({"state": "happy"}, "a state must be one of solved, unsolved, diverged, failed, interrupted: state='happy'"),
        ({"at.model.width": "11"}, "model.width must be one of its values: model.width='11'"),
        ({"at.model": "11"}, "an axis must be swept: 'model'"),
        ({"q": "colour=red"}, "a condition must be on .*: 'colour=red'"),
        ({"q": "seed>many"}, "a condition on a number must compare it with a number: 'seed>many'"),
        ({"q": "init>dense"}, "values that are not numbers can only be compared with = or !=: 'init>dense'"),
        ({"offset": "-1"}, "offset must be a whole number: offset='-1'"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(store, cells, query, message):
    with pytest.raises(ExperimentError, match=message):
        page(store, cells, **query)


def test_text_from_a_query_is_a_value_and_never_sql(store, cells):
    for text in ("'; DROP TABLE trials; --", "state='solved'", "engine=%", "state=solved' OR '1", "\\", "%", "_"):
        assert page(store, cells, q=text)["total"] == 0
    assert page(store, cells)["total"] == len(SWEEP)


def test_a_server_gives_the_same_pages_as_a_file(postgres, store, cells):  # noqa: F811
    from exploring import filled

    with Store(filled(postgres, SWEEP), create=False) as other, closing(Cells(other)) as others:
        for query in (
            {"sort": "-test_error"},
            {"sort": "state", "q": "valueerror"},
            {"q": "m>100 seed<2", "sort": "-seconds"},
        ):
            assert page(other, others, **query) == page(store, cells, **query)
