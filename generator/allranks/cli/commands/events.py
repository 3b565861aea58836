"""`allranks events`: the events of a run, from Kubernetes and the operator."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from allranks.cli import options, status_view
from allranks.cli.target import run_argument, target_options
from allranks.humanize import number_of, plural

if TYPE_CHECKING:
    from allranks.cli.console import Console
    from allranks.cli.target import ClusterTarget, Target
    from allranks.k8s.manifest import Manifest


_ROWS = 1000  # of the table: a run of ten thousand pods has tens of thousands of events


@click.command("events", short_help="Show what happened to a run.")
@run_argument
@target_options
@options.output_option("table", "json")
@options.pass_console
def events_command(console: Console, *, name: str, target: Target, output: str) -> None:
    """Show the events of run NAME's objects, the newest last.

    On a cluster they are what Kubernetes and the operator say, on this machine what its supervisor
    has written down.

    \b
    Example:
      allranks events demo
      allranks events demo -o json
      allranks events demo --on local
    """
    from allranks.status import events as reading

    cluster_target = target.cluster_target(console)
    events = (
        _local_events(name, target)
        if cluster_target is None
        else _cluster_events(name, cluster_target)
    )
    events = sorted(events, key=lambda event: reading.time(event) or 0.0)
    if output == "json":
        console.json(events)
        return
    if not events:
        reason = (
            "nothing has happened yet"
            if cluster_target is None
            else "the cluster forgets them in an hour"
        )
        console.note(f"there are no events; {reason}")
        return
    now, older = time.time(), len(events) - _ROWS
    console.table(
        ["LAST SEEN", "TYPE", "REASON", "OBJECT", "COUNT", "MESSAGE"],
        [_event_row(event, reading.time(event), now) for event in events[-_ROWS:]],
        right=["COUNT"],
        wrap="MESSAGE",
    )
    if older > 0:
        verb = number_of(older, "is", "are")
        console.note(f"{plural(older, 'older event')} {verb} not shown; -o json has all")


def _cluster_events(name: str, cluster_target: ClusterTarget) -> list[Manifest]:
    from allranks.cluster import events
    from allranks.cluster.observe import observe

    return list(
        events.run_events(
            cluster_target.cluster, observe(cluster_target.cluster, name, cluster_target.namespace)
        )
    )


def _local_events(name: str, target: Target) -> list[Manifest]:
    from allranks.local import runs as local_runs

    return local_runs.events(name, target.local_namespace)


def _event_row(event: Manifest, last_seen: float | None, now: float) -> tuple[object, ...]:
    about = event.get("involvedObject") or {}
    return (
        status_view.duration(last_seen, None, now) or "-",
        event.get("type") or "",
        event.get("reason") or "",
        f"{about.get('kind', '')}/{about.get('name', '')}",
        event.get("count") or (event.get("series") or {}).get("count") or 1,
        in_a_row(str(event.get("message") or "")),
    )


def in_a_row(message: str) -> str:
    """Return a message on one line, with a bar between its lines."""
    lines = (" ".join(line.split()) for line in message.splitlines())
    return " | ".join(line for line in lines if line)
