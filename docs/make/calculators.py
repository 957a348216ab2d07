"""The index of calculators, and the field that searches it and each page of theory."""

import re
from html import escape

import listing
from docstrings import formula, worded

from elegans.discovery import calculator_homes, studies
from elegans.theory import Calculator, catalogue

FOLDER = "reference/theory"
"""The folder of the pages of theory."""
SHARED = "boolean"
"""The page of what several studies use."""


def calculators() -> str:
    """Return all calculators by study, each with its summary, its formula and a link to its docstring."""
    by_study: dict[str, list[Calculator]] = {}
    for one in catalogue():
        by_study.setdefault(one.study, []).append(one)
    return "\n\n".join(_folded(study, by_study[study]) for study in (SHARED, *studies()) if study in by_study)


def calculator_search(shown: str = "calculators") -> str:
    """Return a field that filters the calculators of a page, all of them on the index."""
    label = f"Search {shown}: a name, a theorem, a word"
    field = f'<input type="search" id="calculator-search" placeholder="{label}" aria-label="{label}">'
    return f'<p class="calculator-search">{field} <span id="calculator-count" role="status"></span></p>'


def title(study: str) -> str:
    """Return the title of a page of theory."""
    return "Boolean functions" if study == SHARED else listing.study_title(study)


def with_links(markdown: str) -> str:
    """Return a page with the names of calculators in backquotes as links to their docstrings."""
    names = calculator_homes()
    blocks = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    blocks[::2] = [
        re.sub(
            r"(?<!\[)`(\w+)`",
            lambda match: f"[{match[0]}][{names[match[1]]}.{match[1]}]" if match[1] in names else match[0],
            text,
        )
        for text in blocks[::2]
    ]
    return "".join(blocks)


def _folded(study: str, entries: list[Calculator]) -> str:
    rows = "\n".join(_row(one) for one in entries)
    summary = f"<summary>{escape(title(study))}: {len(entries)} calculators</summary>"
    page = f'<p><a href="{study}/">The page of this study\'s theory</a></p>' if study != SHARED else ""
    return f'<details class="calculators">{summary}\n{page}\n<table><tbody>\n{rows}\n</tbody></table>\n</details>'


def _row(one: Calculator) -> str:
    target = f"{one.study}/#{calculator_homes()[one.name]}.{one.name}"
    return (
        f'<tr><td><a href="{target}"><code>{one.name}</code></a><br>{worded(one.summary)}</td>'
        f"<td>{formula(one.formula)}<br><small>{worded(one.source)}</small></td></tr>"
    )
