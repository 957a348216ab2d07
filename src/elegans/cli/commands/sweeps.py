"""``elegans sweep``, ``elegans status``, ``elegans export`` and ``elegans check``."""

from collections.abc import Sequence
from pathlib import Path

import click

from elegans.cli.commands.explore import beside, exploring
from elegans.cli.common import (
    FILE,
    Exit,
    console,
    ended,
    engine,
    imports,
    instruction_set,
    interrupted,
    lasting,
    no_cache,
    prepare,
    retrain_changed,
    retry_failed,
    say,
    scheduler,
    store_in,
    store_place,
    typed,
    workers,
)
from elegans.errors import counted


@click.command
@click.argument("file", required=False, type=FILE, help="A sweep written as TOML.")
@click.option("--example", is_flag=True, help="Print a commented example of a sweep and exit.")
@click.option("--store", metavar="URL", show_default="the file's, or FILE.db", help="Where outcomes are kept.")
@workers
@scheduler
@instruction_set
@engine
@retry_failed
@retrain_changed
@beside
@no_cache
@imports
@click.option("--no-import", is_flag=True, help="Refuse a sweep file that imports Python files.")
@click.pass_context
def sweep(
    context: click.Context,
    file: Path | None,
    example: bool,
    store: str | None,
    workers: int | None,
    scheduler: str | None,
    instruction_set: str | None,
    engine: str,
    retry_failed: bool,
    retrain_changed: bool,
    explore: bool,
    no_cache: bool,
    imports: Sequence[Path],
    no_import: bool,
) -> int:
    """Run your own grid of trials. Run it again to continue where it stopped.

    FILE may import Python files of its folder, whose names are printed first. Other files are named by --import.

    Example: elegans sweep --example > my_sweep.toml && elegans sweep my_sweep.toml --store my.db
    """
    if example:
        from elegans.sweeps.example import EXAMPLE_TOML

        say(EXAMPLE_TOML.rstrip("\n"))
        return Exit.OK
    if file is None:
        raise click.UsageError("a sweep needs its FILE: see `elegans sweep --example`")
    prepare(imports, no_cache)
    from elegans.sweeps.sweep import Sweep

    swept = Sweep.from_toml(file, load=None if no_import else _announced)
    from elegans.store.store import Store
    from elegans.sweeps.progress import SweepView
    from elegans.sweeps.runner import complete, connected, note_fallback, report

    kept = lasting(store if store is not None else swept.store or f"{file.stem}.db")
    note_fallback(swept, engine)
    view = SweepView(console())
    try:
        connection = connected(scheduler, workers, instruction_set=instruction_set)
        with exploring(explore, kept, imports), view, connection as cluster:
            failed = complete(
                swept,
                kept,
                workers=workers,
                scheduler=cluster,
                engine=engine,
                retry_failed=retry_failed,
                retrain="changed" if retrain_changed else "missing",
                watch=view,
            )
    except KeyboardInterrupt:
        return interrupted(view.last, kept, typed(context))
    say(f"table   {kept}; to export it: elegans export {kept} {file.stem}.csv")
    assert view.last is not None
    code = ended(view.last)
    with Store(kept, create=False) as opened:
        report(opened, swept, failed)
    return code


def _announced(file: Path) -> None:
    from elegans import extensions

    say(f"import  {file}")
    extensions.load(file)


@click.command
@store_place
def status(store: str) -> int:
    """Show the progress of a store's runs.

    Shows cells done, running and failed, trials per second and the time left.

    Example: elegans status runs.db
    """
    from elegans.store.status import status_of

    say(str(status_of(store_in(store))))
    return Exit.OK


@click.command
@store_place
@click.argument("file", type=FILE, help="The file to write: .parquet or .csv; with --weights, a folder.")
@click.option(
    "--weights", is_flag=True, help="Write the networks that the probe Checkpoints kept, as safetensors files."
)
@imports
def export(store: str, file: Path, weights: bool, imports: Sequence[Path]) -> int:
    """Write a store's table or networks to files.

    The table has one row per trial. Networks go to a folder, one file each.

    Example: elegans export runs.db out.parquet
    """
    prepare(imports, False)
    from elegans.store import Store

    with Store(store_in(store), create=False) as opened:
        kind, count = ("network", opened.export_weights(file)) if weights else ("trial", opened.export(file))
    say(f"{counted(count, kind)} in {file}")
    return Exit.OK


@click.command
@store_place
@click.option("--repair", is_flag=True, help="Move damaged rows aside, so that their trials can be trained again.")
@imports
def check(store: str, repair: bool, imports: Sequence[Path]) -> int:
    """Check every row of a store and list the damaged rows.

    A repair deletes nothing: damaged rows are moved to tables named aside_… in the same file. The exit code is 1 if
    damage remains, or if a repair recovered no trial.

    Example: elegans check runs.db --repair
    """
    prepare(imports, False)
    from elegans.store.integrity import check as checked

    report = checked(store_in(store), repair)
    say(str(report))
    return Exit.OK if report.sound or report.repaired else Exit.SOME_FAILED
