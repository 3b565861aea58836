"""What can be seen of the runs of this machine: how they stand, what they write, what happened."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from allranks.errors import InputError
from allranks.local import happenings, logfiles, records, store
from allranks.local.elastic import board
from allranks.local.expand import expand
from allranks.model.processes import no_rank, not_fixed
from allranks.model.ranklines import Wanted
from allranks.names import ROLE_LAUNCHER, ROLE_NODE
from allranks.status import events as reading
from allranks.status import processes
from allranks.words import some

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allranks.local.logfiles import LogLine
    from allranks.model.manifest import Manifest
    from allranks.model.status import PodStatus, RunStatus

_SHOWN = 20


def status(name: str, namespace: str) -> RunStatus:
    """The status of a run.

    Raises:
        InputError: there is no such run.
    """
    return records.read_status(records.existing(name, namespace))


def goes_on(name: str, namespace: str) -> bool:
    """Whether a run has not reached its end; a suspended one goes on where it can be resumed.

    Raises:
        InputError: there is no such run.
    """
    folder = records.existing(name, namespace)
    return not records.is_over(folder, records.read_status(folder))


def list_runs() -> list[RunStatus]:
    """The status of every run, by namespace and name."""
    records.forget_expired()
    found = []
    for folder in store.run_folders():
        with suppress(FileNotFoundError):  # deleted between the two looks
            found.append(records.read_status(folder))
    return found


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
        rank: only this rank, see `Wanted`; None for all.
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
        known = [str(number) for number in sorted(one for one in numbers if one is not None)]
        what = role or (roles[0] if len(roles) == 1 else ROLE_NODE)
        raise InputError(
            f"run {name!r} has no {what} {node}", hint=f"it has {what} {some(known, _SHOWN)}"
        )
    wanted = Wanted(None, node, role or "")
    if rank is not None:
        wanted = _with_rank(name, rank, pods, folder)
    if follow:
        return logfiles.follow(folder.logs, lambda: not folder.alive(), wanted, tail)
    return logfiles.read(folder.logs, wanted, tail)


def _with_rank(name: str, rank: int, pods: Sequence[PodStatus], folder: store.RunFolder) -> Wanted:
    """What is wanted of the pod that a process runs in.

    Raises:
        InputError: there is no such rank, or nothing says which pod it is in.
    """
    for pod in pods:
        if pod.ranks is not None and rank in pod.ranks:
            # mpirun's ranks are not those of torchrun's lines.
            return Wanted(rank if pod.role == ROLE_NODE else None, pod.rank, pod.role)
    ends = [pod.ranks.stop for pod in pods if pod.ranks is not None]
    if ends and all(pod.ranks is not None for pod in pods if pod.role == ROLE_NODE):
        raise no_rank(rank, name, max(ends))
    spec = folder.spec()
    files = expand(spec.manifests, name=spec.name, namespace=spec.namespace).configmaps
    plan = (files.get(name) or {}).get("plan.json", b"").decode("utf-8", "replace")
    places = processes.elastic(plan)
    for pod in pods:
        if rank in places.get(pod.name, ()):
            return Wanted(None, pod.rank, pod.role)
    if places:
        raise no_rank(rank, name, len(places))
    if any(not one.writers.fixed for one in logfiles.files(folder.logs) if one.writers.prefixed):
        return Wanted(rank)
    roles = sorted({pod.role for pod in pods} - {ROLE_NODE, ROLE_LAUNCHER})
    fix = f"--role {roles[-1]} --node N" if roles else "--node N"
    raise not_fixed(rank, name, "nothing says how its processes are numbered", fix)


def events(name: str, namespace: str) -> list[Manifest]:
    """What happened in a run, as Events, in their order.

    Raises:
        InputError: there is no such run.
    """
    folder = records.existing(name, namespace)
    told = happenings.read(folder.path / board.FOLDER / board.EVENTS)
    return sorted(
        [*happenings.read(folder.events), *told], key=lambda one: reading.time(one) or 0.0
    )
