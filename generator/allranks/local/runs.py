"""Start, watch and end local runs, for the command line.

A run belongs to the user, not to the terminal it was started in. `start` hands it to a supervisor
(`allranks.local.supervisor`) and every verb works from any other shell, through the run's folder.

It is longer than most: the verbs share how a run and its supervisor are found.
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
from allranks.errors import EXIT_INTERRUPTED, InputError, NameTakenError, RunError
from allranks.humanize import list_some, plural
from allranks.local import backoff, mpi, preflight, run_events, run_status, saves
from allranks.local.elastic import shared_folder
from allranks.local.elastic.requests import check_changes, plan_answer, resume, scale, suspend
from allranks.local.host import addresses, process_tree
from allranks.local.host.poll import AT_ONCE, SAY_AT_ONCE, SAY_INTERRUPT, SAY_TERMINATE, SIGNALS
from allranks.local.plan import addresses as plan_addresses
from allranks.local.plan.expand import expand, refuse_malformed
from allranks.local.state import logs as log_files
from allranks.local.state import records, store, training_progress
from allranks.local.state.logs import LogLine
from allranks.model.processes import no_rank, not_fixed
from allranks.model.rank_lines import LineSelection, of_mpi
from allranks.model.status import Phase, RunStatus
from allranks.names import ROLE_LAUNCHER, ROLE_NODE
from allranks.status import events as reading
from allranks.status import processes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from allranks.k8s.manifest import Manifest
    from allranks.local.plan.model import ReleasePlan
    from allranks.local.saves import LocalSavingPod
    from allranks.model.status import PodStatus


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
    "manifests",
    "plan_answer",
    "resume",
    "saving_pods",
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
    """The result of `delete`.

    Attributes:
        removed: ``Kind/name`` of each object, and how many processes had to be ended.
        claims: claims that stay, with the folder of each.
        folders: these folders.
    """

    removed: tuple[str, ...]
    claims: tuple[str, ...]
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
        """Stop the run if it still runs, and wait for its end."""
        self.stop()
        self.wait()

    def follow(self, rank: int | None = None, *, role: str | None = None) -> Iterator[LogLine]:
        """The lines of all pods as they arrive, until the run has finished.

        Args:
            rank: only this rank; None for all.
            role: only pods of this role; None for all.
        """
        selection = LineSelection(rank, role=role or "")
        return log_files.follow(self._folder.logs, lambda: not self._folder.alive(), selection)

    def status(self) -> RunStatus:
        """The current status; the last one where the run was deleted elsewhere."""
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
        """Tell the run to end: SIGTERM to the pods, then SIGKILL after the grace period.

        Args:
            at_once: without the grace period.
            terminated: whether a SIGTERM asks for it, and not a person at the keyboard.
        """
        if self._pipe is None:
            number = signal.SIGTERM if terminated else signal.SIGINT
            signal_supervisor(self._folder, AT_ONCE if at_once else number)
            return
        word = SAY_TERMINATE if terminated else SAY_INTERRUPT
        with suppress(BrokenPipeError):  # it has ended
            os.write(self._pipe, SAY_AT_ONCE if at_once else word)

    def cpu_seconds(self) -> float | None:
        """The processor time of all its processes, once its supervisor has ended."""
        if self._child.returncode is None:
            pid, wait_status, usage = os.wait4(self._child.pid, os.WNOHANG)
            if pid:
                self._child.returncode = os.waitstatus_to_exitcode(wait_status)
                self._cpu = usage.ru_utime + usage.ru_stime
        return self._cpu

    def wait(self) -> RunStatus:
        """Wait for the run's end.

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
        backoff_scale: see `allranks.local.controller`; None is ``$ALLRANKS_BACKOFF_SCALE`` or 0.1.
        labels: on its record; one that is there with others is somebody else's, and not replaced.
        withheld: variables of this process that only containers get whose manifests name them.

    Raises:
        NameTakenError: a run of that name goes on.
        InputError: the manifests cannot run here, or a port is taken.
        MissingToolError: a program that a pod starts is not on this machine.
    """
    release = expand(manifests, name=name, namespace=namespace)
    if not workdir.is_dir():
        raise InputError(f"the working folder {str(workdir)!r} is not there")
    scale = _backoff_scale() if backoff_scale is None else backoff_scale
    folder = store.run_folder(name, namespace)
    with addresses.drop_claims(), store.registry():
        if labels is not None:
            _check_whose(folder, labels)
        if folder.alive():
            raise NameTakenError(
                f"a local run {name!r} is already going on in namespace {namespace!r}",
                hint=f"choose another name, or end it: `{names.CLI} delete {name} --on local`",
            )
        live = _live()
        with refuse_malformed("Pod"):
            block = _block(release, live)
            claimed = [port for spec in live for port in spec.ports]
            own_ports = plan_addresses.own_ports(release, claimed)
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
        process_tree.kill(
            names.ENV_RUN, [str(folder.path)]
        )  # what a killed run of this name has left
        folder.create(spec, _first_status(release, spec))
        return _launch(folder, spec.ports, foreground=foreground)


def stop(name: str, namespace: str) -> RunStatus:
    """End a run and keep its record.

    Raises:
        InputError: there is no such run.
    """
    folder = records.existing(name, namespace)
    end(folder)
    return records.read_status(folder)


def delete(name: str, namespace: str) -> Deleted:
    """End a run, and remove its record and the claims that are not to be kept.

    Whatever state the run was left in, no process of it stays.

    Raises:
        InputError: there is no such run.
    """
    folder = records.existing(name, namespace)
    killed = end(folder)
    with store.registry():
        if folder.alive():
            raise InputError(f"the local run {name!r} was started again meanwhile")
        removed, persistent = remove_claims(folder)
        folder.remove()
    if killed:
        removed.append(f"{plural(killed, 'process')} left behind")
    claims = tuple(f"{claim} ({path})" for claim, path in persistent.items())
    return Deleted(tuple(removed), claims, tuple(persistent.values()))


def manifests(name: str, namespace: str) -> list[Manifest]:
    """The objects that a run was started with.

    Raises:
        InputError: there is no such run.
    """
    return list(records.existing(name, namespace).spec().manifests)


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
    """The specs of the live runs."""
    specs = []
    for folder in store.run_folders():
        with suppress(FileNotFoundError, RunError):  # deleted meanwhile, or broken
            if folder.alive():
                specs.append(folder.spec())
    return specs


def _block(release: ReleasePlan, live: Sequence[store.Spec]) -> addresses.Block:
    """The addresses of a run; for MPI, a block without anybody else's sshd."""
    blocks = [spec.block for spec in live]
    ports = plan_addresses.served_ports(release)
    for _ in range(_BLOCKS_TRIED):
        block = addresses.allocate(
            release.name, release.namespace, release.size_max, blocks, str(store.root())
        )
        hosts = mpi.listening(release, plan_addresses.by_pod(release, block))
        if not hosts or not addresses.busy_ports(ports, hosts):
            break
        blocks.append(block)
    return block


