"""``elegans claims``, ``elegans rejudge``, ``elegans verify`` and ``elegans rerun``."""

import difflib
import json
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elegans.cli import completion
from elegans.cli.common import (
    FILE,
    Exit,
    imports,
    prepare,
    say,
)
from elegans.cli.listing import famous_first, mentions, nearest, say_fitted, say_wrapped
from elegans.display import span
from elegans.errors import ClaimError, counted, printable, shown, suggest
from elegans.experiments.words import grouped, parts, reason

if TYPE_CHECKING:
    from elegans.experiments.claims import Claim
    from elegans.experiments.evidence import Evidence
    from elegans.experiments.registry import ClaimEntry

NOT_RUN = "not run"


@click.command
@click.argument(
    "claim",
    required=False,
    shell_complete=completion.claims,
    metavar="[ID|EXPERIMENT|WORD|FILE.py]",
    help="A claim, to show it in full; an experiment or your own file, to list its claims; or a word, to list the "
    "claims that mention it. A name of both an experiment and one of its claims shows the claim, then the others.",
)
@click.option("--study", metavar="NAME", help="Only the claims of one study.")
@click.option(
    "--verdict",
    metavar="VERDICT",
    help="Only claims with this verdict: holds, `holds with correction`, `holds in part`, fails, undecided or "
    "`not run`.",
)
@click.option(
    "--csv",
    type=FILE,
    metavar="FILE",
    show_default="nowhere",
    help="Write the estimates behind the verdicts, one per row, with interval, threshold and distance.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one claim as JSON, with all numbers of its evidence.")
@imports
def claims(
    claim: str | None, study: str | None, verdict: str | None, csv: Path | None, as_json: bool, imports: Sequence[Path]
) -> None:
    """List claims with their verdicts, or show one.

    Verdicts come from the committed evidence. Each line has the verdict, the claim, the scale that decided it, and the
    statement in the work. The last line bounds the expected number of false verdicts, by the error rates of the rules.
    A claim of your own file is shown by its id with --import FILE.py.

    Example: elegans claims --study pareto_frontiers --verdict fails
    """
    prepare(imports, no_cache=False)
    from elegans.experiments.effects import effects, expected_errors
    from elegans.experiments.evidence import verdict_of
    from elegans.experiments.words import VERDICTS
    from elegans.files import replaced, writable
    from elegans.store.export import write_csv

    if claim is not None and names_claim(claim):
        if csv is not None:
            raise ClaimError(f"--csv writes a list of claims: {claim} is a single claim")
        return _print(claim) if as_json else _show(claim)
    if as_json:
        raise ClaimError(f"--json shows one claim, named by its id: {claim or 'no claim is named'}")
    file = None if csv is None else writable(csv, "a table of effects", ClaimError)
    chosen = _chosen(claim)
    kinds = (*VERDICTS, NOT_RUN)
    check_study(study)
    if verdict is not None and verdict not in kinds:
        raise ClaimError(f"a verdict must be one of {', '.join(kinds)}: {verdict!r}")
    listed = _list([entry for entry in chosen if study in (None, entry.study)], verdict)
    total = Counter(word for _, word in listed)
    extents = {decision[0].extent for entry, _ in listed if (decision := verdict_of(entry.id))}
    if "part" in extents:
        say("(part): the run covers a part of the published setting, which `elegans claims ID` names")
    if "computed" in extents:
        say("(computed): decided by exact or numerical computation, without training")
    say(", ".join(f"{total[kind]} {kind}" for kind in kinds if total[kind]) or "no claim")
    entries = [entry for entry, _ in listed]
    expected = expected_errors(entries)
    if expected:
        count, errors = map(sum, zip(*expected.values(), strict=True))
        say(
            f"decided by trials or samples: {count}; false verdicts to expect among them: at most {_rounded_up(errors)}"
        )
    if file is not None:
        table = effects(entries)
        try:
            with replaced(file) as draft:
                write_csv(table, draft)
        except OSError as error:
            raise ClaimError(
                f"a table of effects must go to a writable folder: {printable(str(csv))} ({error.strerror})"
            ) from None
        say(f"effects {csv}: {counted(len(table), 'number')} of {counted(table['claim'].nunique(), 'claim')}")
    return None


