"""`allranks init`: a values file to start from."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

import click

from allranks import names
from allranks.cli import options

if TYPE_CHECKING:
    from allranks.cli.console import Console


@click.command("init", short_help="Print a commented values file to start from.")
@click.argument("workload", metavar="WORKLOAD", type=click.Choice(names.WORKLOADS))
@options.pass_console
def init_command(console: Console, workload: str) -> None:
    """Print a commented values file for WORKLOAD, ready to be edited.

    \b
    Example:
      allranks init torchrun > values.yaml
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    console.raw(files("allranks.cli").joinpath("starters", f"{workload}.yaml").read_text("utf-8"))
