"""``elegans new``."""

import click

from elegans.cli import completion
from elegans.cli.common import say


@click.command
@click.argument(
    "template",
    required=False,
    shell_complete=completion.templates,
    metavar="[TEMPLATE]",
    help="What to write: experiment, study, task, model, …; --list shows all.",
)
@click.argument(
    "name",
    required=False,
    metavar="[NAME]",
    help="Its name, such as my-first; a path such as folder/my-first writes into another folder.",
)
@click.option("--list", "listed", is_flag=True, help="List the templates.")
def new(template: str | None, name: str | None, listed: bool) -> None:
    """Write a commented, working file as a starting point for your own.

    No file is ever replaced.

    Example: elegans new experiment my-first
    """
    from elegans.cli.scaffold import TEMPLATES, write
    from elegans.errors import article, shown, suggest

    if listed or template is None:
        for kind, entry in TEMPLATES.items():
            say(f"{kind:10}  {entry.makes}")
        return
    if template not in TEMPLATES:
        raise click.UsageError(f"unknown template {shown(template)}{suggest(template, TEMPLATES)}")
    if name is None:
        raise click.UsageError(f"{article(template)} must have a name: elegans new {template} NAME")
    files, commands = write(template, name)
    for file in files:
        say(f"wrote  {file}")
    for command in commands:
        say(f"next   {command}")
