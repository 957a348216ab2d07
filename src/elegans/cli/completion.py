"""Shell completion: names with one-line descriptions, read without importing the objects they name."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

Words = list[tuple[str, str]]
"""Names and their descriptions."""
Completion = Callable[["click.Context", "click.Parameter", str], list["CompletionItem"]]
"""The function that click calls for the words that may follow."""


def offer(words: Callable[["click.Context"], Words]) -> Completion:
    """Return a completion that offers the words that begin as typed."""

    def complete(context: "click.Context", parameter: "click.Parameter", typed: str) -> list["CompletionItem"]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(word, help=about) for word, about in words(context) if word.startswith(typed)]

    return complete


@offer
def experiments(_: "click.Context") -> Words:
    """Return every experiment and its finding."""
    from elegans.experiments.registry import entries

    return [(entry.name, entry.shows) for entry in entries().values()]


@offer
def scales(context: "click.Context") -> Words:
    """Return the scales of the experiment on the command line, or of all."""
    from elegans.experiments.registry import entries

    known = entries()
    typed = [context.params.get("experiment"), *context.args]  # not parsed while an option lacks its value
    selected = [known[name] for name in typed if name in known] or known.values()
    return [(name, "") for name in dict.fromkeys(name for entry in selected for name in entry.scales)]


@offer
def claims(_: "click.Context") -> Words:
    """Return every claim and its statement."""
    from elegans.experiments.registry import claims

    return [(claim.id, claim.statement) for claim in claims().values()]


@offer
def templates(_: "click.Context") -> Words:
    """Return every template and what it makes."""
    from elegans.cli.scaffold import TEMPLATES

    return [(name, template.makes) for name, template in TEMPLATES.items()]


@offer
def calculators(_: "click.Context") -> Words:
    """Return every calculator and what it computes."""
    from elegans.calculators.catalogue import catalogue

    return [(entry.name, entry.summary) for entry in catalogue()]


@offer
def engines(_: "click.Context") -> Words:
    """Return ``auto`` and every engine."""
    from elegans.training.engines import ENGINES

    return [("auto", "the first engine that takes the trial"), *((name, "") for name in ENGINES)]


def kinds(family: str) -> Completion:
    """Return the completion of a component family's kinds, given the name of its base class."""

    @offer
    def complete(_: "click.Context") -> Words:
        from elegans.discovery import below

        return sorted((member.kind, member.module) for member in below(family))

    return complete


@offer
def phenomena(_: "click.Context") -> Words:
    """Return every phenomenon and what one sees."""
    from elegans.phenomena.listing import phenomena

    return [(listed.name, listed.shows) for listed in phenomena().values()]
