import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from exploring import SWEEP, filled

from elegans.explorer.cells import Cells
from elegans.store import Store


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store of two widths, three regimes and two initialisations, eight seeds each, one of which fails."""
    return filled(tmp_path_factory.mktemp("whole") / "runs.db", SWEEP)


@pytest.fixture
def place(whole: str, tmp_path: Path) -> str:
    """A copy of that store, which a test may change."""
    return shutil.copy(whole, str(tmp_path / "runs.db"))


@pytest.fixture
def store(place: str) -> Iterator[Store]:
    with Store(place, create=False) as opened:
        yield opened


@pytest.fixture
def cells(store: Store) -> Iterator[Cells]:
    found = Cells(store)
    yield found
    found.close()
