"""Lists made from the evidence and the pages: badges, results, counts, gallery."""

import ast
import csv
import inspect
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache, partial
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

import quoted
from formulas import GREEK, formatted
from numerals import exact_numbers, number, set_numbers, with_interval

from elegans.cli.app import COMMANDS
from elegans.cli.common import EXITS
from elegans.cli.listing import famous_first
from elegans.discovery import load, studies
from elegans.experiments.audit import audits
from elegans.experiments.effects import effects, expected_errors
from elegans.experiments.evidence import RANK, Evidence, collected, verdict_of
from elegans.experiments.fresh import compared, decided
from elegans.experiments.registry import ClaimEntry, Entry, claims, entries, find
from elegans.experiments.words import (
    CORRECTED,
    IN_PART,
    LACKS,
    UNDECIDED,
    VERDICTS,
    grouped,
    parts as divided,
    reason as because_of,
)
from elegans.phenomena.listing import phenomena

DOCS = Path(__file__).parents[1]
WORDS = (*VERDICTS, "not run")
"""Verdicts, and the word for a missing one."""
SHORT = 160
"""Number of characters of a reason above which the rest is folded."""


@cache
def works() -> dict[str, str]:
    """Return the address of each study's work."""
    found = {}
    for name, study in studies().items():
        text = ast.get_docstring(ast.parse((study.folder / "__init__.py").read_text(encoding="utf-8"))) or ""
        address = re.search(r"https://\S+?(?=[.,]?(?:\s|$))", text)
        found[name] = address[0] if address else ""
    return found


@cache
def title_of(page: str) -> str:
    """Return the title of a page, named by its path without ``.md``."""
    return (DOCS / f"{page}.md").read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def study_title(name: str) -> str:
    """Return the title of a study's page."""
    return title_of(f"studies/{name}")


def works_list() -> str:
    """Return the works of all studies, each with a link to its study's page."""
    lines = []
    for name, study in studies().items():
        work = (
            study.title()
            .rstrip(".")
            .replace("Combinatorial Tasks as Model Systems of Deep Learning (thesis)", "Thesis")
        )
        lines.append(f"- [{study_title(name)}](studies/{name}.md): {work}")
    return "\n".join(lines)


def word(claim: ClaimEntry) -> str:
    """Return a claim's verdict in words."""
    kept = verdict_of(claim.id)
    return "not run" if kept is None else str(kept[1]["verdict"])


def badge(verdict: str) -> str:
    """Return a verdict as a coloured badge."""
    return f'<span class="verdict {verdict.replace(" ", "-")}">{verdict}</span>'


def badges(entry: Entry) -> str:
    """Return the study of an experiment and how many of its claims have each verdict."""
    study = f"[{study_title(entry.study)}](../studies/{entry.study}.md)"
    return f'<p class="badges" markdown>**Verdicts.** {_tally(entry)} · study: {study}</p>'


def _tally(entry: Entry) -> str:
    """Return how many claims of an experiment have each verdict, those that are decided first."""
    tally = Counter(map(word, entry.claims))
    times = {kind: f" × {tally[kind]}" if tally[kind] > 1 else "" for kind in tally}  # noqa: RUF001
    return (
        " ".join(f'<span class="counted">{badge(kind)}{times[kind]}</span>' for kind in WORDS if kind in tally)
        or "no claim"
    )


def anchor(claim: str) -> str:
    """Return the anchor of a claim's verdict on a page."""
    return "claim-" + claim.replace("/", "-").replace(".", "-")


def _stated(claim: ClaimEntry) -> str:
    return formatted(escape(claim.statement))


def source_of(claim: ClaimEntry) -> str:
    """Return the source of a claim, linked to the work."""
    address = works()[claim.study]
    return f"[{claim.source}]({address})" if address else claim.source


