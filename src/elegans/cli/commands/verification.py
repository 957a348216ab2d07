"""``elegans verify`` and ``elegans rerun``: running again what evidence and records rest on."""

import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elegans.cli import completion
from elegans.cli.commands.claims import check_study, names_claim
from elegans.cli.common import (
    FILE,
    Exit,
    console,
    imports,
    instruction_set,
    interrupted,
    no_cache,
    prepare,
    say,
    scheduler,
    typed,
    workers,
)
from elegans.errors import ClaimError, counted

if TYPE_CHECKING:
    from elegans.experiments.base import Result
    from elegans.experiments.evidence import Evidence
    from elegans.experiments.registry import ClaimEntry

    Decision = tuple[Evidence, Mapping[str, Any]]


@click.command
@click.argument(
    "claim",
    required=False,
    shell_complete=completion.claims,
    metavar="[ID|FILE.py]",
    help="A claim, or your own file, to verify its claims; `elegans claims` lists all claims.",
)
@click.option("--scale", metavar="NAME", show_default="as in the evidence", help="The scale to run.")
@click.option(
    "--first-seed",
    type=click.IntRange(min=0),
    metavar="N",
    show_default="as in the evidence",
    help="A number added to every seed.",
)
@click.option(
    "--out", type=FILE, metavar="FOLDER", show_default="nowhere", help="Where to keep the run, to continue it later."
)
@click.option(
    "--fresh",
    is_flag=True,
    help="On seeds that no rule has seen, run every experiment whose trials or random draws decided a claim, least "
    "time per claim first, and keep the evidence in the study's folder `evidence/fresh`. Experiments that are there "
    "with all trials, judged by the present rules, are not run again.",
)
@click.option("--study", metavar="NAME", help="With --fresh: only the claims of one study.")
@click.option(
    "--minutes",
    type=click.FloatRange(min=0),
    metavar="M",
    show_default="no limit",
    help="With --fresh: start an experiment only if its last run was shorter than what is left of M minutes.",
)
@workers
@no_cache
@click.pass_context
def verify(
    context: click.Context,
    claim: str | None,
    scale: str | None,
    first_seed: int | None,
    out: Path | None,
    fresh: bool,
    study: str | None,
    minutes: float | None,
    workers: int | None,
    no_cache: bool,
) -> int:
    """Run the experiment that decides a claim and compare the verdicts.

    The exit code is 0 if the verdict matches the verdict of the committed evidence, and 1 if it does not.

    Example: elegans verify margins/theorem-7.7 --scale paper
    """
    entries = _to_verify(claim, study, fresh)
    if fresh and (scale is not None or first_seed is not None):
        raise ClaimError("--fresh chooses seeds and scales itself: give no --scale or --first-seed")
    if minutes is not None and not fresh:
        raise ClaimError("--minutes needs --fresh")
    decisions = [] if fresh else [_decision(entry, scale) for entry in entries]
    prepare((), no_cache)
    from elegans.sweeps.progress import SweepView

    view, command = SweepView(console()), typed(context)
    try:
        with tempfile.TemporaryDirectory() as folder, view:
            again = partial(_run_again, out=out or folder, workers=workers, watch=view, command=command)
            if fresh:
                return _verify_fresh(entries, minutes, again)
            return _verify(list(zip(entries, decisions, strict=True)), scale, first_seed, again)
    except KeyboardInterrupt:
        return interrupted(view.last, str(out) if out else None, command)


def _run_again(experiment: str, scale: str, evidence: "Evidence | None", first_seed: int, **settings: Any) -> "Result":
    """Run an experiment as its evidence was run: with its options, engine and number of trials."""
    from elegans.experiments import run_experiment

    arguments = evidence.arguments if evidence else {}
    return run_experiment(experiment, scale, first_seed=first_seed, retrain="refuse", **arguments, **settings)


def _verify(
    entries: "Sequence[tuple[ClaimEntry, Decision | None]]",
    scale: str | None,
    first_seed: int | None,
    again: "Callable[..., Result]",
) -> int:
    """Run the experiment of each claim as its evidence was run, and compare the verdicts."""
    same = True
    for entry, decision in entries:
        evidence, verdict = decision or (None, None)
        chosen = scale or (evidence.scale if evidence else "")
        kept_seed = evidence.content["record"].get("first_seed", 0) if evidence else 0
        say(f"{entry.id}, decided by {entry.experiment} at scale {chosen}")
        result = again(entry.experiment, chosen, evidence, kept_seed if first_seed is None else first_seed)
        same &= _say_whether_same(result.record["verdicts"][entry.id], verdict, chosen)
    return Exit.OK if same else Exit.SOME_FAILED


def _to_verify(claim: str | None, study: str | None, fresh: bool) -> "list[ClaimEntry]":
    """Return a claim, the claims of a file, or with ``fresh`` the claims of a study or of all studies."""
    from elegans.experiments.registry import claims as known, entries, find_claim, is_file, own_experiments

    if claim is None and not fresh:
        raise ClaimError("verify needs a claim or a file; only with --fresh does it verify all decided claims")
    if study is not None and not fresh:
        raise ClaimError("--study needs --fresh")
    check_study(study)
    if claim is None:
        return [entry for entry in known().values() if study in (None, entry.study)]
    if not is_file(claim):
        if claim in entries() and not names_claim(claim):
            names = ", ".join(each.id for each in entries()[claim].claims) or "none"
            raise ClaimError(f"verify needs a claim, and {claim} is an experiment; its claims: {names}")
        return [find_claim(claim)]
    if own := [each for experiment in own_experiments(claim) for each in experiment.claims]:
        return own
    raise ClaimError(f"a file to be verified must have a claim: {claim}")


