"""A run on this machine: its pods are processes here.

The manifests are those of `allranks render`, with the values of `allranks.local.localising`.
"""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.cli import rendering, statusview
from allranks.cluster.pods import Identity
from allranks.errors import EXIT_INTERRUPTED, EXIT_TERMINATED, InputError
from allranks.helm import locate
from allranks.local import control, localising
from allranks.model import ranklines
from allranks.yamlio import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.cli.console import Console
    from allranks.cli.pipeline import Prepared
    from allranks.cli.target import Target
    from allranks.model.status import RunStatus
    from allranks.values.sources import Sources

_STATUS_SECONDS = 1.0
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Job:
    """What is started."""

    manifests: list[Any]
    name: str
    namespace: str
    folder: Path

    def start(self, *, foreground: bool) -> control.Handle:
        """Start it as processes of this machine."""
        return control.start(
            self.manifests,
            name=self.name,
            namespace=self.namespace,
            workdir=self.folder,
            foreground=foreground,
        )


def run(
    console: Console,
    prepared: Prepared,
    name: str,
    target: Target,
    folder: Path,
    *,
    detach: bool,
    replace: bool,
    output: str,
) -> int:
    """Start a job here and follow it; return the exit code.

    Args:
        console: where to show it.
        prepared: its checked values.
        name: the run.
        target: its namespace, and the helm to use.
        folder: where its programs start.
        detach: return when it has started.
        replace: remove a run of the same name first.
        output: text or json.
    """
    namespace = target.local_namespace
    binary = locate.find(target.helm)
    if replace:
        _remove(name, namespace)
    local = localising.localise(prepared.loaded.user, prepared.loaded.values)
    text = rendering.manifests(prepared, binary, name, namespace, local.values)
    for note in (*prepared.notes, *local.notes):
        console.note(note)
    job = Job(load.load_all(text), name, namespace, folder)
    if detach:
        _started(console, job.start(foreground=False), output)
        return 0
    return _to_its_end(console, job, output)


def workdir(asked: str | None, sources: Sources) -> Path:
    """Where the programs of a run start: as asked, else the folder of the first values file.

    Raises:
        InputError: there is no such folder.
    """
    if asked is not None:
        folder = Path(asked)
        if not folder.is_dir():
            raise InputError(f"{asked!r} is not a folder", path="--workdir", hint="name a folder")
        return folder.absolute()
    first = next((file for file in sources.files if file != "-"), "")
    return Path(first).absolute().parent if first else Path.cwd()


def _remove(name: str, namespace: str) -> None:
    if any((run.name, run.namespace) == (name, namespace) for run in control.list_runs()):
        control.delete(name, namespace)


def _to_its_end(console: Console, job: Job, output: str) -> int:
    with _stopping(console) as interrupted, job.start(foreground=True) as handle:
        interrupted.handle = handle
        status = _follow(console, handle, output)
    if output == "json":
        console.json(status.as_dict())
    else:
        console.text("")
        statusview.show(console, status, time.time())
    return interrupted.code or statusview.exit_code(status)


def _started(console: Console, handle: control.Handle, output: str) -> None:
    status = handle.status()
    if output == "json":
        console.json(status.as_dict())
        return
    for note in handle.notes:
        console.note(note)
    console.text(f"started {status.name}")
    console.command(f"{names.CLI} logs {status.name} --on local --follow")
    console.command(f"{names.CLI} status {status.name} --on local")


def _follow(console: Console, handle: control.Handle, output: str) -> RunStatus:
    training = statusview.TrainingProgress()
    shown: tuple[float, str] = (0.0, "")

    def line() -> str:
        nonlocal shown
        if time.monotonic() - shown[0] > _STATUS_SECONDS:
            status = handle.status()
            took = statusview.duration(status.started_at, None, time.time())
            shown = (time.monotonic(), f"{status.phase}: {statusview.counts(status)}, {took}")
        return ", ".join(part for part in (shown[1], training.text) if part)

    for note in handle.notes:
        console.note(note)
    with console.progress(lambda _: line()):
        for entry in handle.follow():
            training.read(entry.text)
            pod = str(Identity(entry.role, entry.rank))
            who = ranklines.who(pod, entry.role, entry.writers, entry.process)
            console.log(who, entry.text, result=output != "json")
    return handle.wait()


@dataclass(slots=True)
class _Interrupted:
    """What Ctrl-C and SIGTERM have done so far.

    Attributes:
        handle: the run, once it is started.
        times: how many there were.
        code: the exit code that the first of them gives; 0 before.
    """

    handle: control.Handle | None = None
    times: int = 0
    code: int = 0


@contextmanager
def _stopping(console: Console) -> Iterator[_Interrupted]:
    """Let Ctrl-C and SIGTERM end the run in order, and a second one at once.

    The log is followed until the run has ended: a trainer may have something to say about its last
    checkpoint.
    """
    state = _Interrupted()

    def interrupt(number: int, _frame: object) -> None:
        terminated = number == signal.SIGTERM
        if state.handle is None:
            if terminated:
                raise SystemExit(EXIT_TERMINATED)
            raise KeyboardInterrupt
        state.times += 1
        if state.times == 1:
            state.code = EXIT_TERMINATED if terminated else EXIT_INTERRUPTED
            again = "SIGTERM" if terminated else "Ctrl-C"
            console.note(f"stopping; a second {again} stops at once")
        state.handle.stop(at_once=state.times > 1, terminated=terminated)

    before = {number: signal.signal(number, interrupt) for number in _STOP_SIGNALS}
    try:
        yield state
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
