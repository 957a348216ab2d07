"""What a shell may complete: names with one-line descriptions, read without importing what they name."""

from collections.abc import Callable

import typer

Words = list[tuple[str, str]]
"""Names and what they stand for."""


def experiments() -> Words:
    """Return every experiment and its finding."""
    from elegans.experiments.registry import entries

    return [(entry.name, entry.shows) for entry in entries().values()]


def scales(context: typer.Context) -> Words:
    """Return the scales of the experiment on the command line, or of all."""
    from elegans.experiments.registry import entries

    known = entries()
    typed = [context.params.get("experiment"), *context.args]  # while an option lacks its value, arguments are unread
    chosen = [known[name] for name in typed if name in known] or known.values()
    return [(name, "") for name in dict.fromkeys(name for one in chosen for name in one.scales)]


def claims() -> Words:
    """Return every claim and its statement."""
    from elegans.experiments.registry import claims

    return [(claim.id, claim.statement) for claim in claims().values()]


def calculators() -> Words:
    """Return every calculator and what it computes."""
    from elegans.calculators.catalogue import catalogue

    return [(entry.name, entry.summary) for entry in catalogue()]


def engines() -> Words:
    """Return ``auto`` and every engine."""
    from elegans.training.engines import ENGINES

    return [("auto", "the first engine that takes the trial"), *((name, "") for name in ENGINES)]


def kinds(family: str) -> Callable[[], Words]:
    """Return what completes the kinds of a family of components, given the name of its base class."""

    def complete() -> Words:
        from elegans.discovery import below

        return sorted((one.kind, one.module) for one in below(family))

    return complete
