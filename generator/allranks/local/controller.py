"""The decisions of the Job and StatefulSet controllers; pure.

Each function looks at the pods there are and says which to create, whether to stop, and with what
verdict. They are functions of their arguments: the same view gives the same decision, so each rule
can be read, and tested, as a row of a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks import names
from allranks.local.plan.model import BarePlan, Controller, JobPlan, SetPlan
from allranks.model.status import PodPhase
from allranks.status.controllers import ControllerOutcome
from allranks.status.retries import Retries, fails_at_once, out_of_retries

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from allranks.local.backoff import JobBackoff
    from allranks.local.plan.model import FailureRule, SuccessRule
    from allranks.local.pod.lifecycle import PodAttempt


@dataclass(frozen=True, slots=True)
class ControllerEnd:
    """The end of a controller.

    Attributes:
        outcome: how it ends.
        reason: one word, as Kubernetes' conditions have it.
        message: a sentence.
        pod: the pod that decided it; "" when it was not one alone.
        exit_code: of the container that decided it; None likewise.
        controller: the controller; "" where there is only one to speak of.
    """

    outcome: ControllerOutcome
    reason: str
    message: str
    pod: str = ""
    exit_code: int | None = None
    controller: str = ""


@dataclass(frozen=True, slots=True)
class ControllerDecision:
    """The next step of a controller.

    Attributes:
        create: indexes that get a new pod now.
        verdict: its end; all pods that are left are stopped then.
        wake_at: when to ask again though nothing happens; None for never.
        waiting: what it waits for, for people; "" for nothing.
        failed_indexes: indexes that failed for good, while the others go on.
    """

    create: tuple[int, ...] = ()
    verdict: ControllerEnd | None = None
    wake_at: float | None = None
    waiting: str = ""
    failed_indexes: frozenset[int] = frozenset()


def decide(
    plan: Controller, pods: Sequence[PodAttempt], now: float, started_at: float, backoff: JobBackoff
) -> ControllerDecision:
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
    job: JobPlan, pods: Sequence[PodAttempt], now: float, started_at: float, backoff: JobBackoff
) -> ControllerDecision:
    """The Job controller's next step; see `decide`."""
    if job.suspend:
        return ControllerDecision(
            verdict=ControllerEnd(
                ControllerOutcome.SUSPENDED, "JobSuspended", "the job is suspended"
            )
        )
    mine = [pod for pod in pods if not pod.stopped]
    failed = [pod for pod in mine if pod.phase is PodPhase.FAILED]
    succeeded = frozenset(pod.index for pod in mine if pod.phase is PodPhase.SUCCEEDED)
    verdict = _job_verdict(job, mine, failed, succeeded, now - started_at)
    if verdict is not None:
        return ControllerDecision(verdict=verdict)
    deadline = started_at + job.deadline if job.deadline is not None else None
    create, retry_at = _to_create(job, mine, succeeded, now, backoff)
    waiting = "back-off before a new pod" if retry_at is not None else ""
    wakes = [at for at in (deadline, retry_at) if at is not None]
    wake_at, failed_indexes = min(wakes, default=None), _failed_indexes(job, failed)
    return ControllerDecision(
        create=create, wake_at=wake_at, waiting=waiting, failed_indexes=failed_indexes
    )


def _job_verdict(
    job: JobPlan,
    pods: Sequence[PodAttempt],
    failed: Sequence[PodAttempt],
    succeeded: frozenset[int],
    age: float,
) -> ControllerEnd | None:
    """The end of a Job; where several rules would end it, the order is the Job controller's."""
    failed_indexes = _failed_indexes(job, failed)
    return (
        _fatal(job, failed)
        or _retries_end(job, pods, failed, failed_indexes, age)
        or _complete(job, succeeded, failed_indexes)
    )


def _fatal(job: JobPlan, failed: Sequence[PodAttempt]) -> ControllerEnd | None:
    for pod in failed:
        judged = judge(job.failure_rules, pod.exits)
        if judged.action == FAIL_JOB:
            return _failure(
                "PodFailurePolicy",
                fails_at_once(judged.container, pod.name, judged.exit_code),
                pod.name,
                judged.exit_code,
            )
    return None


