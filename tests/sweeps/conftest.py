import importlib.util
import itertools

import pytest
from laboratory import ToyEngine
from postgres import Server, programs

from elegans.sweeps import Store
from elegans.training.engines import ENGINES


@pytest.fixture
def toy(monkeypatch):
    """Returns a function that puts a toy engine of the given making in reach of ``run``."""

    def make(**options):
        engine = ToyEngine(**options)
        monkeypatch.setitem(ENGINES, "toy", engine)
        return engine

    return make


@pytest.fixture(scope="session")
def server():
    """A PostgreSQL server of the tests' own."""
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("psycopg is not installed (the extra elegans[postgres])")
    folder = programs()
    if folder is None:
        pytest.skip("no PostgreSQL server is installed (Debian: apt-get install postgresql)")
    running = Server(folder)
    yield running
    running.close()


@pytest.fixture
def postgres(server):
    """The URL of an empty schema on a PostgreSQL server."""
    return server.new()


@pytest.fixture(params=["sqlite", "postgresql"])
def new_place(request, tmp_path):
    """Returns a function that returns a place for a store: a new file, or a new schema on a server."""
    if request.param == "postgresql":
        return request.getfixturevalue("server").new
    numbers = itertools.count()
    return lambda: tmp_path / f"runs{next(numbers)}.db"


@pytest.fixture
def place(new_place):
    """A place for a store, in SQLite and in PostgreSQL."""
    return new_place()


@pytest.fixture(params=["memory", "postgresql"])
def new_store(request):
    """Returns a function that opens an empty store: in memory, or in a new schema on a server."""
    if request.param == "memory":
        return Store
    running = request.getfixturevalue("server")
    return lambda: Store(running.new())


@pytest.fixture
def store(new_store):
    """An empty store, in memory and in PostgreSQL."""
    with new_store() as opened:
        yield opened
