"""`allranks sbatch`: a batch script of Slurm as a run, with the command line that its users know.

The script is converted, what becomes of it is said, and the values are submitted with the folder
that a person stands in, as `allranks submit` does it.
"""

from __future__ import annotations

import os
import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import allranks
from allranks import names
from allranks.cli import options
from allranks.cli import workspace as workspace_flags
from allranks.cli.target import target_options
from allranks.errors import EXIT_LOST, InputError
from allranks.values import files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.cli.commands.sweep.sweep_target import SweepTarget
    from allranks.cli.console import Console
    from allranks.cli.run_options import RunOptions
    from allranks.cli.target import Target
    from allranks.cli.workspace import WorkspaceFlags
    from allranks.sweep.storage.base import Backend
    from allranks.values.sources import Sources

_SWEEP = "sweep"


class SlurmCommand(click.Command):
    """A command line as sbatch reads it: options, the script, and the script's own words.

    An option of ours is told from one of Slurm's by its long name; each letter is Slurm's, and so
    is a name that both have.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make it of options that have their long names alone."""
        super().__init__(*args, **kwargs)
        for parameter in self.params:  # all are options
            parameter.opts = [name for name in parameter.opts if name.startswith("--")]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse our options, and keep Slurm's and the script's words as they are."""
        from allranks.convert.slurm import options as slurm

        theirs = {f"--{option.name}" for option in slurm.of("sbatch")} - {"--help", "--version"}
        ours: dict[str, click.Option] = {
            name: parameter
            for parameter in self.params
            if isinstance(parameter, click.Option)
            for name in (*parameter.opts, *parameter.secondary_opts)
            if name.startswith("--") and name not in theirs
        }
        own: list[str] = []
        words: list[str] = []
        rest = list(args)
        while rest and rest[0].startswith("-") and rest[0] != "-":
            word = rest.pop(0)
            name, equals, _ = word.partition("=")
            if word == "--":
                break
            if word in ("-h", "--help", "--usage"):
                own.append("--help")
            elif word in ("-V", "--version"):
                own.append("--version")
            elif name in ours:
                own.append(word)
                if not equals and not ours[name].is_flag and rest:
                    own.append(rest.pop(0))
            else:
                words.append(word)
                if _takes_next(word):
                    _refuse_without_value(word, rest)
                    words.append(rest.pop(0))
        ctx.meta["slurm"] = (tuple(words), tuple(rest))
        return super().parse_args(ctx, own)


def _takes_next(word: str) -> bool:
    """Whether the value of an option of Slurm's is the next word."""
    from allranks.convert.slurm import options as slurm

    settings, rest = slurm.parse([word, "\0"], "sbatch", 0)
    return not rest and bool(settings) and settings[-1].value == "\0"


def _refuse_without_value(word: str, rest: Sequence[str]) -> None:
    """Refuse an option of Slurm's whose value would be the next word, where none follows.

    Raises:
        InputError: none follows.
    """
    if not rest:
        raise InputError(
            f"{word} has no value",
            hint=f"write it behind the option, and then the script, as in `{names.CLI} sbatch "
            f"{word} VALUE train.sbatch`",
        )


@click.command(
    "sbatch",
    cls=SlurmCommand,
    short_help="Run a batch script of Slurm with the folder you stand in.",
    options_metavar="[OPTIONS] [SLURM'S OPTIONS] [SCRIPT [ARGS...]]",
)
@click.version_option(allranks.__version__, message=f"{names.CLI} %(version)s")
@click.option("--image", default="", metavar="IMAGE", help="The image to run it in.")
@click.option("--lossy", is_flag=True, help="Start it where something is not carried, too.")
@options.optional_values_options
@workspace_flags.workspace_options(".")
@target_options
@options.queue_options
@options.helm_option
@options.run_options
@options.pass_console
@click.pass_context
def sbatch_command(
    context: click.Context,
    console: Console,
    *,
    image: str,
    lossy: bool,
    sources: Sources,
    workspace: WorkspaceFlags,
    target: Target,
    detach: bool,
    replace: bool,
    logs: str,
    timeout: float | None,
    dry_run: bool,
) -> None:
    """Convert the batch script SCRIPT, and run it with the code of this folder.

    Slurm's options stand before the script, and win over its #SBATCH lines; ARGS are the script's
    own. Without a SCRIPT it is read from standard input; with --wrap "COMMANDS" there is none.
    Options of ours have their long names here (--namespace, --values): letters are Slurm's.
    What the script asks for and a run cannot have is said with its line, and nothing is started
    then (exit code 3): --lossy starts it all the same.

    sbatch's own variables (SBATCH_TIMELIMIT, SBATCH_PARTITION, …) are read. A job array runs as a
    sweep, of which each task is a trial: `allranks sweep status` shows it. With --test-only nothing
    is started. `allranks convert SCRIPT -o values.yaml` gives the values to look at.

    \b
    Example:
      allranks sbatch train.sbatch
      allranks sbatch -N 4 -t 2:00:00 --image my/trainer:1.0 train.sbatch --lr 1e-5
      allranks sbatch --on local train.sbatch
    """
    from dataclasses import replace as replaced

    from allranks.cli.commands.submit import Job, submit
    from allranks.cli.run_options import RunOptions
    from allranks.convert.registry import Result
    from allranks.convert.reports import conversion_report
    from allranks.service import convert

    words, rest = context.meta["slurm"]
    path = _path(words, rest)
    if path.strip() == files.STDIN and any(name.strip() == files.STDIN for name in sources.files):
        raise InputError(
            "standard input can be read once only", path="--values", hint="name the script"
        )
    conversion = convert.script(
        path,
        words,
        tuple(rest[1:]),
        workspace=Path(workspace.folder),
        include=workspace.include,
        lossy=lossy,
        environment=os.environ,
    )
    for line in conversion_report.text(Result((conversion,)), [""]):
        console.note(line)
    if conversion.lost and not lossy:
        console.note("nothing was started; --lossy starts it all the same")
        raise click.exceptions.Exit(EXIT_LOST)
    if any(verdict.keys == ("--test-only",) for verdict in conversion.verdicts):
        console.note("--test-only is --dry-run here: nothing is started")
        dry_run = True
    values = convert.as_sources(conversion)
    sources = replaced(
        sources,
        files=(*values.files, *sources.files),
        contents={**sources.contents, **values.contents},
    )
    job = Job(image=image)
    run_options = RunOptions(
        detach=detach, replace=replace, logs=logs, timeout=timeout, output="text"
    )
    if conversion.values["workload"] == _SWEEP:
        sources = replaced(sources, options=(*sources.options, *job.value_options()))
        raise click.exceptions.Exit(
            _run_array(
                console,
                conversion.name,
                sources,
                workspace,
                target,
                run_options=run_options,
                dry_run=dry_run,
            )
        )
    raise click.exceptions.Exit(
        submit(
            console,
            job,
            sources,
            workspace,
            target,
            run_options=run_options,
            stem=conversion.name,
            dry_run=dry_run,
            example=f"{names.CLI} sbatch train.sbatch",
        )
    )


