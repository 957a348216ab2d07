"""The server: its answers are JSON of what was asked, and it answers only who may ask."""

import contextlib
import hashlib
import json
import re
import sqlite3
import threading
import time
import urllib.error
import urllib.request

import pytest
from exploring import SWEEP, filled, outcome
from laboratory import TRIAL
from starlette.testclient import TestClient

import elegans as el
from elegans.explorer.cells import Cells
from elegans.explorer.overview import overview
from elegans.explorer.server import LOOPBACK, Explored, Explorer, Server, application
from elegans.store import Store


@pytest.fixture
def client(place):
    explored = [Explored(place), Explored(place)]
    with TestClient(application(Explorer(explored), LOOPBACK, None), base_url="http://127.0.0.1:80") as found:
        yield found
    for one in explored:
        one.close()


def answer(client, path, **query):
    reply = client.get(f"/api/{path}", params=query)
    assert reply.status_code == 200, reply.text
    return json.loads(reply.text, parse_constant=lambda name: pytest.fail(f"{name} in {path}"))


def test_the_overview_has_each_store_with_its_axes_states_runs_and_failures(client):
    first, second = answer(client, "overview")["stores"]
    assert (first["index"], second["index"]) == (0, 1)
    assert first["name"].endswith("runs.db") and not first["alive"]
    assert first["axes"][0] == {
        "name": "regime.size",
        "label": "regime.size",
        "word": "m",
        "values": ["100", "300", "online"],
        "numeric": True,
    }
    assert first["states"] == {
        "solved": 72,
        "unsolved": 12,
        "diverged": 0,
        "failed": 12,
        "interrupted": 0,
        "running": 0,
        "missing": 0,
    }
    assert (first["cells"], first["trials"]) == (12, 96)
    (run,) = first["runs"]
    assert (run["state"], run["done"], run["trials"], run["seconds_left"]) == ("finished", 96, 96, None)
    assert len(first["failures"]) == 12
    assert first["failures"][0] == {
        "cell": 1,
        "name": "m = 100, width 10, init dense",
        "seed": 7,
        "reason": "ValueError: <script>alert(1)</script>",
    }


def test_the_map_comes_with_its_view_and_a_query_that_gives_it_again(client):
    found = answer(client, "map", facet="", stat="median_steps")
    assert found["view"] == {
        "x": "regime.size",
        "y": "model.width",
        "facet": None,
        "at": {"model.init": "dense"},
        "stat": "median_steps",
        "theory": False,
        "contour": True,
        "theories": False,
    }
    again = json.loads(client.get(f"/api/map?{found['query']}").text)
    assert again == found
    assert found["title"].startswith("median steps to solve") and found["title"].endswith("model.init = dense")


def test_a_cell_is_answered_by_its_number(client):
    assert answer(client, "cell/3", measure="probe.row")["figures"][-1]["title"] == "probe.row"


def test_a_comparison_of_two_values_pairs_cells_and_seeds(client):
    found = answer(client, "compare", by="model.init", a="dense", b="sparse:2")
    assert found["sides"] == ["dense", "sparse:2"]
    assert len(found["rows"]) == 6
    assert all(row["paired"] and row["n"] == 7 and row["difference"] == 0 for row in found["rows"])
    again = json.loads(client.get(f"/api/compare?{found['query']}").text)
    assert again == found
    traces = [(trace["type"], trace.get("mode")) for trace in found["figure"]["data"]]
    assert traces == [("heatmap", None), ("scatter", "text"), ("scatter", "markers")]


def test_two_stores_are_compared_by_their_axes(client):
    found = answer(client, "compare", other="1", stat="median_steps")
    assert [side.endswith("runs.db") for side in found["sides"]] == [True, True]
    assert all(row["difference"] == 0 and row["low"] == row["high"] == 0 and row["paired"] for row in found["rows"])


@pytest.mark.parametrize(
    ("query", "head"),
    [
        ({"kind": "map", "facet": ""}, "cell,regime.size,model.width,model.init,rate,low,high,trials"),
        ({"kind": "cell", "cell": "2"}, "seed,state,solved_at,test_error"),
        (
            {"kind": "trials", "state": "solved", "at.model.width": "10", "q": "seed=2"},
            "regime.size,model.width,model.init,cell,seed,state",
        ),
        ({"kind": "compare"}, "model.width,regime.size,cell,a,b,difference,low,high,n,paired"),
    ],
)
def test_the_numbers_of_each_chart_are_csv(client, query, head):
    reply = client.get("/api/csv", params=query)
    assert reply.headers["content-type"] == "text/csv; charset=utf-8"
    first, *rows = reply.text.splitlines()
    assert first.startswith(head) and len(rows) in (6, 8)


