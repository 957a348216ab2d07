"""``elegans list`` and ``elegans run``."""

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from elegans.cli import completion
from elegans.cli.commands.explore import beside, exploring
from elegans.cli.common import (
    FILE,
    OPEN,
    Exit,
    console,
    ended,
    engine,
    experiment,
    imports,
    instruction_set,
    interrupted,
    lasting,
    named,
    no_cache,
    prepare,
    retrain_changed,
    retry_failed,
    say,
    scheduler,
    seeds,
    typed,
    workers,
)
from elegans.cli.listing import famous_first, mentions, nearest, say_fitted, say_wrapped, widest
from elegans.display import note, span
from elegans.errors import ExperimentError, counted, printable, shown

Command = TypeVar("Command", bound=Callable[..., Any] | click.Command)

if TYPE_CHECKING:
    from elegans.experiments import Result, RunPlan
    from elegans.experiments.registry import Entry


@click.command
@click.argument(
    "wanted",
    required=False,
    shell_complete=completion.experiments,
    metavar="[NAME|WORD|FILE.py]",
    help="An experiment or your own file, to show it in full; or a word, to list the experiments that mention it.",
)
def list_experiments(wanted: str | None) -> None:
    """List the experiments study by study, the best-known first.

    Each line has an experiment's name, how long its scale laptop takes on two cores, and its finding. Scale paper is
    the published setting, and scale part the part of it that decides the claims, where all of it takes too long.

    Example: elegans list grokking
    """
    from elegans.discovery import study
    from elegans.experiments.evidence import seconds
    from elegans.experiments.registry import entries, is_file

    listed, measured = _wanted(wanted), seconds()
    if len(listed) == 1:
        return _describe(listed[0], measured)
    width = widest([entry.name for entry in listed])
    for name, of_study in groupby(famous_first(listed), key=lambda entry: entry.study):
        say_fitted(study(name).title())
        for entry in of_study:
            taken = measured.get((entry.name, "laptop"))
            say_fitted(f"  {entry.name:{width}}  {'' if taken is None else span(taken):>7}  {entry.shows}")
        say()
    if wanted is not None and is_file(wanted):
        say(f"{len(listed)} experiments; to run one: elegans run {listed[0].name} --import {wanted}")
        return None
    of = f" of {len(entries())}" if wanted else ""
    say(
        f"{len(listed)}{of} experiments; `elegans list NAME` shows one, `elegans list WORD` lists the experiments that "
        "mention a word"
    )
    return None


def _wanted(text: str | None) -> "list[Entry]":
    """Return the experiments of a file, the experiment of a name, the experiments that mention a word, or all."""
    from elegans.discovery import study
    from elegans.experiments.registry import entries, is_file, own_experiments

    if text is not None and is_file(text):
        return own_experiments(FILE.convert(text, None, None))
    known = entries()
    if text is None or text in known:
        return list(known.values()) if text is None else [known[text]]
    found = [
        entry
        for entry in known.values()
        if mentions(text, entry.name, entry.shows, entry.source, study(entry.study).title())
    ]
    if not found:
        near = nearest(text, known, "; `elegans list` lists all")
        raise ExperimentError(f"no experiment mentions {shown(text)}{near}")
    return found


def _describe(entry: "Entry", measured: "Mapping[tuple[str, str], float]") -> None:
    from elegans.discovery import study

    say(entry.name)
    timed = {scale: measured.get((entry.name, scale)) for scale in entry.scales}
    scales = (scale if taken is None else f"{scale} ({span(taken)})" for scale, taken in timed.items())
    for title, text in (
        ("shows", entry.shows),
        ("study", study(entry.study).title()),
        ("source", entry.source),
        ("scales", ", ".join(scales) + ("; part is what decides the claims of paper" * ("part" in entry.scales))),
        ("claims", ", ".join(claim.id for claim in entry.claims)),
    ):
        if text:
            say_wrapped(f"{title:8}", text)
    for option, chooses in entry.options.items():
        say_wrapped(f"--{option} ", chooses)