def _path(words: Sequence[str], rest: Sequence[str]) -> str:
    """Where the script is: "" where ``--wrap`` has it, and ``-`` for standard input.

    Args:
        words: options of Slurm's.
        rest: the script and the words behind its name, as typed.

    Raises:
        InputError: there is none, or both.
    """
    from allranks.convert.slurm import options as slurm

    settings, _ = slurm.parse(words, "sbatch", 0)
    if any(setting.name == "wrap" for setting in settings):
        if rest:
            raise InputError(
                f"{rest[0]} stands beside --wrap, which has all that is to run",
                path="--wrap",
                hint="put it into the quotes of --wrap, or leave one of them out",
            )
        return ""
    unknown = [setting for setting in settings if setting.option is None and not setting.value]
    if rest and unknown and rest[0] != files.STDIN and not Path(rest[0]).exists():
        # Whether a word belongs to an option is known of those of the manual alone.
        name = unknown[-1].name
        near = slurm.nearest(name, "sbatch")
        raise InputError(
            f"there is no file {rest[0]}, and sbatch has no option --{name}",
            hint=f"did you mean --{near}?" if near else f"write --{name}={rest[0]}",
        )
    if rest:
        return rest[0]
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError(
            "the script is missing", hint=f"name it, as in `{names.CLI} sbatch train.sbatch`"
        )
    return files.STDIN


def _run_array(
    console: Console,
    name: str,
    sources: Sources,
    workspace: WorkspaceFlags,
    target: Target,
    *,
    run_options: RunOptions,
    dry_run: bool,
) -> int:
    """Run a job array as the sweep that it has become; return the exit code.

    Args:
        console: where to show it.
        name: what the job is called; a number is put behind it where a sweep has the name.
        sources: the values of the sweep.
        workspace: the folder of code.
        target: where it runs.
        run_options: how to run it.
        dry_run: show what would be run; start nothing.

    Raises:
        InputError: an option is for a job that is no array, or the values are wrong.
        AllranksError: the cluster does not answer, or forbids it.
    """
    from allranks.cli.commands.sweep.run import run_sweep
    from allranks.cli.commands.sweep.sweep_target import from_flags
    from allranks.cli.target import LOCAL

    # Programs start where the values file is, and that is the folder that is sent.
    place = from_flags(target, console, None, str(Path(workspace.folder) / "values.yaml"))
    is_local = place.on == LOCAL
    for option, is_set, hint in (
        ("--timeout", run_options.timeout is not None, "--time says how long a task may take"),
        ("--logs", run_options.logs != "lead", f"`{names.CLI} logs` shows that of each trial"),
        (
            "--detach",
            run_options.detach and is_local,
            "on this machine the command itself starts the tasks: put it into the background",
        ),
    ):
        if is_set:
            raise InputError(
                "a job array is a sweep, and has no such option",
                path=option,
                hint=f"leave it out: {hint}",
            )
    in_cluster = run_options.detach  # nobody stays here who could start the tasks
    if not run_options.replace:
        name = _free_name(name, place, in_cluster=in_cluster)
    console.note(f"the job array is the sweep {name}")
    return run_sweep(
        console,
        name,
        sources,
        workspace,
        place,
        replace_=run_options.replace,
        dry_run=dry_run,
        in_cluster=in_cluster,
        flags={"detach": run_options.detach},
    )


def _free_name(stem: str, place: SweepTarget, *, in_cluster: bool) -> str:
    """The name, or the first of ``NAME-2``, ``NAME-3`` … that no sweep has.

    Args:
        stem: the name.
        place: where the sweep runs.
        in_cluster: whether a pod runs it.
    """
    from allranks.cli.commands.sweep import in_cluster as sweep_in_cluster
    from allranks.sweep import naming
    from allranks.sweep.storage import catalog

    for number in count(1):
        suffix = f"-{number}" if number > 1 else ""
        name = stem[: naming.NAME_MAX - len(suffix)].rstrip("-") + suffix
        if in_cluster:
            store: Backend = sweep_in_cluster.backend_of(name, place)
        else:
            store = catalog.begin(name, "", place.as_dict())
        if not store.exists():
            return name
    raise AssertionError  # the loop ends with a name