def key_number(verdict: Mapping[str, Any]) -> str:
    """Return the deciding number of a verdict with its interval, or nothing if there are several."""
    numbers = verdict["numbers"]
    if isinstance(numbers.get("estimate"), int | float):
        return quoted.text_of(numbers)
    if {"successes", "trials"} <= numbers.keys():
        low, high = numbers.get("limits", (None, None))
        limits = f" ({low:.2f} to {high:.2f})" if low is not None and high is not None else ""
        return quoted.text_of([numbers["successes"], numbers["trials"]]) + limits
    return ""


def set_in_page(text: str, numbers: Any = None) -> str:
    """Return a text of the evidence as HTML, with its formulas and numbers set, that Markdown leaves as it is.

    Args:
        numbers: the verdict's numbers, if the text is its reason: numbers of the text are rounded from these.
    """
    shown = set_numbers(formatted(escape(text, quote=False).replace("\n", " ")), exact_numbers(numbers))
    return _plain(re.sub(r"\belegans run [\w-]+ --scale \w+", r"<code>\g<0></code>", shown))


def reason(text: str, verdict: Mapping[str, Any]) -> str:
    """Return a verdict's reason for a cell of a table, folded into a list of its parts if it is long."""
    shown = partial(set_in_page, numbers=verdict["numbers"])
    if len(text) <= SHORT:
        return shown(text)
    listed = "".join(f"<li>{shown(part)}</li>" for part in divided(text))
    return f"<details><summary>{shown(text[:SHORT].rpartition(' ')[0])} …</summary><ul>{listed}</ul></details>"


def _plain(text: str) -> str:
    """Return text whose bars end no cell and whose stars, which are products, set no style, in Markdown and in HTML."""
    return text.replace("|", "&#124;").replace("*", "&#42;")


LEADS = {UNDECIDED: "To decide it:", IN_PART: "What holds:", CORRECTED: "What holds:"}
"""How the sentence begins that says what a verdict needs, by verdict."""


def why(claim: ClaimEntry) -> str:
    """Return why a claim has its verdict, and what an undecided one needs to be decided, for a cell of a table."""
    kept = verdict_of(claim.id)
    if kept is None:
        scale = min(entries()[claim.experiment].scales, key=_rank)
        return f"No run is kept. To decide it: <code>elegans run {claim.experiment} --scale {scale}</code>."
    because, needs = because_of(kept[1]), grouped(str(kept[1].get("needs", "")))
    text = "" if because.startswith(LACKS) and because.endswith(needs) else reason(_sentence(because), kept[1])
    if needs:
        lead = "It" if needs.startswith("holds ") else LEADS[kept[1]["verdict"]]
        text += f" {lead} {reason(needs.removesuffix(', and'), kept[1])}."
    return text.strip()


def _rank(scale: str) -> int:
    return RANK.index(scale) if scale in RANK else len(RANK)


def _sentence(text: str) -> str:
    """Return a reason with a capital, unless it begins with a name, and a full stop."""
    first = re.match(r"([a-z]{2,}) (?!=)", text)
    text = text[0].upper() + text[1:] if first and first[1] not in GREEK else text
    return text if text.endswith(".") else f"{text}."


def table(found: Iterable[ClaimEntry]) -> str:
    """Return a table of claims for their experiment's page, decided ones first: verdict, statement, rule and reason."""
    rows = ["| verdict | claim and rule | how it was decided |", "| --- | --- | --- |"]
    found = sorted(found, key=lambda claim: WORDS.index(word(claim)))
    runs = {kept[0].path: _run(kept[0]) for claim in found if (kept := verdict_of(claim.id))}
    for claim in found:
        known = {one.id: one for one in find(claim.experiment).claims}[claim.id]
        setting = f"Setting: {set_in_page(known.setting)}.<br>" if known.setting else ""
        summary = "Setting and rule" if setting else "Rule"
        rule = f"<details><summary>{summary}</summary>{setting}{set_in_page(known.rule)}</details>"
        stated = f"{_stated(claim)} ({source_of(claim)}) `{claim.id}`"
        kept = verdict_of(claim.id)
        run = f" {runs[kept[0].path]}" if kept and len(runs) > 1 else ""
        mark = f'<span id="{anchor(claim.id)}"></span>{badge(word(claim))}'
        rows.append(f"| {mark} | {_cell(stated)} {rule} | {why(claim)}{run} |")
    return "\n\n".join([_as_cards("\n".join(rows)), *(runs.values() if len(runs) == 1 else ())])


