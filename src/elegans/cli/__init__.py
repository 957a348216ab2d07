"""The commands: thin over the Python of the package.

Nothing heavy is imported before a command needs it, so that ``elegans --help`` is instant.
"""

import os
import shlex
import sys
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from elegans.errors import ElegansError


class Exit(IntEnum):
    """What a command's exit code says."""

    WELL = 0
    SOME_FAILED = 1
    BAD_INPUT = 2
    INTERRUPTED = 130


app = typer.Typer(name="elegans", rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)
_ClickError: Any = typer.BadParameter.__mro__[2]
"""The base of click's errors; typer carries a click of its own from some version on."""


def _count(text: str) -> int:
    """Read a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"must be a whole number of at least 1: {text!r}")
    return int(text)


RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Run failed trials again.")]
Imports = Annotated[
    list[Path] | None,
    typer.Option("--import", metavar="FILE.py", help="Load your own tasks, models and probes; may be repeated."),
]
Workers = Annotated[
    int | None, typer.Option(parser=_count, metavar="N", help="Threads that train.", show_default="all cores")
]
Engine = Annotated[str, typer.Option(metavar="auto|fused|pairs|jax", help="What trains.")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code.

    Args:
        arguments: what follows ``elegans``; by default what the process was called with.
    """
    code = _run(list(sys.argv[1:] if arguments is None else arguments) or ["--help"])
    if code == Exit.INTERRUPTED and arguments is None:
        # whoever pressed Ctrl-C does not wait for a compilation to end; all that counts is in the store
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _run(given: list[str]) -> int:
    try:
        return int(app(given, prog_name="elegans", standalone_mode=False, obj=given) or Exit.WELL)
    except _ClickError as error:
        return _refuse(error.format_message())
    except (ElegansError, OSError) as error:
        return _refuse(str(error))
    except (KeyboardInterrupt, typer.Abort):
        return Exit.INTERRUPTED


def _refuse(reason: str) -> int:
    """Say in one line what was wrong with the input."""
    sys.stdout.flush()
    print("error:", " ".join(reason.split()), file=sys.stderr)
    return Exit.BAD_INPUT


def _load(files: list[Path] | None) -> None:
    """Import a user's own files, so that their classes are known by their kinds."""
    if files:
        from elegans import extensions

        for file in files:
            extensions.load(file)


def _named(context: typer.Context) -> list[str]:
    """Return the options that a command has by itself."""
    return [option for parameter in context.command.params for option in parameter.opts]


def _console() -> Any:
    from rich.console import Console

    return Console(highlight=False, markup=False, soft_wrap=True)


def _say(text: str = "") -> None:
    typer.echo(text)


@app.command("list", epilog="Example: elegans list")
def list_experiments() -> None:
    """List every experiment.

    What each shows, its source, and its scales with the time to expect.
    """
    from elegans.experiments import EXPERIMENTS

    for name, experiment in EXPERIMENTS.items():
        _say(name)
        _say(f"  shows   {experiment.shows}")
        _say(f"  source  {experiment.source}")
        for scale, settings in experiment.scales.items():
            _say(f"  {scale:7} {settings.time}")
        for option, choice in experiment.options.items():
            _say(f"  --{option} {choice.chooses}")


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="Example: elegans run success-frontier --scale laptop --out results --workers 2",
)
def run(
    context: typer.Context,
    experiment: Annotated[str, typer.Argument(help="An experiment's name; see `elegans list`.")],
    scale: Annotated[str, typer.Option(metavar="smoke|laptop|paper", help="How much of it to run.")] = "laptop",
    out: Annotated[Path, typer.Option(help="Where the folder with figure, table and record goes.")] = Path("results"),
    store: Annotated[str | None, typer.Option(metavar="URL", help="Where outcomes are kept.")] = None,
    workers: Workers = None,
    seeds: Annotated[
        int | None, typer.Option(parser=_count, metavar="N", help="Trials a cell.", show_default="the scale's own")
    ] = None,
    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="Trace the success frontier: train only the cells that decide it.")
    ] = False,
    draw_only: Annotated[
        bool, typer.Option("--draw-only", help="Train nothing: draw what the store has, at this scale, already.")
    ] = False,
    engine: Engine = "auto",
    retry_failed: RetryFailed = False,
    imports: Imports = None,
) -> int:
    """Run an experiment and draw its figure. Run it again to go on where it was left.

    What else `elegans list` names of an experiment is an option too: --group S4 for group-margins.
    """
    _load(imports)
    from elegans.cli.options import own_options
    from elegans.cli.progress import SweepView
    from elegans.experiments import draw_experiment, find, run_experiment

    command = shlex.join(["elegans", *context.obj])
    options = own_options(find(experiment), context.args, _named(context))
    if draw_only:
        result = draw_experiment(experiment, scale, out=out, store=store, options=options, command=command)
        _say_where(result)
        return Exit.WELL
    view = SweepView(_console())
    try:
        with view:
            result = run_experiment(
                experiment,
                scale,
                out=out,
                store=store,
                workers=workers,
                seeds=seeds,
                adaptive=adaptive,
                engine=engine,
                retry_failed=retry_failed,
                options=options,
                watch=view,
                command=command,
            )
    except KeyboardInterrupt:
        return _interrupted(view.last, store or str(out / experiment / "runs.db"), command)
    _say_where(result)
    return _ended(view.last)


