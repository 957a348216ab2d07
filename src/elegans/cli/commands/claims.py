"""``elegans claims``, ``elegans rejudge``, ``elegans verify`` and ``elegans rerun``."""

import json
import time
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elegans.cli import completion
from elegans.cli.common import (
    FILE,
    Exit,
    say,
)
from elegans.errors import ClaimError, printable

if TYPE_CHECKING:
    from elegans.experiments.registry import ClaimEntry

NOT_RUN = "not run"


@click.command
@click.argument(
    "claim",
    required=False,
    shell_complete=completion.claims,
    metavar="[ID|EXPERIMENT|FILE.py]",
    help="One claim, shown in full; or an experiment, or a file of your own, whose claims are listed.",
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
    help="Write what the verdicts rest on: a row per estimate, with interval, threshold and their distance.",
)
def claims(claim: str | None, study: str | None, verdict: str | None, csv: Path | None) -> None:
    """List the published claims with their verdicts.

    Verdicts come from the committed evidence. Each line has the verdict, the scale that decided it, the claim, and its
    statement in the work. The last line has how many false verdicts to expect at most, by the error rates of the rules.

    Example: elegans claims --study pareto_frontiers --verdict fails
    """
    from elegans.experiments.effects import effects, expected_errors
    from elegans.experiments.registry import claims as known, entries as experiments, is_file, own_experiments
    from elegans.experiments.words import VERDICTS
    from elegans.files import replaced, writable
    from elegans.store.export import write_csv

    of_file = claim is not None and is_file(claim)
    ids = {name for each in known() for name in (each, each.partition("/")[2])}
    if claim is not None and not of_file and (claim in ids or claim not in experiments()):
        if csv is not None:
            raise ClaimError(f"--csv is for a list of claims: {claim} is one")
        return _show(claim)
    file = None if csv is None else writable(csv, "a table of effects", ClaimError)
    of = None if claim is None else own_experiments(claim) if of_file else [experiments()[claim]]
    chosen = known().values() if of is None else [each for entry in of for each in entry.claims]
    kinds = (*VERDICTS, NOT_RUN)
    check_study(study)
    if verdict is not None and verdict not in kinds:
        raise ClaimError(f"a verdict must be one of {', '.join(kinds)}: {verdict!r}")
    listed = _list([entry for entry in chosen if study in (None, entry.study)], verdict)
    total = Counter(word for _, word in listed)
    say(", ".join(f"{total[kind]} {kind}" for kind in kinds if total[kind]) or "no claim")
    entries = [entry for entry, _ in listed]
    expected = expected_errors(entries)
    if expected:
        count, errors = map(sum, zip(*expected.values(), strict=True))
        say(f"decided by trials or samples: {count}; false verdicts to expect among them: at most {errors:.1f}")
    if file is not None:
        table = effects(entries)
        try:
            with replaced(file) as draft:
                write_csv(table, draft)
        except OSError as error:
            raise ClaimError(
                f"a table of effects must go to a folder that can be written: {printable(str(csv))} ({error.strerror})"
            ) from None
        say(f"effects {csv}: {len(table)} numbers of {table['claim'].nunique()} claims")
    return None


def _list(chosen: "Sequence[ClaimEntry]", verdict: str | None) -> "list[tuple[ClaimEntry, str]]":
    """Print claims by study, or those with a verdict, and return them with their verdicts."""
    from elegans.discovery import study as study_of
    from elegans.experiments.evidence import verdict_of

    listed = []
    for name, entries in groupby(chosen, key=lambda entry: entry.study):
        lines = []
        for entry in entries:
            evidence, record = verdict_of(entry.id) or (None, {"verdict": NOT_RUN})
            word, scale = str(record["verdict"]), evidence.extent if evidence else ""
            if verdict in (None, word):
                listed.append((entry, word))
                lines.append(f"  {word:21}  {scale:6}  {entry.id}: {entry.statement}")
        if lines:
            say(study_of(name).title())
            for line in lines:
                say(line)
            say()
    return listed


def _show(name: str) -> None:
    from elegans.experiments.evidence import collected
    from elegans.experiments.registry import find, find_claim

    entry = find_claim(name)
    claim = next(claim for claim in find(entry.experiment).claims if claim.id == entry.id)
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
            say(f"  {title:10}  {text}")
    for evidence in sorted(collected(), key=lambda evidence: evidence.rank):
        if entry.id in evidence.verdicts:
            verdict, record = evidence.verdicts[entry.id], evidence.content["record"]
            say(f"\n  {verdict['verdict']} at scale {evidence.scale} ({evidence.setting})")
            for key, value in evidence.content["options"].items():
                say(f"    option      {key} = {value}")
            say(f"    because     {verdict['because']}")
            if verdict.get("needs"):
                say(f"    needs       {verdict['needs']}")
            say(f"    error rate  {verdict['error_rate']:g}")
            say(f"    run         {record['command']} ({record['date'][:10]}, {evidence.seconds:.0f} s)")
            if verdict["rule"] != claim.version:
                say("    note        judged by an earlier version of the rule")
            say(f"    numbers     {json.dumps(verdict['numbers'], ensure_ascii=False)}")
    _show_beside(entry.id)


