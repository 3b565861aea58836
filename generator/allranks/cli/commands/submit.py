"""`allranks submit`: the folder that a person stands in, as a job, without an image build.

It is `run` with the values on the command line: the command, the size and the environment are its
own options, the folder of code is sent along, and a name is found where none is given.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allranks import names
from allranks.cli import options
from allranks.cli import workspace as workspace_flags
from allranks.cli.target import target_options
from allranks.errors import ApiError, InputError, NameTakenError
from allranks.values.sources import ValueOption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from allranks.cli.console import Console
    from allranks.cli.run_options import RunOptions
    from allranks.cli.target import ClusterTarget, Target
    from allranks.cli.workspace import WorkspaceFlags
    from allranks.service.workspace import PackedWorkspace
    from allranks.values.sources import Loaded, Sources

END_OF_OPTIONS = "--"
_WORKLOAD = "torchrun"
_EXAMPLE = f"{names.CLI} submit {END_OF_OPTIONS} python train.py"
_EXAMPLE_OF_SIZE = _EXAMPLE.replace("submit", "submit --gpus 8")
_STEM_LENGTH = 30
_SUFFIX_DIGITS = 4
# So many names are tried where others take them at the same moment.
_NAMES_TRIED = 8
_PYTHON = re.compile(r"python[0-9.]*")
_SCRIPT = re.compile(r"(?:^|[\s/])([^\s/]+)\.py(?=\s|$)")
# Programs that only start another one, and are no name for a run.
_STARTERS = frozenset({"env", "bash", "sh", "torchrun", "accelerate", "uv", "nohup", "time"})


class WithCommandLine(click.Command):
    """A command whose last words, after ``--``, are the command line of another program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what stands before ``--``, and keep what follows word for word."""
        command: list[str] = []
        if END_OF_OPTIONS in args:
            at = args.index(END_OF_OPTIONS)
            args, command = args[:at], args[at + 1 :]
        rest = super().parse_args(ctx, args)
        extra = tuple(ctx.params.get("command") or ())
        if extra and not ctx.resilient_parsing:
            raise InputError(
                f"{extra[0]!r} is neither an option nor the run's name",
                hint="write the command after --, as in "
                f"`{ctx.command_path} {END_OF_OPTIONS} python train.py`",
            )
        ctx.params["command"] = tuple(command)
        return rest


@dataclass(frozen=True, slots=True)
class Job:
    """The job as the options of `submit` describe it.

    Attributes:
        command: the words after ``--``.
        gpus: how many GPUs in all; None where the values say it.
        nodes: how many nodes; None where the values say it.
        env: ``NAME=value`` each.
        image: the image; "" where the values name it.
    """

    command: tuple[str, ...] = ()
    gpus: int | None = None
    nodes: int | None = None
    env: tuple[str, ...] = ()
    image: str = ""

    def value_options(self) -> tuple[ValueOption, ...]:
        """The same as options that stand for values.

        Raises:
            InputError: one of them cannot be.
        """
        values = []
        if self.command:
            _check_words(self.command)
            text = " ".join(self.command)
            values.append(ValueOption("", text, ("command",), list(self.command)))
            # The words of a values file belong to the command of that file.
            values.append(ValueOption("", text, ("args",), []))
        for name, number in (("gpus", self.gpus), ("nodes", self.nodes)):
            if number is not None:
                values.append(ValueOption(name, str(number), (name,), number))
        values += [_variable(text) for text in self.env]
        if self.image:
            # All parts: a digest of a values file is of another image.
            values += [
                ValueOption("image", self.image, ("image", key), value)
                for key, value in options.image_values(self.image).items()
            ]
        return tuple(values)


def _check_words(command: Sequence[str]) -> None:
    """Refuse a command line with a secret in it; the word is not repeated.

    Raises:
        InputError: a word of it looks like a secret.
    """
    from allranks.workspace import secrets

    for number, word in enumerate(command, 1):
        secret = next(iter(secrets.by_content("", word.encode(errors="replace"))), None)
        if secret is not None:
            raise InputError(
                f"word {number} of the command looks like {secret.rule}, and all who may read the "
                "run's objects could read it",
                path=END_OF_OPTIONS,
                hint="put it into a Secret, name that in a values file: env: {TOKEN: {valueFrom: "
                "{secretKeyRef: {name: SECRET, key: KEY}}}}, and let the program read $TOKEN; "
                f"--set-string env.TOKEN=… and `{END_OF_OPTIONS} sh -c '… \"$TOKEN\"'` send it all "
                "the same",
            )


def _variable(text: str) -> ValueOption:
    """An environment variable of --env.

    Raises:
        InputError: it is no NAME=value, or the value looks like a secret.
    """
    from allranks.workspace import secrets

    name, equals, value = text.partition("=")
    if not name or not equals:
        raise InputError(
            f"{name!r} has no value" if name else "nothing stands before the =, where the name is",
            path="--env",
            hint=f"write --env {name or 'NAME'}=value",
        )
    if name[0].isdigit():
        raise InputError(
            f"the name {name!r} begins with a digit",
            path="--env",
            hint=f"begin the name with a letter or an underscore: --env _{name}=…",
        )
    secret = next(iter(secrets.by_content(name, text.encode(errors="replace"))), None)
    if secret is not None:
        raise InputError(
            f"the value looks like {secret.rule}, and all who may read the run's objects could "
            "read it",
            path=f"--env {name}",
            hint="put it into a Secret, and name that in a values file: "
            f"env: {{{name}: {{valueFrom: {{secretKeyRef: {{name: SECRET, key: KEY}}}}}}}}; "
            f"--set-string env.{name}=… sends it all the same",
        )
    return ValueOption("env", f"{name}=…", ("env", name), value)


def job_options(*nodes: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of a job that is described on the command line; they come as they are.

    Args:
        nodes: the words for how many nodes; the command gets it as `nodes`.
    """
    flags = (
        click.option(
            "--gpus",
            type=click.IntRange(min=0),
            metavar="N",
            help="How many GPUs in all; they are spread over nodes by nodeShape.",
        ),
        click.option(
            *nodes,
            "nodes",
            type=click.IntRange(min=1),
            metavar="N",
            help="How many nodes (pods); --gpus are spread over them, else each has its own.",
        ),
        click.option(
            "--env",
            multiple=True,
            metavar="NAME=VALUE",
            help="Set an environment variable. No secrets: those belong in a Secret. "
            "May be repeated.",
        ),
        click.option("--image", default="", metavar="IMAGE", help="The image to run it in."),
    )

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(flags):
            function = option(function)
        return function

    return decorate


