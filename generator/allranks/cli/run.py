"""`allranks run`: a job from its values file to its end, on this machine.

The manifests are those of `allranks render`, with what only a cluster has (queues, gangs,
topology, RDMA) turned off. The exit code is the job's own, so that a script can go on from it.
"""

from __future__ import annotations

import copy
import signal
import socket
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allranks.cli import options, pipeline, rendering, statusview
from allranks.errors import EXIT_FAILED, EXIT_INTERRUPTED, InputError
from allranks.helm import locate
from allranks.local import control
from allranks.yamlio import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.cli.console import Console
    from allranks.model.status import RunStatus
    from allranks.values.sources import Sources

_LAST_PORT = 65535
_STATUS_SECONDS = 1.0
# What a machine of its own has no use for, and what each is there.
_CLUSTER_ONLY: tuple[tuple[tuple[str, ...], Any], ...] = (
    (("queue",), ""),
    (("scheduling", "dialect"), "none"),
    (("scheduling", "topology", "mode"), "none"),
    (("network", "rdma", "enabled"), False),
)


@dataclass(frozen=True, slots=True)
class Local:
    """A person's values with what a local run changes, and a note on each change."""

    values: dict[str, Any]
    notes: tuple[str, ...]


@click.command("run", short_help="Run a job and follow it to its end.")
@click.argument("name")
@options.values_options
@options.on_option
@options.namespace_option
@options.helm_option
@click.option("--detach", is_flag=True, help="Return when it has started; it goes on by itself.")
@click.option("--replace", is_flag=True, help="Remove a run of the same name first.")
@click.option(
    "--workdir",
    metavar="DIR",
    type=click.Path(),
    help="Where the programs start. Default: the folder of the first values file.",
)
@options.output_option("text", "json")
@options.pass_console
def run_command(
    console: Console,
    *,
    name: str,
    sources: Sources,
    on: str,
    namespace: str,
    helm: str | None,
    detach: bool,
    replace: bool,
    workdir: str | None,
    output: str,
) -> None:
    """Run the job NAME and follow it to its end.

    With --on local its pods are processes of this machine, with real torchrun, and the image is
    not used. Each line of the log starts with its rank. Ctrl-C stops the job. The exit code is the
    job's own: 0, or that of the rank that failed first; 130 after Ctrl-C.

    \b
    Example:
      allranks run demo -f values.yaml --on local
      allranks run demo -f values.yaml --on local --detach
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    options.local_only(on, name)
    folder = _workdir(workdir, sources)
    prepared = pipeline.prepare(sources, release=name, namespace=namespace)
    binary = locate.find(helm)
    if replace:
        options.remove(name, namespace)
    local = localise(prepared.loaded.user, prepared.loaded.values)
    text = rendering.manifests(prepared, binary, name, namespace, local.values)
    for note in local.notes:
        console.note(note)
    with _terminable():
        handle = control.start(
            load.load_all(text),
            name=name,
            namespace=namespace,
            workdir=folder,
            foreground=not detach,
        )
        if detach:
            _started(console, control.status(name, namespace), output)
            return
        status = _follow(console, handle, name, namespace, output)
    if output == "json":
        console.json(status.as_dict())
    else:
        console.text("")
        statusview.show(console, status, time.time())
    raise click.exceptions.Exit(exit_code(status))


def localise(user: Mapping[str, Any], merged: Mapping[str, Any]) -> Local:
    """A person's values as a local run needs them.

    Args:
        user: what they wrote.
        merged: the same over the chart's defaults.
    """
    values: dict[str, Any] = copy.deepcopy(dict(user))
    notes: list[str] = []
    for path, off in _CLUSTER_ONLY:
        if _get(merged, path) not in (off, None):
            _set(values, path, off)
            notes.append(f"{'.'.join(path)} is for a cluster; off in a local run")
    workload = str(merged.get("workload"))
    asked = _get(merged, (workload, "port"))
    if isinstance(asked, int) and not _get(merged, (workload, "rdzvEndpoint")):
        port = free_port(asked)
        if port != asked:
            _set(values, (workload, "port"), port)
            notes.append(f"port {asked} is in use on this machine; {workload}.port is {port} here")
    return Local(values, tuple(notes))


def free_port(asked: int) -> int:
    """The port asked for, or the next one that no program listens on.

    Raises:
        InputError: every port from there on is taken.
    """
    for port in range(asked, _LAST_PORT + 1):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("0.0.0.0", port))  # noqa: S104 - only to see whether it is free
            except OSError:
                continue
            return port
    raise InputError(f"no port from {asked} on is free", hint="set a lower torchrun.port")


def exit_code(status: RunStatus) -> int:
    """The program's exit code for a run's end: the job's own, never 0 for a failure."""
    if status.phase == "Succeeded":
        return 0
    return status.exit_code or (status.failure.exit_code if status.failure else 0) or EXIT_FAILED


def _workdir(asked: str | None, sources: Sources) -> Path:
    if asked is not None:
        folder = Path(asked)
        if not folder.is_dir():
            raise InputError(f"{asked!r} is not a folder", path="--workdir", hint="name a folder")
        return folder.absolute()
    first = next((file for file in sources.files if file != "-"), "")
    return Path(first).absolute().parent if first else Path.cwd()


def _started(console: Console, status: RunStatus, output: str) -> None:
    if output == "json":
        console.json(status.as_dict())
        return
    console.text(f"started {status.name}")
    console.text(f"  allranks logs {status.name} --on local --follow")
    console.text(f"  allranks status {status.name} --on local")


def _follow(
    console: Console, handle: control.Handle, name: str, namespace: str, output: str
) -> RunStatus:
    training = statusview.TrainingProgress()
    shown: tuple[float, str] = (0.0, "")

    def line() -> str:
        nonlocal shown
        if time.monotonic() - shown[0] > _STATUS_SECONDS:
            status = control.status(name, namespace)
            took = statusview.duration(status.started_at, None, time.time())
            shown = (time.monotonic(), f"{status.phase}: {statusview.counts(status)}, {took}")
        return ", ".join(part for part in (shown[1], training.text) if part)

    try:
        with console.progress(line):
            for entry in handle.follow():
                training.read(entry.text)
                console.log(entry.rank, entry.text, result=output != "json")
            return handle.wait()
    except KeyboardInterrupt:
        console.note(f"stopping {name}")
        control.stop(name, namespace)
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM stop the job as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _get(values: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = values
    for key in path:
        found = (found or {}).get(key)
    return found


def _set(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        if not isinstance(values.get(key), dict):
            values[key] = {}
        values = values[key]
    values[path[-1]] = value
