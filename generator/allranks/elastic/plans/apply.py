"""Applying ScalePlans to the desired state of a job.

First the pods that a plan names are created and removed, then each type gets the number that the
plan sets. A type without a number keeps its own. Members whose pod has failed or is gone do not
count, so that they are replaced.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from allranks import names
from allranks.elastic import events, members, pods
from allranks.elastic.api.plan import (
    MANUAL,
    PLAN_FAILED,
    PLAN_SUCCEEDED,
    PLAN_SUPERSEDED,
    GroupAsk,
    ScalePlan,
    parse_pod_name,
)
from allranks.elastic.events import INVALID, NO_SUCH_POD, NO_TEMPLATE
from allranks.elastic.members import FAILED, SUCCEEDED, MemberGroup
from allranks.elastic.plans import named_pods, order, rolling_resize
from allranks.elastic.plans.limits import bounds, clamp, usage
from allranks.elastic.plans.named_pods import Notes
from allranks.elastic.plans.status import PlanOutcome
from allranks.elastic.pods import metadata as pod_metadata
from allranks.elastic.target import PlanNotes
from allranks.humanize import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from allranks.elastic.api.job import ElasticJob
    from allranks.elastic.api.plan import PodMeta
    from allranks.elastic.members import Member
    from allranks.elastic.resources import ResourceAmounts
    from allranks.elastic.target import DesiredState


# The order in which types get their share of the limits: who is needed most goes first.
_FIRST = (names.ROLE_PS, names.ROLE_CHIEF, names.ROLE_WORKER)
_NOTES_MAX = 8
_NO_ASK = GroupAsk()


@dataclass(frozen=True, slots=True)
class Applied:
    """The desired state with a plan applied.

    Attributes:
        target: the target.
        clamped: what the job did not allow, in sentences.
        odd: what could not be done as written, in sentences.
    """

    target: DesiredState
    clamped: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()


def refusal(job: ElasticJob, plan: ScalePlan) -> tuple[str, str] | None:
    """Return why a plan cannot be applied, as reason and sentence; None where it can."""
    if plan.invalid:
        return INVALID, plan.invalid
    kinds = {kind for kind, ask in plan.groups.items() if ask.replicas}
    kinds |= {meta.type for meta in plan.create}
    for kind in sorted(kinds):
        stranger = job.workers_alone and kind not in job.replicas
        if stranger or pods.template_of(job, kind) is None:
            reason = f"; with {job.strategy} all pods are workers" if job.workers_alone else ""
            return NO_TEMPLATE, f"the job has no pod template for {kind}{reason}"
    return None


def nothing_left(
    target: DesiredState, plan: ScalePlan, job: ElasticJob, foreign: Collection[str]
) -> tuple[str, str] | None:
    """Return why a plan can change nothing: none of its pods exists; None where some do.

    Args:
        target: the target.
        plan: a plan that `refusal` accepts.
        job: the job.
        foreign: names of other owners' pods, which may look like the job's.
    """
    removals = (*plan.remove, *plan.migrate)
    if plan.groups or plan.create or plan.ps_hosts or not removals:
        return None
    unknown_pods = named_pods.unknown(job, target.groups, plan, foreign)
    if len(unknown_pods) < len(removals):
        return None
    more = f", nor are {len(unknown_pods) - 1} more" if len(unknown_pods) > 1 else ""
    return NO_SUCH_POD, f"{unknown_pods[0]} is no pod of this job that runs{more}"


def apply_plan(
    target: DesiredState, plan: ScalePlan, job: ElasticJob, foreign: Collection[str] = ()
) -> Applied:
    """Apply a plan to the desired state.

    Args:
        target: the target.
        plan: a plan that `refusal` accepts.
        job: the job.
        foreign: names of other owners' pods, which may look like the job's.
    """
    groups, notes = dict(target.groups), Notes()
    stale = order.stale_types(plan, target)
    notes.odd.extend(f"{kind}: a newer plan has set the number" for kind in sorted(stale))
    creations = _by_type(plan.create, stale)
    for kind, metas in _by_type(plan.remove, stale).items():
        before = groups.get(kind) or MemberGroup(kind)
        # A number holds after what goes by name, and has bounds of its own.
        more = None if plan.groups.get(kind, _NO_ASK).replicas else len(creations.get(kind, ()))
        group = named_pods.remove(job, before, metas, notes, foreign, more=more)
        groups |= {kind: group} if kind in groups else {}
    for kind, metas in creations.items():
        groups[kind] = named_pods.create(job, groups, kind, metas, notes)
    for kind, metas in _by_type(plan.migrate, stale).items():
        group = groups.get(kind) or MemberGroup(kind)
        groups[kind] = named_pods.migrate(job, group, metas, notes)
    if plan.ps_hosts and not job.parameter_servers:
        notes.odd.append("psHosts tells nobody anything: the job's strategy has no such servers")
    hosts = plan.ps_hosts or target.ps_hosts
    asks = {kind: ask for kind, ask in plan.groups.items() if kind not in stale}
    for kind in sorted(asks, key=lambda name: _priority(groups, name, asks[name])):
        groups[kind] = _apply_to_group(job, plan, groups, kind, ps_hosts=hosts, notes=notes)
    if hosts:
        servers = groups.get(names.ROLE_PS) or MemberGroup(names.ROLE_PS)
        if plan.ps_hosts:
            notes.odd.extend(unknown(job, servers, hosts))
        else:
            servers_before = target.groups.get(names.ROLE_PS)
            hosts = ps_hosts_after(job, servers_before, servers, hosts)
    desired = replace(target, groups=count_replaced(target.groups, groups), ps_hosts=hosts)
    return Applied(desired, tuple(notes.clamped[:_NOTES_MAX]), tuple(notes.odd[:_NOTES_MAX]))


def within_bounds(target: DesiredState, job: ElasticJob) -> Applied:
    """Return the desired state within bounds that were edited since its numbers were set.

    Pods are added only in the decision after an edit: a plan may have removed pods that had ended,
    for a reason that the master knows.

    Args:
        target: the target.
        job: the job.

    Returns:
        The target, and in `clamped` which pods go and which come.
    """
    groups, notes = dict(target.groups), []
    was_edited = job.status.get("observedGeneration") != job.generation
    for kind, group in target.groups.items():
        least, most = bounds(job, kind)
        if most is not None and group.replicas > most:
            is_in_use = _server_use_test(job, groups, target.ps_hosts)
            resized = _resize(group, most, is_in_use, Notes())
            change = f"{group.replicas - resized.replicas} of {plural(group.replicas, 'pod')} go"
            reason = f"maxReplicas {job.replicas[kind].max}"
        elif group.replicas < least and was_edited:
            allowed = clamp(job, groups, kind, group.replicas, group.resource)
            resized = members.grow(group, max(0, allowed.replicas - group.replicas))
            change = f"{resized.replicas - group.replicas} more than {group.replicas} are made"
            reason = f"minReplicas {job.replicas[kind].min}"
        else:
            continue
        if resized.replicas != group.replicas:
            groups[kind] = resized
            notes.append(f"{kind}: {change} ({reason})")
    return Applied(replace(target, groups=groups) if notes else target, tuple(notes))


def from_specs(job: ElasticJob) -> ScalePlan:
    """Return the plan that the counts of the job's own spec stand for.

    A job with parameter servers has a chief; where it names none, its first worker is the chief, as
    its master counts it.
    """
    counts = job.requested
    workers = counts.get(names.ROLE_WORKER, 0)
    if job.parameter_servers and names.ROLE_CHIEF not in job.replicas and workers:
        counts |= {names.ROLE_CHIEF: 1, names.ROLE_WORKER: workers - 1}
    asks = {kind: GroupAsk(replicas) for kind, replicas in counts.items()}
    return ScalePlan(name="", namespace=job.namespace, uid="", groups=asks)


def _by_type(metas: tuple[PodMeta, ...], stale: frozenset[str]) -> dict[str, list[PodMeta]]:
    by_type: dict[str, list[PodMeta]] = {}
    for meta in metas:
        if meta.type not in stale:
            by_type.setdefault(meta.type, []).append(meta)
    return by_type


def _priority(groups: dict[str, MemberGroup], kind: str, ask: GroupAsk) -> tuple[bool, int, str]:
    """Return the sort key of a type: shrinking types first, for limits hold for all together."""
    group = groups.get(kind)
    shrinks = group is not None and ask.replicas is not None and ask.replicas < group.replicas
    return (not shrinks, _FIRST.index(kind) if kind in _FIRST else len(_FIRST), kind)


def _apply_to_group(
    job: ElasticJob,
    plan: ScalePlan,
    groups: dict[str, MemberGroup],
    kind: str,
    *,
    ps_hosts: tuple[str, ...],
    notes: Notes,
) -> MemberGroup:
    """Return a group with the number and size that a plan sets."""
    ask, before = plan.groups[kind], groups.get(kind)
    group = before or MemberGroup(kind)
    count = ask.replicas
    if count is None:
        count = group.replicas if before is not None else job.requested.get(kind, 0)
    resource = ask.resource.over(group.resource) if ask.resource else group.resource
    keeps = sum(member.alive for member in group.members) if ask.resource else 0
    allowed = clamp(job, groups, kind, count, resource, keeps=keeps)
    notes.clamped.extend(allowed.notes)
    notes.odd.extend(_gpu_notes(job, kind, ask.resource))
    group_before, group = group, replace(group, resource=allowed.resource)
    if ask.replicas is not None:
        since = max(int(plan.created_at), group.planned_at)
        group = replace(group, plan=plan.name, planned_at=since)
        group = members.without(group, [member for member in group.current if not member.alive])
    group = _resize(group, allowed.replicas, _server_use_test(job, groups, ps_hosts), notes)
    if plan.scale_type == MANUAL and ask.resource:
        group = rolling_resize.mark_for_resize(job, group_before, group)
    return group


def _gpu_notes(job: ElasticJob, kind: str, resource: ResourceAmounts | None) -> Iterator[str]:
    """Yield a note where a plan gives GPUs that neither template nor limits mention."""
    has_gpus = usage(job, kind, None).gpus or (job.limits is not None and job.limits.gpus)
    if resource is not None and resource.gpus and not has_gpus:
        gpus = plural(resource.gpus, "GPU")
        yield f"{kind}: {gpus} for each pod, and neither its template nor resourceLimits has any"


def _resize(
    group: MemberGroup, count: int, is_in_use: Callable[[Member], bool], notes: Notes
) -> MemberGroup:
    have = group.replicas
    if count >= have:
        return members.grow(group, count - have)
    if group.type == names.ROLE_CHIEF and count == 0:
        notes.clamped.append("chief: 0 pods asked for, 1 kept (the training is led by it)")
        count = 1
    if group.type != names.ROLE_PS:
        return members.shrunk(group, have - count, lambda _: False)
    smaller = members.shrunk(group, have - max(count, 1), is_in_use)
    if smaller.replicas > count:
        requested = plural(count, "pod")
        reason = "workers may use them; removePods takes one away"
        notes.clamped.append(f"ps: {requested} asked for, {smaller.replicas} kept ({reason})")
    return smaller


def _server_use_test(
    job: ElasticJob, groups: Mapping[str, MemberGroup], ps_hosts: tuple[str, ...]
) -> Callable[[Member], bool]:
    """Return a test for servers that pods may use: those that `psHosts` names.

    Where no plan named any, pods got all servers that existed when they started.
    """
    if ps_hosts:
        ranks, addresses = _ranks(ps_hosts), set(ps_hosts)
        return lambda server: (
            server.service in addresses if server.service else server.rank in ranks
        )
    others = [group for kind, group in groups.items() if kind != names.ROLE_PS]
    running = any(
        member.observed and not member.ended for group in others for member in group.members
    )
    return lambda _: job.parameter_servers and running


def _ranks(hosts: tuple[str, ...]) -> frozenset[int]:
    """Return the ranks in the addresses of parameter servers."""
    parsed = [parse_pod_name(host.partition(":")[0].partition(".")[0]) for host in hosts]
    return frozenset(name[1] for name in parsed if name is not None and name[0] == names.ROLE_PS)


# How many unfinished plans keep remarks, and how many remarks each.
_NOTES_MAX, _NOTES_PER_PLAN = 32, 8
_NOTE_MAX = 240
# What is kept of pods and addresses, in characters. An API server stores objects of up to 1.5 MiB,
# and a status that has this size is written with each pod that starts.
_SIZE_MAX = 192 * 1024
_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class AdmittedPlans:
    """The desired state with the new plans admitted, and the plans that were finished at once.

    Attributes:
        target: the target with the admitted plans.
        plans: the plans of this round, in order.
        done: the plans that are finished at once, each with its outcome.
    """

    target: DesiredState
    plans: tuple[ScalePlan, ...] = ()
    done: tuple[tuple[ScalePlan, PlanOutcome], ...] = ()


def admit(
    job: ElasticJob, target: DesiredState, plans: Sequence[ScalePlan], foreign: Collection[str] = ()
) -> AdmittedPlans:
    """Admit new plans into the desired state.

    Args:
        job: the job.
        target: its target.
        plans: its plans, finished ones too.
        foreign: names of other owners' pods, which may look like the job's.
    """
    applied = set(target.applied)
    waiting = order.sort(plan for plan in plans if not plan.finished and plan.key not in applied)
    if not waiting:
        return AdmittedPlans(target)
    admitted = _PlanAdmission(job, target, foreign).run(waiting)
    if admitted.target.size <= _SIZE_MAX or admitted.target.size <= target.size:
        return admitted
    return _PlanAdmission(job, target, foreign, measured=True).run(waiting)


class _PlanAdmission:
    """Admits pending ScalePlans into the desired state, one after another."""

    def __init__(
        self,
        job: ElasticJob,
        target: DesiredState,
        foreign: Collection[str],
        *,
        measured: bool = False,
    ) -> None:
        self.job, self.target, self.measured = job, target, measured
        self.foreign = foreign
        self._size = target.size if measured else 0

    def run(self, waiting: Sequence[ScalePlan]) -> AdmittedPlans:
        """Admit the plans, oldest first; the rest waits for the next decision."""
        fresh = waiting[:_AT_ONCE]
        verdicts = [(plan, refusal(self.job, plan)) for plan in waiting]
        standing = [plan for plan, reason in verdicts if reason is None]
        outcomes = [
            (plan, PlanOutcome(PLAN_FAILED, *reason))
            for plan, reason in verdicts[:_AT_ONCE]
            if reason is not None
        ]
        for index, plan in enumerate(standing[: len(fresh) - len(outcomes)]):
            outcome = self._admit(plan, standing[index + 1 :])
            if outcome is not None:
                outcomes.append((plan, outcome))
        return AdmittedPlans(self.target, tuple(fresh), tuple(outcomes))

    def _admit(self, plan: ScalePlan, later: Sequence[ScalePlan]) -> PlanOutcome | None:
        """Admit a plan; return its outcome where it is finished at once."""
        newer = _covering_plan(plan, self.target, later)
        if plan.empty:
            return PlanOutcome(PLAN_SUCCEEDED, "Empty", "it asks for nothing")
        if self.target.end is not None:
            return PlanOutcome(PLAN_FAILED, events.JOB_ENDED, "the job has ended")
        if newer:
            message = f"a newer plan, {newer}, says all that this one does"
            return PlanOutcome(PLAN_SUPERSEDED, "NewerPlan", message)
        lacking = nothing_left(self.target, plan, self.job, self.foreign)
        if lacking is not None:
            return PlanOutcome(PLAN_FAILED, *lacking)
        desired = _with(self.job, self.target, plan, self.foreign)
        if self.measured:
            size = desired.size
            if size > max(_SIZE_MAX, self._size):
                message = (
                    f"with it the job's status would have {size // 1024} KiB of pods and addresses"
                )
                return PlanOutcome(
                    PLAN_FAILED,
                    events.TOO_LARGE,
                    f"{message}; at most {_SIZE_MAX // 1024} are kept",
                )
            self._size = size
        self.target = desired
        return None


def _covering_plan(plan: ScalePlan, target: DesiredState, later: Sequence[ScalePlan]) -> str:
    """Return the name of a newer plan that covers this one; "" for none."""
    stale = order.stale_types(plan, target)
    if stale and stale == plan.types:
        return next(iter(target.groups[kind].plan for kind in sorted(stale)))
    cover = order.covering_plan(plan, later)
    return cover.name if cover is not None else ""


def _with(
    job: ElasticJob, target: DesiredState, plan: ScalePlan, foreign: Collection[str]
) -> DesiredState:
    applied = apply_plan(target, plan, job, foreign)
    notes = PlanNotes(_shorten(applied.clamped), _shorten((*applied.odd, *plan.problems)))
    plan_notes = dict(target.notes)
    if (notes.clamped or notes.odd) and len(plan_notes) < _NOTES_MAX:
        plan_notes[plan.key] = notes
    return replace(
        applied.target, plan=plan.name, applied=(*target.applied, plan.key), notes=plan_notes
    )


def _shorten(notes: Sequence[str]) -> tuple[str, ...]:
    return tuple([note[:_NOTE_MAX] for note in notes[:_NOTES_PER_PLAN]])


def count_replaced(
    before: Mapping[str, MemberGroup], after: Mapping[str, MemberGroup]
) -> dict[str, MemberGroup]:
    """Return the groups after a plan, counting the pods it replaced as failures or disruptions.

    Args:
        before: the groups before the plan.
        after: the groups with the plan; what they count already is not counted again.
    """
    return {
        kind: _count_replaced(before[kind], group) if kind in before else group
        for kind, group in after.items()
    }


def _count_replaced(before: MemberGroup, after: MemberGroup) -> MemberGroup:
    replaced_members = _replaced_members(before, after)
    failed = sum(member.ended == FAILED for member in replaced_members)
    failures = max(after.failures, before.failures + failed)
    disruptions = max(after.disruptions, before.disruptions + len(replaced_members) - failed)
    if (failures, disruptions) == (after.failures, after.disruptions):
        return after
    return replace(after, failures=failures, disruptions=disruptions)


def _replaced_members(before: MemberGroup, after: MemberGroup) -> list[Member]:
    """Return the members with a pod that are gone and whose rank has a new member."""
    if before.next_id == after.next_id:
        return []
    ids_before = {member.id for member in before.members}
    ids_after = {member.id for member in after.members}
    filled = {member.rank for member in after.current if member.id not in ids_before}
    return [
        member
        for member in before.current
        if member.id not in ids_after
        and member.rank in filled
        and member.ended != SUCCEEDED
        and (member.observed or member.ended)
    ]


_SHOWN_MAX = 60


def ps_hosts_after(
    job: ElasticJob, before: MemberGroup | None, after: MemberGroup, hosts: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the server addresses that hold after a plan that names none.

    Args:
        job: the job.
        before: its servers before the plan; None where it had none.
        after: its servers with the plan.
        hosts: the addresses that held.
    """
    services_before = {
        member.rank: member.service for member in (before.members if before is not None else ())
    }
    services = {member.rank: member.service for member in after.members}
    if services_before.keys() == services.keys():
        return hosts
    removed_services = {
        service for rank, service in services_before.items() if rank not in services and service
    }
    remaining = [
        host
        for host in hosts
        if host not in removed_services and _rank(job, host) in (None, *services)
    ]
    ranks_of_hosts = {_rank(job, host) for host in remaining}
    new_hosts = [
        services[rank] or pod_metadata.address(job, names.ROLE_PS, rank)
        for rank in sorted(services.keys() - services_before.keys() - ranks_of_hosts)
    ]
    ranks = [_rank(job, host) for host in remaining]
    addresses = [*remaining, *(host for host in new_hosts if host not in remaining)]
    if None not in ranks and ranks == sorted(services.keys() & ranks_of_hosts):
        # A place in the list is the index of a server: by rank they stand, and so they stay.
        addresses.sort(key=lambda host: _rank(job, host) or 0)
    return tuple(addresses)


def unknown(job: ElasticJob, servers: MemberGroup, hosts: tuple[str, ...]) -> Iterator[str]:
    """Yield a note for each address of a server that the job does not have."""
    ranks = {server.rank for server in servers.members}
    for host in hosts:
        if _rank(job, host) not in (None, *ranks):
            address = host if len(host) <= _SHOWN_MAX else f"{host[:_SHOWN_MAX]}…"
            yield f"psHosts names {address}, which is not there: nobody is told of it"


def _rank(job: ElasticJob, host: str) -> int | None:
    """Return the rank that an address belongs to; None for an address of no pod of the job."""
    return pod_metadata.rank_at(job, names.ROLE_PS, host)
