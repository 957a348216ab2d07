"""``elegans train``."""

from typing import TYPE_CHECKING, Annotated

import typer

from elegans.cli import completion
from elegans.cli.common import EngineName, Exit, Imports, NoCache, console, named, prepare, say

if TYPE_CHECKING:
    from elegans.training import Trial


def train(
    context: typer.Context,
    task: Annotated[
        str, typer.Option(metavar="KIND", autocompletion=completion.kinds("Task"), help="What is learned.")
    ] = "sparse-parity",
    sample_size: Annotated[
        str | None,
        typer.Option(metavar="M", help="Examples in the sample.", show_default="online: fresh ones every step"),
    ] = None,
    model: Annotated[
        str, typer.Option(metavar="KIND", autocompletion=completion.kinds("Model"), help="What learns.")
    ] = "mlp",
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
    loss: Annotated[
        str, typer.Option(metavar="KIND", autocompletion=completion.kinds("Loss"), help="The loss, as in hinge.")
    ] = "hinge",
    seed: Annotated[str, typer.Option(metavar="N", help="All draws follow from it.")] = "0",
    engine: EngineName = "auto",
    probe: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", autocompletion=completion.kinds("Probe"), help="A measure to take as well."),
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Any field, as in model.width=100.")
    ] = None,
    no_cache: NoCache = False,
    imports: Imports = None,
) -> int:
    """Train one network and watch it learn.

    The fields of the task are options too: --n, --k, --support and --noise for sparse-parity.

    Example: elegans train --task sparse-parity --n 50 --k 3 --sample-size 1000 --width 1000 --init sparse:2 --seed 0
    """
    prepare(imports, no_cache)
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
    return _train(trial_from(record, context.args, changes or [], named(context)), probe or [], engine)


def _train(trial: "Trial", probes: list[str], engine: str) -> int:
    """Train a trial in sight of the user and say how it ended."""
    from elegans.cli.curve import CurveView, ending
    from elegans.probes import Probe, TestError, TrainError
    from elegans.training import train as train_one

    every = CurveView.period(trial)
    watched = [TestError(every=every), TrainError(every=every)]
    watched += [Probe.parse({"kind": kind, "every": every}) for kind in probes]
    try:
        with CurveView(console(), trial) as view:
            outcome = train_one(trial, probes=watched, engine=engine, watch=view)
    except KeyboardInterrupt:
        say("interrupted: a single trial keeps nothing; the same command begins it again")
        return Exit.INTERRUPTED
    for kind in probes:
        taken = outcome.measures[kind].items()
        last = {name: values[-1] for name, values in taken if name != "step" and not getattr(values[-1], "ndim", 0)}
        say(f"{kind}: " + ", ".join(f"{name} {value:.4g}" for name, value in last.items()))
    say(ending(outcome))
    return Exit.SOME_FAILED if outcome.state == "failed" else Exit.WELL
