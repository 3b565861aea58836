"""`allranks presets`: what a values file can name under `preset`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allranks.cli import options
from allranks.values import presets

if TYPE_CHECKING:
    from allranks.cli.console import Console


@click.command("presets", short_help="List the presets that a values file can name.")
@click.argument("name", required=False, shell_complete=options.complete_preset)
@options.output_option("table", "json")
@options.pass_console
def presets_command(console: Console, *, name: str | None, output: str) -> None:
    """List the presets, or print the values of preset NAME.

    A preset is named in a values file (`preset: h100-8x`, or a list of names) or with --preset;
    what you write yourself wins over it.

    \b
    Example:
      allranks presets
      allranks validate -f values.yaml --preset h100-8x
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    if name is not None:
        document = presets.load(name)
        if output == "json":
            console.json(document.data)
            return
        path = next(preset.path for preset in presets.list() if preset.name == name)
        console.raw(path.read_text("utf-8"))
        return
    found = presets.list()
    if output == "json":
        console.json([{"name": one.name, "description": one.description} for one in found])
    else:
        console.table(["NAME", "FOR"], [(one.name, one.description) for one in found], wrap="FOR")
