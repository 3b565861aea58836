"""The scaling of a job: its first plan, the policy's decisions, and its history.

Decisions are pure (`allranks.elastic.policy`); here they become plans and events. A plan is written
once and has a number that was never used, so a master that is killed in between leaves either no
plan or a whole one, which the next master finds.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.elastic.api.plan import AUTO, FINAL, parse_pod_name
from allranks.elastic.pods import metadata as pod_metadata
from allranks.elastic.policy import history, initial_plan, state
from allranks.elastic.policy.observation import WORKER, PolicyDecision
from allranks.elastic.policy.step import step
from allranks.elastic.resources import ResourceAmounts
from allranks.errors import AllranksError
from allranks.k8s.fields import mapping, number, text
from allranks_operator.master import backend as backends
from allranks_operator.master import observation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from allranks.elastic.api.job import ElasticJob, ReplicaSpec
    from allranks.elastic.policy.history import JobRecord
    from allranks.elastic.policy.observation import JobObservation
    from allranks.elastic.policy.state import PolicyState
    from allranks.k8s.manifest import Manifest
    from allranks_operator.master.backend import MasterBackend
    from allranks_operator.master.log import Log
    from allranks_operator.master.options import MasterOptions


_SAVE_SECONDS = 30.0
# A plan that nobody carries out in this time no longer holds back the policy.
_UNANSWERED_SECONDS = 120.0
# How much older the last read job may be than the last read plans.
_STALE_SECONDS = 5.0
_TRIES = 20
_REMEMBERED = 50


class Scaler:
    """Turns decisions into ScalePlans; not for several threads."""

    def __init__(self, backend: MasterBackend, options: MasterOptions, log: Log) -> None:
        """Create it; nothing is requested yet."""
        self._backend, self._options, self._log = backend, options, log
        self._record = history.JobRecord()
        self._saved, self._saved_at = "", 0.0
        self._plan, self._planned_at = "", 0.0
        self._finished_at: float | None = None
        self._events = 0
        self.state: PolicyState | None = None
        self.minimum = 1
        self.begun = 0
        self.decisions: deque[PolicyDecision] = deque(maxlen=_REMEMBERED)

    def begin(self, job: ElasticJob, now: float) -> None:
        """Create the first plan, or take over a job that has one.

        Raises:
            AllranksError: the backend does not answer; to be tried again.
        """
        if self._options.history:
            self._saved = self._backend.history()
            self._record = history.read(self._saved)
        plan = initial_plan.plan(outline(job, self._record), self._options.policy)
        self.minimum = plan.minimum
        waiting = self._unfinished_plan(job)
        if job.target.groups or waiting is not None:
            self._take_over(job, plan, waiting, now)
            return
        first = PolicyDecision("FirstPlan", plan.message)
        first_number = next_number(job, self._backend.plans())
        self._create(job, partial(first_plan, job, plan), first_number, now)
        self.record(job, first)
        self.state = self._start(job, plan, plan.groups[WORKER].replicas, plan.fixed, now)

    def decide(self, job: ElasticJob, observation: JobObservation, now: float) -> None:
        """Ask the policy, and create the plans of its decisions.

        Raises:
            AllranksError: a plan could not be made; the decision is made again later.
        """
        if self.state is None or job.suspend or job.deleting:
            return
        observation = replace(observation, settled=self._is_settled(job, now))
        new_state, decisions = step(self.state, observation, now)
        changes = [decision for decision in decisions if decision.changes]
        if changes:
            first_number = next_number(job, self._backend.plans())
        for offset, decision in enumerate(changes):
            make = partial(scale_plan, job, decision)
            self._create(job, make, first_number + offset, now)
        # Only now: what could not be planned is decided again.
        self.state = new_state
        for decision in decisions:
            self.record(job, decision)
        if now - self._saved_at >= _SAVE_SECONDS:
            self.save(job, now)

    def record(self, job: ElasticJob, decision: PolicyDecision) -> None:
        """Log a decision, and write an Event; a failure to write it is only logged."""
        self.decisions.append(decision)
        write = self._log.warning if decision.warning else self._log.info
        write(decision.message, reason=decision.reason)
        self._events += 1
        try:
            self._backend.record_event(
                backends.event(job, decision, self._events, datetime.now(UTC))
            )
        except AllranksError as error:
            self._log.warning("an Event could not be made", reason=decision.reason, why=str(error))

    def generation(self, job: ElasticJob) -> int:
        """The last generation in this job's history; 0 for none."""
        return self._record.generation if self._record.uid == job.uid else 0

    def save(self, job: ElasticJob, now: float, end: str = "") -> None:
        """Save the history where it has changed."""
        if self.state is None or not self._options.history:
            return
        self._saved_at = now
        content = history.write(history.of(self.state, job.uid, self.begun, end))
        if content == self._saved:
            return
        try:
            self._backend.save_history(content)
        except AllranksError as error:
            # The job does not need it; the next run of this name begins without.
            self._log.warning("the history could not be kept", why=str(error))
        self._saved = content

    def _take_over(
        self, job: ElasticJob, plan: initial_plan.InitialPlan, waiting: Manifest | None, now: float
    ) -> None:
        """Continue where the previous master stopped."""
        group = job.target.groups.get(WORKER)
        desired, fixed = group.replicas if group else 0, plan.fixed
        if waiting is not None:
            self._plan, self._planned_at = text(waiting, "metadata", "name"), now
            resources = mapping(waiting, "spec", "replicaResourceSpecs", WORKER)
            count = number(resources, "replicas")
            desired = desired if count is None else count
        elif group is not None and group.plan and plan_number(job, group.plan) is None:
            fixed = fixed or "it was set by hand"
        self.state = self._start(job, plan, desired, fixed, now)
        self._log.info("took over", workers=desired, fixed=fixed)

    def _start(
        self, job: ElasticJob, plan: initial_plan.InitialPlan, desired: int, fixed: str, now: float
    ) -> PolicyState:
        policy_state = state.begin(
            self._options.policy,
            desired=desired,
            minimum=plan.minimum,
            maximum=plan.maximum,
            now=now,
            fixed=fixed,
        )
        if self._record.uid == job.uid:
            return history.resume(policy_state, self._record)
        memory = {kind: int(size) for kind, size in self._record.memory.items()}
        return replace(policy_state, memory=memory)

    def _unfinished_plan(self, job: ElasticJob) -> Manifest | None:
        """The newest plan of a master of this job that is not finished."""
        unfinished = {
            index: plan
            for plan in self._backend.plans()
            if (index := plan_number(job, text(plan, "metadata", "name"))) is not None
            and text(plan, "status", "phase") not in FINAL
            and _of(plan, job)
        }
        return unfinished[max(unfinished)] if unfinished else None

    def _is_settled(self, job: ElasticJob, now: float) -> bool:
        """Whether the last plan has been carried out."""
        if not self._plan or now - self._planned_at > _UNANSWERED_SECONDS:
            return True
        if self._finished_at is None and self._is_finished(self._plan):
            self._finished_at = now
        finished = self._finished_at is not None and now - self._finished_at >= _STALE_SECONDS
        admitted = self._plan in (job.target.plan, text(job.status, "scalePlan"))
        if admitted or finished:
            self._plan = ""
        return not self._plan

    def _is_finished(self, name: str) -> bool:
        """Whether a plan has ended, well or not."""
        return any(
            text(plan, "metadata", "name") == name and text(plan, "status", "phase") in FINAL
            for plan in self._backend.plans()
        )

    def _create(
        self, job: ElasticJob, make: Callable[[int], Manifest], first_number: int, now: float
    ) -> None:
        """Create a plan under the first free number."""
        for index in range(first_number, first_number + _TRIES):
            if self._backend.create_plan(make(index)):
                self._plan, self._planned_at = name(job, index), now
                self._finished_at = None
                return
        raise AllranksError(
            f"no name is free for a plan: {_TRIES} from {first_number} on are taken"
        )


