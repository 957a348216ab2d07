"""``elegans sweep``, ``elegans status`` and ``elegans export``."""

from pathlib import Path
from typing import Annotated

import typer

from elegans.cli.common import (
    EngineName,
    Exit,
    Imports,
    NoCache,
    RetryFailed,
    StorePlace,
    Workers,
    console,
    ended,
    interrupted,
    prepare,
    say,
    typed,
)


def sweep(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="A sweep written as TOML.")] = None,
    example: Annotated[bool, typer.Option("--example", help="Print a commented sweep and do nothing else.")] = False,
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="Where outcomes are kept.", show_default="the file's, or FILE.db")
    ] = None,
    workers: Workers = None,
    engine: EngineName = "auto",
    retry_failed: RetryFailed = False,
    no_cache: NoCache = False,
    imports: Imports = None,
) -> int:
    """Run a grid of your own. Run it again to go on where it was left.

    Example: elegans sweep --example > my_sweep.toml && elegans sweep my_sweep.toml --store my.db
    """
    if example:
        from elegans.sweeps.example import EXAMPLE

        say(EXAMPLE.rstrip("\n"))
        return Exit.WELL
    if file is None:
        raise typer.BadParameter("a sweep needs its FILE: see `elegans sweep --example`")
    prepare(imports, no_cache)
    from elegans.sweeps.sweep import Sweep

    swept = Sweep.from_toml(file)
    from elegans.cli.progress import SweepView
    from elegans.sweeps import run

    kept = store or swept.store or f"{file.stem}.db"
    view = SweepView(console())
    try:
        with view:
            run(swept, kept, workers=workers, engine=engine, retry_failed=retry_failed, watch=view)
    except KeyboardInterrupt:
        return interrupted(view.last, kept, typed(context))
    say(f"table   {kept}; to write it out: elegans export {kept} {file.stem}.csv")
    assert view.last is not None
    return ended(view.last)


def status(store: StorePlace) -> int:
    """Say how far the runs of a store are.

    Cells done, running and failed, trials per second, time left.

    Example: elegans status runs.db
    """
    from elegans.sweeps.status import status_of

    say(str(status_of(store)))
    return Exit.WELL


def export(store: StorePlace, file: Annotated[Path, typer.Argument(help="Where to: .parquet or .csv.")]) -> int:
    """Write a store's table, one row per trial, to a file.

    Example: elegans export runs.db out.parquet
    """
    from elegans.sweeps import Store

    with Store(store, create=False) as opened:
        rows = opened.export(file)
    say(f"{rows} trials in {file}")
    return Exit.WELL
