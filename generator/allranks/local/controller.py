"""What a controller does next: the decisions of the Job and StatefulSet controllers.

Each function looks at the pods there are and says which to create, whether to stop, and with what
verdict. They are functions of their arguments: the same view gives the same decision, so each rule
can be read, and tested, as a row of a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks import names
from allranks.local import policy
from allranks.local.plan import BarePlan, Controller, JobPlan, SetPlan
from allranks.model.status import PodPhase
from allranks.status.controllers import Outcome
from allranks.status.retries import Retries, out_of_retries

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allranks.local.backoff import Backoff


@dataclass(frozen=True, slots=True)
class Verdict:
    """The end of a controller.

    Attributes:
        outcome: how it ends.
        reason: one word, as Kubernetes' conditions have it.
        message: a sentence.
        pod: the pod that decided it; "" when it was not one alone.
        exit_code: of the container that decided it; None likewise.
        controller: the controller; "" where there is only one to speak of.
    """

    outcome: Outcome
    reason: str
    message: str
    pod: str = ""
    exit_code: int | None = None
    controller: str = ""


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod, one attempt of it, as its controller sees it.

    Attributes:
        name: its name.
        index: its completion index or ordinal.
        phase: its phase.
        finished_at: when it ended.
        exits: (container, exit code) of each container's last end, main containers first.
        main: names of the main containers.
        restarts: restarts of its containers that use up a retry of its Job, which they do where
            the pod's restartPolicy is OnFailure.
        ready: whether all its main containers run.
        stopped: whether it was stopped by its controller, and so counts as neither.
    """

    name: str
    index: int
    phase: PodPhase
    finished_at: float = 0.0
    exits: tuple[tuple[str, int], ...] = ()
    main: tuple[str, ...] = ()
    restarts: int = 0
    ready: bool = False
    stopped: bool = False

    @property
    def active(self) -> bool:
        """Whether it has not ended."""
        return self.phase in {PodPhase.PENDING, PodPhase.RUNNING}


@dataclass(frozen=True, slots=True)
class Decision:
    """What is next for a controller.

    Attributes:
        create: indexes that get a new pod now.
        verdict: its end; all pods that are left are stopped then.
        wake_at: when to ask again though nothing happens; None for never.
        waiting: what it waits for, for people; "" for nothing.
    """

    create: tuple[int, ...] = ()
    verdict: Verdict | None = None
    wake_at: float | None = None
    waiting: str = ""


def decide(
    plan: Controller, pods: Sequence[PodView], now: float, started_at: float, backoff: Backoff
) -> Decision:
    """The controller's next step.

    Args:
        plan: what it is to run.
        pods: all pods it has created so far, attempts included, in the order of creation.
        now: the time.
        started_at: when it began.
        backoff: how long retries wait.
    """
    if isinstance(plan, JobPlan):
        return decide_job(plan, pods, now, started_at, backoff)
    if isinstance(plan, SetPlan):
        return decide_set(plan, pods)
    return decide_bare(plan, pods)


# ---------------------------------------------------------------- Job


def decide_job(
    job: JobPlan, pods: Sequence[PodView], now: float, started_at: float, backoff: Backoff
) -> Decision:
    """The Job controller's next step; see `decide`."""
    if job.suspend:
        return Decision(verdict=Verdict(Outcome.SUSPENDED, "JobSuspended", "the job is suspended"))
    mine = [pod for pod in pods if not pod.stopped]
    failed = [pod for pod in mine if pod.phase is PodPhase.FAILED]
    succeeded = frozenset(pod.index for pod in mine if pod.phase is PodPhase.SUCCEEDED)
    verdict = _job_verdict(job, mine, failed, succeeded, now - started_at)
    if verdict is not None:
        return Decision(verdict=verdict)
    deadline = started_at + job.deadline if job.deadline is not None else None
    create, retry_at = _to_create(job, mine, succeeded, now, backoff)
    waiting = "back-off before a new pod" if retry_at is not None else ""
    wakes = [at for at in (deadline, retry_at) if at is not None]
    return Decision(create=create, wake_at=min(wakes, default=None), waiting=waiting)


