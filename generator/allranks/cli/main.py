"""The `allranks` program: finds the command, runs it, and turns every end into an exit code.

Commands are loaded when they are called, so that `allranks validate` does not pay for what only
`run` needs. This is the one place where an unexpected exception is caught: a person sees one
honest line, and the traceback when they ask for it.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import click

import allranks
from allranks import names
from allranks.cli.console import Console
from allranks.errors import (
    EXIT_FAILED,
    EXIT_INPUT,
    EXIT_INTERRUPTED,
    AllranksError,
    InputError,
    RunError,
)
from allranks.start import OutputError

ENV_DEBUG = "ALLRANKS_DEBUG"
COMPLETE_VARIABLE = "_ALLRANKS_COMPLETE"


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a command is, and its line in the list of commands."""

    module: str
    section: str
    help: str


_PREPARE = "Write and check"
_RUN = "Run and look"
_CHANGE = "Change"
_SETUP = "Set up"

COMMANDS = {
    "init": Entry("init", _PREPARE, "Print a commented values file to start from."),
    "presets": Entry("presets", _PREPARE, "List the presets that a values file can name."),
    "validate": Entry("validate", _PREPARE, "Check values; name every problem and its fix."),
    "plan": Entry("plan", _PREPARE, "Show the node layout that the values give."),
    "render": Entry("render", _PREPARE, "Write the final Kubernetes manifests."),
    "run": Entry("run", _RUN, "Run a job and follow it to its end."),
    "sweep": Entry("sweep", _RUN, "Try many settings of a job, and find the best."),
    "status": Entry("jobs", _RUN, "Show how a run is doing."),
    "list": Entry("jobs", _RUN, "List the runs."),
    "top": Entry("top", _RUN, "Watch all runs, as a table that keeps up."),
    "logs": Entry("logs", _RUN, "Show the logs of a run."),
    "attach": Entry("logs", _RUN, "Follow a run that goes on."),
    "events": Entry("logs", _RUN, "Show what happened to a run."),
    "exec": Entry("logs", _RUN, "Run a program in a pod of a run."),
    "wait": Entry("jobs", _RUN, "Wait for a run to succeed or to fail."),
    "suspend": Entry("controls", _CHANGE, "Stop a run's pods and keep the run."),
    "resume": Entry("controls", _CHANGE, "Let a suspended run go on."),
    "scale": Entry("scaling", _CHANGE, "Give an elastic run another size."),
    "upgrade": Entry("upgrade", _CHANGE, "Bring a run to new values."),
    "delete": Entry("jobs", _CHANGE, "Stop a run and remove it."),
    "doctor": Entry("doctor", _SETUP, "Check helm, kubectl, plugin, cluster and Python."),
    "plugin": Entry("plugin", _SETUP, "Give helm the post-renderer and `helm sweep`."),
    "operator": Entry("watcher", _SETUP, "Give a cluster the watcher, and the kinds it keeps."),
    "completion": Entry("completion", _SETUP, "Print a completion script for your shell."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported by name, when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Every command, in the order they are met in practice."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command's module; None where there is no such command."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(f"allranks.cli.{entry.module}")
        command = getattr(module, f"{cmd_name}_command")
        assert isinstance(command, click.Command)  # noqa: S101 - a test walks the whole table
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, with the nearest command named where there is none of that name."""
        name, arguments = args[0], tuple(args)
        console = ctx.find_object(Console)
        if console is not None:
            console.pasteable = lambda text: _pasteable(self, arguments, text)
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            near = difflib.get_close_matches(name, COMMANDS, n=1)
            raise InputError(
                f"there is no command {name!r}",
                hint=f"did you mean `{ctx.command_path} {near[0]}`?"
                if near
                else f"`{ctx.command_path} --help` lists the commands",
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The list of commands by section, without importing any of them."""
        width = max(map(len, COMMANDS))
        for section in dict.fromkeys(entry.section for entry in COMMANDS.values()):
            with formatter.section(section):
                formatter.write_dl(
                    [
                        (f"{name:<{width}}", entry.help)
                        for name, entry in COMMANDS.items()
                        if entry.section == section
                    ]
                )


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 ok, 1 failed at run, 2 wrong input, 130 interrupted.",
)
@click.version_option(allranks.__version__, "-V", "--version", message="%(prog)s %(version)s")
def cli() -> None:
    """Distributed training on Kubernetes as plain Helm releases.

    \b
    Example:
      allranks init torchrun > values.yaml
      allranks validate -f values.yaml
      allranks run demo -f values.yaml
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped


def main(arguments: list[str] | None = None, name: str = "") -> int:
    """Run the program; return its exit code.

    Args:
        arguments: the command line without its first word; None for the process's own.
        name: what the program is called in its help; "" for as it was typed.
    """
    console = Console()
    try:
        code = cli.main(
            arguments,
            prog_name=name or program(sys.argv[0]),
            complete_var=COMPLETE_VARIABLE,
            standalone_mode=False,
            obj=console,
        )
        sys.stdout.flush()
    except (KeyboardInterrupt, click.Abort):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has left and needs no message; the interpreter would print one as it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return EXIT_INPUT
    except (AllranksError, click.ClickException, OSError) as error:
        known = _known(error)
        if isinstance(error, OutputError):
            console.json_errors = False
        _tell(console, known)
        return known.exit_code
    except Exception as error:  # noqa: BLE001 - the program's top-level handler
        _debug()
        console.crash(error)
        return EXIT_FAILED
    return code if isinstance(code, int) else 0


def _pasteable(root: click.Command, arguments: tuple[str, ...], text: str) -> str:
    if f"`{names.CLI} " not in text:
        return text
    from allranks.cli import typed  # noqa: PLC0415 - only where a message names a command

    return typed.pasteable(root, arguments, text)


def _tell(console: Console, error: AllranksError) -> None:
    """Show an error; as text on standard error where its JSON cannot be written."""
    if console.json_errors:
        try:
            console.error(error)
            sys.stdout.flush()
        except OSError:
            console.json_errors = False
        else:
            return
    console.error(error)


def program(called: str) -> str:
    """The program's name as a person typed it: `kubectl allranks` for kubectl's plugin."""
    name = Path(called).name
    return f"kubectl {names.CLI}" if name.startswith("kubectl-") else names.CLI


def _debug() -> None:
    if os.environ.get(ENV_DEBUG):
        sys.excepthook(*sys.exc_info())


def _known(error: AllranksError | click.ClickException | OSError) -> AllranksError:
    """The error as one of ours: click's are wrong input, the system's are failures."""
    if isinstance(error, AllranksError):
        return error
    if isinstance(error, OutputError):
        return RunError(f"the output could not be written: {error.strerror}")
    if isinstance(error, OSError):
        _debug()
        from allranks.cli import files  # noqa: PLC0415 - only where something fails

        path = str(error.filename or "")
        hint = files.fix(error, Path(path)) if path else ""
        return RunError(error.strerror or str(error), path=path, hint=hint)
    ctx = getattr(error, "ctx", None)
    message = " ".join(error.format_message().split()).rstrip(".")
    message = message[:1].lower() + message[1:]
    hint = f"`{ctx.command_path} --help` shows what it takes" if ctx else ""
    return InputError(message, hint=hint)
