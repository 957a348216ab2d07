"""A store that is replaced, removed or cut off while it is explored: the page says so, and recovers with the store."""

import json
import os
import shutil
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from exploring import SWEEP, filled
from laboratory import TRIAL
from starlette.testclient import TestClient

import elegans as el
from elegans.explorer import server
from elegans.explorer.server import LOOPBACK, Explored, Explorer, Server, application

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows lets nobody replace or remove an open file")
PATHS = [
    "overview",
    "map",
    "cell/1",
    "compare?by=model.init&a=dense&b=sparse:2",
    "csv?kind=map",
    "csv?kind=cell&cell=1",
]


@pytest.fixture
def client(place, monkeypatch):
    monkeypatch.setattr(server, "REFRESH_SECONDS", 0.0)
    explored = Explored(place)
    with TestClient(application(Explorer([explored]), LOOPBACK, None), base_url="http://127.0.0.1:80") as client:
        yield client
    explored.close()


def replaced(path, content):
    draft = path.with_name("draft")
    draft.write_bytes(content)
    draft.replace(path)


def replaced_by_folder(path):
    path.unlink()
    path.mkdir()


def replaced_by_pipe(path):
    path.unlink()
    os.mkfifo(path)


FAULTS = {
    "removed": Path.unlink,
    "folder removed": lambda path: shutil.rmtree(path.parent),
    "truncated": lambda path: os.truncate(path, 0),
    "cut short": lambda path: os.truncate(path, 5000),
    "cut to a few bytes": lambda path: os.truncate(path, 7),
    "overwritten": lambda path: path.write_bytes(b"no store" * 10_000),
    "replaced by a text": lambda path: replaced(path, b"no store" * 10_000),
    "replaced by an empty file": lambda path: replaced(path, b""),
    "replaced by a folder": replaced_by_folder,
    "replaced by a pipe": replaced_by_pipe,
}


def restored(path, content, in_place):
    if path.is_dir():
        path.rmdir()
    path.parent.mkdir(exist_ok=True)
    if in_place and path.is_file():
        path.write_bytes(content)
    else:
        replaced(path, content)


FILES = [name for name in FAULTS if name.split()[-1] not in ("removed", "folder", "pipe")]
"""Faults that leave a file in which the store can be restored."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "in_place"), [*((name, False) for name in FAULTS), *((name, True) for name in FILES)])
def test_a_store_that_is_lost_is_one_line_everywhere_and_comes_back_by_itself(client, place, name, in_place):
    path = Path(place)
    content = path.read_bytes()
    before = {address: client.get(f"/api/{address}") for address in PATHS}
    assert {reply.status_code for reply in before.values()} == {200}
    FAULTS[name](path)
    for address in PATHS:
        reply = client.get(f"/api/{address}")
        assert reply.status_code == 503, reply.text
        assert reply.json()["error"].startswith("a store") and reply.json()["error"].isprintable()
    restored(path, content, in_place)
    for address in PATHS[2:]:
        assert client.get(f"/api/{address}").content == before[address].content
    assert client.get("/api/map").json()["figure"] == before["map"].json()["figure"]


@pytest.mark.parametrize("in_place", [True, False])
def test_another_store_in_the_same_place_is_shown_instead(client, place, tmp_path, in_place):
    assert client.get("/api/overview").json()["stores"][0]["trials"] == len(SWEEP)
    other = el.grid(TRIAL, {"model.width": [30, 40], "regime": ["online", "sample:7", "sample:9"]}, seeds=16)
    restored(Path(place), Path(filled(tmp_path / "other.db", other)).read_bytes(), in_place)
    (shown,) = client.get("/api/overview").json()["stores"]
    assert shown["trials"] == len(other)
    assert [axis["values"] for axis in shown["axes"] if axis["name"] == "model.width"] == [["30", "40"]]


@pytest.mark.slow
def test_an_open_page_is_told_that_its_store_is_lost_and_that_it_is_back(place):
    path = Path(place)
    content = path.read_bytes()
    with Server([place]) as running, urllib.request.urlopen(f"{running.address}api/events", timeout=30) as events:
        assert events.readline() == b"retry: 1000\n"
        os.truncate(path, 0)
        assert next(line for line in events if line.startswith(b"data: "))
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{running.address}api/map", timeout=30)
        with refused.value as reply:
            assert reply.status == 503 and "is empty" in json.load(reply)["error"]
        path.write_bytes(content)
        assert next(line for line in events if line.startswith(b"data: "))
        assert urllib.request.urlopen(f"{running.address}api/map", timeout=30).status == 200