def _job_verdict(
    job: JobPlan,
    pods: Sequence[PodView],
    failed: Sequence[PodView],
    succeeded: frozenset[int],
    age: float,
) -> Verdict | None:
    """The end of a Job; where several rules would end it, the order is the Job controller's."""
    given_up = _failed_indexes(job, failed)
    return (
        _fatal(job, failed)
        or _exhausted(job, pods, failed, given_up, age)
        or _complete(job, succeeded, given_up)
    )


def _fatal(job: JobPlan, failed: Sequence[PodView]) -> Verdict | None:
    for pod in failed:
        judged = policy.judge(job.failure_rules, pod.exits)
        if judged.action == policy.FAIL_JOB:
            return _failed(
                "PodFailurePolicy",
                f"container {judged.container} of {pod.name} ended with exit code "
                f"{judged.exit_code}, which fails the job at once",
                pod.name,
                judged.exit_code,
            )
    return None


def _exhausted(
    job: JobPlan,
    pods: Sequence[PodView],
    failed: Sequence[PodView],
    given_up: frozenset[int],
    age: float,
) -> Verdict | None:
    if _past_limit(job, pods, failed):
        return _out_of_retries(job, "BackoffLimitExceeded", given_up)
    if job.deadline is not None and age >= job.deadline:
        return _failed("DeadlineExceeded", f"the job ran longer than {job.deadline:g} s")
    if job.max_failed_indexes is not None and len(given_up) > job.max_failed_indexes:
        return _out_of_retries(job, "MaxFailedIndexesExceeded", given_up)
    return None


def _complete(job: JobPlan, succeeded: frozenset[int], given_up: frozenset[int]) -> Verdict | None:
    if policy.is_met(job.success_rules, succeeded):
        return Verdict(Outcome.COMPLETE, "SuccessPolicy", "the success policy is met")
    indexes = frozenset(pod.index for pod in job.pods)
    if indexes <= succeeded:
        return Verdict(Outcome.COMPLETE, "CompletionsReached", "all pods succeeded")
    if indexes <= succeeded | given_up:
        return _out_of_retries(job, "FailedIndexes", given_up - succeeded)
    return None


def _out_of_retries(job: JobPlan, reason: str, given_up: frozenset[int]) -> Verdict:
    allowed = Retries(
        limit=job.backoff_limit,
        per_index=job.backoff_limit_per_index,
        max_failed=job.max_failed_indexes,
        pods=len(job.pods),
        without_retry=any(rule.action == policy.FAIL_INDEX for rule in job.failure_rules),
    )
    return _failed(reason, out_of_retries(reason, allowed, len(given_up)))


def _failed(reason: str, message: str, pod: str = "", exit_code: int | None = None) -> Verdict:
    return Verdict(Outcome.FAILED, reason, message, pod, exit_code)


def _past_limit(job: JobPlan, pods: Sequence[PodView], failed: Sequence[PodView]) -> bool:
    """Whether failed pods, or restarts inside pods that live, have used up the retries."""
    if job.backoff_limit_per_index is None and len(_counted(job, failed)) > job.backoff_limit:
        return True
    restarts = sum(pod.restarts for pod in pods if pod.active)
    return restarts > 0 and restarts >= max(job.backoff_limit, 1)


def _counted(job: JobPlan, failed: Iterable[PodView]) -> list[PodView]:
    """Failed pods that use up a retry."""
    return [
        pod for pod in failed if policy.judge(job.failure_rules, pod.exits).action != policy.IGNORE
    ]


def _failed_indexes(job: JobPlan, failed: Sequence[PodView]) -> frozenset[int]:
    """Indexes that are given up, where each index has its own limit."""
    if job.backoff_limit_per_index is None:
        return frozenset()
    counts: dict[int, int] = {}
    given_up = set()
    for pod in _counted(job, failed):
        counts[pod.index] = counts.get(pod.index, 0) + 1
        if counts[pod.index] > job.backoff_limit_per_index:
            given_up.add(pod.index)
        if policy.judge(job.failure_rules, pod.exits).action == policy.FAIL_INDEX:
            given_up.add(pod.index)
    return frozenset(given_up)


