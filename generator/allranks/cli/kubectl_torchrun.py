"""`kubectl torchrun submit | get | logs | delete`: the same engine under other words.

People who come from a controller for torchrun jobs know these commands. `submit` takes the command
as one text, as a shell reads it, and the size in GPUs or nodes; all else is `allranks submit`.
"""

from __future__ import annotations

import importlib
import re
import shlex
from typing import TYPE_CHECKING

import click

import allranks
from allranks.cli import main as cli_main
from allranks.cli import options
from allranks.cli import workspace as workspace_flags
from allranks.cli.target import target_options
from allranks.errors import InputError

if TYPE_CHECKING:
    from allranks.cli.console import Console
    from allranks.cli.target import Target
    from allranks.cli.workspace import WorkspaceFlags
    from allranks.values.sources import Sources

_NAME = "kubectl torchrun"
# What only a shell understands, outside of single quotes.
_SHELL = frozenset("|&;<>($`*?\n")
_QUOTED = re.compile(r"'[^']*'|\\.", re.DOTALL)
_ASSIGNMENT = re.compile(r"\s*[A-Za-z_][A-Za-z0-9_]*=")
# Commands of `allranks` that are the same here, by the module of each.
_SAME = {"logs": "logs", "delete": "runs"}


class _Group(click.Group):
    """A group that has some of the commands of `allranks` besides its own."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return all commands, in the order of use."""
        return ["submit", "get", *_SAME]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; None if there is no such command."""
        if cmd_name not in _SAME:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(f"allranks.cli.commands.{_SAME[cmd_name]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 ok, 1 failed at run, 2 wrong input, 130 interrupted.",
)
@click.version_option(allranks.__version__, "-V", "--version", message="%(prog)s %(version)s")
def torchrun() -> None:
    """Torchrun jobs of this folder's code, on the cluster that kubectl uses.

    These are runs of allranks: all of its commands work on them.

    \b
    Example:
      kubectl torchrun submit --queue h100 --gpus 16 "python train.py --lr 1e-5"
      kubectl torchrun get
      kubectl torchrun logs train-3f2a --follow
    """


def words_of(text: str) -> tuple[str, ...]:
    """The words of a command line in one text; a shell's, where only a shell can read it.

    Raises:
        InputError: a quote is not closed.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(
            f"the command cannot be read: {str(error).lower()}", hint="close the quote"
        ) from error
    bare = _QUOTED.sub("", text)
    if _ASSIGNMENT.match(bare) or _SHELL & set(bare):
        return ("sh", "-c", text)
    return tuple(words)


@torchrun.command("submit", short_help="Run a command with the code of this folder.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar='"COMMAND"')
@click.option("--gpus", type=click.IntRange(min=0), metavar="N", help="How many GPUs in all.")
@click.option(
    "--num-nodes", "nodes", type=click.IntRange(min=1), metavar="N", help="How many nodes."
)
@click.option("--name", default="", metavar="NAME", help="The run's name. Default: found.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="Set an environment variable.")
@click.option("--image", default="", metavar="IMAGE", help="The image to run it in.")
@options.optional_values_options
@workspace_flags.workspace_options(".")
@target_options
@options.queue_options
@options.helm_option
@click.option("--follow", is_flag=True, help="Follow its log to its end.")
@click.option("--dry-run", is_flag=True, help="Show what would be sent and run; start nothing.")
@options.output_option("text", "json")
@options.pass_console
def submit_command(
    console: Console,
    *,
    command: tuple[str, ...],
    gpus: int | None,
    nodes: int | None,
    name: str,
    env: tuple[str, ...],
    image: str,
    sources: Sources,
    workspace: WorkspaceFlags,
    target: Target,
    follow: bool,
    dry_run: bool,
    output: str,
) -> None:
    """Run COMMAND on GPUs of the cluster, with the code of this folder.

    COMMAND is one text. Where it has pipes, variables or several commands, sh runs it in each rank.

    \b
    Example:
      kubectl torchrun submit --queue h100 --gpus 16 "python train.py"
      kubectl torchrun submit --queue h100 --num-nodes 2 --follow "python train.py --lr 1e-5"
    """
    from allranks.cli.commands import submit
    from allranks.cli.commands.run import Plan

    words = words_of(command[0]) if len(command) == 1 else command
    job = submit.Job(words, gpus, nodes, env, image)
    plan = Plan(detach=not follow, output=output)
    raise click.exceptions.Exit(
        submit.submit(
            console, job, sources, workspace, target, plan=plan, name=name, dry_run=dry_run
        )
    )


@torchrun.command("get", short_help="List the runs, or show one.")
@click.argument("name", required=False, default="")
@target_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Of every namespace of the cluster.")
@options.output_option("text", "json")
@options.pass_console
def get_command(
    console: Console, *, name: str, target: Target, all_namespaces: bool, output: str
) -> None:
    """List the runs of the namespace, or show how run NAME is doing.

    \b
    Example:
      kubectl torchrun get
      kubectl torchrun get train-3f2a -o json
    """
    import time

    from allranks.cli import status_view
    from allranks.cli.commands import runs

    cluster_target = target.cluster_target(console)
    if name:
        status = runs.status_of(name, target, cluster_target)
        if output == "json":
            console.json(status.as_dict())
        else:
            status_view.show(console, status, time.time())
        return
    statuses = runs.runs(target, cluster_target, everywhere=all_namespaces, unread=console.note)
    if output == "json":
        console.json([run.as_dict() for run in statuses])
    elif statuses:
        status_view.table(console, statuses, time.time())
    else:
        console.note("there are no runs")


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    return cli_main.main(arguments, _NAME, root=torchrun)
