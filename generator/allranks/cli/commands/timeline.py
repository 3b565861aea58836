"""`allranks timeline | goodput`: what a run's time was spent on."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

import allranks
from allranks import names
from allranks.cli import files, options, otlp_sender, status_view
from allranks.cli.console import clean
from allranks.cli.target import run_argument, target_options
from allranks.errors import InputError
from allranks.k8s.parts import without_collection
from allranks.timeline import goodput, otlp, page, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.cli.console import Console
    from allranks.cli.target import ClusterTarget, Target
    from allranks.timeline.model import Timeline

# Whose pod number 0 tells of the training, of a run of this machine; the first that is there.
_LEADS = (names.ROLE_LAUNCHER, names.ROLE_NODE, names.ROLE_CHIEF, names.ROLE_WORKER)
_LOGS = click.option(
    "--logs/--no-logs",
    default=True,
    help="Read steps and saves from the log of rank 0 or the launcher. Default: do.",
)


@click.command("timeline", short_help="Show what happened to a run, and when.")
@run_argument
@target_options
@_LOGS
@click.option(
    "--to", "path", metavar="FILE", type=click.Path(dir_okay=False), help="Write it to a file."
)
@click.option("--otlp", "url", metavar="URL", help="Send spans to an OpenTelemetry collector.")
@options.output_option("text", "html", "json", "otlp")
@options.pass_console
def timeline_command(
    console: Console,
    *,
    name: str,
    target: Target,
    logs: bool,
    path: str | None,
    url: str | None,
    output: str,
) -> None:
    """Show the moments of run NAME, from its creation to its end, and a bar for each pod.

    Each moment is one that an object, an event or a line of a log tells; what nothing tells is
    left out. Steps are lines with an object that has a "step" or an "epoch". -o otlp prints the
    spans that --otlp sends, as OTLP/HTTP has them in JSON; headers for the collector are taken from
    OTEL_EXPORTER_OTLP_HEADERS.

    \b
    Example:
      allranks timeline demo
      allranks timeline demo -o html --to demo.html
      allranks timeline demo --otlp http://collector:4318
    """
    endpoint = otlp_sender.endpoint(url) if url is not None else ""
    if path == "":
        raise InputError("is empty", path="--to", hint="name a file")
    run = _read(name, target.cluster_target(console), target, logs=logs)
    if endpoint:
        count = otlp_sender.send(endpoint, otlp.requests(run, allranks.__version__))
        console.note(f"{count:,} spans were sent to {endpoint}")
        if path is None and output == "text":
            return
    if path is None and output == "text":
        width = shutil.get_terminal_size((100, 24)).columns
        for line in text.lines(run, width, status_view.length):
            console.text(clean(line))
        for note in run.notes:
            console.note(note)
        return
    if path is None and output == "json":
        console.json(run.as_dict())
        return
    document = "".join(_document(run, output))
    if path is None:
        console.raw(document)
        return
    files.write(Path(path), document)
    if path != files.STDOUT:
        console.note(f"the timeline of {name} is in {path}")


def _document(run: Timeline, output: str) -> Iterator[str]:
    """Yield the timeline in a form that is for a file."""
    if output == "html":
        yield page.html(run, goodput.of(run), status_view.length)
    elif output == "json":
        yield json.dumps(run.as_dict(), ensure_ascii=False, indent=2) + "\n"
    elif output == "otlp":
        yield json.dumps(otlp.document(run, allranks.__version__), ensure_ascii=False) + "\n"
    else:
        for line in text.lines(run, 100, status_view.length):
            yield clean(line) + "\n"


@click.command("goodput", short_help="Show how much of a run's time made steps.")
@run_argument
@target_options
@options.output_option("text", "json")
@options.pass_console
def goodput_command(console: Console, *, name: str, target: Target, output: str) -> None:
    """Show the share of run NAME's time that made steps, and what the rest was lost to.

    Steps are read from the log of rank 0 or the launcher: lines with an object that has a "step" or
    an "epoch". Steps that were done again after a restart are lost once.

    \b
    Example:
      allranks goodput demo
      allranks goodput demo -o json
    """
    run = _read(name, target.cluster_target(console), target, logs=True)
    spent = goodput.of(run)
    if output == "json":
        console.json({"name": name, "namespace": run.namespace, **spent.as_dict()})
        return
    for line in text.goodput_lines(spent, status_view.length):
        console.text(clean(line))
    if spent.share is None:
        console.note(
            'a line such as {"step": 12} in the log of rank 0 says when a step was made; '
            f"`{names.CLI} timeline {name}` shows what is known"
        )
    for note in run.notes:
        console.note(note)


def _read(
    name: str, cluster_target: ClusterTarget | None, target: Target, *, logs: bool
) -> Timeline:
    """Return the timeline of a run.

    Raises:
        InputError: there is no such run.
        AllranksError: the cluster does not answer, or forbids it.
    """
    if cluster_target is None:
        return _local(name, target, logs=logs)
    from dataclasses import replace

    from allranks.cluster import timeline as observing
    from allranks.status.reduce import reduce
    from allranks.timeline import of_objects

    cluster, namespace = cluster_target.cluster, cluster_target.namespace
    with without_collection():
        observation = observing.observation(cluster, name, namespace)
        leads = observing.leads(observation)
        marks, notes = observing.marks(cluster, namespace, leads) if logs else ({}, ())
        lead_names = frozenset(str(pod["metadata"]["name"]) for pod in leads)
        built = of_objects.build(observation, reduce(observation), marks, lead_names)
        return replace(built, notes=(*built.notes, *notes))


def _local(name: str, target: Target, *, logs: bool) -> Timeline:
    from allranks.local import runs as local_runs
    from allranks.model.rank_lines import SINGLE_WRITER
    from allranks.timeline import log_marks, of_local_run

    namespace = target.local_namespace
    status = local_runs.status(name, namespace)
    roles = {pod.role for pod in status.pods}
    lead = next((role for role in _LEADS if role in roles), "")
    lines = (
        line.text
        for line in (local_runs.logs(name, namespace, node=0, role=lead) if lead and logs else ())
        if not line.process
    )
    pod = next((pod.name for pod in status.pods if pod.role == lead and pod.rank == 0), name)
    marks = [log_marks.read(lines, SINGLE_WRITER, pod, stamped=False)]
    return of_local_run.build(status, local_runs.events(name, namespace), marks, time.time())