def at_scale(default: str) -> Callable[[Command], Command]:
    """Return the option for the scale, with its default."""
    return click.option(
        "--scale",
        metavar="smoke|laptop|part|paper",
        shell_complete=completion.scales,
        show_default=default,
        help="How much of the experiment to run.",
    )


@click.command(context_settings=OPEN)
@experiment
@at_scale("laptop if there is one, or the first")
@click.option(
    "--out",
    type=FILE,
    metavar="FOLDER",
    default="results",
    help="Where to create the folder NAME/SCALE for figure, table and record.",
)
@click.option("--store", metavar="URL", help="Where outcomes are kept.")
@workers
@scheduler
@instruction_set
@seeds
@click.option("--adaptive", is_flag=True, help="Trace the success frontier: train only the cells near it.")
@click.option(
    "--draw-only",
    is_flag=True,
    help="Train nothing; draw what the store already has at this scale, for figures of rates and times.",
)
@engine
@retry_failed
@retrain_changed
@click.option(
    "--first-seed",
    type=click.IntRange(min=0, max=2**64 - 1),
    metavar="N",
    default=0,
    help="A number added to every seed, to test a claim on fresh seeds.",
)
@click.option(
    "--evidence",
    is_flag=True,
    help="Keep record, verdicts and tables in the study's folder `evidence`. Trials older than their code are refused.",
)
@beside
@no_cache
@imports
@click.pass_context
def run(
    context: click.Context,
    experiment: str,
    scale: str | None,
    out: Path,
    store: str | None,
    workers: int | None,
    scheduler: str | None,
    instruction_set: str | None,
    seeds: int | None,
    adaptive: bool,
    draw_only: bool,
    engine: str,
    retry_failed: bool,
    retrain_changed: bool,
    first_seed: int,
    evidence: bool,
    explore: bool,
    no_cache: bool,
    imports: Sequence[Path],
) -> int:
    """Run an experiment and draw its figure. Run it again to continue where it stopped.

    An experiment's own options, as listed by `elegans list`, are accepted too: --group S4 for group-margins.

    Example: elegans run success-frontier --scale laptop --out results --workers 2
    """
    from elegans.cli.options import own_options
    from elegans.experiments.registry import find_entry, is_file

    prepare(imports, no_cache)
    if is_file(experiment) and Path(experiment).exists():
        _say_start(experiment, scale)
    entry = find_entry(experiment, scale)
    options = own_options(entry, context.args, named(context))
    if store is not None:
        lasting(store)
    if not is_file(experiment):
        _say_start(entry.name, scale or ("laptop" if "laptop" in entry.scales else entry.scales[0]))
    from elegans.experiments import draw_experiment, run_experiment
    from elegans.experiments.evidence import keep
    from elegans.sweeps.progress import SweepView

    command = typed(context)
    given: dict[str, Any] = {"out": out, "store": store, "options": options, "command": command}
    if draw_only:
        say_where(draw_experiment(entry.name, scale, **given))
        return Exit.OK
    view = SweepView(console())
    place = store or str(out / entry.name / "runs.db")
    imported, imports = imports, [*imports, Path(experiment)] if is_file(experiment) else imports
    before = {folder: _last_record(folder) for folder in (out / entry.name).glob("*/")}
    try:
        with exploring(explore, place, imports), view:
            given |= {"workers": workers, "scheduler": scheduler, "instruction_set": instruction_set}
            given |= {"seeds": seeds, "adaptive": adaptive, "engine": engine}
            given["retrain"] = "changed" if retrain_changed else "refuse" if evidence else "missing"
            given |= {"retry_failed": retry_failed, "first_seed": first_seed, "watch": view}
            result = run_experiment(entry.name, scale, **given)
    except KeyboardInterrupt:
        return interrupted(view.last, place, command)
    say_where(result)
    say_verdicts(result, [experiment, *(word for file in imported for word in ("--import", str(file)))])
    _say_changed_rules(before.get(result.folder, {}), result)
    if evidence:
        say(f"evidence {keep(result, entry.study, options)}")
    return Exit.OK if view.last is None else ended(view.last)


