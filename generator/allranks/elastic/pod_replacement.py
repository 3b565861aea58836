"""Updating the desired state from the observed pods: which members ended, and who replaces them.

Where the operator replaces pods, a member whose pod failed or is being deleted gets a successor at
once, with the same rank and a new id. Where the job's master replaces pods, the member is marked,
and the master's next plan replaces it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from allranks import names
from allranks.elastic import events, pods
from allranks.elastic import members as elastic_members
from allranks.elastic.api.job import ReplicaSpec, main_index
from allranks.elastic.members import FAILED, GONE, SUCCEEDED, Member, MemberGroup
from allranks.elastic.pods import resources
from allranks.elastic.resources import ResourceAmounts
from allranks.elastic.target import JobEnd
from allranks.humanize import list_some, plural
from allranks.k8s import quantity
from allranks.k8s.fields import clause, items, mapping, string
from allranks.model.status import PodPhase
from allranks.status import failures, pod_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.elastic.api.job import ElasticJob
    from allranks.elastic.observed_pods import ObservedPod, ObservedPods
    from allranks.elastic.target import DesiredState
    from allranks.k8s.manifest import Manifest
    from allranks.status.pod_json import ContainerEnd, RawPod


# A job cannot do without one of these.
_NEEDED = (names.ROLE_PS, names.ROLE_CHIEF)
_NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class EventNote:
    """An Event about the job: reason, message, and whether it is a warning."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Replaced:
    """The desired state after an update from the observed pods.

    Attributes:
        target: the target; its `end` is set where the job cannot go on.
        notes: what happened, for Events.
    """

    target: DesiredState
    notes: tuple[EventNote, ...] = ()


def update_from_pods(
    job: ElasticJob,
    target: DesiredState,
    observed: ObservedPods,
    now: float,
    *,
    ending: bool = False,
) -> Replaced:
    """Update the desired state from the observed pods.

    Args:
        job: the job.
        target: the target.
        observed: its pods.
        now: seconds since the epoch.
        ending: whether the job is at its end, so that no pod is replaced any more.
    """
    notes = _ReplacementNotes()
    groups = _adopt(target, observed, notes)
    reported = None if ending else _reported_end(job, observed)
    over = ending or reported is not None
    for kind, group in groups.items():
        groups[kind] = _PodReplacement(job, group, observed, notes, ending=over).run()
        notes.so_far[kind] = groups[kind].failures + groups[kind].disruptions
    end = reported if over else notes.end or _end_for_too_few_pods(job, groups, notes)
    desired = replace(target, groups=groups)
    if end is not None and target.end is None and not job.suspend:
        desired = replace(desired, end=replace(end, at=int(now)))
    return Replaced(desired, tuple(notes.events()))


class _ReplacementNotes:
    """Collects what happens during an update, for Events."""

    def __init__(self) -> None:
        self.end: JobEnd | None = None
        self.adopted: list[str] = []
        # By type, of all pods that were ever replaced: five that end one after the other are five.
        self.so_far: dict[str, int] = {}
        self._replaced: dict[str, list[str]] = {}
        self._final_failures: list[EventNote] = []

    def replaced(self, kind: str, name: str, reason: str) -> None:
        """Note that a member was replaced."""
        self._replaced.setdefault(kind, []).append(f"{name}: {reason}")

    @property
    def last_final_failure(self) -> str:
        """A clause about the last pod that was given up; "" where it is not known."""
        return f"; {self._final_failures[-1].message}" if self._final_failures else ""

    def give_up(self, name: str, reason: str) -> None:
        """Note that a member is not replaced any more."""
        self._final_failures.append(
            EventNote(events.POD_GIVEN_UP, f"{name}: {reason}", warning=True)
        )

    def fatal(self, name: str, reason: str) -> None:
        """Note a failure that ends the job."""
        self.end = self.end or JobEnd(FAILED, "PodFailed", f"{name}: {reason}")

    def events(self) -> Iterable[EventNote]:
        """Yield one Event for each kind of change, however many pods it concerns."""
        if self.adopted:
            yield EventNote(events.PODS_ADOPTED, _list_pods(self.adopted, "adopted"), warning=True)
        for kind, clauses in self._replaced.items():
            total = self.so_far.get(kind, 0)
            outcome = f"replaced ({total} so far)" if total > len(clauses) else "replaced"
            yield EventNote(events.PODS_REPLACED, _list_pods(clauses, outcome, kind))
        yield from self._final_failures[:_NAMED_MAX]


def _list_pods(of: list[str], outcome: str, kind: str = "") -> str:
    noun = f"{kind} pod" if kind else "pod"
    return f"{plural(len(of), noun)} {outcome}: {list_some(of, _NAMED_MAX, '; ')}"