def _listens(release: ReleasePlan, own_ports: Mapping[tuple[str, int], int]) -> tuple[int, ...]:
    """The ports that a run takes on all addresses."""
    if release.launcher:  # an MPI job listens on addresses of its own, which no other run has
        return ()
    return tuple(own_ports.values()) or plan_addresses.served_ports(release)


def _first_status(release: ReleasePlan, spec: store.Spec) -> RunStatus:
    progress = run_status.RunProgress(
        release=release,
        pods=(),
        addresses=plan_addresses.by_pod(release, spec.block),
        started_at=time.time(),
        notes=spec.notes,
    )
    return run_status.report(progress)


def _check_whose(folder: store.RunFolder, labels: Mapping[str, str]) -> None:
    if folder.exists() and dict(folder.spec().labels) != dict(labels):
        raise InputError(
            f"its name is taken by another local run, {folder.path.name!r}",
            hint=f"`{names.CLI} delete {folder.path.name} --on local` removes that one",
        )


def _launch(folder: store.RunFolder, ports: Sequence[int], *, foreground: bool) -> Handle:
    lock = folder.lock()
    descriptors = [lock]
    # In whatever locale: what pods are given and say is UTF-8.
    python = [sys.executable, "-X", "utf8", "-P"]
    command = [*python, "-m", _SUPERVISOR_MODULE, str(folder.path), f"--lock={lock}"]
    claimed = addresses.descriptors(ports)
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