def other_runs(entry: Entry) -> str:
    """Return a table of the verdicts of an experiment's runs that others at a larger scale outweigh, or nothing."""
    rows = []
    for evidence in sorted(collected(), key=lambda one: one.rank):
        if evidence.experiment != entry.name:
            continue
        for claim in entry.claims:
            kept = verdict_of(claim.id)
            verdict = evidence.verdicts.get(claim.id)
            if verdict and kept and kept[0].path != evidence.path:
                options = "".join(f", {name} {value}" for name, value in evidence.content["options"].items())
                cells = (f"{evidence.scale}{options}", f"`{claim.id}`", badge(verdict["verdict"]))
                rows.append(f"| {' | '.join(cells)} | {reason(because_of(verdict), verdict)} |")
    if not rows:
        return ""
    head = ["| scale | claim | verdict | reason |", "| --- | --- | --- | --- |"]
    body = _as_cards("\n".join([*head, *rows])).replace("\n", "\n    ")
    return f'??? note "Smaller runs"\n\n    {body}'


def _as_cards(rows: str, kind: str = "") -> str:
    """Return a Markdown table whose rows a narrow screen shows as cards, with a further class for their style."""
    return f'<div class="{f"stacked {kind}".strip()}" markdown>\n\n{rows}\n\n</div>'


def _run(evidence: Evidence) -> str:
    date = evidence.content["record"]["date"][:10]
    return f"<small>Scale {evidence.scale} ({evidence.setting}), {date}.</small>"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def counts() -> str:
    """Return a table of the numbers of verdicts by study; a word that no claim has gets no column."""
    total = Counter(map(word, claims().values()))
    words = [kind for kind in WORDS if total[kind]]
    rows = ["| study | " + " | ".join(map(badge, words)) + " |", "| --- |" + " ---: |" * len(words)]
    for study, found in groupby(claims().values(), key=lambda claim: claim.study):
        own = Counter(map(word, found))
        rows.append(f"| {study_title(study)} | " + " | ".join(str(own[kind]) for kind in words) + " |")
    rows.append("| **all** | " + " | ".join(f"**{total[kind]}**" for kind in words) + " |")
    return "\n".join(rows)


def revisions() -> str:
    """Return how many claims have been revised, of all, in words."""
    revised = [bool(claim.revised) for name in entries() for claim in find(name).claims]
    return f"{sum(revised)} of {len(revised)} claims"


def in_short() -> str:
    """Return in one sentence how many claims have which verdict."""
    total = Counter(map(word, claims().values()))
    holds, corrected, in_part, fails = (total[kind] for kind in ("holds", CORRECTED, IN_PART, "fails"))
    return (
        f"Of {total.total()} statements that we tested, {holds} hold as stated, {corrected} hold once a misprint or a "
        f"wrong constant is corrected, {in_part} hold in part and {fails} fail{'s' if fails == 1 else ''}; the other "
        f"{total.total() - holds - corrected - in_part - fails} need more evidence."
    )


def expected() -> str:
    """Return how many false verdicts to expect at most, by study and over all."""
    sums = [expected_errors(stated=True), expected_errors()]
    lines = [
        f"| {study_title(study)} | {number} | " + " | ".join(f"{each[study][1]:.2f}" for each in sums) + " |"
        for study, (number, _) in sums[0].items()
    ]
    totals = " | ".join(f"**{sum(errors for _, errors in each.values()):.2f}**" for each in sums)
    head = "| study | decided claims on trials or samples | sum of stated rates | counting all runs |"
    total = f"| **all** | **{sum(number for number, _ in sums[0].values())}** | {totals} |"
    return "\n".join([head, "| --- | ---: | ---: | ---: |", *lines, total])


