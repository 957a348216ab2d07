"""What the tests of this study share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A store that all tests and their processes share, so that cells of several tests are trained once."""
    base = tmp_path_factory.getbasetemp()
    return (base if worker_id == "master" else base.parent) / "pareto-frontiers.db"
