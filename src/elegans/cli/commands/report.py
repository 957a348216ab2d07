"""``elegans report``."""

from collections.abc import Sequence
from pathlib import Path

import click

from elegans.cli.common import FILE, Exit, imports, lasting, prepare, say


@click.command
@click.argument(
    "place", metavar="STORE|FOLDER", help="A store, or the folder of an experiment's results or of one scale."
)
@click.option("-o", "--out", type=FILE, metavar="FILE", default="report.html", help="The file to write.")
@imports
def report(place: str, out: Path, imports: Sequence[Path]) -> int:
    """Write a store or results as one HTML file.

    The file has maps, cells with learning curves, verdicts, record and claims. It opens from disk in any browser,
    without a server or a network.

    Example: elegans report results/success-frontier -o report.html
    """
    lasting(place)
    prepare(imports, False)
    from elegans.explorer.report import write_report

    written = write_report(place, out)
    say(f"report  {out}, {written.size / 1e6:.1f} MB")
    say(f"maps    {written.maps}")
    say(
        f"cells   {written.kept:,} of {written.cells:,} with trials and curves, of at most {written.points} points each"
    )
    return Exit.OK
