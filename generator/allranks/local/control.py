"""Start, watch and end local runs: what the command line calls.

A run belongs to the user, not to the terminal it was started in. `start` hands it to a supervisor
(`allranks.local.supervisor`) and every verb works from any other shell, through the run's folder.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from allranks import names
from allranks.errors import EXIT_INTERRUPTED, InputError, RunError
from allranks.local import (
    addresses,
    backoff,
    claims,
    ending,
    logfiles,
    mpi,
    preflight,
    records,
    report,
    store,
    tree,
)
from allranks.local.elastic.wishes import check_changes, plan_answer, resume, scale, suspend
from allranks.local.events import AT_ONCE, SAY_AT_ONCE, SAY_INTERRUPT, SAY_TERMINATE, SIGNALS
from allranks.local.expand import expand, well_formed
from allranks.local.logfiles import LogLine
from allranks.local.looking import events, goes_on, list_runs, logs, status
from allranks.model.ranklines import Wanted
from allranks.model.status import Phase, RunStatus
from allranks.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from allranks.local.plan import Release
    from allranks.model.manifest import Manifest

__all__ = [
    "Deleted",
    "Handle",
    "LogLine",
    "check_changes",
    "delete",
    "events",
    "free_port",
    "goes_on",
    "list_runs",
    "logs",
    "plan_answer",
    "resume",
    "scale",
    "start",
    "status",
    "stop",
    "suspend",
]

_BLOCKS_TRIED = 8
_SUPERVISOR_MODULE = "allranks.local.supervisor"


@dataclass(frozen=True, slots=True)
class Deleted:
    """What `delete` did.

    Attributes:
        removed: ``Kind/name`` of each object, and how many processes had to be ended.
        kept: claims that stay, with the folder of each.
        folders: these folders.
    """

    removed: tuple[str, ...]
    kept: tuple[str, ...]
    folders: tuple[Path, ...] = ()


class Handle:
    """A run that was just started.

    In the foreground the run ends with this process, at the latest. Leaving a ``with`` block stops
    it.
    """

    def __init__(
        self, folder: store.RunFolder, child: subprocess.Popen[bytes], pipe: int | None
    ) -> None:
        self._folder = folder
        self._child = child
        self._pipe = pipe
        self._first = folder.status()
        self._cpu: float | None = None
        self.notes = self._first.notes

    def __enter__(self) -> Self:
        """The handle itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the run if it still goes on, and wait for its end."""
        self.stop()
        self.wait()

    def follow(self, rank: int | None = None, *, role: str | None = None) -> Iterator[LogLine]:
        """The lines of all pods as they come, until the run has ended.

        Args:
            rank: only this rank; None for all.
            role: only pods of this role; None for all.
        """
        chosen = Wanted(rank, role=role or "")
        return logfiles.follow(self._folder.logs, lambda: not self._folder.alive(), chosen)

    def status(self) -> RunStatus:
        """The status now; of a run that was deleted from elsewhere, that."""
        try:
            return records.read_status(self._folder)
        except FileNotFoundError:
            return replace(
                self._first,
                phase=Phase.FAILED,
                reason="Deleted",
                message="the run was deleted",
                exit_code=EXIT_INTERRUPTED,
            )

    def stop(self, *, at_once: bool = False, terminated: bool = False) -> None:
        """Ask it to end: SIGTERM to the pods, and SIGKILL after their grace period.

        Args:
            at_once: without the grace period.
            terminated: whether a SIGTERM asks for it, and not a person at the keyboard.
        """
        if self._pipe is None:
            number = signal.SIGTERM if terminated else signal.SIGINT
            ending.signal_supervisor(self._folder, AT_ONCE if at_once else number)
            return
        word = SAY_TERMINATE if terminated else SAY_INTERRUPT
        with suppress(BrokenPipeError):  # it has ended
            os.write(self._pipe, SAY_AT_ONCE if at_once else word)

    def cpu_seconds(self) -> float | None:
        """Processor time of all its processes together, once its supervisor has ended."""
        if self._child.returncode is None:
            pid, ended, usage = os.wait4(self._child.pid, os.WNOHANG)
            if pid:
                self._child.returncode = os.waitstatus_to_exitcode(ended)
                self._cpu = usage.ru_utime + usage.ru_stime
        return self._cpu

    def wait(self) -> RunStatus:
        """Wait for its end.

        Returns:
            The last status.
        """
        self._child.wait()
        self._folder.wait_dead(None)
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None
        return self.status()


def start(
    manifests: Sequence[Manifest],
    *,
    name: str,
    namespace: str,
    workdir: Path,
    foreground: bool,
    backoff_scale: float | None = None,
    labels: Mapping[str, str] | None = None,
    withheld: Sequence[str] = (),
) -> Handle:
    """Run a release's manifests as processes of this machine.

    Args:
        manifests: rendered and post-rendered.
        name: the release's name.
        namespace: its namespace.
        workdir: where containers start that name no folder of this machine: the values file's.
        foreground: whether the run ends with this process.
        backoff_scale: see `allranks.local.backoff`; None is ``$ALLRANKS_BACKOFF_SCALE`` or 0.1.
        labels: on its record; one that is there with others is somebody else's, and not replaced.
        withheld: variables of this process that only containers get whose manifests name them.

    Raises:
        InputError: the manifests cannot run here, the name is in use, or a port is taken.
        MissingToolError: a program that a pod starts is not on this machine.
    """
    release = expand(manifests, name=name, namespace=namespace)
    if not workdir.is_dir():
        raise InputError(f"the working folder {str(workdir)!r} is not there")
    scale = backoff.scale() if backoff_scale is None else backoff_scale
    folder = store.run_folder(name, namespace)
    with claims.given_up(), store.registry():
        if labels is not None:
            _check_whose(folder, labels)
        if folder.alive():
            raise InputError(
                f"a local run {name!r} is already going on in namespace {namespace!r}",
                hint=f"choose another name, or end it: `{names.CLI} delete {name} --on local`",
            )
        live = _live()
        with well_formed("Pod"):
            block = _block(release, live)
            claimed = [port for one in live for port in one.ports]
            own_ports = addresses.own_ports(release, claimed)
            if not own_ports:
                preflight.check_ports(release, live, block)
            arrangement = mpi.arrange(release, mpi.machine(block))
            release = mpi.complete(release, arrangement)
        preflight.check_pods(release, block, workdir)
        spec = store.Spec(
            name=name,
            namespace=namespace,
            manifests=list(manifests),
            workdir=str(workdir.absolute()),
            block=block,
            ports=_listens(release, own_ports),
            backoff_scale=scale,
            grace=release.grace,
            ttl=release.ttl,
            notes=preflight.notes(release, folder, arrangement),
            arrangement=arrangement,
            own_ports=own_ports,
            labels=labels or {},
            withheld=tuple(withheld),
        )
        tree.kill(names.ENV_RUN, [str(folder.path)])  # what a killed run of this name has left
        folder.create(spec, _first_status(release, spec))
        return _launch(folder, spec.ports, foreground=foreground)


def stop(name: str, namespace: str) -> RunStatus:
    """End a run and keep its record.

    Raises:
        InputError: there is no such run.
    """
    folder = records.existing(name, namespace)
    ending.end(folder)
    return records.read_status(folder)


def delete(name: str, namespace: str) -> Deleted:
    """End a run, and remove its record and the claims that are not to be kept.

    Whatever state the run was left in, no process of it stays.

    Raises:
        InputError: there is no such run.
    """
    folder = records.existing(name, namespace)
    killed = ending.end(folder)
    with store.registry():
        if folder.alive():
            raise InputError(f"the local run {name!r} was started again meanwhile")
        removed, kept = ending.remove_claims(folder)
        folder.remove()
    if killed:
        removed.append(f"{plural(killed, 'process')} left behind")
    told = tuple(f"{one} ({path})" for one, path in kept.items())
    return Deleted(tuple(removed), told, tuple(kept.values()))


def free_port(start_at: int = 29500) -> int:
    """Claim a port that nothing listens on and no live run will listen on.

    It is this process's until `start` has handed it to a run, or has failed.

    Args:
        start_at: the port to try first.
    """
    with store.registry():
        claimed = [port for spec in _live() for port in spec.ports]
        return addresses.free_port(start_at, claimed)


# ---------------------------------------------------------------- starting


def _live() -> list[store.Spec]:
    """What the runs that go on were asked for."""
    found = []
    for folder in store.run_folders():
        with suppress(FileNotFoundError, RunError):  # deleted meanwhile, or broken
            if folder.alive():
                found.append(folder.spec())
    return found


def _block(release: Release, live: Sequence[store.Spec]) -> addresses.Block:
    """The addresses of a run; of an MPI job some that nobody else's sshd listens on."""
    taken = [spec.block for spec in live]
    ports = addresses.served_ports(release)
    for _ in range(_BLOCKS_TRIED):
        block = addresses.allocate(
            release.name, release.namespace, release.size_max, taken, str(store.root())
        )
        hosts = mpi.listening(release, addresses.by_pod(release, block))
        if not hosts or not addresses.busy_ports(ports, hosts):
            break
        taken.append(block)
    return block