def _adopt(
    target: DesiredState, observed: ObservedPods, notes: _ReplacementNotes
) -> dict[str, MemberGroup]:
    """Return the groups with pods added that are newer than the record, where a record was lost.

    Where only this snapshot is old, and not the record, the write is refused as a conflict, and
    nothing happens to the pods.
    """
    groups = dict(target.groups)
    unknown: dict[str, list[ObservedPod]] = {}
    for pod in observed.trainers.values():
        group = groups.get(pod.type)
        if group is None or pod.id >= group.next_id:
            unknown.setdefault(pod.type, []).append(pod)
    for kind, newer in unknown.items():
        group = groups.get(kind) or MemberGroup(kind)
        ranks = {member.rank for member in group.members}
        newest = {pod.rank: pod for pod in sorted(newer, key=lambda pod: pod.id)}
        adopted = [pod for pod in newest.values() if pod.rank not in ranks and not pod.deleting]
        members = [*group.members, *(Member(pod.id, pod.rank, observed=True) for pod in adopted)]
        group = elastic_members.with_members(group, sorted(members, key=lambda member: member.id))
        newest_id = max(pod.id for pod in newer)
        groups[kind] = replace(group, next_id=max(group.next_id, newest_id + 1))
        notes.adopted.extend(pod.name for pod in adopted)
    return groups


class _PodReplacement:
    """Updates one group from its pods."""

    def __init__(
        self,
        job: ElasticJob,
        group: MemberGroup,
        observed: ObservedPods,
        notes: _ReplacementNotes,
        *,
        ending: bool,
    ) -> None:
        self.ending = ending
        self.job, self.group, self.observed, self.notes = job, group, observed, notes
        self.spec = job.replicas.get(group.type) or ReplicaSpec(group.type)
        self.next_id = group.next_id
        self.failures, self.disruptions = group.failures, group.disruptions
        self._prefix = pods.pod_name(job.name, group.type, 0)[:-1]

    def run(self) -> MemberGroup:
        """Return the updated group; the same object where nothing changed."""
        before = self.group.members
        members = [self._member(member) for member in before]
        if any(member.leaving for member in members):
            members = self._without_replaced(members)
        if len(members) == len(before) and all(
            new is old for new, old in zip(members, before, strict=True)
        ):
            return self.group
        members.sort(key=lambda member: member.id)
        counted = replace(self.group, failures=self.failures, disruptions=self.disruptions)
        return elastic_members.with_members(counted, members)

    def _name(self, member: Member) -> str:
        return f"{self._prefix}{member.id}"

    def _member(self, member: Member) -> Member:
        pod = self.observed.trainers.get(self._name(member))
        if self.job.suspend and not self.ending:
            return _suspend(member, pod)
        if member.ended:
            return member
        if self.ending:
            return _member_of_ending_job(member, pod)
        return self._without_pod(member) if pod is None else self._with_pod(member, pod)

    def _with_pod(self, member: Member, pod: ObservedPod) -> Member:
        """Return a member whose pod exists."""
        if pod.phase == PodPhase.SUCCEEDED:
            return replace(member, observed=True, ended=SUCCEEDED)
        # A pod that is being deleted and was never observed is left over from an earlier job of
        # the name; the member's own pod is created once it is gone.
        if member.leaving or (pod.deleting and not member.observed):
            return member
        if pod.phase == PodPhase.FAILED or pod.deleting:
            return self._after_failure(replace(member, observed=True), pod)
        return member if member.observed else replace(member, observed=True)

    def _without_pod(self, member: Member) -> Member:
        """Return a member whose pod does not exist: it was lost, or is not created yet."""
        if member.leaving:
            return member
        if not member.observed:
            if self._name(member) in self.observed.foreign:
                self.notes.replaced(self.group.type, self._name(member), "its name is taken")
                return self._successor(member)
            return member
        if self.job.relaunch == "master":
            return replace(member, ended=GONE)
        self.notes.replaced(self.group.type, self._name(member), "its pod is gone")
        self.disruptions += 1
        return self._successor(member)

    def _after_failure(self, member: Member, pod: ObservedPod) -> Member:
        """Return what follows a pod that failed or is being deleted.

        This is the successor, the member marked as failed, or the member as it is.
        """
        if self.job.relaunch == "master":
            return replace(member, ended=FAILED) if pod.ended else member
        sized = replace(member, resource=self.group.resource_of(member))
        verdict = judge(pod.manifest, self.spec, sized)
        if verdict.outcome == "again":
            self.notes.replaced(self.group.type, pod.name, verdict.reason)
            self.failures += verdict.counts
            self.disruptions += not verdict.counts
            return self._successor(member, verdict)
        if verdict.outcome == "none":
            return member
        if verdict.outcome == "fatal":
            self.notes.fatal(pod.name, verdict.reason)
        else:
            self.notes.give_up(pod.name, verdict.reason)
        return replace(member, ended=FAILED)

    def _successor(self, member: Member, verdict: RelaunchVerdict | None = None) -> Member:
        ident = self.next_id
        self.next_id += 1
        # A member that waits to be renewed is renewed by this replacement, whatever its reason.
        resource = None if member.renew else member.resource
        fresh = replace(
            member,
            id=ident,
            observed=False,
            ended="",
            leaving=False,
            renew=False,
            resource=resource,
        )
        if verdict is None:
            return fresh
        avoid = member.avoid
        if verdict.avoid_node and verdict.avoid_node not in avoid:
            avoid = (*avoid, verdict.avoid_node)
        return replace(
            fresh,
            relaunches=member.relaunches + verdict.counts,
            resource=resource if member.renew else verdict.resource or resource,
            avoid=avoid,
        )

    def _without_replaced(self, members: list[Member]) -> list[Member]:
        """Return the members without leaving ones whose successor is ready."""
        successor_readiness: dict[int, bool] = {}
        for member in members:
            if not member.leaving:
                pod = self.observed.trainers.get(self._name(member))
                ready = member.ended == SUCCEEDED or (pod is not None and pod.ready)
                successor_readiness[member.rank] = ready
        return [
            member
            for member in members
            if not (
                member.leaving
                and (
                    successor_readiness.get(member.rank, True)
                    or member.ended
                    or not self._remains(member)
                )
            )
        ]

    def _remains(self, member: Member) -> bool:
        pod = self.observed.trainers.get(self._name(member))
        return pod is not None and not pod.deleting and not pod.ended