def index_annotations(plan: Controller, pods: Sequence[PodView], index: int) -> dict[str, str]:
    """What a new pod of an index is told about the pods before it.

    Only pods of a Job with a limit per index are told anything.

    Args:
        plan: the controller.
        pods: the pods it has created so far.
        index: which index gets a new pod.
    """
    if not isinstance(plan, JobPlan) or plan.backoff_limit_per_index is None:
        return {}
    mine = [pod for pod in pods if pod.index == index and not pod.stopped]
    failed = [pod for pod in mine if pod.phase is PodPhase.FAILED]
    counted = len(_counted(plan, failed))
    ignored = len(failed) - counted
    found = {names.JOB_INDEX_FAILURE_COUNT: str(counted)}
    return found | ({names.JOB_INDEX_IGNORED_FAILURE_COUNT: str(ignored)} if ignored else {})


def _to_create(
    job: JobPlan,
    pods: Sequence[PodView],
    succeeded: frozenset[int],
    now: float,
    backoff: Backoff,
) -> tuple[tuple[int, ...], float | None]:
    """Indexes that get a pod now, and when to look again for those that wait."""
    failed = [pod for pod in pods if pod.phase is PodPhase.FAILED]
    active = {pod.index for pod in pods if pod.active}
    done = succeeded | active | _failed_indexes(job, failed)
    missing = [pod.index for pod in job.pods if pod.index not in done]
    room = max(0, job.parallelism - len(active))
    due: list[int] = []
    waits: list[float] = []
    for index in missing:
        at = _retry_at(job, pods, index, backoff)
        if at <= now:
            due.append(index)
        else:
            waits.append(at)
    create = tuple(due[:room])
    waiting = waits and len(create) < room
    return create, min(waits) if waiting else None


def _retry_at(job: JobPlan, pods: Sequence[PodView], index: int, backoff: Backoff) -> float:
    """When an index may get its next pod.

    The failures of the whole Job count together, since the last success; with a limit per index,
    each index counts its own.
    """
    own = job.backoff_limit_per_index is not None
    ended = [pod for pod in pods if not pod.active and (pod.index == index or not own)]
    last_success = max(
        (pod.finished_at for pod in ended if pod.phase is PodPhase.SUCCEEDED), default=0.0
    )
    failures = [
        pod.finished_at
        for pod in ended
        if pod.phase is PodPhase.FAILED and pod.finished_at > last_success
    ]
    return max(failures) + backoff.job(len(failures)) if failures else 0.0


# ---------------------------------------------------------------- StatefulSet and bare pods


def decide_set(plan: SetPlan, pods: Sequence[PodView]) -> Decision:
    """The StatefulSet's next step.

    A StatefulSet restarts its pods for ever. A training run that is one has an end all the same:
    when the last end of every main container of every pod was a good one.
    """
    if not plan.pods:
        return Decision(verdict=Verdict(Outcome.SUSPENDED, "NoReplicas", "it has no replicas"))
    newest = {pod.index: pod for pod in pods}
    if len(newest) == len(plan.pods) and all(_ended_well(pod) for pod in newest.values()):
        return Decision(verdict=Verdict(Outcome.COMPLETE, "RanksDone", "all pods succeeded"))
    create = []
    for planned in plan.pods:
        pod = newest.get(planned.index)
        if pod is None or not pod.active:
            create.append(planned.index)
        if plan.ordered and (pod is None or not (pod.ready or _ended_well(pod))):
            break
    return Decision(create=tuple(create))


def _ended_well(pod: PodView) -> bool:
    exits = dict(pod.exits)
    return all(exits.get(name) == 0 for name in pod.main)


def decide_bare(plan: BarePlan, pods: Sequence[PodView]) -> Decision:
    """A bare pod is created once, and ends as it ends."""
    if not pods:
        return Decision(create=tuple(pod.index for pod in plan.pods))
    pod = pods[-1]
    if pod.phase is PodPhase.SUCCEEDED:
        return Decision(verdict=Verdict(Outcome.COMPLETE, "PodSucceeded", "the pod succeeded"))
    if pod.phase is PodPhase.FAILED:
        return Decision(verdict=_failed("PodFailed", f"{pod.name} failed", pod.name))
    return Decision()