def _say_start(name: str, scale: str | None) -> None:
    """Say where no live view does what is about to run: imports and compilation may take a while."""
    if sys.stdout is None or not sys.stdout.isatty():
        note(f"loading {printable(name)}{f' at scale {scale}' if scale else ''}")


def _last_record(folder: Path) -> "Mapping[str, Any]":
    """Return the record that a run will replace, or nothing where there is none that can be read."""
    try:
        record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _say_changed_rules(before: "Mapping[str, Any]", result: "Result") -> None:
    """Say which claims the last run at this scale judged by another rule, and what it said."""
    for claim, verdict in result.record["verdicts"].items():
        last = before.get("verdicts", {}).get(claim, verdict)
        if last["rule"] != verdict["rule"]:
            say_wrapped(
                "note    ", f"the rule of {claim} has changed since the last run, which said: {last['verdict']}", ""
            )


def say_verdicts(result: "Result", words: Sequence[str]) -> None:
    """Print what each claim's rule decided and why; of what a smoke run is too small to decide, one line.

    ``words`` name the experiment on the command line.
    """
    from elegans.experiments.words import NO_COLUMN, UNDECIDED, needed, reason

    experiment = result.experiment
    larger = [scale for scale in experiment.scales if scale != "smoke"]
    small = result.scale == "smoke" and bool(larger)
    verdicts = result.from_trials if small else result.record["verdicts"]
    for claim, verdict in verdicts.items():
        word = verdict["verdict"]
        if word != UNDECIDED:
            say_wrapped(f"{word:13}  ", f"{claim}: {reason(verdict)}", "", word)
        elif not small or NO_COLUMN in verdict["because"]:
            say_wrapped(f"{word:13}  ", f"{claim}: {needed(verdict)}", "", word)
    if small:
        if seen := _seen(result):
            say_wrapped("seen    ", seen, "")
        few = [verdict for verdict in verdicts.values() if NO_COLUMN not in verdict["because"]]
        count = sum(verdict["verdict"] == UNDECIDED for verdict in few)
        if count:
            of = f"{count} of {len(verdicts)} claims" if len(verdicts) > 1 else "the claim"
            options = result.record["arguments"]["options"]
            chosen = [argument for name, value in options.items() for argument in (f"--{name}", str(value))]
            more = shlex.join(["elegans", "run", *words, "--scale", larger[0], *chosen])
            say_wrapped("note    ", f"too few trials to decide {of}; the next larger run: {more}", "")


def _seen(result: "Result") -> str:
    """Return in words which cells of a run have the largest and the smallest share of solved trials, if they differ."""
    from elegans.plots.style import name_of

    trials = result.results.trials
    if not len(trials):
        return ""
    settings = trials[list(trials)[: list(trials).index("restart")]].copy()
    for name, column in settings.items():
        numbers = column.dtype.kind == "f"
        settings[name] = (column.map("{:.6g}".format) if numbers else column.astype(str)).fillna("nan")
    varying = [name for name in map(str, settings) if settings[name].nunique() > 1]
    sizes = {name for name in varying if name.endswith(".size") and name.removesuffix(".size") in varying}
    unsized = {name for name in sizes if (settings[name] == "nan").any()}  # as of online examples
    said_twice = unsized | {name.removesuffix(".size") for name in sizes - unsized}
    said_twice |= {name for name in varying if _is_told(settings, name, varying)}
    varying = [name for name in varying if name not in said_twice]
    if not varying:
        return ""
    by_cell = (trials["state"] == "solved").groupby([settings[name] for name in varying], sort=False, dropna=False)
    solved, counts = by_cell.sum(), by_cell.size()
    shares = (solved / counts).to_numpy()
    if shares.max() == shares.min():
        return ""
    texts = []
    for place in (int(shares.argmax()), int(shares.argmin())):
        values = solved.index[place] if len(varying) > 1 else (solved.index[place],)
        present = [(name, value) for name, value in zip(map(str, varying), values, strict=True) if value != "nan"]
        names = dict.fromkeys(name_of(name, value) for name, value in present)
        texts.append(f"{solved.iloc[place]:,} of {counted(counts.iloc[place], 'trial')} solved at {', '.join(names)}")
    return "; ".join(texts)


