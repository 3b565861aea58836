"""The `allranks` program: finds the command, runs it, and turns every end into an exit code.

Commands are imported when they are called, so that `allranks validate` does not import what only
`run` needs. This is the only place where an unexpected exception is caught: the user sees one line,
and the traceback with ALLRANKS_DEBUG.
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
from allranks.streams import OutputError

ENV_DEBUG = "ALLRANKS_DEBUG"
COMPLETE_VARIABLE = "_ALLRANKS_COMPLETE"


@dataclass(frozen=True, slots=True)
class Entry:
    """The module of a command, and its line in the list of commands."""

    module: str
    section: str
    help: str


_PREPARE = "Write and check"
_RUN = "Run and look"
_CHANGE = "Change"
_SETUP = "Set up"

COMMANDS = {
    "init": Entry("values", _PREPARE, "Print a commented values file to start from."),
    "presets": Entry("values", _PREPARE, "List the presets that a values file can name."),
    "validate": Entry("values", _PREPARE, "Check values; name every problem and its fix."),
    "values": Entry("values", _PREPARE, "Show the merged values, and where each comes from."),
    "convert": Entry(
        "convert", _PREPARE, "Make values of what runs elsewhere: PyTorchJob, MPIJob, …"
    ),
    "plan": Entry("plan", _PREPARE, "Show the node layout that the values give."),
    "render": Entry("render", _PREPARE, "Write the final Kubernetes manifests."),
    "submit": Entry("submit", _RUN, "Run the folder you stand in as a job."),
    "sbatch": Entry("sbatch", _RUN, "Run a batch script of Slurm with the folder you stand in."),
    "run": Entry("run", _RUN, "Run a job and follow it to its end."),
    "sweep": Entry("sweep", _RUN, "Try many settings of a job, and find the best."),
    "status": Entry("runs", _RUN, "Show how a run is doing."),
    "list": Entry("runs", _RUN, "List the runs."),
    "top": Entry("top", _RUN, "Watch all runs, as a table that keeps up."),
    "logs": Entry("logs", _RUN, "Show the logs of a run."),
    "attach": Entry("logs", _RUN, "Follow a run that goes on."),
    "show": Entry("show", _RUN, "Show the code that a run runs."),
    "events": Entry("events", _RUN, "Show what happened to a run."),
    "timeline": Entry("timeline", _RUN, "Show what happened to a run, and when."),
    "goodput": Entry("timeline", _RUN, "Show how much of a run's time made steps."),
    "why": Entry("why", _RUN, "Say why a run stands still."),
    "exec": Entry("exec", _RUN, "Run a program in a pod of a run."),
    "wait": Entry("runs", _RUN, "Wait for a run to succeed or to fail."),
    "sync": Entry("sync", _CHANGE, "Bring newer code into the pods of a run."),
    "checkpoint": Entry("checkpoint", _CHANGE, "Have the ranks of a run save now, and go on."),
    "suspend": Entry("scale", _CHANGE, "Stop a run's pods and keep the run."),
    "resume": Entry("scale", _CHANGE, "Let a suspended run go on."),
    "scale": Entry("scale", _CHANGE, "Give an elastic run another size."),
    "upgrade": Entry("upgrade", _CHANGE, "Bring a run to new values."),
    "avoid": Entry("avoid", _CHANGE, "Keep a run off nodes, from its next attempt on."),
    "delete": Entry("runs", _CHANGE, "Stop a run and remove it."),
    "queue": Entry("queue", _SETUP, "Give a team shared settings and rules, and look at them."),
    "doctor": Entry("doctor", _SETUP, "Check helm, kubectl, plugin, cluster and Python."),
    "plugin": Entry("plugin", _SETUP, "Give helm the post-renderer and `helm sweep`."),
    "azure": Entry("azure", _SETUP, "Make a cluster on Azure, and take it away again."),
    "operator": Entry("operator", _SETUP, "Give a cluster the operator, and the kinds it keeps."),
    "completion": Entry("plugin", _SETUP, "Print a completion script for your shell."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported by name, when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return all commands, in the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return a command; None if there is no such command."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(f"allranks.cli.commands.{entry.module}")
        command = getattr(module, f"{cmd_name}_command")
        assert isinstance(command, click.Command)  # noqa: S101 - a test walks the whole table
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command as click does; the error for an unknown one names the nearest."""
        name, arguments = args[0], tuple(args)
        console = ctx.find_object(Console)
        if console is not None:
            console.pasteable = lambda text: pasteable(self, arguments, text)
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
        """Write the list of commands by section, without importing any of them."""
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
    epilog="Exit codes: 0 ok, 1 failed at run, 2 wrong input, 3 converted with a loss, "
    "130 interrupted.",
)
@click.version_option(allranks.__version__, "-V", "--version", message="%(prog)s %(version)s")
def cli() -> None:
    """Distributed training on Kubernetes as plain Helm releases.

    \b
    Example:
      allranks init torchrun > values.yaml
      allranks validate -f values.yaml
      allranks run demo -f values.yaml
    """


