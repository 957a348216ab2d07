"""The extension under test: the installed one, or the file that ELEGANS_NATIVE_FILE names.

The second way serves sanitized builds, which need no installed package.
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

NAME = "elegans._native"


def load() -> Any:
    path = os.environ.get("ELEGANS_NATIVE_FILE")
    if not path:
        return importlib.import_module(NAME)
    if NAME not in sys.modules:
        spec = importlib.util.spec_from_file_location(NAME, path)
        assert spec is not None and spec.loader is not None
        sys.modules[NAME] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[NAME])
    return sys.modules[NAME]


@pytest.fixture(scope="session")
def native_module() -> Any:
    return load()


SETS = load().instruction_sets()
"""From the simplest to the one that is used; those between them are left to the slow tests."""


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.slow] * (name in SETS[1:-1])) for name in SETS])
def native(request: pytest.FixtureRequest, native_module: Any) -> Iterator[Any]:
    """The extension, once with each instruction set that this machine has."""
    before = native_module.instruction_set()
    native_module.use_instruction_set(request.param)
    yield native_module
    native_module.use_instruction_set(before)