_SHOWN = 20


def status(name: str, namespace: str) -> RunStatus:
    """The status of a run.

    Raises:
        InputError: there is no such run.
    """
    folder = records.existing(name, namespace)
    return training_progress.add_progress(folder, records.read_status(folder))


def saving_pods(name: str, namespace: str) -> list[LocalSavingPod]:
    """The pods of a run whose ranks can be asked to save.

    Raises:
        InputError: there is no such run.
    """
    return saves.saving_pods(records.existing(name, namespace).path)


def goes_on(name: str, namespace: str) -> bool:
    """Whether a run has not ended; a suspended one has not, where it can be resumed.

    Raises:
        InputError: there is no such run.
    """
    folder = records.existing(name, namespace)
    return not records.is_over(folder, records.read_status(folder))


def list_runs() -> list[RunStatus]:
    """The status of every run, by namespace and name."""
    records.forget_expired()
    runs = []
    for folder in store.run_folders():
        with suppress(FileNotFoundError):  # deleted between the two looks
            runs.append(training_progress.add_progress(folder, records.read_status(folder)))
    return runs


def logs(
    name: str,
    namespace: str,
    rank: int | None = None,
    *,
    node: int | None = None,
    role: str | None = None,
    follow: bool = False,
    tail: int | None = None,
) -> Iterator[LogLine]:
    """The lines that a run's pods have written.

    Args:
        name: the release.
        namespace: its namespace.
        rank: only this rank, see `LineSelection`; None for all.
        node: only the pod of this number in its role; None for all.
        role: only pods of this role; None for all.
        follow: go on until the run has ended, lines of all pods as they come; otherwise the lines
            that are there, pod by pod.
        tail: of those that are there, only so many last ones of each start of a container.

    Raises:
        InputError: there is no such run, no such rank or node, or no such role.
    """
    folder = records.existing(name, namespace)
    pods = records.read_status(folder).pods
    roles = list(dict.fromkeys(pod.role for pod in pods))
    if role is not None and role not in roles:
        raise InputError(f"run {name!r} has no role {role!r}", hint=f"it has {', '.join(roles)}")
    numbers = {pod.rank for pod in pods if role in {None, pod.role}}
    if node is not None and node not in numbers:
        ranks = [str(number) for number in sorted(rank for rank in numbers if rank is not None)]
        noun = role or (roles[0] if len(roles) == 1 else ROLE_NODE)
        raise InputError(
            f"run {name!r} has no {noun} {node}", hint=f"it has {noun} {list_some(ranks, _SHOWN)}"
        )
    selection = LineSelection(None, node, role or "")
    if rank is not None:
        selection = _with_rank(name, rank, pods, folder)
    if follow:
        return log_files.follow(folder.logs, lambda: not folder.alive(), selection, tail)
    return log_files.read(folder.logs, selection, tail)


