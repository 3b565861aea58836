"""Write docs/reference/cli.md from the commands' own help, so that the two cannot differ.

Usage: cli_reference.py [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allranks.cli.main import COMMANDS, cli

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
WIDTH = 100
HEAD = """\
# The command line

This page is the commands' own help, written by `make gen-cli`.
`kubectl allranks …` is the same program.

| exit code | means |
| --- | --- |
| 0 | ok |
| 1 | failed while running: helm, a cluster, a pod, or a bug of ours |
| 2 | wrong input: nothing was sent and nothing was written |
| 130 | interrupted by Ctrl-C; a run has been stopped (`top` ends with 0) |
| 143 | ended by SIGTERM; a run or a sweep of this machine has been stopped in order |
| other | `allranks run`: the exit code of the job, from the rank that failed first |

Results go to standard output, everything about them to standard error.
With `-o json` errors are JSON on standard output as well: `{"ok": false, "exitCode": 2, "problems":
[{"path", "message", "hint", "source"}]}`; beyond a hundred, `moreProblems` counts the rest.
`NO_COLOR` turns colours off.

| variable | names |
| --- | --- |
| `ALLRANKS_HELM` | the helm to use, as `--helm` does |
| `ALLRANKS_STATE` | the folder where local runs keep their state |
| `ALLRANKS_CHARTS` | a folder of charts to use in place of the installed ones |
| `ALLRANKS_BACKOFF_SCALE` | local runs: how much of a cluster's back-off to wait (0.1) |
| `ALLRANKS_COMPLETION_SECONDS` | how long shell completion waits for a cluster (1) |
| `ALLRANKS_DEBUG` | any text: show the traceback of an unexpected error |
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    root = _context(cli, None, "allranks")
    parts.append(f"\n```text\n{cli.get_help(root)}\n```\n")
    for name in COMMANDS:
        command = cli.get_command(root, name)
        assert command is not None  # noqa: S101 - the table is the program's own
        parts.extend(_sections(command, root, name, "##"))
    return "".join(parts)


def _sections(command: click.Command, parent: click.Context, name: str, mark: str) -> Iterator[str]:
    ctx = _context(command, parent, name)
    yield f"\n{mark} {ctx.command_path}\n\n```text\n{command.get_help(ctx)}\n```\n"
    if isinstance(command, click.Group):
        for inner in command.list_commands(ctx):
            subcommand = command.get_command(ctx, inner)
            assert subcommand is not None  # noqa: S101 - it was just listed
            if subcommand.hidden:
                continue  # for programs of ours alone
            yield from _sections(subcommand, ctx, inner, f"{mark}#")


def _context(command: click.Command, parent: click.Context | None, name: str) -> click.Context:
    settings = {**command.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    return click.Context(command, parent=parent, info_name=name, **settings)


def main(arguments: list[str]) -> int:
    """Write the page, or compare it."""
    text = page()
    if arguments == ["--check"]:
        if PAGE.is_file() and PAGE.read_text("utf-8") == text:
            return 0
        sys.stderr.write("docs/reference/cli.md is stale\n  fix: make gen-cli\n")
        return 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
