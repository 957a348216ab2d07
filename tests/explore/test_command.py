"""The command: it says where the page is, only reads, and ends in one line."""

import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from exploring import SWEEP

from elegans.cli import main
from elegans.interruption import stopped_by_signals
from elegans.sweeps.example import EXAMPLE_TOML

ENDED = "interrupted: the explorer is closed; its stores were only read\n"


def started(*words, **options):
    command = [sys.executable, "-m", "elegans", "explore", *words, "--no-open"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.slow
def test_an_interrupted_server_ends_in_one_line(place, interruptible):
    process = started(place)
    said = process.stdout.readline()
    address = re.fullmatch(r"explorer (http://127\.0\.0\.1:\d+/) \(Ctrl-C ends it\)\n", said)[1]
    with urllib.request.urlopen(f"{address}api/overview", timeout=60) as reply:
        assert json.load(reply)["stores"][0]["trials"] == len(SWEEP)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, ENDED, "")


@pytest.mark.slow
def test_a_signal_ends_the_server_although_a_page_is_open_and_at_any_number(place):
    process = started(place)
    address = re.search(r"http://\S+/", process.stdout.readline())[0]
    with urllib.request.urlopen(f"{address}api/events", timeout=60) as events:
        events.readline()
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGHUP):
            process.send_signal(number)
        assert process.communicate(timeout=60) == (ENDED, "")
    assert process.returncode == 130


def test_a_signal_during_a_wait_or_another_signal_stops_a_run_all_the_same():
    stop = threading.Event()
    with stopped_by_signals(stop):
        with stop._cond:  # the lock that a wait holds when it begins and ends, and a set
            signal.raise_signal(signal.SIGTERM)
        assert stop.wait(60)


@pytest.mark.slow
def test_a_server_whose_output_nobody_reads_any_more_ends_silently(place):
    process = started(place)
    process.stdout.readline()
    process.stdout.close()
    process.send_signal(signal.SIGTERM)
    assert (process.wait(timeout=60), process.stderr.read()) == (130, "")
    process.stderr.close()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.05, 0.5, 1, 2])
def test_a_signal_before_the_page_is_served_ends_the_program_at_once(place, seconds):
    process = started(place)
    time.sleep(seconds)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert err == ""
    if process.returncode == -signal.SIGTERM:  # 143 in a shell
        assert out == "" or out.startswith("explorer http://")
    else:  # on a fast machine the page was served by then
        assert (process.returncode, out.splitlines()[1:]) == (130, [ENDED.strip()])


def test_a_signal_during_the_import_of_a_users_file_ends_the_program(place, tmp_path):
    slow = tmp_path / "slow.py"
    slow.write_text("import time\nprint('here', flush=True)\ntime.sleep(600)\n")
    process = started(place, "--import", str(slow))
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGTERM)
    assert (*process.communicate(timeout=60), process.returncode) == ("", "", -signal.SIGTERM)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing.db"], "error: a store must exist to be read: nothing.db\n"),
        (["sqlite://"], "error: a command's store must be a file or a server's database: 'sqlite://'\n"),
        (
            ["{place}", "--host", "192.0.2.1"],
            "error: a server must listen on a free address of this machine: 192.0.2.1:0",
        ),
        (["{place}", "--port", "70000"], "error: Invalid value for '--port'"),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_line(place, words, message, capsys):
    code = main(["explore", *(word.format(place=place) for word in words), "--no-open"])
    told = capsys.readouterr().err
    assert code == 2 and told.startswith(message) and told.count("\n") == 1


@pytest.mark.slow
def test_the_folder_of_results_means_the_store_in_it(place):
    process = started(Path(place).parent, "--port", "0")
    address = process.stdout.readline().split()[1]
    with urllib.request.urlopen(f"{address}api/overview", timeout=30) as reply:
        (store,) = json.load(reply)["stores"]
    process.terminate()
    process.communicate(timeout=20)
    assert store["name"].endswith("runs.db") and store["trials"] == 96


def test_another_interface_has_a_token_in_its_address(place):
    from elegans.explorer.server import Server

    with Server([place], host="0.0.0.0") as server:
        assert re.fullmatch(r"http://0\.0\.0\.0:\d+/\?token=[\w-]{20,}", server.address)
        port = server.socket.getsockname()[1]
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30)


@pytest.mark.slow
def test_a_sweep_opens_the_explorer_beside_it_and_takes_it_along_when_it_ends(tmp_path, monkeypatch):
    (tmp_path / "my.toml").write_text(
        EXAMPLE_TOML.replace("seeds = 5", "seeds = 1").replace("steps = 2000", "steps = 200")
    )
    command = [sys.executable, "-m", "elegans", "sweep", "my.toml", "--store", "new.db", "--workers", "1", "--explore"]
    monkeypatch.setenv("BROWSER", "true")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    (
        first,
        *_,
    ) = done.stdout.splitlines()
    address = re.fullmatch(r"explorer (http://127\.0\.0\.1:\d+/) \(it ends with the run\)", first)[1]
    assert "to open it again: elegans explore new.db" in done.stdout
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=5)


@pytest.mark.parametrize("host", ["", " ", "\t", "127.0.0.1 ", "\n", "a\0b", "ü" * 300, "a" * 5000])
def test_a_host_that_names_no_interface_is_refused_in_one_line(host, place, capsys):
    from elegans.cli import app

    assert app.run(["explore", str(place), "--no-open", "--host", host]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and said.count("\n") == 1 and len(said) < 400
