"""Which parameter servers a job's pods are told of, while servers come and go.

A plan's `psHosts` are a master's own word: they hold as they stand until a plan comes without any
and changes which servers there are. Then each server that is new is added, and one that is gone is
dropped. Addresses that are not of this job's pods are left alone: they are for who wrote them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks import names
from allranks.elastic.pods import naming

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.elastic.job import ElasticJob
    from allranks.elastic.members import Group

_SHOWN_MAX = 60


def followed(
    job: ElasticJob, before: Group | None, after: Group, hosts: tuple[str, ...]
) -> tuple[str, ...]:
    """The addresses that hold after a plan that named none.

    Args:
        job: the job.
        before: its servers before the plan; None where it had none.
        after: its servers with the plan.
        hosts: the addresses that held.
    """
    had = {one.rank: one.service for one in (before.members if before is not None else ())}
    have = {one.rank: one.service for one in after.members}
    if had.keys() == have.keys():
        return hosts
    gone = {service for rank, service in had.items() if rank not in have and service}
    kept = [one for one in hosts if one not in gone and _rank(job, one) in (None, *have)]
    told = {_rank(job, one) for one in kept}
    added = [
        have[rank] or naming.address(job, names.ROLE_PS, rank)
        for rank in sorted(have.keys() - had.keys() - told)
    ]
    ranks = [_rank(job, one) for one in kept]
    found = [*kept, *(one for one in added if one not in kept)]
    if None not in ranks and ranks == sorted(have.keys() & told):
        # A place in the list is the index of a server: by rank they stand, and so they stay.
        found.sort(key=lambda one: _rank(job, one) or 0)
    return tuple(found)


def unknown(job: ElasticJob, servers: Group, hosts: tuple[str, ...]) -> Iterator[str]:
    """What is to be said of addresses of servers that the job has not."""
    ranks = {one.rank for one in servers.members}
    for one in hosts:
        if _rank(job, one) not in (None, *ranks):
            shown = one if len(one) <= _SHOWN_MAX else f"{one[:_SHOWN_MAX]}…"
            yield f"psHosts names {shown}, which is not there: nobody is told of it"


def _rank(job: ElasticJob, host: str) -> int | None:
    """The rank that an address is of; None for one that is of no pod of the job's."""
    return naming.rank_at(job, names.ROLE_PS, host)
