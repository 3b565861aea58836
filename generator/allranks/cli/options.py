"""The options that several commands share, named as helm names them."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from allranks import names
from allranks.cli.console import Console
from allranks.errors import InputError

if TYPE_CHECKING:
    from allranks.values.sources import Sources

F = TypeVar("F", bound=Callable[..., Any])

_HELP = {
    "set": "Set a value: key=1, a.b=x, list={a,b}.",
    "set-string": "Set a value that stays a string.",
    "set-json": "Set a value from JSON.",
    "set-file": "Set a value to a file's text.",
    "set-literal": "Set a value to exactly this text.",
}

pass_console = click.make_pass_decorator(Console)


def values_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add -f, --preset and the --set family; the command gets them as `sources`."""
    return _sources(function, presets=True)


def optional_values_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the same, for a command whose values may also come from elsewhere."""
    return _sources(function, presets=True, needed=False)


def some_values_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the same without presets, for a chart whose defaults are enough."""
    return _sources(function, presets=False)


def _file_of(options: Mapping[str, Any]) -> str:
    """The file that was typed where the release's name belongs; else a name for an example."""
    texts = [text for text in options.values() if isinstance(text, str) and text]
    # Path's own way raises for a name that is too long.
    files = (text for text in texts if os.path.isfile(text))  # noqa: PTH113
    return shlex.quote(next(files, "values.yaml"))


def _sources(
    function: Callable[..., Any], *, presets: bool, needed: bool = True
) -> Callable[..., Any]:
    @functools.wraps(function)
    def with_sources(*args: Any, **options: Any) -> Any:
        files: tuple[str, ...] = options.pop("values")
        preset_names: tuple[str, ...] = options.pop("preset", ())
        sets = [(kind, text) for kind in _HELP for text in options.pop(kind.replace("-", "_"))]
        if preset_names:
            sets.insert(0, ("set-json", f"preset={json.dumps(list(preset_names))}"))
        of_queue = bool(options.get("queue") or options.get("queue_file"))
        if presets and needed and not (files or sets or of_queue):
            raise InputError(
                "no values were given", hint=f"name a values file with -f {_file_of(options)}"
            )
        from allranks.values.sources import Sources

        for text in (*files, *(text for _, text in sets)):
            _unicode(text)
        sources = Sources(files=files, sets=tuple(sets))
        if presets and files:
            sources = _converted(sources)
        return function(*args, sources=sources, **options)

    command = with_sources
    for kind in reversed(_HELP):
        command = click.option(
            f"--{kind}", multiple=True, metavar="KEY=VALUE", help=f"{_HELP[kind]} May be repeated."
        )(command)
    if presets:
        command = click.option(
            "--preset",
            multiple=True,
            metavar="NAME",
            shell_complete=complete_preset,
            help="Start from a preset (`allranks presets` lists them). May be repeated.",
        )(command)
    return click.option(
        "-f",
        "--values",
        multiple=True,
        metavar="FILE",
        type=click.Path(allow_dash=True),
        help="A values file, '-' for standard input. May be repeated; later files win.",
    )(command)


def _converted(sources: Sources) -> Sources:
    """Read TorchrunJob objects as values; what is not carried as it is is said in notes."""
    sources = sources.with_contents()
    # What reads such objects takes a good part of a command's start, and hardly a file has one.
    if not any(names.TORCHRUN_GROUP.encode() in data for data in sources.contents.values()):
        return sources
    from allranks.service import torchrun_objects

    sources, conversions = torchrun_objects.jobs(sources)
    if conversions:
        from allranks.convert.verdicts import Outcome

        console = click.get_current_context().ensure_object(Console)
        for conversion in conversions:
            console.note(conversion.summary())
            for verdict in conversion.of(Outcome.CHANGED, Outcome.NOT_CARRIED):
                console.note(str(verdict))
    return sources


def queue_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add -q and --queue-file; the command finds the queue in its `sources`.

    It stands below the options of values and of the target: it reads the queue where these say.
    """

    @functools.wraps(function)
    def with_queue(*args: Any, **options: Any) -> Any:
        name, path = options.pop("queue"), options.pop("queue_file")
        for flag, value in (("--queue", name), ("--queue-file", path)):
            if value is not None and not value.strip():
                raise InputError(
                    "is empty, as of a variable that is not set",
                    path=flag,
                    hint="name the queue, or leave the flag out for none",
                )
        name, path = name or "", path or ""
        if name or path:
            from dataclasses import replace

            from allranks.cli import queue_source

            place = queue_source.QueueNamespace.of(options)
            queue = queue_source.read(name, path, options["sources"], place)
            options["sources"] = replace(options["sources"], queue=queue)
        return function(*args, **options)

    command = click.option(
        "--queue-file",
        metavar="FILE",
        type=click.Path(allow_dash=True),
        help="Read the queue from a file, without a cluster: the values of its release, or its "
        "ConfigMap. Without --queue it is called as its `name` says, or else as the file is.",
    )(with_queue)
    return click.option(
        "-q",
        "--queue",
        metavar="NAME",
        shell_complete=complete_queue,
        help="Take the settings of a queue of the namespace, and keep to its rules.",
    )(command)


def complete_queue(ctx: click.Context, _: click.Parameter, start: str) -> list[str]:
    """Return the names of the namespace's queues, for shell completion."""
    from allranks.cli import queue_source

    return [name for name in queue_source.names_at(ctx.params) if name.startswith(start)]