def names_claim(name: str) -> bool:
    """Return whether a name is a claim's id or its last part, and not the name of another experiment."""
    from elegans.experiments.registry import claims as known, entries

    named = [claim for claim in known().values() if name in (claim.id, claim.id.partition("/")[2])]
    return bool(named) and (name not in entries() or any(claim.experiment == name for claim in named))


def _rounded_up(errors: float) -> str:
    """Return an expected number of errors with one decimal, or one significant digit below 0.1, rounded up."""
    digits = max(1, math.ceil(-math.log10(errors) - 1e-9)) if errors > 0 else 1
    return f"{math.ceil(errors * 10**digits - 1e-9) / 10**digits:.{digits}f}"


def _chosen(wanted: str | None) -> "list[ClaimEntry]":
    """Return the claims of an experiment or a file, the claims that mention a word, or all; the best-known first."""
    from elegans.experiments.registry import claims as known, entries, is_file, own_experiments

    found = list(known().values())
    if wanted is not None and (is_file(wanted) or wanted in entries()):
        of = own_experiments(wanted) if is_file(wanted) else [entries()[wanted]]
        return [claim for experiment in of for claim in experiment.claims]
    if wanted is not None:
        found = [claim for claim in found if mentions(wanted, claim.id, claim.statement, claim.source)]
        if not found:
            raise ClaimError(f"unknown claim {shown(wanted)}{_nearest(wanted, list(known()))}")
    return famous_first(found, "experiment")


def _nearest(wanted: str, known: Sequence[str]) -> str:
    """Return a suggestion for an unknown claim; where its first part is known, only of claims that share this part."""
    first, _, rest = wanted.partition("/")
    alike = {name.partition("/")[2]: name for name in known if name.startswith(f"{first}/")} if rest else {}
    if alike:
        near = difflib.get_close_matches(rest, alike, n=1, cutoff=0.7)
        meant = (
            f"did you mean {alike[near[0]]!r}?" if near else f"`elegans claims {first}` lists claims that mention it"
        )
        return f"; {meant}"
    names = known if rest else [name for claim in known for name in (claim, claim.partition("/")[2])]
    find = suggest if rest else nearest
    return find(wanted, names, "; `elegans claims` lists all, and a claim of your own file needs --import own.py")


def _list(chosen: "Sequence[ClaimEntry]", verdict: str | None) -> "list[tuple[ClaimEntry, str]]":
    """Print claims by study, or only claims with a verdict, and return them with their verdicts."""
    from elegans.discovery import study as study_of
    from elegans.experiments.evidence import verdict_of

    listed = []
    for name, entries in groupby(chosen, key=lambda entry: entry.study):
        lines = []
        for entry in entries:
            evidence, record = verdict_of(entry.id) or (None, {"verdict": NOT_RUN})
            word = str(record["verdict"])
            if verdict in (None, word):
                listed.append((entry, word))
                scale = f" ({evidence.extent})" if evidence else ""
                lines.append((entry.id, f"{scale}: {entry.statement}", word))
        if lines:
            say_fitted(study_of(name).title())
            for claim, text, word in lines:
                say_fitted(text, f"{word:23}", "  ", claim)
            _say_earlier([entry for entry, _ in listed if entry.study == name])
            say()
    return listed


def _say_earlier(entries: "Sequence[ClaimEntry]") -> None:
    """Say which claims of an own file were judged by an earlier rule; a test keeps the studies' verdicts up to date."""
    from elegans.discovery import own_studies
    from elegans.experiments.evidence import verdict_of

    study = own_studies().get(entries[0].study)
    if study is None or study.file is None:
        return
    kept = {entry.id: verdict_of(entry.id) for entry in entries}
    earlier = [name for name, pair in kept.items() if pair and pair[1]["rule"] != _found(name)[1].version]
    if earlier:
        here = Path.cwd()
        file = study.file.relative_to(here) if study.file.is_relative_to(here) else study.file
        again = f"`elegans rejudge {file} --write` judges the evidence again"
        say_wrapped("note  ", f"judged by an earlier version of the rule: {', '.join(earlier)}; {again}")


