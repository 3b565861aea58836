"""How a job ends whose pods alone say it; pure.

Parameter servers never end by themselves, and a program without the worker beside it tells the
master nothing. Then the pods decide: the job has succeeded when its chief has, or all its workers
where it has none; it has failed when somebody it cannot do without was given up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks import names
from allranks.elastic.members import FAILED, SUCCEEDED
from allranks.elastic.pods import naming
from allranks.words import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.elastic.job import ElasticJob
    from allranks.elastic.members import Group, Member
    from allranks_operator.master.podviews import PodView


@dataclass(frozen=True, slots=True)
class End:
    """The end of a job.

    Attributes:
        code: the master's exit code: 0 succeeded, 1 failed.
        message: why, in one sentence.
        workers: the exit code that workers end with: that of the training which failed.
    """

    code: int
    message: str
    workers: int = 0

    @property
    def verdict(self) -> str:
        """The message, marked so that those who replace pods know of the end."""
        return f"{names.JOB_HAS_FAILED}{self.message}" if self.code else self.message


def judge(job: ElasticJob, pods: Mapping[str, PodView], least: int) -> End | None:
    """The end that a job's pods have come to; None while it goes on.

    Args:
        job: the job, with the target that the watcher keeps.
        pods: its pods.
        least: the fewest workers that it can go on with.
    """
    groups = {kind: group for kind, group in job.target.groups.items() if group.current}
    lead = names.ROLE_CHIEF if names.ROLE_CHIEF in groups else names.ROLE_WORKER
    group = groups.get(lead)
    if group is None:
        return None
    ends = {one.rank: _end(job, group, one, pods) for one in group.current}
    done = [rank for rank, end in ends.items() if end == SUCCEEDED]
    if done and len(done) == len([end for end in ends.values() if end != FAILED]):
        return End(0, f"all {lead} pods have succeeded" if len(done) > 1 else f"{lead} succeeded")
    return _failed(job, groups, pods, lead, least)


def _failed(
    job: ElasticJob,
    groups: Mapping[str, Group],
    pods: Mapping[str, PodView],
    lead: str,
    least: int,
) -> End | None:
    for kind, group in groups.items():
        failed = [one for one in group.current if _end(job, group, one, pods) == FAILED]
        if not failed:
            continue
        left = len(group.current) - len(failed)
        first = naming.pod_name(job.name, kind, failed[0].id)
        needed = kind in (names.ROLE_PS, names.ROLE_CHIEF)
        few = kind == names.ROLE_WORKER and left < (max(1, least) if lead == kind else 1)
        if needed or few:
            rest = f", and {left} of {plural(len(group.current), f'{kind} pod')} left"
            return End(1, f"{first} failed too often{'' if needed else rest}")
    return None


def _end(job: ElasticJob, group: Group, member: Member, pods: Mapping[str, PodView]) -> str:
    """How a member has ended; "" where it has not, or may be replaced."""
    pod = pods.get(naming.pod_name(job.name, group.type, member.id))
    if pod is not None and pod.phase == SUCCEEDED:
        return SUCCEEDED
    return member.ended if member.ended in (SUCCEEDED, FAILED) else ""
