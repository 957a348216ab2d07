"""Every public method says what it does, or overrides one that does."""

import importlib
import inspect
import pkgutil

import elegans


def modules():
    for found in pkgutil.walk_packages(elegans.__path__, "elegans."):
        if not found.name.endswith(("__main__", "._native", ".torch_modules")):
            yield importlib.import_module(found.name)


def _is_hidden(owner):
    """Protocols point to the class whose members they list."""
    return owner.__name__.startswith("_") or getattr(owner, "_is_protocol", False)


def public_members(module):
    for owner in vars(module).values():
        if inspect.isclass(owner) and owner.__module__ == module.__name__ and not _is_hidden(owner):
            for name, member in vars(owner).items():
                functions = inspect.isfunction(member) or isinstance(member, property | classmethod | staticmethod)
                if functions and not name.startswith("_"):
                    yield f"{module.__name__}.{owner.__name__}.{name}", getattr(owner, name)


def test_every_public_method_is_documented_by_its_class_or_by_the_one_it_overrides():
    members = [each for module in modules() for each in public_members(module)]
    assert len(members) > 500
    assert [name for name, member in members if not inspect.getdoc(member)] == []