def _retries_end(
    job: JobPlan,
    pods: Sequence[PodAttempt],
    failed: Sequence[PodAttempt],
    failed_indexes: frozenset[int],
    age: float,
) -> ControllerEnd | None:
    if _past_limit(job, pods, failed):
        return _out_of_retries(job, "BackoffLimitExceeded", failed_indexes)
    if job.deadline is not None and age >= job.deadline:
        return _failure("DeadlineExceeded", f"the job ran longer than {job.deadline:g} s")
    if job.max_failed_indexes is not None and len(failed_indexes) > job.max_failed_indexes:
        return _out_of_retries(job, "MaxFailedIndexesExceeded", failed_indexes)
    return None


def _complete(
    job: JobPlan, succeeded: frozenset[int], failed_indexes: frozenset[int]
) -> ControllerEnd | None:
    if is_met(job.success_rules, succeeded):
        return ControllerEnd(
            ControllerOutcome.COMPLETE, "SuccessPolicy", "the success policy is met"
        )
    indexes = frozenset(pod.index for pod in job.pods)
    if indexes <= succeeded:
        return ControllerEnd(ControllerOutcome.COMPLETE, "CompletionsReached", "all pods succeeded")
    if indexes <= succeeded | failed_indexes:
        return _out_of_retries(job, "FailedIndexes", failed_indexes - succeeded)
    return None


def _out_of_retries(job: JobPlan, reason: str, failed_indexes: frozenset[int]) -> ControllerEnd:
    allowed = Retries(
        limit=job.backoff_limit,
        per_index=job.backoff_limit_per_index,
        max_failed=job.max_failed_indexes,
        pods=len(job.pods),
        without_retry=any(rule.action == FAIL_INDEX for rule in job.failure_rules),
    )
    return _failure(reason, out_of_retries(reason, allowed, len(failed_indexes)))


def _failure(
    reason: str, message: str, pod: str = "", exit_code: int | None = None
) -> ControllerEnd:
    return ControllerEnd(ControllerOutcome.FAILED, reason, message, pod, exit_code)


def _past_limit(job: JobPlan, pods: Sequence[PodAttempt], failed: Sequence[PodAttempt]) -> bool:
    """Whether failed pods, or restarts inside pods that live, have used up the retries."""
    if (
        job.backoff_limit_per_index is None
        and len(_counted_failures(job, failed)) > job.backoff_limit
    ):
        return True
    restarts = sum(pod.restarts for pod in pods if pod.active)
    return restarts > 0 and restarts >= max(job.backoff_limit, 1)


def _counted_failures(job: JobPlan, failed: Iterable[PodAttempt]) -> list[PodAttempt]:
    """The failed pods that count against the retries."""
    return [pod for pod in failed if judge(job.failure_rules, pod.exits).action != IGNORE]


def _failed_indexes(job: JobPlan, failed: Sequence[PodAttempt]) -> frozenset[int]:
    """The indexes that have failed, where each has its own limit."""
    if job.backoff_limit_per_index is None:
        return frozenset()
    counts: dict[int, int] = {}
    failed_indexes = set()
    for pod in _counted_failures(job, failed):
        counts[pod.index] = counts.get(pod.index, 0) + 1
        if counts[pod.index] > job.backoff_limit_per_index:
            failed_indexes.add(pod.index)
        if judge(job.failure_rules, pod.exits).action == FAIL_INDEX:
            failed_indexes.add(pod.index)
    return frozenset(failed_indexes)


