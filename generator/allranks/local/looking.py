"""What can be seen of the runs of this machine: how they stand, what they write, what happened."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from allranks.errors import InputError
from allranks.local import happenings, logfiles, records, store
from allranks.local.elastic import board
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
    role: str | None = None,
    follow: bool = False,
    tail: int | None = None,
) -> Iterator[LogLine]:
    """The lines that a run's pods have written.

    Args:
        name: the release.
        namespace: its namespace.
        rank: only this rank; None for all.
        role: only pods of this role; None for all.
        follow: go on until the run has ended, lines of all pods as they come; otherwise the lines
            that are there, pod by pod.
        tail: of those that are there, only so many last ones of each start of a container.

    Raises:
        InputError: there is no such run, no such rank, or no such role.
    """
    folder = records.existing(name, namespace)
    pods = records.read_status(folder).pods
    roles = list(dict.fromkeys(pod.role for pod in pods))
    if role is not None and role not in roles:
        raise InputError(f"run {name!r} has no role {role!r}", hint=f"it has {', '.join(roles)}")
    ranks = {pod.rank for pod in pods if role in {None, pod.role}}
    if rank is not None and rank not in ranks:
        known = ", ".join(str(one) for one in sorted(one for one in ranks if one is not None))
        raise InputError(f"run {name!r} has no rank {rank}", hint=f"its ranks are {known}")
    chosen = logfiles.Choice(rank, role)
    if follow:
        return logfiles.follow(folder.logs, lambda: not folder.alive(), chosen, tail)
    return logfiles.read(folder.logs, chosen, tail)


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