def _show_beside(claim: str) -> None:
    """Print the verdicts of a claim on fresh seeds and by earlier trials."""
    from elegans.experiments.evidence import EARLIER, FRESH, collected

    for kind, title in ((FRESH, "on fresh seeds"), (EARLIER, "by earlier trials")):
        for evidence in collected(kind):
            if claim in evidence.verdicts:
                verdict, record = evidence.verdicts[claim], evidence.content["record"]
                say(f"\n  {verdict['verdict']} {title} at scale {evidence.scale}: {verdict['because']}")
                say(f"    run         {record['command']} ({record['date'][:10]}, {evidence.seconds:.0f} s)")


def _work(entry: "ClaimEntry") -> str:
    from elegans.discovery import study

    return study(entry.study).title()


@click.command
@click.argument(
    "claim",
    required=False,
    shell_complete=completion.claims,
    metavar="[ID|FILE.py]",
    help="Only this claim, or those of a file of your own; all claims by default.",
)
@click.option("--study", metavar="NAME", help="Only the claims of one study.")
@click.option("--write", is_flag=True, help="Write the new verdicts to the evidence.")
@click.option("--reason", metavar="TEXT", help="Why verdicts or numbers differ; kept with the verdicts.")
@click.option(
    "--null",
    type=click.Choice(["permuted", "untrained"]),
    help="Judge tables in which there is nothing to find: outcomes shuffled among the settings, or those of networks "
    "that never learn. Lists the claims that hold all the same.",
)
def rejudge(claim: str | None, study: str | None, write: bool, reason: str | None, null: str | None) -> int:
    """Re-judge the committed evidence by the current rules and show what differs.

    The exit code is 0 if all verdicts and numbers are unchanged or were kept by --write, and 1 if any differ or cannot
    be judged. The tables behind the verdicts are in the repository; an installed wheel has only records and verdicts.

    With --null, the exit code is 1 if a claim holds that the audit of its study does not explain: its rule would not
    notice that the statement is false.

    Example: elegans rejudge --study pareto_frontiers
    """
    from elegans.experiments.registry import find_claim, is_file, own_experiments
    from elegans.experiments.rejudge import keep_rejudged, rejudge as judged_again

    check_study(study)
    file = claim if claim is not None and is_file(claim) else None
    if file is not None:
        study, claim = own_experiments(file)[0].study, None
    if reason is not None and not write:
        raise ClaimError("--reason is kept with verdicts by --write, which is not given")
    if null is not None and write:
        raise ClaimError("--write keeps verdicts on the evidence, which --null does not judge")
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
    count = f"{len(verdicts)} verdict{'s' * (len(verdicts) != 1)} in {seconds:.0f} s"
    say(f"{count}: {equal} equal, {differing} differ, {refused} cannot be judged")
    if write:
        keep_rejudged(verdicts, reason or "")
    return Exit.SOME_FAILED if refused or (differing and not write) else Exit.OK


def _judge_null(kind: str, claim: str | None, study: str | None) -> int:
    """Print the claims that hold on tables in which there is nothing to find, with what their audit says of it."""
    from elegans.experiments.audit import audits
    from elegans.experiments.nulls import judge_nulls

    judged = list(judge_nulls(kind, claim, study))
    holding = [each for each in judged if each.holds]
    explained = {entry.claim: entry.null for entry in audits() if entry.null}
    for each in holding:
        say(f"{each.claim} holds: {each.because}")
        if each.claim in explained:
            say(f"  audit: {explained[each.claim]}")
    unexplained = sum(each.claim not in explained for each in holding)
    of = f"{len(judged)} verdicts on trials" if len(judged) != 1 else "1 verdict on trials"
    touched = sum(each.touched for each in judged)
    say(f"{of}, {touched} of them touched by {kind} outcomes; still hold: {len(holding)}, unexplained: {unexplained}")
    return Exit.SOME_FAILED if unexplained else Exit.OK


def check_study(name: str | None) -> None:
    """Refuse the name of a study that there is not."""
    from elegans.discovery import studies

    if name is not None and name not in studies():
        raise ClaimError(f"unknown study {name!r}; there are: {', '.join(studies())}")