def _with_rank(
    name: str, rank: int, pods: Sequence[PodStatus], folder: store.RunFolder
) -> LineSelection:
    """The selection of the pod in which a rank's process runs.

    Raises:
        InputError: there is no such rank, or nothing says which pod it is in.
    """
    for pod in pods:
        if pod.ranks is not None and rank in pod.ranks:
            if any(pod.role == ROLE_LAUNCHER for pod in pods):
                return of_mpi(rank)
            # The ranks of a role are not those of torchrun's lines.
            return LineSelection(rank if pod.role == ROLE_NODE else None, pod.rank, pod.role)
    ends = [pod.ranks.stop for pod in pods if pod.ranks is not None]
    if ends and all(pod.ranks is not None for pod in pods if pod.role == ROLE_NODE):
        raise no_rank(rank, name, max(ends))
    if any(pod.role == ROLE_LAUNCHER for pod in pods):
        return of_mpi(rank)
    spec = folder.spec()
    files = expand(spec.manifests, name=spec.name, namespace=spec.namespace).configmaps
    plan = (files.get(name) or {}).get("plan.json", b"").decode("utf-8", "replace")
    places = processes.elastic(plan)
    for pod in pods:
        if rank in places.get(pod.name, ()):
            return LineSelection(None, pod.rank, pod.role)
    if places:
        raise no_rank(rank, name, len(places))
    if any(
        not file.writers.fixed for file in log_files.files(folder.logs) if file.writers.prefixed
    ):
        return LineSelection(rank)
    roles = sorted({pod.role for pod in pods} - {ROLE_NODE, ROLE_LAUNCHER})
    fix = f"--role {roles[-1]} --node N" if roles else "--node N"
    raise not_fixed(rank, name, "nothing says how its processes are numbered", fix)


def events(name: str, namespace: str) -> list[Manifest]:
    """The Events of a run, in order of time.

    Raises:
        InputError: there is no such run.
    """
    folder = records.existing(name, namespace)
    elastic_events = run_events.read(folder.path / shared_folder.FOLDER / shared_folder.EVENTS)
    return sorted(
        [*run_events.read(folder.events), *elastic_events],
        key=lambda event: reading.time(event) or 0.0,
    )


# How long a supervisor may take to end its pods, beyond their grace period.
STOP_MARGIN = 10.0


def end(folder: store.RunFolder) -> int:
    """End a run in order where its supervisor lives, else by force.

    Returns:
        How many processes had to be killed from outside.
    """
    if folder.alive():
        signal_supervisor(folder, signal.SIGTERM)
        folder.wait_dead(_grace(folder) + STOP_MARGIN)
    path = [str(folder.path)]
    return process_tree.kill(names.ENV_SUPERVISOR, path) + process_tree.kill(names.ENV_RUN, path)


def _grace(folder: store.RunFolder) -> float:
    try:
        return folder.spec().grace
    except RunError:
        return 0.0


def remove_claims(folder: store.RunFolder) -> tuple[list[str], dict[str, Path]]:
    """Remove the claims that are deleted with a release; all stay for a broken record.

    Returns:
        The release's objects without what stays, and that with its folder: claims, and what a
        master remembers.
    """
    try:
        spec = folder.spec()
    except RunError:
        return [], {"volumes": folder.claims}
    release = expand(spec.manifests, name=spec.name, namespace=spec.namespace)
    removed = list(release.objects)
    persistent: dict[str, Path] = {}
    for claim in release.claims:
        path = folder.claims / claim.name
        if claim.keep:
            removed.remove(f"PersistentVolumeClaim/{claim.name}")
            persistent[f"PersistentVolumeClaim/{claim.name}"] = path
        else:
            store.remove_tree(path)
    if release.elastic is not None and (memory := shared_folder.memory(folder, spec.name)).is_dir():
        removed = [name for name in removed if name != f"ConfigMap/{memory.name}"]
        persistent[f"ConfigMap/{memory.name}"] = memory
    return removed, persistent


def signal_supervisor(folder: store.RunFolder, number: signal.Signals) -> None:
    """Send a signal to the guardian of a run, or to its supervisor without one.

    That is the one whose parent does not carry the mark.
    """
    processes = process_tree.find_marked(names.ENV_SUPERVISOR, [str(folder.path)])
    pids = {process.pid for process in processes}
    process_tree.send(
        [process for process in processes if process_tree.parent(process) not in pids], number
    )


def _backoff_scale() -> float:
    """Return the scale of the back-off, from the environment.

    Raises:
        InputError: it is no number that can be one.
    """
    text = os.environ.get(names.ENV_BACKOFF_SCALE, "")
    try:
        value = float(text) if text else backoff.DEFAULT_SCALE
    except ValueError:
        value = -1.0
    if value < 0:
        raise InputError(
            f"{names.ENV_BACKOFF_SCALE} is {text!r}", hint="set it to a number such as 0.1 or 1"
        )
    return value
