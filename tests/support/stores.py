"""Fixtures: a toy engine in reach of ``run``, and places for stores in SQLite and on a PostgreSQL server."""

import importlib.util
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from laboratory import ToyEngine
    from postgres import Server

    from elegans.store import Store


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> "Callable[..., ToyEngine]":
    """Returns a function that puts a toy engine of the given making in reach of ``run``."""
    from laboratory import ToyEngine

    from elegans.training.engines import ENGINES

    def make(**options: Any) -> ToyEngine:
        engine = ToyEngine(**options)
        monkeypatch.setitem(ENGINES, "toy", engine)
        return engine

    return make


@pytest.fixture(scope="session")
def server() -> "Iterator[Server]":
    """A PostgreSQL server of the tests' own."""
    from postgres import Server, programs

    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("psycopg is not installed (the extra elegans[postgres])")
    folder = programs()
    if folder is None:
        pytest.skip("no PostgreSQL server is installed (Debian: apt-get install postgresql)")
    running = Server(folder)
    yield running
    running.close()


@pytest.fixture
def postgres(server: "Server") -> str:
    """The URL of an empty schema on a PostgreSQL server."""
    return server.new()


@pytest.fixture(params=["sqlite", "postgresql"])
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Path | str]:
    """Returns a function that returns a place for a store: a new file, or a new schema on a server."""
    if request.param == "postgresql":
        server: Server = request.getfixturevalue("server")
        return server.new
    numbers = itertools.count()
    return lambda: tmp_path / f"runs{next(numbers)}.db"


@pytest.fixture
def place(new_place: Callable[[], Path | str]) -> Path | str:
    """A place for a store, in SQLite and in PostgreSQL."""
    return new_place()


@pytest.fixture(params=["memory", "postgresql"])
def new_store(request: pytest.FixtureRequest) -> "Callable[[], Store]":
    """Returns a function that opens an empty store: in memory, or in a new schema on a server."""
    from elegans.store import Store

    if request.param == "memory":
        return Store
    running: Server = request.getfixturevalue("server")
    return lambda: Store(running.new())


@pytest.fixture
def store(new_store: "Callable[[], Store]") -> "Iterator[Store]":
    """An empty store, in memory and in PostgreSQL."""
    with new_store() as opened:
        yield opened
