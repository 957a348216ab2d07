"""Pages that quote committed evidence: the verdicts of each experiment's claims, and the list of all of them."""

from collections import Counter
from itertools import groupby
from typing import Any

from elegans.discovery import studies
from elegans.experiments.evidence import verdict_of
from elegans.experiments.registry import ClaimEntry, claims, entries

MARK = "<!-- claims -->"
NOT_RUN = "not run"
INTRODUCTION = (
    "The verdict of each claim's rule on the committed evidence; "
    "`elegans claims ID` shows the rule, the numbers and the run."
)


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Append an experiment's verdicts to its page; replace the mark on the page of all claims."""
    folder, _, name = page.file.src_uri.removesuffix(".md").rpartition("/")
    if folder == "experiments" and name in entries() and entries()[name].claims:
        return f"{markdown}\n\n## Verdicts\n\n{INTRODUCTION}\n\n{table(entries()[name].claims)}\n"
    return markdown.replace(MARK, everything()) if MARK in markdown else markdown


def everything() -> str:
    """Return the counts of verdicts, and a table of claims for each study."""
    known = list(claims().values())
    parts = [counts(known)]
    for study, found in groupby(known, key=lambda claim: claim.study):
        parts.append(f"## {studies()[study].title()}\n\n{table(list(found), experiment=True)}")
    return "\n\n".join(parts)


def counts(known: list[ClaimEntry]) -> str:
    """Return a table of how many claims of each study have which verdict."""
    words = ["holds", "holds in part", "fails", "undecided", NOT_RUN]
    rows = ["| study | " + " | ".join(words) + " |", "| --- |" + " ---: |" * len(words)]
    for study, found in groupby(known, key=lambda claim: claim.study):
        total = Counter(word(claim) for claim in found)
        rows.append(f"| {studies()[study].title()} | " + " | ".join(str(total[kind]) for kind in words) + " |")
    return "\n".join(rows)


def word(claim: ClaimEntry) -> str:
    """Return a claim's verdict in a word or three."""
    kept = verdict_of(claim.id)
    return NOT_RUN if kept is None else str(kept[1]["verdict"])


def table(found: Any, *, experiment: bool = False) -> str:
    """Return a table of claims: id, what the work states, verdict, reason, and the run behind it."""
    rows = ["| claim | stated | verdict | because | run |", "| --- | --- | --- | --- | --- |"]
    for claim in found:
        kept = verdict_of(claim.id)
        cells = [f"`{claim.id}`", f"{claim.statement} ({claim.source})", f"**{word(claim)}**", "", ""]
        if experiment:
            cells[0] += f" ([{claim.experiment}](../experiments/{claim.experiment}.md))"
        if kept is not None:
            evidence, verdict = kept
            record = evidence.content["record"]
            needs = f" *Needs:* {verdict['needs']}" if verdict.get("needs") else ""
            cells[3] = verdict["because"] + needs
            cells[4] = f"`{evidence.scale}` ({evidence.setting}), {record['trials']} trials, {record['date'][:10]}"
        rows.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(rows)