def _member_of_ending_job(member: Member, pod: ObservedPod | None) -> Member:
    """Return a member of a job at its end: success is noted, anything else is not its failure."""
    if pod is not None and pod.phase == PodPhase.SUCCEEDED:
        return replace(member, observed=True, ended=SUCCEEDED)
    return member


def _suspend(member: Member, pod: ObservedPod | None) -> Member:
    """Return a member of a suspended job: it is created again later, unless it succeeded."""
    if member.ended:
        return member
    if pod is not None and pod.phase == PodPhase.SUCCEEDED:
        return replace(member, observed=True, ended=SUCCEEDED)
    return replace(member, observed=False) if member.observed else member


def _reported_end(job: ElasticJob, observed: ObservedPods) -> JobEnd | None:
    """Return the job's end where our master reported it to a pod; None where it did not.

    The master itself ends a moment later. Until then, pods that it has just ended are not replaced.
    """
    if job.master != "own":
        return None
    for pod in observed.trainers.values():
        reason = verdict_of_master(pod.manifest) if pod.phase == PodPhase.FAILED else ""
        if reason:
            return JobEnd(FAILED, events.TRAINING_FAILED, clause(reason))
    return None


def _end_for_too_few_pods(
    job: ElasticJob, groups: dict[str, MemberGroup], notes: _ReplacementNotes
) -> JobEnd | None:
    """Return the end of a job that has too few pods left; None where it can go on."""
    if job.relaunch == "master":
        return None
    for kind, group in groups.items():
        failure_count = sum(member.ended == FAILED for member in group.current)
        alive = group.replicas - failure_count
        spec = job.replicas.get(kind)
        least = max(1, (spec.min if spec is not None else None) or 0)
        if failure_count and (kind in _NEEDED or (kind == names.ROLE_WORKER and alive < least)):
            failed = f"{plural(failure_count, f'{kind} pod')} failed too often"
            return JobEnd(FAILED, "TooFewPods", f"{failed}{notes.last_final_failure}")
    return None


Outcome = Literal["again", "give up", "fatal", "none"]

_EXIT_CODE = "ExitCode"
_OOM_REASON, _OOM = "OOMKilled", 247
_HARDWARE = frozenset({201, 202, 14})
_SIGNALLED = 128
# How much more memory a pod gets that had too little, in whole MiB.
_MORE_NUMERATOR, _MORE_DENOMINATOR = 3, 2
_MIB = 1024**2
# A job that fails on this many nodes is not the nodes' fault; and a pod must run somewhere.
_AVOIDED_MAX = 8


@dataclass(frozen=True, slots=True)
class RelaunchVerdict:
    """The consequence of a pod's end.

    Attributes:
        outcome: ``again``: another pod takes its place; ``give up``: no try is left, and the job
            goes on without it where it can; ``fatal``: another try would end the same way, so that
            the job has failed; ``none``: it has not failed.
        reason: a clause about the pod: ``exit code 1``, ``it was evicted``.
        resource: what the next pod gets; None for the same as this one.
        avoid_node: the node that the next pod must not run on; "" for none.
        counts: whether it costs one of the `restartCount` tries.
    """

    outcome: Outcome
    reason: str = ""
    resource: ResourceAmounts | None = None
    avoid_node: str = ""
    counts: bool = True