def fresh_seeds() -> str:
    """Return how many verdicts on trials or draws fresh seeds confirm, and a table of those that they do not."""
    found, claims_of = list(compared()), sum(len(names) for _, names in decided())
    agree, opposite = sum(each.agrees for each in found), sum(each.opposite for each in found)
    share = f" ({agree / len(found):.0%})" if found else ""
    text = (
        f"Of {claims_of} claims that trials or random draws decide, {len(found)} have been run again so far: "
        f"{agree}{share} have the same verdict, {opposite} the opposite one."
    )
    rows = []
    for each in found:
        if not each.agrees:
            cells = (badge(each.verdict), badge(each.fresh["verdict"]), reason(because_of(each.fresh), each.fresh))
            rows.append(f"| {_link(each.claim)} | {' | '.join(cells)} |")
    head = ["", "| claim | evidence | fresh seeds | why |", "| --- | --- | --- | --- |"]
    return "\n".join([text, *head, *rows]) if rows else text


def _link(claim: str) -> str:
    return f"[{claim}](experiments/{claims()[claim].experiment}.md#{anchor(claim)})"


def audit() -> str:
    """Return what a reading of each claim found, study by study, with its verdict and that on fresh seeds."""
    again, found = {each.claim: each for each in compared()}, {entry.claim: entry for entry in audits()}
    parts = []
    for study, of_study in groupby(claims().values(), key=lambda claim: claim.study):
        rows = ["| claim | statement | rule | fresh seeds |", "| --- | --- | --- | --- |"]
        for claim in of_study:
            entry, fresh = found.get(claim.id), again.get(claim.id)
            if entry is None:
                continue
            null = f" Where there is nothing to find: {entry.null}" if entry.null else ""
            texts = (set_in_page(entry.source), set_in_page(entry.rule + null))
            seeds = "" if fresh is None else "the same" if fresh.agrees else badge(fresh.fresh["verdict"])
            cells = (f"{_link(claim.id)} {badge(word(claim))}", *texts, seeds)
            rows.append("| " + " | ".join(cells) + " |")
        if len(rows) > 2:
            parts.append(f"## {study_title(study)}\n\n{_as_cards(chr(10).join(rows))}")
    return "\n\n".join(parts)


def effect_sizes() -> str:
    """Return the estimates with intervals that verdicts rest on, in a table that the page's script sorts."""
    rows = []
    row: Any
    for row in effects().dropna(subset="low").itertuples():
        above, below = row.above == row.above, row.below == row.below  # NaN is not itself
        claimed = f"{number(row.above)} to {number(row.below)}" if above and below else ""
        claimed = claimed or (f"above {number(row.above)}" if above else f"below {number(row.below)}")
        cells = [
            f'<a href="../experiments/{claims()[row.claim].experiment}/#{anchor(row.claim)}">{row.claim}</a>'
            + (f"<br><small>{escape(row.part)}</small>" if row.part else ""),
            badge(row.verdict),
            with_interval(row.estimate, (row.low, row.high)),
            claimed,
            number(round(row.distance, 1)),
        ]
        values = (row.claim, row.verdict, row.estimate, claimed, row.distance)
        rows.append(
            "".join(
                f'<td data-value="{escape(str(value))}">{cell}</td>' for value, cell in zip(values, cells, strict=True)
            )
        )
    heads = ("claim", "verdict", "estimate and interval", "claimed", "distance")
    shown = "".join(f'<th><button type="button">{head}</button></th>' for head in heads)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<table id="effects-table"><thead><tr>{shown}</tr></thead><tbody>{body}</tbody></table>'