@click.command("submit", cls=WithCommandLine, short_help="Run the folder you stand in as a job.")
@click.argument("name", required=False, default="")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@job_options("--nodes")
@click.option("--name", "named", default="", metavar="NAME", help="The run's name, as NAME is.")
@options.optional_values_options
@workspace_flags.workspace_options(".")
@target_options
@options.queue_options
@options.helm_option
@options.run_options
@options.output_option("text", "json")
@options.pass_console
def submit_command(
    console: Console,
    *,
    name: str,
    command: tuple[str, ...],
    named: str,
    gpus: int | None,
    nodes: int | None,
    env: tuple[str, ...],
    image: str,
    sources: Sources,
    workspace: WorkspaceFlags,
    target: Target,
    detach: bool,
    replace: bool,
    logs: str,
    timeout: float | None,
    dry_run: bool,
    output: str,
) -> None:
    """Run COMMAND with the code of this folder, and follow it.

    The folder is sent as it is now: what git or .allranksignore ignores stays out, and so do
    environments, caches and secrets; --dry-run shows what goes. Each pod starts in a copy of it.
    The image needs Python and what the code imports, not the code.

    Values files and --set describe all else, as for `allranks run`; the options here come on top
    of the files. The workload is torchrun unless the values name another. NAME is made of the
    command where none is given.

    \b
    Example:
      allranks submit -q h100 --gpus 16 -- python train.py --lr 1e-5
      allranks submit tuning --nodes 2 --image my/trainer:1.0 --detach -- python tune.py
      allranks submit --dry-run -f team.yaml -- python train.py
      allranks submit --on local --nodes 2 -- python train.py
    """
    from allranks.cli.run_options import RunOptions

    if name and named and name != named:
        raise InputError(
            f"the run is called {name} and {named}", path="--name", hint="give one of the two"
        )
    run_options = RunOptions(
        detach=detach, replace=replace, logs=logs, timeout=timeout, output=output
    )
    job = Job(command, gpus, nodes, env, image)
    raise click.exceptions.Exit(
        submit(
            console,
            job,
            sources,
            workspace,
            target,
            run_options=run_options,
            name=name or named,
            dry_run=dry_run,
        )
    )


