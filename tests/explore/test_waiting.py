"""A folder that has no store yet: the explorer waits for one, says so, and shows it once a run has made it."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from exploring import SWEEP, filled

from elegans.explorer.server import Server


def overview(address):
    with urllib.request.urlopen(f"{address}api/overview", timeout=30) as reply:
        return json.load(reply)["stores"]


def test_a_store_that_a_run_makes_in_the_folder_is_told_to_the_page_and_shown(tmp_path):
    with Server([str(tmp_path)]) as server, urllib.request.urlopen(f"{server.address}api/events", timeout=30) as events:
        assert events.readline() == b"retry: 1000\n"
        (waiting,) = overview(server.address)
        assert waiting["waiting"].startswith("a store must exist to be read") and waiting["name"] == str(tmp_path)
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{server.address}api/map", timeout=30)
        filled(tmp_path / "runs.db", SWEEP)
        told = (line for line in events if line.startswith(b"data: "))  # of the first commits too
        (shown,) = next(stores for _ in told for stores in [overview(server.address)] if "trials" in stores[0])
        while shown["trials"] < len(SWEEP):
            assert next(told)
            (shown,) = overview(server.address)
        assert "waiting" not in shown and shown["trials"] == len(SWEEP)


def test_the_page_has_the_command_of_a_run_whose_store_appears_there(tmp_path):
    one, other = tmp_path / "a folder", tmp_path / "sparsity-sweep"
    for folder in (one, other):
        folder.mkdir()
    with Server([str(one), str(other)]) as server:
        commands = [waiting["command"] for waiting in overview(server.address)]
    assert commands == [
        f"elegans run success-frontier --scale smoke --store '{one}/runs.db'",
        f"elegans run sparsity-sweep --scale smoke --out {tmp_path}",
    ]


def test_a_file_that_is_no_store_yet_is_waited_for_too(tmp_path):
    with Server([str(tmp_path)]) as server:
        (tmp_path / "runs.db").touch()
        (waiting,) = overview(server.address)
        assert "is empty" in waiting["waiting"]
        (tmp_path / "runs.db").unlink()
        filled(tmp_path / "runs.db", SWEEP)
        time.sleep(0.5)
        assert overview(server.address)[0]["trials"] == len(SWEEP)


def test_a_store_beside_one_that_is_waited_for_is_shown(place, tmp_path):
    (tmp_path / "later").mkdir()
    with Server([place, str(tmp_path / "later")]) as server:
        first, second = overview(server.address)
        assert first["trials"] == len(SWEEP) and second["waiting"]


@pytest.mark.slow
def test_the_command_says_in_a_line_what_it_waits_for(tmp_path):
    command = [sys.executable, "-m", "elegans", "explore", str(tmp_path), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("explorer http://127.0.0.1:")
        assert process.stdout.readline() == (
            f"waiting for a store in {tmp_path}: the page shows it once a run has made it\n"
        )
        process.terminate()
