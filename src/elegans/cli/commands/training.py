"""``elegans train``."""

import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elegans import leaving
from elegans.cli import completion
from elegans.cli.common import FILE, OPEN, Exit, console, engine, imports, named, no_cache, prepare, say

if TYPE_CHECKING:
    from elegans.training import Trial


@click.command(context_settings=OPEN)
@click.option(
    "--task",
    metavar="KIND",
    default="sparse-parity",
    shell_complete=completion.kinds("Task"),
    help="The task to learn.",
)
@click.option(
    "--sample-size",
    metavar="M",
    show_default="online: fresh examples at every step",
    help="The number of examples in the sample.",
)
@click.option("--model", metavar="KIND", default="mlp", shell_complete=completion.kinds("Model"), help="The model.")
@click.option("--width", metavar="N", show_default="1000 for an mlp", help="The number of hidden neurons.")
@click.option(
    "--init", metavar="sparse:2|dense", show_default="dense", help="The initialisation of the hidden weights."
)
@click.option("--learning-rate", metavar="RATE", default="0.1", help="The learning rate.")
@click.option("--weight-decay", metavar="RATE", default="0.01", help="Weight decay, added to the gradient.")
@click.option("--batch-size", metavar="N", default="32", help="The number of examples in a minibatch.")
@click.option("--steps", metavar="N", default="100000", help="The largest number of steps.")
@click.option(
    "--loss", metavar="KIND", default="hinge", shell_complete=completion.kinds("Loss"), help="The loss, such as hinge."
)
@click.option("--seed", metavar="N", default="0", help="The seed of all random draws.")
@engine
@click.option(
    "--probe",
    metavar="KIND",
    multiple=True,
    shell_complete=completion.kinds("Probe"),
    help="A further measure to take; can be given several times.",
)
@click.option(
    "--set",
    "changes",
    metavar="PATH=VALUE",
    multiple=True,
    help="Any field, such as model.width=100; can be given several times.",
)
@no_cache
@imports
@click.pass_context
def train(
    context: click.Context,
    task: str,
    sample_size: str | None,
    model: str,
    width: str | None,
    init: str | None,
    learning_rate: str,
    weight_decay: str,
    batch_size: str,
    steps: str,
    loss: str,
    seed: str,
    engine: str,
    probe: Sequence[str],
    changes: Sequence[str],
    no_cache: bool,
    imports: Sequence[Path],
) -> int:
    """Train one network and watch it learn.

    The fields of the task are options too: --n, --k, --support and --noise for sparse-parity.

    Example: elegans train --task sparse-parity --n 50 --k 3 --sample-size 1000 --width 1000 --init sparse:2 --seed 0
    """
    prepare(imports, no_cache)
    from elegans.cli.options import is_learner, literal, trial_from

    # What is no number is passed on as typed: the trial's errors name rule and value.
    own = {"width": 1000 if width is None and model == "mlp" else width and literal(width), "init": init}
    record = {
        "task": {"kind": task},
        "regime": {"kind": "online"} if sample_size is None else {"kind": "sample", "size": literal(sample_size)},
        "model": {"kind": model, **{name: value for name, value in own.items() if value is not None}},
        "training": {
            "kind": "sgd",
            "learning_rate": literal(learning_rate),
            "weight_decay": literal(weight_decay),
            "batch_size": literal(batch_size),
            "steps": literal(steps),
            "loss": loss,
        },
        "seed": literal(seed),
    }
    if is_learner(model):
        del record["training"]
    return _train(trial_from(record, context.args, changes, named(context)), probe, engine)


@click.command
@click.argument("file", type=FILE, help="A trial written as TOML.")
@no_cache
@imports
def explain(file: Path, no_cache: bool, imports: Sequence[Path]) -> int:
    """Show which engine trains a trial, and how fast.

    Also shows why no faster engine can train it. The speed is measured for about a second. The file has the tables
    [task], [regime], [model] and [training].

    Example: elegans explain trial.toml
    """
    prepare(imports, no_cache)
    from elegans.errors import TrialError
    from elegans.files import readable
    from elegans.training import Trial

    try:
        text = readable(file, "a trial", TrialError).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TrialError(f"a trial must be a readable TOML file: {file} ({error})") from None
    say(str(Trial.from_toml(text).explain()))
    return Exit.OK


def _train(trial: "Trial", probes: Sequence[str], engine: str) -> int:
    """Train a trial with a live view and print how it ended."""
    from elegans.cli.curve import CurveView, ending
    from elegans.display import note
    from elegans.errors import ElegansError, RunError
    from elegans.extensions import own_frames
    from elegans.probes import HeldOutErrorRate, Probe, TrainErrorRate
    from elegans.training import train as train_one
    from elegans.training.engines import fallback

    if slow := fallback(trial, engine):
        note(slow)
    every = CurveView.period(trial)
    watched = [HeldOutErrorRate(every=every), TrainErrorRate(every=every)]
    watched += [Probe.parse({"kind": kind, "every": every}) for kind in probes]
    ending_early = "interrupted: a single trial keeps nothing; the same command starts it again"
    leaving.leave.said = ending_early
    try:
        with CurveView(console(), trial) as view:
            outcome = train_one(trial, probes=watched, engine=engine, watch=view)
            view.end(outcome)
    except KeyboardInterrupt:
        say(ending_early)
        return Exit.INTERRUPTED
    except (ElegansError, OSError):
        raise
    except Exception as error:  # whatever a user's own class raises
        failure = RunError(f"the trial failed: {type(error).__name__}: {error}")
        failure.add_note(own_frames(traceback.format_exc()))
        raise failure from None
    for kind in probes:
        taken = outcome.measures[kind].items()
        last = {name: values[-1] for name, values in taken if name != "step" and not getattr(values[-1], "ndim", 0)}
        say(f"{kind}: " + ", ".join(f"{name} {value:.4g}" for name, value in last.items()))
    say(ending(outcome))
    return Exit.SOME_FAILED if outcome.state == "failed" else Exit.OK
