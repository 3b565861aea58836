"""`allranks convert`: values files made of what runs elsewhere."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allranks.cli import files as writing
from allranks.cli.console import clean, one_line
from allranks.cli.options import context_option, helm_option, pass_console, set_error_form
from allranks.errors import EXIT_LOST, InputError
from allranks.humanize import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.cli.console import Console
    from allranks.cluster.interface import KubeClient
    from allranks.convert.registry import Result
    from allranks.convert.verdicts import Conversion
    from allranks.service.convert import PodComparison


@click.command("convert", short_help="Make values of what runs elsewhere: PyTorchJob, MPIJob, …")
@click.argument("files", nargs=-1, metavar="FILE...", type=click.Path(allow_dash=True))
@click.option(
    "-o",
    "--output",
    "target",
    default="",
    metavar="FILE|DIR|-",
    help="Where the values go: a file, a folder (one file for each job), or - for standard output, "
    "which is the default.",
)
@click.option(
    "--report",
    "report",
    type=click.Choice(["text", "md", "json"]),
    default="text",
    show_default=True,
    is_eager=True,
    callback=set_error_form,
    help="The form of the report on standard error; json goes to standard output, with the values, "
    "or with what is wrong.",
)
@click.option(
    "--lossy",
    is_flag=True,
    help="Exit with 0 where something is not carried, too, and convert a batch script that waits "
    "for another job.",
)
@click.option(
    "--runtime",
    "runtimes",
    multiple=True,
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="Objects that the jobs name, such as a ClusterTrainingRuntime. May be repeated.",
)
@click.option(
    "--entrypoint",
    default="",
    metavar="WORDS",
    help="What the image runs where a container has no command, as in 'python train.py'.",
)
@click.option(
    "--words",
    "script_words",
    default="",
    metavar="WORDS",
    help="What stands behind a batch script's name, as in '--lr 1e-4 first-run'.",
)
@click.option(
    "--check",
    "checked",
    default="",
    metavar="VALUES",
    help="Write nothing: compare the pods of this values file with those that the job's own "
    "controller makes, and list what a conversion loses besides.",
)
@helm_option
@click.option(
    "-n", "--namespace", default="", help="The namespace of the runs; the objects' own without it."
)
@context_option
@click.option(
    "--chart-values",
    "chart_values",
    multiple=True,
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="A values file of a chart among FILEs, which helm renders. May be repeated.",
)
@click.option(
    "--chart-set",
    "chart_set",
    multiple=True,
    metavar="KEY=VALUE",
    help="A value of such a chart. May be repeated.",
)
@pass_console
def convert_command(
    console: Console,
    *,
    files: tuple[str, ...],
    target: str,
    report: str,
    lossy: bool,
    runtimes: tuple[str, ...],
    entrypoint: str,
    script_words: str,
    checked: str,
    helm: str | None,
    namespace: str,
    context: str,
    chart_values: tuple[str, ...],
    chart_set: tuple[str, ...],
) -> int:
    """Make values files of the jobs in FILEs, and say what became of each of their fields.

    '-' is standard input. A FILE may be a chart (a folder with Chart.yaml, or its archive), whose
    jobs helm renders. A TrainJob's runtime that no file has is read from the cluster, where there
    is a kubeconfig. A field is carried, changed (and why), or not carried (and why). Exit
    code 3 means that something is not carried; --lossy turns it into 0. Exit code 2 means that
    there is no job, or one that cannot be converted: then nothing is written. With --check, exit
    code 3 means that a pod has something otherwise, or that a conversion of the job loses something
    which VALUES do not have either.

    \b
    Example:
      allranks convert job.yaml -o values.yaml
      kubectl get pytorchjob big -o yaml | allranks convert - -o values.yaml
      allranks convert jobs/*.yaml -o values/
      allranks convert --check values.yaml job.yaml
    """
    if not files:
        raise InputError("no file was given", hint="name a manifest, or - for standard input")
    from allranks.service import convert
    from allranks.service.foreign_charts import ChartInput

    if checked:
        _refuse_with_check(target, script_words)
        chart = ChartInput(chart_values, chart_set, helm or "")
        image_words = _words(entrypoint, "--entrypoint")
        check = convert.check(checked, (*files, *runtimes), namespace, chart, image_words)
        same = _check(console, check, report)
        return 0 if same or lossy else EXIT_LOST
    state = [""]
    with console.progress(lambda _room: state[-1]):
        result = convert.convert(
            files,
            runtimes,
            namespace,
            _words(entrypoint, "--entrypoint"),
            ChartInput(chart_values, chart_set, helm or ""),
            words=_words(script_words, "--words"),
            lossy=lossy,
            cluster=lambda: _cluster(context),
            watch=state.append,
        )
    read = (*files, *runtimes, *chart_values)
    written = _write(console, result, target, report, read)
    _report(console, result, report, written)
    return EXIT_LOST if not result.is_whole and not lossy else 0


def _cluster(context: str) -> KubeClient | None:
    """The cluster that has what no file has; None where there is no kubeconfig."""
    from allranks.cluster import kubeconfig
    from allranks.cluster.client import KubeCluster

    try:
        if not context and not kubeconfig.has_context():
            return None
    except InputError:
        return None  # a broken kubeconfig is no reason to refuse what files may say
    return KubeCluster(None, context or None)


def _refuse_with_check(target: str, script_words: str) -> None:
    for option, value in (
        ("-o", target),
        ("--words", script_words),
    ):
        if value:
            raise InputError(
                f"{option} is for a conversion, and --check converts nothing",
                hint="leave one of them out",
            )


def _check(console: Console, check: PodComparison, report: str) -> bool:
    """Show what differs and what is lost; return whether nothing is."""
    for note in check.notes:
        console.note(one_line(note))
    if report == "json":
        console.json(
            {
                "ok": check.is_same,
                "kind": check.kind,
                "name": check.name,
                "pods": check.pods,
                "differences": [item.as_dict() for item in check.differences],
                "losses": [item.as_dict() for item in check.losses],
            }
        )
    elif report == "md":
        from allranks.convert.reports import conversion_report

        console.text(clean(conversion_report.comparison(check.differences, check.losses)))
    else:
        for item in (*check.differences, *check.losses):
            console.text(one_line(str(item)))
        pods = plural(check.pods, "pod")
        count = (
            plural(len(check.differences), "difference") if check.differences else "no difference"
        )
        if check.losses:
            count += f", and {plural(len(check.losses), 'field')} not carried by convert"
        console.text(one_line(f"{check.kind} {check.name}, {pods}: {count}"))
    return check.is_same


def _words(text: str, option: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise InputError(
            f"{option} has no end: {error}", hint="close the quotes, as in 'python train.py'"
        ) from error


def _write(
    console: Console, result: Result, target: str, report: str, read: Sequence[str]
) -> list[str]:
    """Write the values; return the files, in the order of the jobs.

    Raises:
        InputError: one of them is a file that was read, or can only be read, or the values of
            several jobs would go into one; then none is written.
    """
    from allranks.service import convert

    if target in ("", "-"):
        if report != "json":
            documents = [convert.values_file(conversion) for conversion in result.conversions]
            console.text("---\n".join(documents).rstrip("\n"))
        return ["" for _ in result.conversions]
    path = Path(target)
    is_folder = target.endswith("/") or writing.is_folder(path) or len(result.conversions) > 1
    is_new = not os.path.lexists(path)
    has_file_name = not target.endswith("/") and path.suffix in _FILE_ENDINGS
    if is_folder and not writing.is_folder(path) and (has_file_name or not is_new):
        is_named = "is named like" if is_new else "is"
        raise InputError(
            f"{path} {is_named} a file, and there are {plural(len(result.conversions), 'job')}, "
            "each with a file of its own",
            hint=f"name a folder, as in -o {path.with_suffix('') if path.suffix else 'values'}/",
        )
    files = [path / name for name in _file_names(result.conversions)] if is_folder else [path]
    writing.refuse_inputs(files, read)
    if is_folder:
        writing.make_folder(path)
    texts: dict[Path, str] = {}
    total = plural(len(files), "values file")
    with console.progress(lambda _room: f"{len(texts):,} of {total} made"):
        for file, conversion in zip(files, result.conversions, strict=True):
            texts[file] = convert.values_file(conversion)
    writing.write_all(texts)
    return [str(file) for file in files]


# How files are called; a folder that is to have such a name is given with a / behind it.
_FILE_ENDINGS = (".yaml", ".yml", ".json")


def _file_names(conversions: tuple[Conversion, ...]) -> list[str]:
    """A file name for each job: its own, with its namespace and a number where that is taken."""
    taken_names: set[str] = set()
    file_names = []
    for conversion in conversions:
        candidates = [conversion.name, f"{conversion.namespace}-{conversion.name}".strip("-")]
        candidates += [f"{conversion.name}-{number}" for number in range(2, len(conversions) + 2)]
        name = next(name for name in candidates if name not in taken_names)
        taken_names.add(name)
        file_names.append(f"{name}.yaml")
    return file_names


def _report(console: Console, result: Result, report: str, written: list[str]) -> None:
    from allranks.convert.reports import conversion_report

    if report == "json":
        console.json(conversion_report.as_json(result, written))
    elif report == "md":
        console.report(conversion_report.markdown(result))
    else:
        for line in conversion_report.text(result, written):
            console.note(one_line(line))
