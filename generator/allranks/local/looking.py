"""What can be seen of the runs of this machine: how they stand, what they write, what happened."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from allranks.errors import InputError
from allranks.local import happenings, logfiles, records, store
from allranks.local.elastic import board
from allranks.model.ranklines import Wanted
from allranks.status import events as reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.local.logfiles import LogLine
    from allranks.model.manifest import Manifest
    from allranks.model.status import RunStatus


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
    numbers = sorted(
        {pod.rank for pod in pods if pod.rank is not None and role in {None, pod.role}}
    )
    wanted = Wanted(rank, node, role or "")
    if node is not None and node not in numbers:
        known = ", ".join(map(str, numbers))
        raise InputError(f"run {name!r} has no node {node}", hint=f"its nodes are {known}")
    if rank is not None and not _expects(folder, wanted, numbers):
        ranks = ", ".join(map(str, _ranks(folder, numbers)))
        raise InputError(f"run {name!r} has no rank {rank}", hint=f"its ranks are {ranks}")
    if follow:
        return logfiles.follow(folder.logs, lambda: not folder.alive(), wanted, tail)
    return logfiles.read(folder.logs, wanted, tail)


def _expects(folder: store.RunFolder, wanted: Wanted, numbers: list[int]) -> bool:
    """Whether there are or will be lines of a rank."""
    there = logfiles.files(folder.logs)
    return wanted.rank in _ranks(folder, numbers) or any(one.is_wanted(wanted) for one in there)


def _ranks(folder: store.RunFolder, numbers: list[int]) -> list[int]:
    """The ranks of a run whose pods have these numbers."""
    count = max((one.writers.count for one in logfiles.files(folder.logs)), default=1)
    return [number * count + at for number in numbers for at in range(count)]


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