def index_annotations(plan: Controller, pods: Sequence[PodAttempt], index: int) -> dict[str, str]:
    """The annotations of an index's new pod about the pods before it.

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
    counted = len(_counted_failures(plan, failed))
    ignored = len(failed) - counted
    annotations = {names.JOB_INDEX_FAILURE_COUNT: str(counted)}
    return annotations | ({names.JOB_INDEX_IGNORED_FAILURE_COUNT: str(ignored)} if ignored else {})


def _to_create(
    job: JobPlan,
    pods: Sequence[PodAttempt],
    succeeded: frozenset[int],
    now: float,
    backoff: JobBackoff,
) -> tuple[tuple[int, ...], float | None]:
    """The indexes that get a pod now, and the time of the next check for the others."""
    failed = [pod for pod in pods if pod.phase is PodPhase.FAILED]
    active = {pod.index for pod in pods if pod.active}
    settled_indexes = succeeded | active | _failed_indexes(job, failed)
    missing = [pod.index for pod in job.pods if pod.index not in settled_indexes]
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


def _retry_at(job: JobPlan, pods: Sequence[PodAttempt], index: int, backoff: JobBackoff) -> float:
    """The time at which an index may get its next pod.

    The failures of the whole Job count together, since the last success; with a limit per index,
    each index counts its own.
    """
    own = job.backoff_limit_per_index is not None
    finished = [pod for pod in pods if not pod.active and (pod.index == index or not own)]
    last_success = max(
        (pod.finished_at for pod in finished if pod.phase is PodPhase.SUCCEEDED), default=0.0
    )
    failures = [
        pod.finished_at
        for pod in finished
        if pod.phase is PodPhase.FAILED and pod.finished_at > last_success
    ]
    return max(failures) + backoff.job(len(failures)) if failures else 0.0


# ---------------------------------------------------------------- StatefulSet and bare pods


def decide_set(plan: SetPlan, pods: Sequence[PodAttempt]) -> ControllerDecision:
    """The StatefulSet's next step.

    A StatefulSet restarts its pods for ever. A training run that is one has an end all the same:
    when the last end of every main container of every pod was a good one.
    """
    if not plan.pods:
        return ControllerDecision(
            verdict=ControllerEnd(ControllerOutcome.SUSPENDED, "NoReplicas", "it has no replicas")
        )
    newest = {pod.index: pod for pod in pods}
    if len(newest) == len(plan.pods) and all(_has_ended_well(pod) for pod in newest.values()):
        return ControllerDecision(
            verdict=ControllerEnd(ControllerOutcome.COMPLETE, "RanksDone", "all pods succeeded")
        )
    create = []
    for planned in plan.pods:
        pod = newest.get(planned.index)
        if pod is None or not pod.active:
            create.append(planned.index)
        if plan.ordered and (pod is None or not (pod.ready or _has_ended_well(pod))):
            break
    return ControllerDecision(create=tuple(create))


def _has_ended_well(pod: PodAttempt) -> bool:
    exits = dict(pod.exits)
    return all(exits.get(name) == 0 for name in pod.main)


def decide_bare(plan: BarePlan, pods: Sequence[PodAttempt]) -> ControllerDecision:
    """The next step of a bare pod: it is created once, and ends as it ends."""
    if not pods:
        return ControllerDecision(create=tuple(pod.index for pod in plan.pods))
    pod = pods[-1]
    if pod.phase is PodPhase.SUCCEEDED:
        return ControllerDecision(
            verdict=ControllerEnd(ControllerOutcome.COMPLETE, "PodSucceeded", "the pod succeeded")
        )
    if pod.phase is PodPhase.FAILED:
        return ControllerDecision(verdict=_failure("PodFailed", f"{pod.name} failed", pod.name))
    return ControllerDecision()


FAIL_JOB = "FailJob"
IGNORE = "Ignore"
COUNT = "Count"
FAIL_INDEX = "FailIndex"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A failure policy's verdict on a failed pod, and the container it is based on."""

    action: str
    container: str = ""
    exit_code: int | None = None


def judge(rules: Sequence[FailureRule], exits: Sequence[tuple[str, int]]) -> Judgement:
    """The verdict of the first rule that matches; without one, the failure counts.

    Rules on pod conditions match nothing here: no one drains or preempts a local pod.

    Args:
        rules: of the Job.
        exits: (container, exit code) of the failed pod, main containers first.
    """
    for rule in rules:
        for container, code in exits:
            if _matches(rule, container, code):
                return Judgement(rule.action, container, code)
    return Judgement(COUNT)


def _matches(rule: FailureRule, container: str, code: int) -> bool:
    if code == 0 or not rule.operator or rule.container not in {"", container}:
        return False
    return (code in rule.values) == (rule.operator == "In")


def is_met(rules: Sequence[SuccessRule], succeeded: Collection[int]) -> bool:
    """Whether the succeeded indexes satisfy one of the rules."""
    return any(_is_rule_met(rule, frozenset(succeeded)) for rule in rules)


def _is_rule_met(rule: SuccessRule, succeeded: frozenset[int]) -> bool:
    if rule.indexes is None:
        return rule.count is not None and len(succeeded) >= rule.count
    needed = len(rule.indexes) if rule.count is None else rule.count
    return len(succeeded & rule.indexes) >= needed