def _print(name: str) -> None:
    """Print a claim as JSON: what it states, its rule, and what each piece of evidence says of it."""
    from elegans.experiments.evidence import EARLIER, FRESH, collected

    entry, claim = _found(name)
    texts = {"id": claim.id, "statement": claim.statement, "study": entry.study, "work": _work(entry)}
    texts |= {"source": claim.source, "setting": claim.setting, "rule": claim.rule, "revised": claim.revised}
    judged = [
        {
            "evidence": kind or "committed",
            "scale": evidence.scale,
            "setting": evidence.setting,
            "options": evidence.content["options"],
            "command": evidence.content["record"]["command"],
            "date": evidence.content["record"]["date"],
            "seconds": evidence.seconds,
            **evidence.verdicts[claim.id],
        }
        for kind in ("", FRESH, EARLIER)
        for evidence in sorted(collected(kind), key=lambda evidence: evidence.rank)
        if claim.id in evidence.verdicts
    ]
    say(json.dumps({**texts, "experiment": entry.experiment, "judged": judged}, ensure_ascii=False, indent=2))


def _found(name: str) -> "tuple[ClaimEntry, Claim]":
    from elegans.experiments.registry import find, find_claim

    entry = find_claim(name)
    return entry, next(claim for claim in find(entry.experiment).claims if claim.id == entry.id)


def _show(name: str) -> None:
    from elegans.experiments.evidence import collected
    from elegans.experiments.registry import entries

    entry, claim = _found(name)
    say(claim.id)
    for title, text in (
        ("states", claim.statement),
        ("source", f"{_work(entry).rstrip('.')}, {claim.source}"),
        ("setting", claim.setting),
        ("rule", claim.rule),
        ("revised", claim.revised),
        ("decided by", entry.experiment),
    ):
        if text:
            say_wrapped(f"{title:12}", text)
    for evidence in sorted(collected(), key=lambda evidence: evidence.rank):
        if entry.id in evidence.verdicts:
            _show_verdict(evidence, evidence.verdicts[entry.id], claim.version)
    _show_beside(entry.id)
    others = [other for other in entries()[name].claims if other.id != entry.id] if name in entries() else []
    if others:
        say()
        say_wrapped("", f"{name} is also an experiment, with {len(others) + 1} claims; the others:")
        for other in others:
            say_fitted(f": {other.statement}", "", "  ", other.id)


def _show_verdict(evidence: "Evidence", verdict: Mapping[str, Any], version: str) -> None:
    say()
    say_fitted(f" at scale {evidence.scale} ({evidence.setting})", verdict["verdict"], "  ")
    for key, value in evidence.content["options"].items():
        say(f"    option      {key} = {value}")
    _show_reasons(verdict)
    if verdict.get("needs"):
        say_wrapped(f"{'needs':12}", grouped(verdict["needs"]), "    ")
    say(f"    error rate  {verdict['error_rate']:g}")
    say_wrapped(f"{'run':12}", _run(evidence), "    ")
    if verdict["rule"] != version:
        say("    note        judged by an earlier version of the rule")


def _show_reasons(verdict: Mapping[str, Any]) -> None:
    """Print why a verdict was reached, a line for each part of the claim."""
    for place, part in enumerate(parts(reason(verdict))):
        say_wrapped(f"{'' if place else 'because':12}", part, "    ")


def _run(evidence: "Evidence") -> str:
    record = evidence.content["record"]
    return f"{record['command']} ({record['date'][:10]}, {span(evidence.seconds)})"


def _show_beside(claim: str) -> None:
    """Print the verdicts of a claim on fresh seeds and by earlier trials."""
    from elegans.experiments.evidence import EARLIER, FRESH, collected

    for kind, title in ((FRESH, "on fresh seeds"), (EARLIER, "by earlier trials")):
        for evidence in collected(kind):
            if claim in evidence.verdicts:
                verdict = evidence.verdicts[claim]
                say()
                say_fitted(f" {title} at scale {evidence.scale}", verdict["verdict"], "  ")
                _show_reasons(verdict)
                say_wrapped(f"{'run':12}", _run(evidence), "    ")


def _work(entry: "ClaimEntry") -> str:
    from elegans.discovery import study

    return study(entry.study).title()