def _ended(progress: Any) -> int:
    """Say in the last line what a run came to, and return its exit code."""
    from elegans.cli.progress import ending

    _say(ending(progress))
    return Exit.SOME_FAILED if progress.failed else Exit.WELL


def _say_where(result: Any) -> None:
    """Say where an experiment's files lie."""
    _say(f"figure  {result.files['figure']}, {result.files['print']}")
    _say(f"table   {result.files['table']}")
    _say(f"record  {result.files['record']}")
    for name in result.experiment.extras:
        _say(f"extra   {result.files[name]}")


def _interrupted(progress: Any, store: str, command: str) -> int:
    """Say in the last line what a stopped run leaves behind and what goes on with it."""
    kept = f"{progress.done} of {progress.trials} trials are kept in {store}" if progress else "nothing was begun"
    _say(f"interrupted: {kept}; to go on: {command}")
    return Exit.INTERRUPTED


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="Example: elegans train --task sparse-parity --n 50 --k 3 --sample-size 1000 --width 1000 "
    "--init sparse:2 --seed 0",
)
def train(
    context: typer.Context,
    task: Annotated[str, typer.Option(metavar="KIND", help="What is learned.")] = "sparse-parity",
    sample_size: Annotated[
        str | None,
        typer.Option(metavar="M", help="Examples in the sample.", show_default="online: fresh ones every step"),
    ] = None,
    model: Annotated[str, typer.Option(metavar="KIND", help="What learns.")] = "mlp",
    width: Annotated[
        str | None, typer.Option(metavar="N", help="Hidden neurons.", show_default="1000 for an mlp")
    ] = None,
    init: Annotated[
        str | None, typer.Option(metavar="sparse:2|dense", help="Initial hidden weights.", show_default="dense")
    ] = None,
    learning_rate: Annotated[str, typer.Option(metavar="RATE", help="Step size.")] = "0.1",
    weight_decay: Annotated[str, typer.Option(metavar="RATE", help="L2 in the gradient.")] = "0.01",
    batch_size: Annotated[str, typer.Option(metavar="N", help="Examples in a minibatch.")] = "32",
    steps: Annotated[str, typer.Option(metavar="N", help="The largest number of steps.")] = "100000",
    loss: Annotated[str, typer.Option(metavar="hinge|square|logistic", help="The loss.")] = "hinge",
    seed: Annotated[str, typer.Option(metavar="N", help="All draws follow from it.")] = "0",
    engine: Engine = "auto",
    probe: Annotated[list[str] | None, typer.Option(metavar="KIND", help="A measure to take as well.")] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Any field, as in model.width=100.")
    ] = None,
    imports: Imports = None,
) -> int:
    """Train one network and watch it learn.

    The fields of the task are options too: --n, --k, --support and --noise for sparse-parity.
    """
    _load(imports)
    from elegans.cli.options import is_learner, trial_from

    # Values go on as they were typed: the trial reads them, and its errors name rule and value.
    own = {"width": "1000" if width is None and model == "mlp" else width, "init": init}
    record = {
        "task": {"kind": task},
        "regime": {"kind": "online"} if sample_size is None else {"kind": "sample", "size": sample_size},
        "model": {"kind": model, **{name: value for name, value in own.items() if value is not None}},
        "training": {
            "kind": "sgd",
            "learning_rate": learning_rate,
            "weight_decay": weight_decay,
            "batch_size": batch_size,
            "steps": steps,
            "loss": loss,
        },
        "seed": seed,
    }
    if is_learner(model):
        del record["training"]
    return _train(trial_from(record, context.args, changes or [], _named(context)), probe or [], engine)


def _train(trial: Any, probes: list[str], engine: str) -> int:
    """Train a trial in sight of the user and say how it ended."""
    from elegans.cli.curve import CurveView, ending
    from elegans.probes import Probe, TestError, TrainError
    from elegans.training import train as train_one

    every = CurveView.period(trial)
    watched = [TestError(every=every), TrainError(every=every)]
    watched += [Probe.parse({"kind": kind, "every": every}) for kind in probes]
    try:
        with CurveView(_console(), trial) as view:
            outcome = train_one(trial, probes=watched, engine=engine, watch=view)
    except KeyboardInterrupt:
        _say("interrupted: a single trial keeps nothing; the same command begins it again")
        return Exit.INTERRUPTED
    for kind in probes:
        taken = outcome.measures[kind].items()
        last = {name: values[-1] for name, values in taken if name != "step" and not getattr(values[-1], "ndim", 0)}
        _say(f"{kind}: " + ", ".join(f"{name} {value:.4g}" for name, value in last.items()))
    _say(ending(outcome))
    return Exit.SOME_FAILED if outcome.state == "failed" else Exit.WELL


