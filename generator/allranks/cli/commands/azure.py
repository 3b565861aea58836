"""`allranks azure`: a cluster on Azure, from nothing and away again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from allranks.cli import options
from allranks.cli.commands.azure_upload import upload_command
from allranks.errors import EXIT_INPUT, InvalidValues, MissingToolError

if TYPE_CHECKING:
    from allranks.azure.actions import Plan
    from allranks.azure.ports import Arm
    from allranks.azure.settings import Settings
    from allranks.cli.console import Console


@click.group(
    "azure",
    short_help="Make a cluster on Azure, and take it away again.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
def azure_command() -> None:
    """Make a cluster on Azure from one file, use it, and take it away again.

    What is there is read from Azure each time, and no state is kept on this machine: a command that
    was stopped anywhere is simply given again. Only what carries our tags is ever changed or
    removed. Needs `pip install 'allranks[azure]'`.

    \b
    Example:
      allranks azure init --name demo > azure.yaml
      allranks azure plan
      allranks azure up
      allranks azure down
    """


def file_option(function: Any) -> Any:
    """Add -f; the command gets the azure.yaml as `settings`."""
    import functools

    @functools.wraps(function)
    def with_settings(*args: Any, **parameters: Any) -> Any:
        from allranks.azure import settings

        return function(*args, settings=settings.load(parameters.pop("file")), **parameters)

    return click.option(
        "-f",
        "--file",
        default="azure.yaml",
        show_default=True,
        metavar="FILE",
        type=click.Path(allow_dash=True),
        help="What is to be there; '-' is standard input.",
    )(with_settings)


def connect(settings: Settings) -> Arm:
    """Azure Resource Manager.

    Raises:
        MissingToolError: its SDKs are not installed.
        InputError: there is no way to log in.
    """
    try:
        from allranks.azure.sdk import arm
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "azure":
            raise
        raise MissingToolError(
            "this needs Azure's SDKs, which are not installed",
            hint="pip install 'allranks[azure]'",
        ) from error
    return arm.connect(settings)


@azure_command.command("init", short_help="Print a commented azure.yaml to start from.")
@click.option("--name", default="", metavar="NAME", help="What the whole is called.")
@click.option("--subscription", default="", metavar="ID", help="The subscription's id.")
@click.option("--region", default="", metavar="REGION", help="Where, such as westeurope.")
@options.pass_console
def init_command(console: Console, /, *, name: str, subscription: str, region: str) -> None:
    """Print a commented azure.yaml to start from: its values are the defaults of all keys.

    \b
    Example:
      allranks azure init --name demo > azure.yaml
    """
    from allranks.azure import settings

    console.raw(settings.starter(name, subscription, region))


@azure_command.command("plan", short_help="Show what is there, and what would be done.")
@file_option
@options.output_option("text", "json", "bicep", "az")
@options.pass_console
def plan_command(console: Console, /, *, settings: Settings, output: str) -> None:
    """Show what is there, and what `up` would make, change and remove. Nothing is changed.

    Region, sizes of machines, version, quota of vCPUs and names are asked for, so that what Azure
    would refuse in ten minutes is refused now, with exit code 2. -o az prints the commands that do
    the same by hand, and -o bicep a file that deploys it; neither asks Azure anything.

    \b
    Example:
      allranks azure plan
      allranks azure plan -o bicep > main.bicep
    """
    from allranks.azure import plans

    plan = plans.up(connect(settings), settings)
    _show(console, plan, output)
    if plan.refusals:
        raise click.exceptions.Exit(EXIT_INPUT)


def _show(console: Console, plan: Plan, output: str) -> None:
    from allranks.azure.actions import MARKS, Verb

    if output == "json":
        console.json({"ok": not plan.refusals, **plan.as_dict()})
        return
    if plan.entries:
        console.table(
            ["", "KIND", "NAME", "ACTION", "DETAIL"],
            [
                (MARKS[entry.verb], entry.kind, entry.name, entry.verb, entry.detail)
                for entry in plan.entries
            ],
            wrap="DETAIL",
            whole=["NAME"],
        )
    for note in plan.notes:
        console.note(note)
    if plan.refusals:
        console.error(InvalidValues(plan.refusals))
        return
    counts = {verb: sum(entry.verb is verb for entry in plan.entries) for verb in Verb}
    words = [f"{count} to {verb}" for verb, count in counts.items() if count and verb != Verb.NONE]
    console.text(", ".join(words) if words else "all is there as it is to be")


azure_command.add_command(upload_command)
