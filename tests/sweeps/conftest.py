import importlib.util

import pytest
from laboratory import ToyEngine
from postgres import Server, programs

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
    """The URL of an empty database on a PostgreSQL server."""
    return server.new()
