"""`allranks validate`: every problem of the values at once, before anything is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allranks.cli import options, pipeline

if TYPE_CHECKING:
    from allranks.cli.console import Console
    from allranks.values.sources import Sources


@click.command("validate", short_help="Check values; name every problem and its fix.")
@click.argument("name", required=False, default="")
@options.values_options
@options.namespace_option
@options.output_option("text", "json")
@options.pass_console
def validate_command(
    console: Console, *, name: str, sources: Sources, namespace: str, output: str
) -> None:
    """Check values, and the release NAME where one is given.

    Every problem is shown with its place and its fix; nothing is sent and nothing is written.
    Exit code 2 means that there are problems.

    \b
    Example:
      allranks validate -f values.yaml --set gpus=16
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    prepared = pipeline.prepare(sources, release=name, namespace=namespace, by_helm=False)
    if output == "json":
        console.json(
            {
                "ok": True,
                "exitCode": 0,
                "problems": [],
                "warnings": [warning.as_dict() for warning in prepared.warnings],
                "workload": prepared.loaded.workload,
                "layout": prepared.layout.to_values(),
                "processes": prepared.layout.processes,
                **(prepared.trials.as_dict() if prepared.trials is not None else {}),
                **(prepared.layout.of_roles() if prepared.layout.roles else {}),
            }
        )
        return
    for note in prepared.notes:
        console.note(note)
    console.text(f"ok  {pipeline.summary(prepared)}")