def results() -> str:
    """Return every claim as a row of one table, which the page's script filters by study and by verdict."""
    rows = []
    for claim in claims().values():
        kept = verdict_of(claim.id)
        address = works()[claim.study]
        scale, deciding = (kept[0].extent, key_number(kept[1])) if kept else ("", "")
        source = f'<a href="{address}">{escape(claim.source)}</a>' if address else escape(claim.source)
        page = f'<a href="../experiments/{claim.experiment}/#{anchor(claim.id)}">{claim.experiment}</a>'
        cells = (
            badge(word(claim)),
            f"{_stated(claim)} <small>({source})</small>",
            f"{deciding} {why(claim)}".strip(),
            scale,
            page,
        )
        shown = "".join(f"<td>{cell}</td>" for cell in cells)
        rows.append(f'<tr data-study="{claim.study}" data-verdict="{word(claim)}">{shown}</tr>')
    heads = "".join(f"<th>{head}</th>" for head in ("verdict", "claim", "decided by", "scale", "experiment"))
    chosen = "".join(f'<option value="{name}">{escape(study_title(name))}</option>' for name in studies())
    verdicts = "".join(f'<option value="{one}">{one}</option>' for one in WORDS)
    return (
        '<p class="filters"><label>Study <select id="filter-study"><option value="">all</option>'
        f'{chosen}</select></label> <label>Verdict <select id="filter-verdict"><option value="">all</option>'
        f'{verdicts}</select></label> <output id="filter-count" aria-live="polite"></output></p>'
        f'<table id="claims-table"><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    )


def image_of(name: str) -> tuple[str, str] | None:
    """Return the first image of an experiment's page and its description, if there is one."""
    match = re.search(
        r"!\[([^\]]*)\]\(\.\./(images/[^)]+)\)", (DOCS / "experiments" / f"{name}.md").read_text(encoding="utf-8")
    )
    return (match[2], match[1]) if match else None


def gallery(study: str | None = None, names: Iterable[str] = (), up: str = "") -> str:
    """Return thumbnails of experiments, each a link to its page: of some, of a study, or of all by study.

    Of a study those come first of whose claims more than half are decided. Experiments without a figure are left out.

    Args:
        study: the study, if only its experiments are shown.
        names: the experiments, if only some are shown.
        up: the path from the page to the root of the documentation, such as ``../``.
    """
    if names:
        return _cards((entries()[name] for name in names), up)
    chosen = [one for one in famous_first(entries().values()) if study in (None, one.study)]
    groups = groupby(chosen, key=lambda entry: entry.study)
    parts = [(name, _cards(sorted(own, key=_mostly_open), up)) for name, own in groups]
    return parts[0][1] if study else "\n\n".join(f"## {study_title(name)}\n\n{cards}" for name, cards in parts)


def _mostly_open(entry: Entry) -> bool:
    """Return whether at least half of an experiment's claims are undecided or not run."""
    verdicts = list(map(word, entry.claims))
    return 2 * sum(one in (UNDECIDED, WORDS[-1]) for one in verdicts) >= len(verdicts)


def _cards(found: Iterable[Entry], up: str) -> str:
    cards = []
    for entry in found:
        shown = image_of(entry.name)
        if shown is None:
            continue
        picture = f"![{shown[1]}]({up}{shown[0]}){{ loading=lazy .off-glb }}"
        cards.append(f"-   [{picture}<br>{title_of(f'experiments/{entry.name}')}]({up}experiments/{entry.name}.md)")
    return '<div class="grid cards gallery" markdown>\n\n' + "\n".join(cards) + "\n\n</div>"


def experiments(study: str) -> str:
    """Return a table of a study's experiments: page, source, and verdicts."""
    rows = ["| experiment | source | verdicts |", "| --- | --- | --- |"]
    for entry in entries().values():
        if entry.study == study:
            page = f"[{title_of(f'experiments/{entry.name}')}](../experiments/{entry.name}.md)"
            rows.append(f"| {page} | {_cell(entry.source)} | {_tally(entry)} |")
    return "\n".join(rows)


@cache
def misprints() -> tuple[dict[str, str], ...]:
    """Return the statements that do not hold as printed, each with its correction, the functions and the test."""
    with (DOCS / "make" / "errata.csv").open(newline="", encoding="utf-8") as lines:
        return tuple(csv.DictReader(lines))


def errata() -> str:
    """Return tables of misprints and of failing claims for each study."""
    parts = []
    for name in studies():
        own = [one for one in misprints() if one["study"] == name]
        failing = [claim for claim in claims().values() if claim.study == name and word(claim) == "fails"]
        if own or failing:
            parts.append(f"## {study_title(name)} {{#{name}}}")
        if own:
            parts.append(_misprints(own))
        if failing:
            rows = ["| claim that fails | measured or computed |", "| --- | --- |"]
            kept = [(claim, verdict_of(claim.id)) for claim in failing]
            rows += [f"| {_claimed(claim)} | {reason(because_of(one[1]), one[1])} |" for claim, one in kept if one]
            parts.append(_as_cards("\n".join(rows)))
    return "\n\n".join(parts)


def _misprints(own: Iterable[Mapping[str, str]]) -> str:
    rows = ["| statement | printed | what holds | function and test |", "| --- | --- | --- | --- |"]
    for one in own:
        shown = [_cell(one[key]) for key in ("statement", "printed", "holds", "functions")]
        file, _, test = one["test"].partition("::")
        words = test.removeprefix("test_").replace("_", " ")
        rows.append(f"| {' | '.join(shown)}<br><small>`{Path(file).name}`: {words}</small> |")
    return _as_cards("\n".join(rows), "misprints")


def _claimed(claim: ClaimEntry) -> str:
    page = f"[{title_of(f'experiments/{claim.experiment}')}](experiments/{claim.experiment}.md#{anchor(claim.id)})"
    return f"{_cell(_stated(claim))} ({source_of(claim)}); {page}"


FACES = {
    "training": "Trials and trainings",
    "tasks": "Tasks and regimes",
    "models": "Models, initialisations and activations",
    "learners": "Learners that are not networks",
    "sweeps": "Sweeps",
    "store": "Stores",
    "probes": "Probes",
    "analysis": "Analysis",
    "plots": "Plots",
    "certificates": "Certificates",
    "groups": "Groups",
    "tabular": "Networks for tables",
    "experiments": "Experiments",
}
"""The packages whose names users type, in the order of the page."""


def public_names() -> dict[str, dict[str, Any]]:
    """Return the names that users type (``el.Trial``, ``el.plots.success_frontier``) and their objects, by package."""
    import elegans

    top = set(dir(elegans))
    found: dict[str, dict[str, Any]] = {}
    for face in FACES:
        package = getattr(elegans, face)
        own = {name: getattr(package, name) for name in sorted(package.__all__)}
        typed = {f"el.{name}" if name in top else f"el.{face}.{name}": one for name, one in own.items()}
        found[face] = {name: one for name, one in typed.items() if inspect.isclass(one) or inspect.isfunction(one)}
    return found


def commands() -> str:
    """Return the commands with what they do as a table."""
    rows = (f"| `elegans {name}` | {one.get_short_help_str(200).replace('`', '')} |" for name, one in COMMANDS.items())
    return "\n".join(["| command | what it does |", "|---|---|", *rows])


def exit_codes() -> str:
    """Return the exit codes with their meanings as a table."""
    return "\n".join(["| code | meaning |", "|---|---|", *(f"| {code:d} | {text} |" for code, text in EXITS.items())])


def api() -> str:
    """Return the public names by package, each a link to its documentation, with the first line of its docstring."""
    parts = []
    for face, names in public_names().items():
        rows = ["| name | what it is |", "| --- | --- |"]
        for name, one in names.items():
            line = (inspect.getdoc(one) or "").partition("\n")[0]
            rows.append(f"| [`{name}`][{one.__module__}.{one.__qualname__}] | {_cell(line)} |")
        parts.append(f"## {FACES[face]}\n\n" + "\n".join(rows))
    return "\n\n".join(parts)


def phenomena_list() -> str:
    """Return every phenomenon with its setting, what to watch, and a link to its page."""
    texts = []
    for listed in phenomena().values():
        found = load(listed.module, listed.attribute)
        page = (
            f"[Page with a slider](phenomena/{found.name}.html), [notebook](phenomena/{found.name}.ipynb), "
            f"or `elegans show {found.name}`."
        )
        texts.append(f"## {found.shows}\n\n{found.setting} {found.watch}\n\n{page}")
    return "\n\n".join(texts)
