import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "sweeps"))  # the toy engine and its trial

import pytest
from exploring import SWEEP, filled

from elegans.explorer.cells import Cells
from elegans.sweeps import Store


@pytest.fixture
def place(tmp_path):
    """A store of two widths, three regimes and two initialisations, eight seeds each, one of which fails."""
    return filled(tmp_path / "runs.db", SWEEP)


@pytest.fixture
def store(place):
    with Store(place, create=False) as opened:
        yield opened


@pytest.fixture
def cells(store):
    found = Cells(store)
    yield found
    found.close()
