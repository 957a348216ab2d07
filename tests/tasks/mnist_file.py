"""Where tests find real MNIST."""

import os
from pathlib import Path

import pytest

FILE = Path(os.environ.get("ELEGANS_MNIST") or Path(__file__).parents[3] / "shared" / "data" / "mnist.npz")
needs_mnist = pytest.mark.skipif(not FILE.is_file(), reason="ELEGANS_MNIST names no file with MNIST")