def submit(
    console: Console,
    job: Job,
    sources: Sources,
    workspace: WorkspaceFlags,
    target: Target,
    *,
    run_options: RunOptions,
    name: str = "",
    stem: str = "",
    dry_run: bool = False,
    example: str = "",
) -> int:
    """Submit a job; return the exit code.

    Args:
        console: where to show it.
        job: what the options say about it.
        sources: values files and the `--set` family.
        workspace: the folder of code.
        target: where it runs.
        run_options: how to run it.
        name: the run's name; "" finds one.
        stem: what a name that is found begins with; "" for the program's.
        dry_run: show what would be sent and run; start nothing.
        example: a command line of the caller's that has a command; "" for one of `submit`.

    Raises:
        InputError: the values or the folder are wrong, or the name is taken.
        AllranksError: the cluster does not answer, or forbids it.
    """
    from allranks.cli.commands import run
    from allranks.service import prepare
    from allranks.values import resolve
    from allranks.values.sources import load_sources, read_once

    sources = replace(sources, options=(*sources.options, *job.value_options()), workload=_WORKLOAD)
    cluster_target = target.cluster_target(None if dry_run else console)
    namespace = target.local_namespace if cluster_target is None else cluster_target.namespace
    sources = read_once(sources)
    loaded = load_sources(sources)
    is_local = cluster_target is None
    if dry_run and is_local and not target.on and (cluster_setting := _of_cluster(loaded)):
        is_local = False
        console.note(
            f"no kubeconfig names a cluster: {cluster_setting} is of one, so this is checked as "
            "for a cluster; --on local checks it for this machine"
        )
    elif dry_run and is_local:
        target.local(console)  # says why
    if not example:
        has_size = any(loaded.values.get(key) for key in ("gpus", "nodes"))
        example = _EXAMPLE if has_size else _EXAMPLE_OF_SIZE
    _check_job(loaded.values, example, is_local=is_local)
    # Before the folder is packed, which may take long; a name that is found is right by itself.
    resolve.refuse(loaded, name, namespace, is_local=is_local)
    packed = workspace.pack(loaded.values, where=loaded.where, is_local=is_local, console=console)
    assert packed is not None  # noqa: S101 - submit has a folder always
    preferred = name or _name_of(loaded.values, loaded.user, packed, stem)
    names_in_use = () if name or dry_run else _run_names(namespace, cluster_target)
    for number in range(1, _NAMES_TRIED + 1):
        free = preferred if name else _free(preferred, names_in_use)

        ready = prepare.prepare(sources, release=free, namespace=namespace, is_local=is_local)
        if dry_run:
            run.show_dry_run(
                console, ready, packed, name=free, namespace=namespace, output=run_options.output
            )
            return 0
        if not name and cluster_target is not None:
            console.note(f"the run is called {free}")
        try:
            if cluster_target is None:
                folder = Path(packed.snapshot.folder)
                return run.run_here(
                    console, ready, free, target, folder, run_options=run_options, workspace=packed
                )
            return run.run_on_cluster(
                console,
                ready,
                free,
                cluster_target,
                run_options,
                workspace=packed,
            )
        except NameTakenError:
            # Somebody took the name that was free a moment ago.
            if name or number == _NAMES_TRIED:
                raise
            console.note(f"another run took the name {free} meanwhile")
            names_in_use = (*names_in_use, free)
    raise AssertionError  # the loop returns or raises


