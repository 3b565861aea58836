"""`allranks sync`: newer code into the pods of a run that goes on."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allranks import names
from allranks.cli import options
from allranks.cli.target import run_argument, target_options
from allranks.errors import AllranksError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.cli.console import Console
    from allranks.cli.target import Target
    from allranks.workspace.sync import Published, SyncTarget

_SECONDS = 120.0


@click.command("sync", short_help="Bring newer code into the pods of a run.")
@run_argument
@target_options
@click.option(
    "--workspace",
    metavar="DIR",
    type=click.Path(),
    default=".",
    show_default=True,
    help="The folder of the code.",
)
@click.option(
    "--include",
    multiple=True,
    metavar="PATH",
    help="Take this file although it looks like a secret. May be repeated.",
)
@click.option("--watch", is_flag=True, help="Sync again whenever a file changes; Ctrl-C ends it.")
@options.timeout_option("How long the ranks may take to end and their pods to go on.", _SECONDS)
@options.output_option("text", "json")
@options.pass_console
def sync_command(
    console: Console,
    *,
    name: str,
    target: Target,
    workspace: str,
    include: tuple[str, ...],
    watch: bool,
    timeout: float,
    output: str,
) -> None:
    """Bring the code of a folder into the pods of run NAME, and start its ranks again with it.

    The pods stay, and so do their GPUs and their place in the queue. The ranks are ended as by the
    end of a pod, with the same time for a last checkpoint, and begin anew with the new code. Either
    all pods take it or none: where one cannot unpack it, nothing changes.

    \b
    Example:
      allranks sync train-3f2a
      allranks sync train-3f2a --watch
    """
    cluster_target = target.cluster_target(console)
    run: SyncTarget
    if cluster_target is None:
        from allranks.workspace.local_sync import LocalRun

        run = LocalRun.find(name, target.local_namespace)
    else:
        from allranks.workspace.cluster_sync import ClusterRun

        run = ClusterRun.find(cluster_target.cluster, cluster_target.namespace, name)
    code = _Code(Path(workspace), include, timeout)
    _sync(console, run, code, output)
    if watch:
        _watch(console, run, code, output)


@dataclass(frozen=True, slots=True)
class _Code:
    """The code to bring: its folder, secrets that are taken, and how long the pods may take."""

    folder: Path
    include: Sequence[str]
    seconds: float


def _sync(
    console: Console, run: SyncTarget, code: _Code, output: str, *, is_watching: bool = False
) -> None:
    """Bring what a folder has now; nothing where the pods have it, silently while watched."""
    from allranks.humanize import plural
    from allranks.workspace import snapshot as snapshots
    from allranks.workspace import sync

    began = time.monotonic()
    snapshot = snapshots.take(code.folder, include=code.include)
    published = run.published()
    archive = None if snapshot.digest == published.digest else sync.pack(snapshot)
    if archive is None or published.delivers(archive):
        sync.running_pods(run)  # else it is no news that they have this code
        if not is_watching:
            _unchanged(console, published, output)
        return
    offer = sync.Offer(published.generation + 1, snapshot.digest, archive)
    with console.progress(lambda _: state[-1]):
        state = ["packing"]
        count = sync.deliver(run, offer, seconds=code.seconds, say=state.append)
    took = time.monotonic() - began
    if output == "json":
        fields = _fields(snapshot.digest, offer.generation, count)
        console.json({**fields, "changed": True, "seconds": round(took, 2)})
        return
    console.text(
        f"{snapshot.name}, {len(archive.data):,} bytes, in {plural(count, 'pod')} after "
        f"{took:.1f} s (generation {offer.generation})"
    )


def _unchanged(console: Console, published: Published, output: str) -> None:
    if output == "json":
        fields = _fields(published.digest, published.generation, pods=0)
        console.json({**fields, "changed": False})
    else:
        console.text("nothing has changed: the pods have this code")


def _fields(digest: str, generation: int, pods: int) -> dict[str, object]:
    return {"digest": digest, "generation": generation, "pods": pods}


def _watch(console: Console, run: SyncTarget, code: _Code, output: str) -> None:
    """Sync after each change until Ctrl-C; a sync that fails is told, and the next is tried."""
    from allranks.workspace import watching

    console.note(f"watching {code.folder}; Ctrl-C ends this, and the run goes on")
    for _ in watching.changes(code.folder):
        try:
            _sync(console, run, code, output, is_watching=True)
        except AllranksError as error:
            if not run.pods():
                raise
            console.error(error)
            console.note(f"the pods go on with the code that they have; `{names.CLI} sync` waits")