def _of(plan: Manifest, job: ElasticJob) -> bool:
    """Whether a plan is for this very job, and not for an older one of its name."""
    owners = plan.get("metadata", {}).get("ownerReferences") or []
    return any(owner.get("uid") == job.uid for owner in owners if isinstance(owner, dict))


_STEM = "plan"
# DLRover's own spelling of "manual" has one letter more.
_BY_HAND = ("manual", "manunal")


def outline(job: ElasticJob, earlier: JobRecord) -> initial_plan.JobOutline:
    """The outline of a job that its first plan is computed from."""
    return initial_plan.JobOutline(
        strategy=job.strategy,
        types={kind: _ask(job, spec) for kind, spec in job.trainers.items()},
        limits=job.limits or ResourceAmounts(),
        earlier=earlier,
    )


def _ask(job: ElasticJob, spec: ReplicaSpec) -> initial_plan.Ask:
    return initial_plan.Ask(
        replicas=spec.replicas,
        minimum=spec.min or 0,
        maximum=spec.max or 0,
        resource=observation.asks(spec.template) or ResourceAmounts(),
        scaled=spec.auto_scale and job.optimize_mode not in _BY_HAND,
    )


def next_number(job: ElasticJob, plans: Iterable[Manifest]) -> int:
    """The number of the next plan: more than any that is remembered or there."""
    plan_names = [job.target.plan, text(job.status, "scalePlan")]
    plan_names += [text(plan, "metadata", "name") for plan in plans]
    plan_names += [group.plan for group in job.target.groups.values()]
    numbers = [count for name in plan_names if (count := plan_number(job, name)) is not None]
    return max(numbers, default=-1) + 1


