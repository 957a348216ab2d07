"""Macros of pages, called between double braces: numbers and tables of the evidence, and lists."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import calculators
import columns
import extension_points
import listing
import quoted

from elegans import __version__
from elegans.experiments.evidence import Evidence
from elegans.experiments.words import reason


def define_env(env: Any) -> None:
    """Define the pages' macros; those on one experiment take it from the page's name by default."""

    def own(experiment: str | None, scale: str | None, options: str | None) -> Evidence:
        name = experiment or Path(env.page.file.src_uri).stem
        return quoted.evidence_of(name, scale, options)

    def found(
        *path: str | int, of: str | None = None, scale: str | None = None, options: str | None = None, **style: Any
    ) -> str:
        """Return a number from the findings of the page's experiment, or of another."""
        return quoted.found(own(of, scale, options), path, **style)

    def version() -> str:
        """Return the library's version."""
        return __version__

    def judged(claim: str, *path: str | int, **style: Any) -> str:
        """Return a number from a claim's verdict."""
        return quoted.judged(claim, path, **style)

    def because(claim: str) -> str:
        """Return the reason of a claim's verdict."""
        verdict = quoted.verdict(claim)
        return listing.set_in_page(reason(verdict), verdict["numbers"])

    def findings(
        *path: str | int,
        columns: dict[str, str],
        first: str | list[str] = "",
        names: dict[str, str] | None = None,
        of: str | None = None,
        scale: str | None = None,
        options: str | None = None,
        **style: Any,
    ) -> str:
        """Return findings as a table: one row per key at the path."""
        return quoted.findings_table(own(of, scale, options), path, columns, first=first, names=names, **style)

    def rows(
        *,
        columns: dict[str, str],
        table: str | None = None,
        where: dict[str, Any] | None = None,
        limit: int = 60,
        of: str | None = None,
        scale: str | None = None,
        options: str | None = None,
        **style: Any,
    ) -> str:
        """Return rows of the evidence's CSV as a table."""
        return quoted.csv_table(own(of, scale, options), table, columns, where or {}, limit, **style)

    def of_evidence(function: Callable[[Evidence], str]) -> Callable[..., str]:
        """Return the macro of a text that is made from the evidence alone."""
        return lambda of=None, scale=None, options=None: function(own(of, scale, options))

    env.macro(of_evidence(quoted.checks_table), "checks")
    env.macro(of_evidence(quoted.made), "made")  # trials, command and date, for a caption
    env.macro(of_evidence(quoted.provenance), "provenance")
    for function in (
        found,
        judged,
        version,
        because,
        findings,
        rows,
        listing.results,
        listing.counts,
        listing.in_short,
        listing.revisions,
        listing.expected,
        listing.fresh_seeds,
        listing.audit,
        listing.effect_sizes,
        listing.phenomena_list,
        listing.gallery,
        listing.experiments,
        listing.badge,
        listing.errata,
        listing.works_list,
        listing.api,
        listing.commands,
        listing.exit_codes,
        extension_points.extension_points,
        calculators.calculators,
        calculators.calculator_search,
        columns.columns,
        columns.measures,
    ):
        env.macro(function)
