"""Where tests find real MNIST."""

import os
from pathlib import Path

import pytest

FILE = Path(os.environ.get("ELEGANS_MNIST", ""))
needs_mnist = pytest.mark.skipif(not FILE.is_file(), reason="ELEGANS_MNIST names no file with MNIST")