def release_argument(function: F) -> F:
    """Add NAME, the release's name, which is checked with the values."""

    def check_value(_: click.Context, __: click.Parameter, value: str) -> str:
        if not value:
            raise InputError("the release name is empty", hint="give it a name, such as demo")
        return value

    return click.argument("name", callback=check_value)(function)


def output_option(*choices: str) -> Callable[[F], F]:
    """Add -o; `json` also turns errors into JSON.

    Args:
        choices: the formats that the command can print; the first is the default.
    """
    return click.option(
        "-o",
        "--output",
        type=click.Choice(choices),
        default=choices[0],
        show_default=True,
        is_eager=True,
        callback=set_error_form,
        help="What to print.",
    )


def set_error_form(ctx: click.Context, _: click.Parameter, value: str) -> str:
    """Have errors written as JSON where the output is; the callback of an option that says so.

    Args:
        ctx: the command's context.
        value: the form of the output.

    Returns:
        The same value.
    """
    ctx.ensure_object(Console).json_errors = value == "json"
    return value


def namespace_option(function: F) -> F:
    """Add -n."""
    return click.option(
        "-n",
        "--namespace",
        default="default",
        show_default=True,
        help="The namespace of the release.",
    )(function)


def helm_option(function: F) -> F:
    """Add --helm."""
    return click.option(
        "--helm", metavar="PATH", help="The helm to use, in place of the one on PATH."
    )(function)


def inventory_options(function: F) -> F:
    """Add --inventory, --nodes-from-cluster and --context: the source of the free nodes."""
    function = context_option(function)
    function = click.option(
        "--nodes-from-cluster", is_flag=True, help="Fit the job to the cluster's free nodes."
    )(function)
    return click.option(
        "--inventory",
        metavar="FILE",
        type=click.Path(),
        help="Fit the job to the nodes that a file lists.",
    )(function)


def context_option(function: F) -> F:
    """Add --context."""
    return click.option(
        "--context", default="", metavar="NAME", help="The kubeconfig context of the cluster."
    )(function)


def complete_preset(_: click.Context, __: click.Parameter, start: str) -> list[str]:
    """Return the names of presets, for shell completion."""
    from allranks.values import presets

    return [preset.name for preset in presets.list() if preset.name.startswith(start)]


def _unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        printable = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        raise InputError(f"{printable!r} is not UTF-8", hint="type it in UTF-8") from error


_Wrapped = TypeVar("_Wrapped", bound=Callable[..., Any])

_SHAPE = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?")
_UNITS = (86_400, 3_600, 60, 1)


class Duration(click.ParamType[float]):
    """A parameter type for a length of time, in seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the seconds of ``90s``, ``10m`` or ``1h30m``; a bare number is seconds."""
        if isinstance(value, (int, float)):
            return float(value)
        match = _SHAPE.fullmatch(str(value).strip())
        if match is None or not any(match.groups()):
            self.fail(f"{value!r} is not a length of time; write 90s, 10m or 1h30m", param, ctx)
        return sum(
            float(number) * unit
            for number, unit in zip(match.groups(), _UNITS, strict=True)
            if number
        )


def timeout_option(help_text: str, default: float | None = None) -> Callable[[_Wrapped], _Wrapped]:
    """Add --timeout.

    Args:
        help_text: the help; a hint at the format is added.
        default: seconds; None is no limit.
    """
    return click.option(
        "--timeout",
        type=Duration(),
        default=default,
        metavar="TIME",
        help=f"{help_text} Such as 90s, 10m or 1h30m.",
    )


def dry_run_option(function: F) -> F:
    """Add --dry-run, of a command that sends a job."""
    return click.option(
        "--dry-run", is_flag=True, help="Show what would be sent and run; start nothing."
    )(function)


def run_options(function: F) -> F:
    """Add --detach, --replace, --logs, --timeout and --dry-run: how a job runs."""
    for option in reversed(
        (
            click.option(
                "--detach",
                is_flag=True,
                help="Return when it has started; it goes on by itself.",
            ),
            click.option("--replace", is_flag=True, help="Remove a run of the same name first."),
            click.option(
                "--logs",
                type=click.Choice(["lead", "all", "none"]),
                default="lead",
                show_default=True,
                help="Which logs to show: 'lead' is rank 0's or the launcher's. On a cluster.",
            ),
            timeout_option("Stop following after this time; the job goes on. On a cluster."),
            dry_run_option,
        )
    ):
        function = option(function)
    return function


def image_values(image: str) -> dict[str, str]:
    """Return an image reference as the values of a chart's `image`; parts that it lacks are ""."""
    rest, _, digest = image.partition("@")
    folder, slash, last = rest.rpartition("/")
    base, _, tag = last.partition(":")
    return {"repository": f"{folder}{slash}{base}", "tag": tag, "digest": digest}
