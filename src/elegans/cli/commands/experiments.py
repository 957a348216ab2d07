"""``elegans list`` and ``elegans run``."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    retry_failed,
    say,
    scheduler,
    seeds,
    typed,
    workers,
)

if TYPE_CHECKING:
    from elegans.experiments import Result


@click.command
@click.argument(
    "file", required=False, type=FILE, metavar="[FILE.py]", help="Only the experiments of a file of your own."
)
def list_experiments(file: Path | None) -> None:
    """List every experiment, study by study, or those of a file.

    Each with its finding, source, scales (and their measured times, where there is evidence) and own options.

    Example: elegans list
    """
    from elegans.discovery import study
    from elegans.experiments.evidence import seconds
    from elegans.experiments.registry import entries, own_experiments

    listed = list(entries().values()) if file is None else own_experiments(file)
    measured = seconds()
    for name, of_study in groupby(listed, key=lambda entry: entry.study):
        say(f"{study(name).title()}\n")
        for entry in of_study:
            say(entry.name)
            say(f"  shows   {entry.shows}")
            say(f"  source  {entry.source}")
            timed = {scale: measured.get((entry.name, scale)) for scale in entry.scales}
            scales = (scale if taken is None else f"{scale} ({clock(taken)})" for scale, taken in timed.items())
            say(f"  scales  {', '.join(scales)}")
            for option, chooses in entry.options.items():
                say(f"  --{option} {chooses}")
            say()


at_scale = click.option(
    "--scale",
    metavar="smoke|laptop|part|paper",
    shell_complete=completion.scales,
    show_default="laptop, or the first one",
    help="How much of the experiment to run.",
)


@click.command(context_settings=OPEN)
@experiment
@at_scale
@click.option(
    "--out",
    type=FILE,
    metavar="FOLDER",
    default="results",
    help="Where to put the folder with figure, table and record.",
)
@click.option("--store", metavar="URL", help="Where outcomes are kept.")
@workers
@scheduler
@instruction_set
@seeds
@click.option("--adaptive", is_flag=True, help="Trace the success frontier: train only the cells that decide it.")
@click.option("--draw-only", is_flag=True, help="Train nothing: draw what the store already has at this scale.")
@engine
@retry_failed
@click.option(
    "--first-seed",
    type=click.IntRange(min=0, max=2**64 - 1),
    metavar="N",
    default=0,
    help="Added to every seed: fresh seeds for a claim's verdict.",
)
@click.option("--evidence", is_flag=True, help="Keep record, verdicts and tables in the study's folder `evidence`.")
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
    entry = find_entry(experiment, scale)
    options = own_options(entry, context.args, named(context))
    if store is not None:
        lasting(store)
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
    imports = [*imports, Path(experiment)] if is_file(experiment) else imports
    try:
        with exploring(explore, place, imports), view:
            given |= {"workers": workers, "scheduler": scheduler, "instruction_set": instruction_set}
            given |= {"seeds": seeds, "adaptive": adaptive, "engine": engine}
            given |= {"retry_failed": retry_failed, "first_seed": first_seed, "watch": view}
            result = run_experiment(entry.name, scale, **given)
    except KeyboardInterrupt:
        return interrupted(view.last, place, command)
    say_where(result)
    say_verdicts(result.record["verdicts"])
    if evidence:
        say(f"evidence {keep(result, entry.study, options)}")
    return Exit.OK if view.last is None else ended(view.last)


def say_verdicts(verdicts: Mapping[str, Mapping[str, Any]]) -> None:
    """Print one line for each claim: what its rule decided and why, or what would decide it."""
    from elegans.experiments.claims import UNDECIDED

    for claim, verdict in verdicts.items():
        why = f"needs {verdict['needs']}" if verdict["verdict"] == UNDECIDED else verdict["because"]
        say(f"{verdict['verdict']:13}  {claim}: {why}")


def clock(seconds: float) -> str:
    """Return a duration in a suitable unit."""
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds >= 1.5 * unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:.0f} s"


@click.command(context_settings=OPEN)
@experiment
@at_scale
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
    """Estimate how long an experiment takes on this machine.

    The estimate uses short measurements of each shape of its cells, which take less than a minute in all; no trial of
    the sweep is trained.

    Example: elegans plan lottery-tickets --scale paper
    """
    from elegans.cli.options import own_options
    from elegans.experiments.registry import find_entry

    prepare(imports, False)
    entry = find_entry(experiment, scale)
    options = own_options(entry, context.args, named(context))
    from elegans.experiments import plan as planned
    from elegans.experiments.evidence import seconds as recorded

    found = planned(entry.name, scale, seeds=seeds, adaptive=adaptive, workers=workers, options=options)
    what = f"{found.trials:,} trials in {found.cells:,} cells, at most {found.steps:.3g} training steps"
    say(f"{entry.name} at scale {found.scale}: {what}")
    if found.trials:
        bound = "about" if found.traced else "at most"
        say(f"time    {bound} {clock(found.seconds)} with {found.workers} workers; trials that are solved end earlier")
        if found.expected is not None:
            say(f"likely  {clock(found.expected)}, if trials end as early as in the run whose evidence is kept")
        if found.efficiency is not None and found.writer is not None:
            shares = f"{found.efficiency:.0%} of their time on training; the writer is busy for {found.writer:.1%}"
            say(f"cluster {found.workers} cores like these spend {shares}")
        say(f"basis   {found.measured:,} of {found.shapes:,} shapes of cells measured on this machine")
    else:
        say("nothing is trained: this experiment only computes")
    before = None if seeds or adaptive or options else recorded().get((entry.name, found.scale))
    if before is not None:
        say(f"before  {clock(before)} for the run whose evidence is kept")
    if found.follow:
        say("not counted: trials that depend on the outcomes of these")
    if found.traced:
        say("assumed: a frontier through the middle of each panel; solved trials take a quarter of their steps")


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
