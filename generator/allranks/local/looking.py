"""What can be seen of the runs of this machine: how they stand, what they write, what happened."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from allranks.errors import InputError
from allranks.local import happenings, logfiles, records, store
from allranks.local.elastic import board
from allranks.model.processes import no_rank, not_fixed
from allranks.names import ROLE_LAUNCHER, ROLE_NODE, ROLE_WORKER
from allranks.status import events as reading
from allranks.words import some

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.local.logfiles import LogLine
    from allranks.model.manifest import Manifest
    from allranks.model.status import RunStatus

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
    node: int | None = None,
    *,
    role: str | None = None,
    rank: int | None = None,
    follow: bool = False,
    tail: int | None = None,
) -> Iterator[LogLine]:
    """The lines that a run's pods have written.

    Args:
        name: the release.
        namespace: its namespace.
        node: only pods of this number; None for all.
        role: only pods of this role; None for all.
        rank: only lines of this process, where a pod has several.
        follow: go on until the run has ended, lines of all pods as they come; otherwise the lines
            that are there, pod by pod.
        tail: of those that are there, only so many last ones of each start of a container.

    Raises:
        InputError: there is no such run, no such pod, or no such role.
    """
    folder = records.existing(name, namespace)
    pods = records.read_status(folder).pods
    roles = list(dict.fromkeys(pod.role for pod in pods))
    if role is not None and role not in roles:
        raise InputError(f"run {name!r} has no role {role!r}", hint=f"it has {', '.join(roles)}")
    numbers = {pod.rank for pod in pods if role in {None, pod.role}}
    if node is not None and node not in numbers:
        known = sorted(number for number in numbers if number is not None)
        what = role or ROLE_NODE
        raise InputError(
            f"run {name!r} has no {what} {node}",
            hint=f"it has {what} {some([str(number) for number in known], _SHOWN)}",
        )
    chosen = logfiles.Choice(node, role, rank)
    if follow:
        return logfiles.follow(folder.logs, lambda: not folder.alive(), chosen, tail)
    return logfiles.read(folder.logs, chosen, tail)


def node_of(name: str, namespace: str, rank: int) -> tuple[int | None, str]:
    """The number and the role of the pod that a process runs in.

    Raises:
        InputError: there is no such run, no such rank, or nothing says which pod it is in.
    """
    pods = records.read_status(records.existing(name, namespace)).pods
    for pod in pods:
        if pod.ranks is not None and rank in pod.ranks:
            return pod.rank, pod.role
    ends = [pod.ranks.stop for pod in pods if pod.ranks is not None]
    if ends and all(pod.ranks is not None for pod in pods if pod.role in {ROLE_NODE, ROLE_WORKER}):
        raise no_rank(rank, name, max(ends))
    roles = sorted({pod.role for pod in pods} - {ROLE_NODE, ROLE_LAUNCHER})
    fix = f"--role {roles[-1]} --node N" if roles else "--node N"
    raise not_fixed(rank, name, "its processes get their ranks when they start", fix)


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