@app.command(epilog="Example: elegans sweep --example > my_sweep.toml && elegans sweep my_sweep.toml --store my.db")
def sweep(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="A sweep written as TOML.")] = None,
    example: Annotated[bool, typer.Option("--example", help="Print a commented sweep and do nothing else.")] = False,
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="Where outcomes are kept.", show_default="the file's, or FILE.db")
    ] = None,
    workers: Workers = None,
    engine: Engine = "auto",
    retry_failed: RetryFailed = False,
    imports: Imports = None,
) -> int:
    """Run a grid of your own. Run it again to go on where it was left."""
    if example:
        from elegans.sweeps.sweep import EXAMPLE

        _say(EXAMPLE.rstrip("\n"))
        return Exit.WELL
    if file is None:
        raise typer.BadParameter("a sweep needs its FILE: see `elegans sweep --example`")
    _load(imports)
    from elegans.cli.progress import SweepView
    from elegans.sweeps import Sweep, run as run_sweep

    swept = Sweep.from_toml(file)
    kept = store or swept.store or f"{file.stem}.db"
    view = SweepView(_console())
    try:
        with view:
            run_sweep(swept, kept, workers=workers, engine=engine, retry_failed=retry_failed, watch=view)
    except KeyboardInterrupt:
        return _interrupted(view.last, kept, shlex.join(["elegans", *context.obj]))
    _say(f"table   {kept}; to write it out: elegans export {kept} {file.stem}.csv")
    return _ended(view.last)


@app.command(epilog="Example: elegans status runs.db")
def status(store: Annotated[str, typer.Argument(help="A store: a file or a database URL.")]) -> int:
    """Say how far the runs of a store are.

    Cells done, running and failed, trials a second, time left.
    """
    from elegans.sweeps import Store

    with Store(store, create=False) as opened:
        found = opened.status()
    _say(str(found))
    return Exit.WELL


@app.command(epilog="Example: elegans export runs.db out.parquet")
def export(
    store: Annotated[str, typer.Argument(help="A store: a file or a database URL.")],
    file: Annotated[Path, typer.Argument(help="Where to: .parquet or .csv.")],
) -> int:
    """Write a store's table, a row a trial, to a file."""
    from elegans.sweeps import Store

    with Store(store, create=False) as opened:
        rows = opened.export(file)
    _say(f"{rows} trials in {file}")
    return Exit.WELL


@app.command(epilog="Example: elegans doctor")
def doctor() -> int:
    """Say what this machine has.

    Versions, cores, the instruction set chosen, and which engines work here and why others do not.
    """
    from elegans.cli.doctor import examine

    for section, facts in examine().items():
        _say(section)
        for name, fact in facts.items():
            _say(f"  {name:16} {fact}")
    return Exit.WELL


@app.command(epilog="Example: elegans bench --json")
def bench(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> int:
    """Measure how fast this machine trains.

    Trials a second and GFLOP/s beside the measured multiply-add peak; under a minute.
    """
    import json

    from elegans.cli.bench import heading, report, row

    if as_json:
        _say(json.dumps(report()))
        return Exit.WELL
    _say(heading())
    measured = report(seen=lambda rate: _say(row(rate)))
    if measured["peak_gflops"]:
        _say(f"multiply-add peak, {measured['cores']} cores at once: {measured['peak_gflops']:.0f} GFLOP/s")
        _say("(a step counts as 4 x batch x n x width operations; the fused engine adds up signs with fewer)")
    return Exit.WELL


@app.command(epilog="Example: elegans theory information_bits n=50 k=3")
def theory(
    name: Annotated[str | None, typer.Argument(help="A calculator's name, or a part of names.")] = None,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="ARGUMENT=VALUE...", help="Evaluate it: numbers, fractions or text.")
    ] = None,
) -> int:
    """List what is proved: calculators, with their arguments, formulas and sources.

    With arguments, print the value of one.
    """
    from elegans.cli.calculators import described, evaluate, matching, usage

    if name is not None and values:
        lines = evaluate(name, values)
    else:
        entries = matching(name)
        lines = [line for entry in entries for line in described(entry)]
        if len(entries) == 1:
            lines.append(f"  {'call':8} {usage(entries[0])}")
    for line in lines:
        _say(line)
    return Exit.WELL
