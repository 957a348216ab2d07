import pytest
from laboratory import ToyEngine

from elegans.training.engines import ENGINES


@pytest.fixture
def toy(monkeypatch):
    """Returns a function that puts a toy engine of the given making in reach of ``run``."""

    def make(**options):
        engine = ToyEngine(**options)
        monkeypatch.setitem(ENGINES, "toy", engine)
        return engine

    return make
