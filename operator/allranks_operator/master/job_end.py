"""The end of a job, judged by its pods alone; pure.

Parameter servers never end by themselves, and a program without the worker beside it tells the
master nothing. Then the pods decide: the job has succeeded when its chief has, or all its workers
where it has none; it has failed when somebody it cannot do without was given up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks import names
from allranks.elastic.members import FAILED, SUCCEEDED
from allranks.elastic.pods import metadata as pod_metadata
from allranks.elastic.policy.observation import PolicyDecision
from allranks.humanize import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.elastic.api.job import ElasticJob
    from allranks.elastic.members import Member, MemberGroup
    from allranks_operator.master.observation import PodView


@dataclass(frozen=True, slots=True)
class JobResult:
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
        """The message, marked so that the operator and the local runtime recognize the end."""
        return f"{names.JOB_HAS_FAILED}{self.message}" if self.code else self.message


def judge(job: ElasticJob, pods: Mapping[str, PodView], minimum: int) -> JobResult | None:
    """The result that a job's pods have come to; None while it goes on.

    Args:
        job: the job, with the target that the operator keeps.
        pods: its pods.
        minimum: the fewest workers that it can go on with.
    """
    groups = {kind: group for kind, group in job.target.groups.items() if group.current}
    lead = names.ROLE_CHIEF if names.ROLE_CHIEF in groups else names.ROLE_WORKER
    group = groups.get(lead)
    if group is None:
        return None
    ends = {rank.rank: _end(job, group, rank, pods) for rank in group.current}
    succeeded = [rank for rank, end in ends.items() if end == SUCCEEDED]
    if succeeded and len(succeeded) == len([end for end in ends.values() if end != FAILED]):
        return JobResult(
            0, f"all {lead} pods have succeeded" if len(succeeded) > 1 else f"{lead} succeeded"
        )
    return _failure(job, groups, pods, lead, minimum)


def _failure(
    job: ElasticJob,
    groups: Mapping[str, MemberGroup],
    pods: Mapping[str, PodView],
    lead: str,
    minimum: int,
) -> JobResult | None:
    for kind, group in groups.items():
        failed = [rank for rank in group.current if _end(job, group, rank, pods) == FAILED]
        if not failed:
            continue
        running = len(group.current) - len(failed)
        first = pod_metadata.pod_name(job.name, kind, failed[0].id)
        needed = kind in (names.ROLE_PS, names.ROLE_CHIEF)
        few = kind == names.ROLE_WORKER and running < (max(1, minimum) if lead == kind else 1)
        if needed or few:
            rest = f", and {running} of {plural(len(group.current), f'{kind} pod')} left"
            return JobResult(1, f"{first} failed too often{'' if needed else rest}")
    return None


def _end(job: ElasticJob, group: MemberGroup, member: Member, pods: Mapping[str, PodView]) -> str:
    """The end of a member; "" where it has not ended, or may be replaced."""
    pod = pods.get(pod_metadata.pod_name(job.name, group.type, member.id))
    if pod is not None and pod.phase == SUCCEEDED:
        return SUCCEEDED
    return member.ended if member.ended in (SUCCEEDED, FAILED) else ""


QUIET_SECONDS = 300.0
# A training that evaluates for ten minutes gets no warning for each evaluation.
_PAUSES = 2.0
_MINUTE = 60.0


@dataclass(slots=True)
class StallDetector:
    """Measures the time without a step, in seconds of the master's clock.

    Attributes:
        since: when anybody reported a step last.
        longest: the longest pause within a generation that ended by itself.
        reported: whether it was said of this one.
    """

    since: float = float("-inf")
    longest: float = 0.0
    reported: bool = False

    def record_step(self, now: float, *, first: bool) -> None:
        """Record that a step was reported.

        Args:
            now: the time.
            first: it is the first one of its generation: what was before it is no pause.
        """
        if not first:
            self.longest = max(self.longest, now - self.since)
        self.since, self.reported = now, False

    def is_stalled(self, now: float, stall: float | None) -> bool:
        """Whether the training hangs.

        Args:
            now: the time.
            stall: how long it may be silent, in seconds; 0 is for ever, and None is a training
                that nobody starts anew.
        """
        return stall is not None and 0 < stall < now - self.since

    def event(self, now: float, stall: float | None) -> PolicyDecision | None:
        """The warning about a long pause, once per pause; None for none.

        Args:
            now: the time.
            stall: how long it may be silent, in seconds; 0 is for ever, and None is a training
                that nobody starts anew.
        """
        silent = now - self.since
        if self.reported or silent < max(QUIET_SECONDS, _PAUSES * self.longest):
            return None
        self.reported = True
        message = (
            f"no step was reported for {silent / _MINUTE:.0f} minutes: a long checkpoint or "
            f"evaluation, or a rank that hangs; {_then(stall)}"
        )
        return PolicyDecision("NoSteps", message, warning=True)


def _then(stall: float | None) -> str:
    if stall is None:
        return "nothing is done about it (no generations of workers, which could be started anew)"
    if not stall:
        return "nothing is done about it (stallSeconds is 0)"
    return f"the training is started anew after {stall:g} s without one (stallSeconds)"
