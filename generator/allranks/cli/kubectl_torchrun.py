"""`kubectl torchrun submit | get | logs | delete`: the same engine under other words.

People who come from a controller for torchrun jobs know these commands. `submit` takes the command
as one text, as a shell reads it, and the size in GPUs or nodes; all else is `allranks submit`.
"""

from __future__ import annotations

import importlib
import re
import shlex
from typing import TYPE_CHECKING, Any

import click

import allranks
from allranks import names
from allranks.cli import main as cli_main
from allranks.cli import options
from allranks.cli import workspace as workspace_flags
from allranks.cli.commands import submit
from allranks.cli.console import Console
from allranks.cli.target import target_options
from allranks.errors import InputError

if TYPE_CHECKING:
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
# What `allranks` calls commands that are here, as messages have them.
_OWN_WORDS = {
    "attach": f"{_NAME} logs --follow",
    "logs": f"{_NAME} logs",
    "status": f"{_NAME} get",
    "list": f"{_NAME} get",
    "delete": f"{_NAME} delete",
}
_OF_ALLRANKS = re.compile(rf"`{names.CLI} ({'|'.join(_OWN_WORDS)})(?=[ `])")
# Commands that name a run, maybe after its kind as kubectl has it.
_ABOUT_RUNS = frozenset({"get", *_SAME})
_KINDS = frozenset({"torchrunjob", "torchrunjobs", "tj", "trj"})
_QUEUE_KINDS = frozenset({"torchrunqueue", "torchrunqueues", "jq", "trq"})
# What other tools call these commands, and where it is here.
_ELSEWHERE = {
    "describe": f"`{_NAME} get NAME`",
    "status": f"`{_NAME} get NAME`",
    "list": f"`{_NAME} get`",
    "cancel": f"`{_NAME} delete NAME`",
    "stop": f"`{_NAME} delete NAME`",
    "create": f"`{_NAME} submit`",
    "run": f"`{_NAME} submit`",
    **dict.fromkeys(("queue", "queues", *_QUEUE_KINDS), f"`{names.CLI} queue list`"),
}
# Fields of a TorchrunJob and options of kubectl that are none here, and what to do instead.
_VALUES = {
    "--setup-command": "--set-string setup='COMMAND'",
    "--working-dir": "--set workingDir=DIR",
    "--max-restarts": "--set runPolicy.backoffLimit=N",
    "--ttl-seconds-after-finished": "--set runPolicy.ttlSecondsAfterFinished=N",
    "--active-deadline-seconds": "--set runPolicy.activeDeadlineSeconds=N",
    "--suspend": "--set runPolicy.suspend=true",
    "--rdzv-backend": "--set torchrun.rdzvBackend=c10d",
    "--port": "--set torchrun.port=N",
}
_EXAMPLE = f'{_NAME} submit --gpus 8 "python train.py"'
_OPTIONS = {
    "submit": {name: f"write {value}" for name, value in _VALUES.items()}
    | {
        "--backend": "leave it out: your program chooses it, in init_process_group",
        "--detach": "leave it out: without --follow it returns when the run has started",
    },
    "get": dict.fromkeys(("-w", "--watch"), f"`{names.CLI} top` watches all runs"),
    "logs": dict.fromkeys(("-l", "--selector"), f"name the run: `{_NAME} logs NAME`"),
    "delete": dict.fromkeys(("-l", "--selector"), f"name the run: `{_NAME} delete NAME`"),
}


class _TorchrunGroup(click.Group):
    """A group that has some of the commands of `allranks` besides its own."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command, and take the kind of a run out of its words as kubectl has them.

        Raises:
            InputError: there is no such command here; the hint says where it is.
        """
        name, rest = args[0], args[1:]
        is_command = name in self.list_commands(ctx)
        if not is_command and not name.startswith("-") and not ctx.resilient_parsing:
            raise InputError(f"there is no command {name!r}", hint=_elsewhere(name))
        if name in _ABOUT_RUNS and rest:
            rest = _without_kind(rest)
        console = ctx.find_object(Console)
        if console is not None:
            typed = (name, *rest)
            console.pasteable = lambda text: _in_own_words(
                cli_main.pasteable(self, typed, text, commands=cli_main.cli)
            )
        return super().resolve_command(ctx, [name, *rest])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command.

        Raises:
            InputError: it has an option that other tools have; the hint says what to write.
        """
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            raise _refusal(error) from error

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


def _in_own_words(text: str) -> str:
    """A text in which commands on runs are those that are here, with the same flags."""
    return _OF_ALLRANKS.sub(lambda match: f"`{_OWN_WORDS[match[1]]}", text)


def _elsewhere(name: str) -> str:
    """The command to write in place of one that is none here."""
    if name in _ELSEWHERE:
        return f"write {_ELSEWHERE[name]}"
    if name in cli_main.COMMANDS:
        return f"`{names.CLI} {name}` works on these runs"
    return f"`{_NAME} --help` lists the commands"


def _without_kind(words: list[str]) -> list[str]:
    """The words behind a command, without the kind of a run: `torchrunjobs NAME`, `tj/NAME`.

    Raises:
        InputError: they begin with the kind of a queue.
    """
    kind, slash, name = words[0].partition("/")
    kind = kind.lower().removesuffix(".torchrun.ai")
    if kind in _QUEUE_KINDS:
        raise InputError(
            f"{words[0]} names queues, and this command takes runs",
            hint=f"`{names.CLI} queue list` lists them",
        )
    if kind not in _KINDS:
        return words
    return [name, *words[1:]] if slash else words[1:]


def _refusal(error: click.NoSuchOption) -> click.ClickException | InputError:
    """The error for an option that a command has not; the same one where no hint fits."""
    command = (error.ctx and error.ctx.info_name) or ""
    name = error.option_name
    hint = _OPTIONS.get(command, {}).get(name)
    if hint is None and command == "submit" and not error.possibilities:
        return InputError(
            f"there is no option {name}",
            hint="an option of your command stands within its quotes: "
            f'`{_NAME} submit "python train.py {name} …"`; '
            f"`{_NAME} submit --help` lists those of submit",
        )
    if hint is None:
        return error
    return InputError(f"there is no option {name} here", hint=hint)


@click.group(
    cls=_TorchrunGroup,
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
@submit.job_options("--num-nodes", "--nodes")
@click.option(
    "--name",
    "--job-name",
    "name",
    default="",
    metavar="NAME",
    help="The run's name. Default: found.",
)
@options.optional_values_options
@workspace_flags.workspace_options(".")
@target_options
@options.queue_options
@options.helm_option
@click.option("--follow", is_flag=True, help="Follow its log to its end.")
@options.dry_run_option
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
    from allranks.cli.run_options import RunOptions

    words = words_of(command[0]) if len(command) == 1 else command
    if command and not any(word.strip() for word in words):
        raise InputError(
            "the command is empty", hint=f"write what each rank runs, as in `{_EXAMPLE}`"
        )
    job = submit.Job(words, gpus, nodes, env, image)
    run_options = RunOptions(detach=not follow, output=output)
    raise click.exceptions.Exit(
        submit.submit(
            console,
            job,
            sources,
            workspace,
            target,
            run_options=run_options,
            name=name,
            dry_run=dry_run,
            example=_EXAMPLE,
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
            status_view.show(console, status, time.time(), here=cluster_target is None)
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
