"""The words of verdicts."""

import re
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

HOLDS, CORRECTED, IN_PART = "holds", "holds with correction", "holds in part"
FAILS, UNDECIDED = "fails", "undecided"
VERDICTS = (HOLDS, CORRECTED, IN_PART, FAILS, UNDECIDED)

LACKS = "this run lacks"
"""How the reason begins where a run's tables do not have what the rule needs."""
NO_COLUMN = " has no column "
"""How the reason names a column that a rule looks for and its table does not have, at any scale."""
LARGE = re.compile(r"(?<![\w.,])\d{5,}(?![\w,]|\.\d)")
"""A whole number that is hard to read without separators."""
BREAK = re.compile("; (?!claimed)")
"""What ends a part of a reason."""


def reason(verdict: Mapping[str, Any]) -> str:
    """Return the reason of a kept verdict; of one that was kept without naming what its run lacks, with its name."""
    because, needs = grouped(str(verdict["because"])), grouped(str(verdict.get("needs", "")))
    if because == "the tables do not have what the rule needs":
        return f"{LACKS} {needs}"
    names = "|".join(map(re.escape, sorted(verdict["numbers"] or (), key=len, reverse=True)))
    if "(there are too few trials)" not in because or not names:
        return because
    needs_of = dict(re.findall(rf"(?:^|; )({names}): (.*?)(?=; (?:{names}): |$)", needs))
    return re.sub(
        rf"({names}): undecided \(there are too few trials\)",
        lambda found: f"{found[1]}: undecided ({LACKS} {needs_of.get(found[1], 'trials of it')})",
        because,
    )


def needed(verdict: Mapping[str, Any]) -> str:
    """Return what a verdict needs, after its reason unless the reason only names what the run lacks."""
    because = reason(verdict)
    return f"{'' if because.startswith(LACKS) else f'{because}; '}needs {verdict['needs']}"


def grouped(text: str) -> str:
    """Return a text whose large whole numbers have separators."""
    return LARGE.sub(lambda found: f"{int(found[0]):,}", text)


def parts(text: str) -> list[str]:
    """Return a reason's parts: it is divided at semicolons outside all parentheses, except before what is claimed."""
    depths = accumulate((char == "(") - (char == ")") for char in text)
    ends = [place for place, depth in enumerate(depths) if depth == 0 and BREAK.match(text, place)]
    return [text[start:end] for start, end in zip([0, *(end + 2 for end in ends)], [*ends, len(text)], strict=True)]
