"""The extension under test: the installed one, or the file that ELEGANS_NATIVE_FILE names.

The second way serves sanitized builds, which need no installed package.
"""

import importlib
import importlib.util
import os
import sys

import pytest

NAME = "elegans._native"


def load():
    path = os.environ.get("ELEGANS_NATIVE_FILE")
    if not path:
        return importlib.import_module(NAME)
    if NAME not in sys.modules:
        spec = importlib.util.spec_from_file_location(NAME, path)
        sys.modules[NAME] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[NAME])
    return sys.modules[NAME]


@pytest.fixture(scope="session")
def native_module():
    return load()


@pytest.fixture(params=load().instruction_sets())
def native(request, native_module):
    """The extension, once with each instruction set that this machine has."""
    before = native_module.instruction_set()
    native_module.use_instruction_set(request.param)
    yield native_module
    native_module.use_instruction_set(before)