def _verify_fresh(entries: "Sequence[ClaimEntry]", minutes: float | None, again: "Callable[..., Result]") -> int:
    """Run decided experiments on fresh seeds, keep their evidence and compare all verdicts."""
    from elegans.experiments.evidence import FRESH, keep
    from elegans.experiments.fresh import compared, first_seed, missing

    end, left = math.inf if minutes is None else time.monotonic() + 60 * minutes, 0
    for evidence, names in missing(entries):
        if time.monotonic() + evidence.seconds > end:
            left += 1
            continue
        seed = first_seed(evidence)
        say(f"{evidence.experiment} at scale {evidence.scale} on seeds from {seed}")
        result = again(evidence.experiment, evidence.scale, evidence, seed)
        keep(result, evidence.study, evidence.content["options"], evidence.path.parent / FRESH)
        for name in names:
            words = (verdicts[name]["verdict"] for verdicts in (result.record["verdicts"], evidence.verdicts))
            say("{}: {} on fresh seeds, {} by the evidence".format(name, *words))
    chosen = {entry.id for entry in entries}
    found = [each for each in compared() if each.claim in chosen]
    for each in found:
        if not each.agrees:
            say(f"{each.claim}: {each.verdict} by the evidence, on fresh seeds {each.fresh['verdict']}")
    agree, opposite = sum(each.agrees for each in found), sum(each.opposite for each in found)
    count = f"{counted(len(found), 'claim')} on fresh seeds"
    say(f"{count}: {agree} with the same verdict, {opposite} with the opposite one")
    if left:
        say(f"{counted(left, 'experiment')} left for a run with more --minutes")
    return Exit.OK if agree == len(found) else Exit.SOME_FAILED


def _decision(entry: "ClaimEntry", scale: str | None) -> "Decision | None":
    """Return the evidence that decides a claim, or the evidence at a given scale if there is any, and its verdict."""
    from elegans.experiments.evidence import collected, verdict_of
    from elegans.experiments.registry import find_entry

    if scale is not None:
        find_entry(entry.experiment, scale)
        of_claim = (evidence for evidence in collected() if entry.id in evidence.verdicts)
        return next(((each, each.verdicts[entry.id]) for each in of_claim if each.scale == scale), None)
    decision = verdict_of(entry.id)
    if decision is None:
        raise ClaimError(f"{entry.id} has no evidence yet: choose a --scale of {entry.experiment}")
    find_entry(entry.experiment, decision[0].scale)
    return decision


def _say_whether_same(now: Mapping[str, Any], before: Mapping[str, Any] | None, scale: str) -> bool:
    """Print the verdicts of a run and of the evidence, and return whether they are the same."""
    say(f"now        {now['verdict']}: {now['because']}")
    if before is None:
        say(f"evidence   none at scale {scale}")
        return True
    say(f"evidence   {before['verdict']}: {before['because']}")
    same = bool(now["verdict"] == before["verdict"])
    say("the verdict is the same" if same else "the verdict differs")
    return same


@click.command
@click.argument("record", type=FILE, help="`record.json` of a run, or a JSON file of evidence.")
@click.option(
    "--out", type=FILE, metavar="FOLDER", show_default="nowhere", help="Where to keep the run, to continue it later."
)
@workers
@scheduler
@instruction_set
@no_cache
@imports
@click.pass_context
def rerun(
    context: click.Context,
    record: Path,
    out: Path | None,
    workers: int | None,
    scheduler: str | None,
    instruction_set: str | None,
    no_cache: bool,
    imports: Sequence[Path],
) -> int:
    """Repeat a recorded run and report what differs.

    Versions, build and machine may differ. The exit code is 0 if trials, states, verdicts and tables are the same apart
    from times, and 1 if they are not.

    Example: elegans rerun results/success-frontier/laptop/record.json
    """
    prepare(imports, no_cache)
    from elegans.experiments.rerun import rerun as repeated
    from elegans.sweeps.progress import SweepView

    view = SweepView(console())
    settings = {"workers": workers, "scheduler": scheduler, "instruction_set": instruction_set}
    with tempfile.TemporaryDirectory() as folder:
        try:
            with view:
                repetition = repeated(record, out=out or folder, watch=view, command=typed(context), **settings)
        except KeyboardInterrupt:
            return interrupted(view.last, str(out) if out else None, typed(context))
        for name, (before, now) in repetition.around.items():
            say(f"{name}: {before} before, {now} now")
        for difference in repetition.within:
            say(difference)
        count = repetition.result.record["trials"]
        say(f"{'the results differ' if repetition.within else 'the results are the same'}: {counted(count, 'trial')}")
    return Exit.SOME_FAILED if repetition.within else Exit.OK