def name(job: ElasticJob, count: int) -> str:
    """The name of a plan."""
    return f"{job.name}-{_STEM}-{count}"


def plan_number(job: ElasticJob, plan: str) -> int | None:
    """The number of a plan by its name; None where no master of this program made it."""
    match = re.fullmatch(rf"{re.escape(job.name)}-{_STEM}-([0-9]{{1,9}})", plan)
    return int(match[1]) if match else None


def first_plan(job: ElasticJob, plan: initial_plan.InitialPlan, number: int) -> Manifest:
    """The ScalePlan of a job's first plan."""
    groups = {
        kind: _group(job, group.replicas, group.resource) for kind, group in plan.groups.items()
    }
    return _plan(job, number, plan.message, groups)


def scale_plan(job: ElasticJob, decision: PolicyDecision, number: int) -> Manifest:
    """The ScalePlan of a decision."""
    kinds = sorted({*decision.replicas, *decision.memory})
    groups = {}
    for kind in kinds:
        memory = decision.memory.get(kind)
        resource = ResourceAmounts(memory_bytes=memory) if memory else None
        groups[kind] = _group(job, decision.replicas.get(kind), resource)
    remove = [{"name": pod, "type": _type_of(pod)} for pod in decision.remove]
    return _plan(job, number, decision.message, groups, remove)


def _type_of(pod: str) -> str:
    parsed = parse_pod_name(pod)
    return parsed[0] if parsed is not None else names.ROLE_WORKER


def _group(
    job: ElasticJob, replicas: int | None, resource: ResourceAmounts | None
) -> dict[str, Any]:
    spec: dict[str, Any] = {} if replicas is None else {"replicas": replicas}
    if resource:
        gpu_key = job.limits.gpu_key if job.limits else ""
        amounts = ResourceAmounts(
            resource.cpu_millis,
            resource.memory_bytes,
            resource.gpus,
            resource.gpu_key or gpu_key,
        )
        spec["resource"] = amounts.as_dict()
    return spec


def _plan(
    job: ElasticJob,
    number: int,
    reason: str,
    groups: Mapping[str, Any],
    remove: Iterable[Mapping[str, Any]] = (),
) -> Manifest:
    spec: dict[str, Any] = {"ownerJob": job.name, "replicaResourceSpecs": dict(groups)}
    if removed := list(remove):
        spec["removePods"] = removed
    servers = groups.get(names.ROLE_PS, {}).get("replicas") or 0
    if job.parameter_servers and servers:
        hosts = [pod_metadata.address(job, names.ROLE_PS, rank) for rank in range(servers)]
        spec["psHosts"] = hosts
    return {
        "apiVersion": names.ELASTIC_API_VERSION,
        "kind": names.SCALE_PLAN,
        "metadata": {
            "name": name(job, number),
            "namespace": job.namespace,
            "labels": {
                names.SCALE_TYPE: AUTO,
                names.EDL_NAME: job.name,
                names.APP_PART_OF: names.PART_OF,
            },
            "annotations": {names.WHY: reason},
            "ownerReferences": [
                {
                    "apiVersion": names.ELASTIC_API_VERSION,
                    "kind": names.ELASTIC_JOB,
                    "name": job.name,
                    "uid": job.uid,
                }
            ],
        },
        "spec": spec,
    }
