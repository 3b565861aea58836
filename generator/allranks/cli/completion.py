"""`allranks completion`: the script that makes a shell complete our commands and options."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class

from allranks import names
from allranks.cli import main, options

if TYPE_CHECKING:
    from allranks.cli.console import Console


@click.command("completion", short_help="Print a completion script for your shell.")
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
@options.pass_console
def completion_command(console: Console, shell: str) -> None:
    """Print the script that makes SHELL complete allranks.

    \b
    Example:
      allranks completion bash > ~/.local/share/bash-completion/completions/allranks
      allranks completion zsh  > ~/.zfunc/_allranks      (~/.zfunc on $fpath)
      allranks completion fish > ~/.config/fish/completions/allranks.fish
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    kind = get_completion_class(shell)
    if kind is None:  # pragma: no cover - the choices are click's own three
        raise AssertionError(shell)
    console.text(kind(main.cli, {}, names.CLI, main.COMPLETE_VARIABLE).source())
