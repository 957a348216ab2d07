"""``elegans doctor`` and ``elegans bench``."""

import json

import click

from elegans.cli.common import Exit, say


@click.command
def doctor() -> int:
    """Describe this machine and installation.

    Shows versions, cores, the chosen instruction set, the native module (or what is lost without it), the engines that
    work here, why others do not, and the cache of compiled programs.

    Example: elegans doctor
    """
    from elegans.cli.doctor import examine

    for section, facts in examine().items():
        say(section)
        for name, fact in facts.items():
            say(f"  {name:16} {fact}")
    return Exit.OK


@click.command
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def bench(as_json: bool) -> int:
    """Measure how fast this machine trains.

    Shows trials per second, and GFLOP/s beside the measured multiply-add peak. Takes less than a minute.

    Example: elegans bench --json
    """
    from elegans.cli.bench import heading, report, row

    if as_json:
        say(json.dumps(report()))
        return Exit.OK
    say(heading())
    measured = report(show=lambda rate: say(row(rate)))
    if measured["peak_gflops"]:
        say(f"multiply-add peak, {measured['cores']} cores at once: {measured['peak_gflops']:.0f} GFLOP/s")
        say("(a step counts as 4 x batch x n x width operations; the fused engine adds up signs with fewer)")
    return Exit.OK
