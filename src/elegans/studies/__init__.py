"""One package per published work: its settings, theory, components, experiments and evidence.

The components of all studies are available here by name: ``elegans.studies.Ticket``.
"""

from typing import Any

from elegans import discovery


def __getattr__(name: str) -> Any:
    if name not in discovery.homes():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = discovery.load(discovery.homes()[name], name)
    return value


def __dir__() -> list[str]:
    return sorted(discovery.homes())