TRIAL_COLUMNS = (
    "a condition must be on seed, state, solved_at, test_error, train_error, steps, seconds, engine, "
    "regime.size, model.width, model.init: 'joy=1'"
)


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("map?x=nothing", 400, "an axis must be swept: 'nothing'; regime.size, model.width, model.init"),
        ("map?store=2", 400, "store must be from 0 to 1: store='2'"),
        ("map?store=../../etc/passwd", 400, "store must be from 0 to 1: store='../../etc/passwd'"),
        ("cell/1;drop", 400, "a cell must be a number: '1;drop'"),
        ("cell/99", 400, "a cell must be in the store: cell=99"),
        ("cell/1?measure=a.b", 400, "a measure must be recorded: 'a.b'; probe.gap, probe.row, probe.map"),
        ("compare?by=model.width&a=10&b=10", 400, "two different values must be compared: model.width='10'"),
        ("csv?kind=all", 400, "kind must be map, cell, compare or trials: kind='all'"),
        ("curves", 400, "from 1 to 12 cells must be chosen: 0"),
        ("curves?cells=1,99", 400, "a cell must be in the store: cell=99"),
        ("curves?cells=1&what=joy", 400, "a curve must be recorded: 'joy'; minibatch error, loss, probe.gap"),
        ("parameters?stat=joy", 400, "unknown statistic 'joy'; known: median_steps, rate, seconds, test_error"),
        ("trials?q=joy=1", 400, TRIAL_COLUMNS),
        ("nothing", 404, "an address must be one of the explorer's: /api/nothing"),
        ("../../../etc/passwd", 404, "an address must be one of the explorer's: /etc/passwd"),
    ],
)
def test_what_there_is_not_is_said_in_one_line(client, path, status, message):
    reply = client.get(f"/api/{path}")
    assert (reply.status_code, reply.json()) == (status, {"error": message})


def test_too_few_cells_to_rank_parameters_are_no_error(client):
    reply = client.get("/api/parameters?at.model.width=10")
    lacking = {"explanation": ["at least 12 cells with a success rate are needed: 6."], "importance": None}
    assert (reply.status_code, reply.json()) == (200, lacking)