_NOTHING = RelaunchVerdict("none", counts=False)


def judge(pod: Manifest, spec: ReplicaSpec, member: Member) -> RelaunchVerdict:
    """Return the consequence of a pod's end.

    Args:
        pod: the pod.
        spec: of its replica type.
        member: the member whose pod it is; its `resource` has the pod's amounts.
    """
    parts = pod_json.read_pod(pod)
    disruption = pod_json.disruption(parts)
    if disruption:
        return RelaunchVerdict("again", f"it was no failure ({disruption})", counts=False)
    if parts.phase is not PodPhase.FAILED:
        return _NOTHING
    end = _decisive(parts)
    reason = _reason(end)
    if end.code == names.EXIT_WORKSPACE and _has_workspace(pod):
        return RelaunchVerdict("fatal", f"{reason}: its workspace cannot be unpacked")
    if _final(end, spec):
        return RelaunchVerdict(
            "fatal", f"{reason}, which is final with restartPolicy {spec.restart_policy}"
        )
    if member.relaunches >= spec.restart_count:
        return RelaunchVerdict(
            "give up", f"{reason}, and no try is left (restartCount {spec.restart_count})"
        )
    return _again(end, reason, parts, spec, member)


def _has_workspace(pod: Manifest) -> bool:
    return names.WORKSPACE_DIGEST in mapping(mapping(pod, "metadata"), "annotations")


def verdict_of_master(pod: Manifest) -> str:
    """Return why the job failed, as its master told a pod that ended with it; else ""."""
    parts = pod_json.read_pod(pod)
    if parts.phase is not PodPhase.FAILED or pod_json.disruption(parts):
        return ""
    messages = [end.message for end in pod_json.ends(parts) if not end.previous]
    verdict = next(
        (message for message in messages if message.startswith(names.JOB_HAS_FAILED)), ""
    )
    return verdict.removeprefix(names.JOB_HAS_FAILED)


def _again(
    end: ContainerEnd, reason: str, pod: RawPod, spec: ReplicaSpec, member: Member
) -> RelaunchVerdict:
    """Return another try, with more memory or on another node where that was the cause."""
    if _is_out_of_memory(end):
        more = _more(pod, spec, member)
        amount = quantity.format_bytes(more.memory_bytes or 0)
        return RelaunchVerdict("again", f"it ran out of memory; it gets {amount}", resource=more)
    node = string(pod.spec.get("nodeName"))
    if end.code in _HARDWARE and node and len(member.avoid) < _AVOIDED_MAX:
        return RelaunchVerdict(
            "again", f"{reason} tells of broken hardware on {node}", avoid_node=node
        )
    return RelaunchVerdict("again", reason)


def _decisive(pod: RawPod) -> ContainerEnd:
    """Return the end that a pod is judged by: its first out-of-memory end, else its first end.

    Ends before a restart count only where there are no others.
    """
    ends = list(pod_json.ends(pod))
    last = [end for end in ends if not end.previous] or ends
    oom = [end for end in last if _is_out_of_memory(end)]
    return min(oom or last, key=lambda end: end.at or 0.0)


def _is_out_of_memory(end: ContainerEnd) -> bool:
    return end.reason == _OOM_REASON or end.code == _OOM


def _reason(end: ContainerEnd) -> str:
    if not end.started:
        return f"it was refused ({end.reason})"
    word = "" if end.reason == pod_json.ERROR else end.reason
    meaning = word or failures.meaning(end.reason, end.code)
    return f"exit code {end.code} ({meaning})" if meaning else f"exit code {end.code}"


def _final(end: ContainerEnd, spec: ReplicaSpec) -> bool:
    """Whether another try would end the same way."""
    special = _is_out_of_memory(end) or end.code in _HARDWARE or not end.started
    return spec.restart_policy == _EXIT_CODE and end.code < _SIGNALLED and not special


def _more(pod: RawPod, spec: ReplicaSpec, member: Member) -> ResourceAmounts:
    """Return one and a half times the memory, for the main container."""
    # What is kept of a pod may leave out what it asked for; its template says it as well.
    memory = max(
        resources.memory(_main_resources(pod.spec), None),
        resources.memory(_main_resources(mapping(spec.template, "spec")), member.resource),
    )
    size = -(-memory * _MORE_NUMERATOR // (_MORE_DENOMINATOR * _MIB)) * _MIB
    return replace(member.resource or ResourceAmounts(), memory_bytes=size)


def _main_resources(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    containers = items(spec, "containers")
    return mapping(containers[main_index(containers)], "resources") if containers else {}