def main(
    arguments: list[str] | None = None, name: str = "", root: click.Command | None = None
) -> int:
    """Run the program; return its exit code.

    Args:
        arguments: the command line without its first word; None for the process's own.
        name: the program's name in its help; "" for the name that was typed.
        root: the program's commands; None for all of them.
    """
    console = Console()
    try:
        code = (root or cli).main(
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
        failure = _as_allranks_error(error)
        if isinstance(error, OutputError):
            console.json_errors = False
        _show_error(console, failure)
        return failure.exit_code
    except Exception as error:  # noqa: BLE001 - the program's top-level handler
        _debug()
        console.crash(error)
        return EXIT_FAILED
    return code if isinstance(code, int) else 0


def pasteable(
    root: click.Command,
    arguments: tuple[str, ...],
    text: str,
    commands: click.Command | None = None,
) -> str:
    """A text whose commands can be pasted, with the flags that were typed.

    Args:
        root: the program.
        arguments: the command line without its first word.
        text: the text.
        commands: what the commands in the text are of; None is the program itself.
    """
    if f"`{names.CLI} " not in text:
        return text
    from allranks.cli import pasteable as cli_pasteable

    return cli_pasteable.pasteable(root, arguments, text, commands)


def _show_error(console: Console, error: AllranksError) -> None:
    """Show an error; as text on standard error if its JSON cannot be written."""
    if console.json_errors:
        try:
            console.error(error)
            sys.stdout.flush()
        except OSError:
            console.json_errors = False
        else:
            return
    console.error(error)


def program(path: str) -> str:
    """Return the program's name as the user types it: `kubectl allranks` for kubectl's plugin."""
    name = Path(path).name
    return f"kubectl {names.CLI}" if name.startswith("kubectl-") else names.CLI


def _debug() -> None:
    if os.environ.get(ENV_DEBUG):
        sys.excepthook(*sys.exc_info())


def _as_allranks_error(error: AllranksError | click.ClickException | OSError) -> AllranksError:
    """Convert an error to one of ours: click's are invalid input, the system's are failures."""
    if isinstance(error, AllranksError):
        return error
    if isinstance(error, OutputError):
        return RunError(f"the output could not be written: {error.strerror}")
    if isinstance(error, OSError):
        _debug()
        from allranks.cli import files

        path = str(error.filename or "")
        hint = files.fix(error, Path(path)) if path else ""
        return RunError(error.strerror or str(error), path=path, hint=hint)
    ctx = getattr(error, "ctx", None)
    message = " ".join(error.format_message().split()).rstrip(".")
    message = message[:1].lower() + message[1:]
    hint = f"`{ctx.command_path} --help` shows what it takes" if ctx else ""
    if isinstance(error, click.BadParameter) and isinstance(error.param, click.Option):
        flag, kind = max(error.param.opts, key=len), error.param.type
        if isinstance(kind, click.Choice):
            hint = f"write {' or '.join(f'{flag} {choice}' for choice in kind.choices)}"
        elif isinstance(kind, click.IntRange | click.types.IntParamType):
            least = kind.min if isinstance(kind, click.IntRange) and kind.max is None else None
            number, is_outside, _ = message.rpartition(": ")[2].partition(" is not in the range")
            if least is not None and is_outside:
                message = f"{flag}: {number} is less than {least}"
                hint = f"write {least} or more; {hint}"
            else:
                message = message.replace("a valid integer range", "a whole number")
                hint = f"write a whole number, as in {flag} 8; {hint}"
    if isinstance(error, click.BadOptionUsage) and not isinstance(error, click.NoSuchOption):
        name = error.option_name
        hint = f"write what it is to be behind {name}, or leave it out" if name else hint
    return InputError(message, hint=hint)