def _of_cluster(loaded: Loaded) -> str:
    """The flag or value by which a job is meant for a cluster; "" where there is none."""
    if loaded.queue is not None:
        return loaded.queue.label
    settings = loaded.values.get("workspace") or {}
    return next(
        (f"workspace.{key}" for key in ("via", "registry", "claim") if settings.get(key)), ""
    )


def _check_job(values: Any, example: str, *, is_local: bool) -> None:
    """Refuse a job that has nothing to run, in the words of this command."""
    if values.get("workload") == "sweep":
        raise InputError(
            "submit runs one job, and the values describe a sweep",
            path="workload",
            hint=f"`{names.CLI} sweep run NAME -f FILE --workspace .` sends the folder for all of "
            "its trials",
        )
    if not values.get("command") and not values.get("script"):
        raise InputError(
            "the command is missing",
            hint=f"write what each rank runs, as in `{example}`",
        )
    if not is_local and not (values.get("image") or {}).get("repository"):
        raise InputError(
            "no image is named",
            hint="give --image, a queue (-q) or a values file that has one; it needs Python and "
            "what the code imports, not the code",
        )


# --- names ----------------------------------------------------------------------------------------


def _name_of(values: Any, user: Any, workspace: PackedWorkspace, stem: str = "") -> str:
    """A name for a run: what it runs, and some digits of all that it is made of.

    The same folder with the same command and values has the same name, so that a run is recognized.
    """
    words = [str(word) for word in values.get("command") or ()]
    candidates = (stem, _program(words), Path(workspace.snapshot.folder).name)
    stem = next(filter(None, map(_slug, candidates)), "run")
    content = json.dumps([workspace.snapshot.digest, user], sort_keys=True, default=str)
    digits = hashlib.sha256(content.encode(errors="replace")).hexdigest()
    return f"{stem}-{digits[:_SUFFIX_DIGITS]}"


def _program(words: Sequence[str]) -> str:
    """The word that says what a command line runs: ``train`` of ``python -u train.py --lr 1``."""
    # Also in a text for a shell, which is one word.
    script = next(filter(None, map(_SCRIPT.search, words)), None)
    if script is not None:
        return script[1]
    for word, following in pairwise(words):
        if word == "-m":
            parts = following.split(".")
            return parts[-2] if parts[-1] == "__main__" and len(parts) > 1 else parts[-1]
    first = Path(words[0]).name if words else ""
    return "" if _PYTHON.fullmatch(first) or first in _STARTERS else Path(first).stem


def _slug(text: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_STEM_LENGTH].strip("-")
    return slug if slug[:1].isalpha() else ""


def _free(preferred: str, names_in_use: Iterable[str]) -> str:
    """The name, or the first of ``NAME-2``, ``NAME-3`` … that is free."""
    names_in_use = set(names_in_use)
    name, number = preferred, 1
    while name in names_in_use:
        number += 1
        name = f"{preferred}-{number}"
    return name


def _run_names(namespace: str, cluster_target: ClusterTarget | None) -> tuple[str, ...]:
    """The names that runs of a namespace have; () where the user may not look."""
    if cluster_target is None:
        from allranks.local import runs as local_runs

        return tuple(run.name for run in local_runs.list_runs() if run.namespace == namespace)
    from allranks.cluster import paths

    try:
        records = cluster_target.cluster.list(
            paths.SECRETS, namespace=namespace, label_selector="owner=helm", metadata_only=True
        )
    except ApiError:
        return ()
    return tuple(str((item["metadata"].get("labels") or {}).get("name")) for item in records)