def _is_told(settings: Any, name: str, varying: list[str]) -> bool:
    """Return whether a parameter is one of a component that varies, and the component's name tells its value."""
    above = name.rpartition(".")[0]
    return above in varying and settings.groupby(above)[name].nunique().max() <= 1


@click.command(context_settings=OPEN)
@experiment
@at_scale("each")
@workers
@seeds
@click.option("--adaptive", is_flag=True, help="Plan a traced frontier.")
@imports
@click.pass_context
def plan(
    context: click.Context,
    experiment: str,
    scale: str | None,
    workers: int | None,
    seeds: int | None,
    adaptive: bool,
    imports: Sequence[Path],
) -> None:
    """Estimate how long an experiment takes here.

    The estimate is for this machine, at one scale or at each. It uses short measurements of each shape of its cells,
    which take less than a minute in all; no trial of the sweep is trained.

    Example: elegans plan lottery-tickets --scale paper
    """
    from elegans.cli.options import own_options
    from elegans.experiments.registry import find, find_entry

    prepare(imports, False)
    entry = find_entry(experiment, scale)
    options = own_options(entry, context.args, named(context))
    from elegans.experiments import plan as planned
    from elegans.experiments.evidence import seconds as recorded

    given: dict[str, Any] = {"seeds": seeds, "adaptive": adaptive, "workers": workers, "options": options}
    for place, each in enumerate([scale] if scale else _by_interest(entry.scales)):
        if place:
            say()
        if len(find(entry.name).with_options(options).scale(each).cells(1)):
            note(f"note: the cells of scale {each} are timed on this machine, usually for less than a minute")
        before = None if seeds or adaptive or options else recorded().get((entry.name, each))
        _say_plan(entry.name, planned(entry.name, each, **given), before)


def _by_interest(scales: "Sequence[str]") -> list[str]:
    """Return the names of scales, ``laptop`` first."""
    return sorted(scales, key=lambda scale: scale != "laptop")


def _say_plan(name: str, found: "RunPlan", before: float | None) -> None:
    sizes = f"{counted(found.trials, 'trial')} in {counted(found.cells, 'cell')}"
    say(f"{name} at scale {found.scale}: {sizes}, at most {_rounded(found.steps)} training steps")
    if found.trials:
        bound = f"{'about' if found.traced else 'at most'} {span(found.seconds)}"
        say(f"time    {bound} with {counted(found.workers, 'worker')}; trials that are solved end earlier")
        if found.expected is not None:
            say(f"likely  {span(found.expected)}, if trials end as early as in the run whose evidence is kept")
        if found.efficiency is not None and found.writer is not None:
            shares = f"{found.efficiency:.0%} of their time on training; the writer is busy for {found.writer:.1%}"
            say(f"cluster {counted(found.workers, 'core')} like these spend {shares}")
        say(f"basis   {found.measured:,} of {counted(found.shapes, 'shape')} of cells measured on this machine")
    else:
        say("nothing is trained: this experiment only computes")
    if before is not None:
        say(f"before  {span(before)} for the run whose evidence is kept")
    if found.follow:
        say("not counted: trials that depend on the outcomes of these")
    if found.traced:
        say("assumed: a frontier through the middle of each panel; solved trials take a quarter of their steps")


def _rounded(number: float) -> str:
    """Return a number with three digits: with separators where it is short, else as a power of ten."""
    return f"{float(f'{number:.3g}'):,.0f}" if number < 1e9 else f"{number:.3g}"


def say_where(result: "Result") -> None:
    """Print where an experiment's files are."""
    from elegans.experiments.checks import summary

    if result.experiment.plot:
        say(f"figure  {result.files['figure']}, {result.files['print']}")
    say(f"table   {', '.join(str(result.files[name]) for name in result.tables)}")
    if "checks" in result.tables:
        say(f"checks  {summary(result.tables['checks'])}")
    say(f"record  {result.files['record']}")
    for name in result.experiment.extras:
        say(f"extra   {result.files[name]}")