@click.command
@click.argument(
    "claim",
    required=False,
    shell_complete=completion.claims,
    metavar="[ID|FILE.py]",
    help="Only this claim, or the claims of your own file; all claims by default.",
)
@click.option("--study", metavar="NAME", help="Only the claims of one study.")
@click.option("--write", is_flag=True, help="Write the new verdicts to the evidence.")
@click.option(
    "--reason", metavar="TEXT", help="The reason why verdicts or numbers differ; it is kept with the verdicts."
)
@click.option(
    "--null",
    type=click.Choice(["permuted", "untrained"]),
    help="Judge tables in which there is nothing to find: outcomes shuffled among the settings, or networks "
    "that never learn. Lists the claims that still hold.",
)
def rejudge(claim: str | None, study: str | None, write: bool, reason: str | None, null: str | None) -> int:
    """Judge the committed evidence by the current rules.

    Shows what differs. The exit code is 0 if all verdicts and numbers are unchanged or were kept by --write, and 1 if
    any differ or cannot be judged. The tables behind the verdicts are in the repository; an installed wheel has only
    records and verdicts.

    With --null, the exit code is 1 if a claim holds that the audit of its study does not explain: its rule would not
    notice that the statement is false. A claim that fails or is undecided on these tables has passed. Claims that are
    undecided on the evidence are left out: their rules have not decided for them.

    Example: elegans rejudge --study pareto_frontiers
    """
    from elegans.experiments.registry import find_claim, is_file, own_experiments
    from elegans.experiments.rejudge import keep_rejudged, rejudge as judged_again

    check_study(study)
    file = claim if claim is not None and is_file(claim) else None
    if file is not None:
        study, claim = own_experiments(file)[0].study, None
    if reason is not None and not write:
        raise ClaimError("--reason needs --write, which keeps it with the verdicts")
    if null is not None and write:
        raise ClaimError("--write keeps verdicts on the evidence, but --null judges other tables")
    only = None if claim is None else find_claim(claim).id
    if null is not None:
        return _judge_null(null, only, study)
    started, verdicts = time.perf_counter(), []
    for verdict in judged_again(only, study):
        verdicts.append(verdict)
        if lines := [f"  {line}" for line in (verdict.refusal, *verdict.differences) if line]:
            say("\n".join([f"{verdict.claim} ({verdict.evidence.path.stem})", *lines]))
    if file is not None and not verdicts:
        raise ClaimError(f"{file} has no evidence to judge; `elegans run {file} --evidence` keeps some")
    refused = sum(bool(verdict.refusal) for verdict in verdicts)
    differing = sum(bool(verdict.differences) for verdict in verdicts)
    equal, seconds = len(verdicts) - refused - differing, time.perf_counter() - started
    count = f"{counted(len(verdicts), 'verdict')} in {span(seconds)}"
    say(f"{count}: {equal} equal, {differing} differ, {refused} cannot be judged")
    if write:
        keep_rejudged(verdicts, reason or "")
    return Exit.SOME_FAILED if refused or (differing and not write) else Exit.OK


def _judge_null(kind: str, claim: str | None, study: str | None) -> int:
    """Print the claims that hold on tables in which there is nothing to find, with what their audit says of it."""
    from elegans.experiments.audit import audits
    from elegans.experiments.nulls import judge_nulls, undecided

    judged = list(judge_nulls(kind, claim, study))
    holding = [each for each in judged if each.holds]
    explained = {entry.claim: entry.null for entry in audits() if entry.null}
    for each in holding:
        say(f"{each.claim} holds: {each.because}")
        if each.claim in explained:
            say(f"  audit: {explained[each.claim]}")
    unexplained = sum(each.claim not in explained for each in holding)
    touched = sum(each.touched for each in judged)
    touching = f"{counted(len(judged), 'verdict')} on trials, {touched} of them touched by {kind} outcomes"
    say(f"{touching}; still hold: {len(holding)}, unexplained: {unexplained}")
    if left := undecided(claim, study):
        say(f"left out: {counted(left, 'verdict')} undecided on the evidence; no rule has decided for these claims")
    return Exit.SOME_FAILED if unexplained else Exit.OK


def check_study(name: str | None) -> None:
    """Refuse the name of a study that there is not."""
    from elegans.discovery import studies

    if name is not None and name not in studies():
        raise ClaimError(f"unknown study {name!r}{suggest(name, list(studies()))}")