def _listens(release: Release, own_ports: Mapping[tuple[str, int], int]) -> tuple[int, ...]:
    """The ports that a run takes from all others."""
    if release.launcher:  # an MPI job listens on addresses of its own, which no other run has
        return ()
    return tuple(own_ports.values()) or addresses.served_ports(release)


def _first_status(release: Release, spec: store.Spec) -> RunStatus:
    progress = report.Progress(
        release=release,
        pods=(),
        addresses=addresses.by_pod(release, spec.block),
        started_at=time.time(),
        notes=spec.notes,
    )
    return report.report(progress)


def _check_whose(folder: store.RunFolder, labels: Mapping[str, str]) -> None:
    if folder.exists() and dict(folder.spec().labels) != dict(labels):
        raise InputError(
            f"its name is taken by another local run, {folder.path.name!r}",
            hint=f"`{names.CLI} delete {folder.path.name} --on local` removes that one",
        )


def _launch(folder: store.RunFolder, ports: Sequence[int], *, foreground: bool) -> Handle:
    lock = folder.lock()
    descriptors = [lock]
    command = [sys.executable, "-P", "-m", _SUPERVISOR_MODULE, str(folder.path), f"--lock={lock}"]
    claimed = claims.descriptors(ports)
    pipe = None
    if foreground:
        reader, pipe = os.pipe()
        descriptors.append(reader)
        command.append(f"--parent={reader}")
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # the child inherits it
    try:
        with folder.supervisor_log.open("ab") as log:
            child = subprocess.Popen(  # noqa: S603 (our own module)
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={**os.environ, names.ENV_SUPERVISOR: str(folder.path)},
                start_new_session=True,
                pass_fds=[*descriptors, *claimed],
            )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for descriptor in descriptors:
            os.close(descriptor)
    return Handle(folder, child, pipe)