def test_only_reading_is_answered(client):
    assert {client.post("/api/map").status_code, client.delete("/api/cell/1").status_code} == {405}


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[::2]"])
def test_a_foreign_name_that_resolves_to_this_machine_is_refused(client, host):
    assert client.get("/api/overview", headers={"host": host}).status_code == 400


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "[::1]:80"])
def test_this_machines_own_names_are_answered(client, host):
    assert client.get("/api/overview", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/page.js", "/plotly.js", "/api/overview", "/api/nothing"])
def test_every_answer_forbids_inline_scripts_evaluation_and_other_origins(client, path):
    headers = client.get(path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'" and policy["script-src"] == "'self'"
    assert policy["connect-src"] == "'self'" and policy["frame-ancestors"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
    assert not re.search(r"access-control", " ".join(headers))


def test_the_page_loads_nothing_from_elsewhere(client):
    page = client.get("/").text
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", page)
    assert "<script>" not in page


def test_plotly_is_kept_by_the_browser_as_long_as_its_version_stays(client):
    first = client.get("/plotly.js")
    assert len(first.content) > 10**6
    assert client.get("/plotly.js", headers={"if-none-match": first.headers["etag"]}).status_code == 304


def test_on_another_interface_every_request_needs_the_token(place):
    explored = Explored(place)
    client = TestClient(application(Explorer([explored]), None, "secret"), base_url="http://192.168.0.7")
    for query in ({}, {"token": ""}, {"token": "wrong"}):
        reply = client.get("/api/overview", params=query)
        assert reply.status_code == 403 and "set-cookie" not in reply.headers
    assert client.get("/api/overview", headers={"cookie": "elegans=wrong"}).status_code == 403
    first = client.get("/", params={"token": "secret"})
    assert first.status_code == 200
    assert {"HttpOnly", "SameSite=Strict"} <= set(re.split("; ", first.headers["set-cookie"]))
    assert client.get("/api/overview").status_code == 200  # by the cookie
    explored.close()


def test_names_from_a_hostile_store_are_escaped_where_plotly_reads_html(tmp_path):
    hostile = '<a href="http://evil.example">x</a>'
    place = filled(tmp_path / "runs.db", SWEEP)
    with sqlite3.connect(place) as connection:
        for number, *texts in connection.execute("SELECT id, trial, columns FROM cells").fetchall():
            trial, columns = map(json.loads, texts)
            kind = hostile + columns["model.init"]
            columns = {name: value for name, value in columns.items() if not name.startswith("model.init.")}
            trial["model"]["init"], columns["model.init"] = {"kind": kind}, kind
            key = hashlib.sha256(json.dumps(trial, sort_keys=True).encode()).hexdigest()
            values = (key, json.dumps(trial), json.dumps(columns), number)
            connection.execute("UPDATE cells SET hash=?, trial=?, columns=? WHERE id=?", values)
    connection.close()
    explored = Explored(place)
    client = TestClient(application(Explorer([explored]), LOOPBACK, None), base_url="http://localhost")
    for query in ({}, {"y": "model.init", "facet": ""}, {"facet": "model.width"}):
        figure = json.dumps(answer(client, "map", **query)["figure"])
        assert "<a" not in figure and "&lt;a href=" in figure
    explored.close()


def test_a_store_that_disappears_is_one_line_and_not_an_error_of_the_server(client, place, monkeypatch):
    from pathlib import Path

    Path(place).unlink()
    time.sleep(0.3)
    reply = client.get("/api/map")
    assert reply.status_code == 503
    assert reply.json()["error"].startswith("a store must exist to be read: ")


@pytest.mark.slow
def test_a_commit_is_told_to_an_open_page_and_the_next_map_has_it(tmp_path):
    path = tmp_path / "runs.db"
    with Store(path) as writer:
        run, _ = writer.begin(SWEEP)
        with Server([str(path)]) as server:
            events = urllib.request.urlopen(f"{server.address}api/events", timeout=30)
            assert events.readline() == b"retry: 1000\n"
            time.sleep(0.5)
            run.record([outcome(trial) for trial in run.claim(list(SWEEP)[:8])])
            versions = []
            for line in iter(events.readline, b""):  # the claim is a commit too, and may be told of by itself
                if not line.startswith(b"data: "):
                    continue
                told = json.loads(line.removeprefix(b"data: "))
                versions.append(told["version"])
                with urllib.request.urlopen(f"{server.address}api/map", timeout=30) as reply:
                    heat = json.load(reply)["figure"]["data"][0]
                if 6 / 7 in heat["z"][0]:
                    break
            assert told["store"] == 0 and versions == sorted(set(versions)) and versions[0] > 1
            events.close()
        run.release()


def test_the_pace_of_a_run_is_that_of_its_last_minute(tmp_path):
    path, now = tmp_path / "runs.db", time.time()
    with Store(path) as writer:
        run, _ = writer.begin(SWEEP)
        run.record([outcome(trial) for trial in run.claim(list(SWEEP)[:48])])
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE runs SET started = ?", [now - 3600])
            for seed, age in ((0, 90), (1, 50), (2, 30)):  # of six trials each
                connection.execute("UPDATE trials SET recorded = ? WHERE seed = ?", [now - age, seed])
        with contextlib.closing(Cells(writer)) as cells:
            (found,) = overview(writer, cells, [])["runs"]
        run.release()
    assert (found["state"], found["done"], found["per_second"]) == ("at work", 48, 42 / 60)
    assert found["seconds_left"] == pytest.approx(48 / found["per_second"])


def test_a_run_that_a_later_one_continued_or_repeated_is_superseded_and_one_beside_it_is_not(tmp_path):
    def states(writer):
        with contextlib.closing(Cells(writer)) as cells:
            return [run["state"] for run in overview(writer, cells, [])["runs"]]

    probes = [el.probes.HeldOutErrorRate()]
    with Store(tmp_path / "runs.db") as writer:
        for number, kinds in enumerate([(), (), probes]):
            run, _ = writer.begin(SWEEP, name="own", probes=kinds)
            trials = run.claim(SWEEP) if number else []  # the first run is stopped before its first outcome
            run.record([outcome(trial) for trial in trials])
            run.release()
        beside = [writer.begin(el.grid(TRIAL, {"model.width": [30, 40]}), name="beside")[0] for _ in range(2)]
        for run, trial in zip(beside, beside[0].sweep, strict=True):
            run.record([outcome(one) for one in run.claim([trial])])
        for run in beside:
            run.release()
        assert states(writer) == ["superseded", "superseded", "finished", "finished", "finished"]


def test_a_server_ends_although_a_page_is_open(place):
    with Server([place]) as server:
        events = urllib.request.urlopen(f"{server.address}api/events", timeout=30)
        events.readline()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(server.address, timeout=5)
    events.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("uvicorn")]


@pytest.mark.slow
def test_the_experiment_of_a_store_is_recognised_and_judged(tmp_path):
    from elegans.experiments import find

    sweep = find("success-frontier").scale("smoke").cells(1)
    few = el.Sweep(sweep.parts[:4])
    with Store(tmp_path / "runs.db") as writer:
        run, _ = writer.begin(few, name="success-frontier")
        run.record([outcome(trial) for trial in run.claim(few)])
        run.release()
    explored = Explored(str(tmp_path / "runs.db"))
    known = explored.verdicts.latest()
    assert [(one["name"], one["scale"]) for one in known] == [("success-frontier", None)]
    until = time.monotonic() + 120
    while not explored.verdicts.version and time.monotonic() < until:
        time.sleep(0.05)
    (judged,) = explored.verdicts.latest()
    assert judged["scale"] == "smoke" and explored.version == 2
    assert {one["id"]: one["verdict"] for one in judged["verdicts"]}["pareto/size-of-the-study"] == "holds"
    assert all(one["because"] for one in judged["verdicts"])
    explored.close()


def test_a_store_of_another_experiments_name_has_no_scale(tmp_path):
    with Store(tmp_path / "runs.db") as writer:
        run, _ = writer.begin(el.grid(TRIAL, {}), name="success-frontier")
        run.release()
    explored = Explored(str(tmp_path / "runs.db"))
    from elegans.explorer.verdicts import judged

    ((found,), statistics) = judged(explored.store, explored.cells)
    assert statistics == {}
    assert (found["scale"], found["verdicts"]) == (None, [])
    explored.close()
