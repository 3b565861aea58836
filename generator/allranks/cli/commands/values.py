"""`allranks validate`, `values`, `init` and `presets`: commands on values alone."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import click

from allranks import names
from allranks.cli import options
from allranks.cli.target import only_cluster_options
from allranks.errors import InputError, InvalidValues

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.cli.console import Console
    from allranks.cli.target import Target
    from allranks.service.prepare import PreparedJob
    from allranks.values.explain import Explanation
    from allranks.values.sources import Sources


@click.command("validate", short_help="Check values; name every problem and its fix.")
@click.argument("name", required=False, default="")
@options.values_options
@options.namespace_option
@click.option("--fix", is_flag=True, help="Write the fixes that are certain into the -f files.")
@click.option(
    "--unsafe-fixes", is_flag=True, help="With --fix or --diff: those too that are a guess."
)
@click.option("--diff", is_flag=True, help="Show what --fix would write, and write nothing.")
@click.option("--yes", is_flag=True, help="With --fix: write without asking.")
@options.output_option("text", "json")
@options.queue_options
@options.pass_console
def validate_command(
    console: Console,
    *,
    name: str,
    sources: Sources,
    namespace: str,
    fix: bool,
    unsafe_fixes: bool,
    diff: bool,
    yes: bool,
    output: str,
) -> None:
    """Check values, and the release NAME where one is given.

    The values are those of a job, which name its workload, or those of a queue (charts/queue).
    Every problem is shown with its place and its fix; nothing is sent, and without --fix nothing is
    written. Exit code 2 means that there are problems.

    --fix shows its changes as a diff and asks before it writes them. What it cannot fix, or must
    not, is left with the reason: a guess, or a value that no file named with -f has.

    \b
    Example:
      allranks validate -f values.yaml --set gpus=16
      allranks validate -f values.yaml --fix
    """
    if yes and diff:
        raise InputError(
            "--diff writes nothing, and --yes is for writing without a question",
            hint="leave one of them out",
        )
    if (unsafe_fixes and not (fix or diff)) or (yes and not fix):
        raise InputError(
            "--unsafe-fixes is for --fix and --diff, and --yes is for --fix alone",
            hint="add --fix, or leave them out",
        )
    from allranks.service import prepare
    from allranks.values.sources import read_once

    def check(sources: Sources, fixes: Mapping[str, Any]) -> None:
        try:
            prepared = prepare.prepare(sources, release=name, namespace=namespace, by_helm=False)
        except InputError:
            if not _is_valid_queue(sources, name):
                raise
            _show_queue(console, output, fixes)
        else:
            _show_prepared(console, prepared, output, fixes)

    sources = read_once(sources)
    if not (fix or diff):
        check(sources, {})
        return
    from allranks.cli import fixing
    from allranks.service import queues

    if queues.is_of_queue(sources):
        raise InputError(
            "--fix and --diff mend the values of a job, and these are a queue's",
            hint="leave them out: every problem is named with its fix",
        )
    request = fixing.FixRequest(name, namespace, unsafe_fixes, diff, yes)
    fixing.fix(console, sources, request, check)


def _is_valid_queue(sources: Sources, name: str) -> bool:
    """Whether values are those of a queue, and not of a job.

    Raises:
        InputError: they are a queue's, and wrong.
    """
    from allranks.service import queues

    if not queues.is_of_queue(sources):
        return False
    queues.values_of(sources, name)
    return True


def _show_queue(console: Console, output: str, fixes: Mapping[str, Any]) -> None:
    if output == "json":
        console.json(
            {
                "ok": True,
                "exitCode": 0,
                "problems": [],
                "warnings": [],
                "chart": names.QUEUE_CHART,
                **fixes,
            }
        )
        return
    console.text("ok  values of a queue, for `allranks queue install`")


def _show_prepared(
    console: Console, prepared: PreparedJob, output: str, fixes: Mapping[str, Any]
) -> None:
    from allranks.service import prepare

    if output == "json":
        console.json(
            {
                "ok": True,
                "exitCode": 0,
                "problems": [],
                "warnings": [warning.as_dict() for warning in prepared.warnings],
                "workload": prepared.loaded.workload,
                "layout": prepared.layout.to_values(),
                "processes": prepared.layout.processes,
                **(prepared.trials.as_dict() if prepared.trials is not None else {}),
                **(prepared.layout.of_roles() if prepared.layout.roles else {}),
                **fixes,
            }
        )
        return
    for note in prepared.notes:
        console.note(note)
    console.text(f"ok  {prepare.summary(prepared)}")


@click.command("values", short_help="Show the merged values, and where each comes from.")
@options.values_options
@only_cluster_options
@click.option(
    "--explain",
    "keys",
    multiple=True,
    metavar="KEY",
    help="Say where the value of KEY comes from, such as image.tag. May be repeated.",
)
@options.output_option("yaml", "json")
@options.queue_options
@options.pass_console
def values_command(
    console: Console,
    *,
    sources: Sources,
    target: Target,  # noqa: ARG001 - where the queue is read
    keys: tuple[str, ...],
    output: str,
) -> None:
    """Show the values of a job: all sources merged, over the defaults of the chart.

    The sources are, from the least to the most: the chart's defaults, presets, the queue's
    defaults, -f files in their order, the --set family, what the queue imposes. --explain lists
    those that say something of a key, each with its place; the last of them wins. Nothing is
    checked: `allranks validate` does that.

    \b
    Example:
      allranks values -f values.yaml -q h100
      allranks values -f values.yaml -q h100 --explain scheduling.priorityClassName
    """
    from allranks.values import explain
    from allranks.values.sources import load_sources

    loaded = load_sources(sources)
    if not keys:
        for note in loaded.overridden:
            console.note(str(note))
        if output == "json":
            console.json(loaded.values)
        else:
            from allranks.yamlio import dump

            console.raw(dump.dump(loaded.values))
        return
    explanations, errors = [], []
    for key in keys:
        try:
            explanations.append(explain.explain(loaded, explain.parse(key)))
        except InputError as error:
            errors.append(error)
    if output == "json" and not errors:
        console.json([explanation.as_dict() for explanation in explanations])
        return
    for index, explanation in enumerate(explanations):
        if index:
            console.text("")
        _show_explanation(console, explanation)
    if errors:
        raise InvalidValues([problem for error in errors for problem in error.problems])


def _show_explanation(console: Console, explanation: Explanation) -> None:
    from allranks.schema import paths

    console.text(f"{paths.show(explanation.path)}: {_shown(explanation.value)}")
    console.text("")
    if explanation.below:
        console.table(
            ["KEY", "VALUE", "FROM"],
            [
                (paths.show(path), _shown(item.value), item.source)
                for path, item in explanation.below
            ],
            whole=["FROM"],
        )
        return
    console.table(
        ["FROM", "VALUE", ""],
        [
            (item.source, _shown(item.value), "wins" if item.wins else "")
            for item in explanation.sources
        ],
        whole=[""],
    )


def _shown(value: Any) -> str:
    return "unset" if value is None else json.dumps(value, ensure_ascii=False)


@click.command("init", short_help="Print a commented values file to start from.")
@click.argument("workload", metavar="WORKLOAD", type=click.Choice(names.WORKLOADS))
@options.pass_console
def init_command(console: Console, workload: str) -> None:
    """Print a commented values file for WORKLOAD, ready to be edited.

    \b
    Example:
      allranks init torchrun > values.yaml
    """
    console.raw(files("allranks.cli").joinpath("starters", f"{workload}.yaml").read_text("utf-8"))


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
    """
    from allranks.values import presets

    if name is not None:
        document = presets.load(name)
        if output == "json":
            console.json(document.data)
            return
        path = next(preset.path for preset in presets.list() if preset.name == name)
        console.raw(path.read_text("utf-8"))
        return
    available = presets.list()
    if output == "json":
        console.json([{"name": item.name, "description": item.description} for item in available])
    else:
        console.table(
            ["NAME", "FOR"], [(item.name, item.description) for item in available], wrap="FOR"
        )
