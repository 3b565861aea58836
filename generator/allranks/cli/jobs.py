"""`allranks status | list | logs | delete`: what runs, how it goes, and its end."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click

from allranks.cli import options, statusview
from allranks.local import control

if TYPE_CHECKING:
    from allranks.cli.console import Console
    from allranks.local.logfiles import LogLine


@click.command("status", short_help="Show how a run is doing.")
@click.argument("name", shell_complete=options.complete_run)
@options.on_option
@options.namespace_option
@options.output_option("text", "json")
@options.pass_console
def status_command(console: Console, *, name: str, on: str, namespace: str, output: str) -> None:
    """Show the phase of run NAME, its pods, and what failed first.

    \b
    Example:
      allranks status demo --on local
      allranks status demo --on local -o json
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    options.local_only(on)
    status = control.status(name, namespace)
    if output == "json":
        console.json(status.as_dict())
    else:
        statusview.show(console, status, time.time())


@click.command("list", short_help="List the runs.")
@options.on_option
@options.output_option("table", "json")
@options.pass_console
def list_command(console: Console, *, on: str, output: str) -> None:
    """List every run of this machine, the finished ones too.

    \b
    Example:
      allranks list --on local
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    options.local_only(on)
    runs = control.list_runs()
    if output == "json":
        console.json([run.as_dict() for run in runs])
    elif runs:
        statusview.table(console, runs, time.time())
    else:
        console.note("there are no runs")


@click.command("logs", short_help="Show the logs of a run.")
@click.argument("name", shell_complete=options.complete_run)
@options.on_option
@options.namespace_option
@click.option("--follow", is_flag=True, help="Go on until the run has ended.")
@click.option("--rank", type=click.IntRange(min=0), help="Only this rank.")
@options.output_option("text", "json")
@options.pass_console
def logs_command(
    console: Console,
    *,
    name: str,
    on: str,
    namespace: str,
    follow: bool,
    rank: int | None,
    output: str,
) -> None:
    """Show what the pods of run NAME wrote, each line with its rank.

    With -o json each line is an object of its own.

    \b
    Example:
      allranks logs demo --on local --follow
      allranks logs demo --on local --rank 1
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    options.local_only(on)
    for line in control.logs(name, namespace, rank, follow=follow):
        if output == "json":
            console.raw(json.dumps(_log_line(line), ensure_ascii=False) + "\n")
        else:
            console.log(line.rank, line.text)


def _log_line(line: LogLine) -> dict[str, object]:
    """A line of a log as data."""
    return {
        "pod": line.pod,
        "rank": line.rank,
        "container": line.container,
        "attempt": line.attempt,
        "text": line.text,
    }


@click.command("delete", short_help="Stop a run and remove it.")
@click.argument("name", shell_complete=options.complete_run)
@options.on_option
@options.namespace_option
@options.output_option("text", "json")
@options.pass_console
def delete_command(console: Console, *, name: str, on: str, namespace: str, output: str) -> None:
    """Stop run NAME, if it goes on, and remove what it left.

    Volumes whose values say `keep: true` stay, as they do on a cluster.

    \b
    Example:
      allranks delete demo --on local
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    options.local_only(on)
    deleted = control.delete(name, namespace)
    if output == "json":
        console.json({"removed": list(deleted.removed), "kept": list(deleted.kept)})
        return
    console.text(f"deleted {name}")
    for kept in deleted.kept:
        console.text(f"  kept {kept}")
