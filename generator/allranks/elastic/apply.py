"""What a plan makes of a target.

A plan is read as its writers mean it: pods that it names are made and removed as they are named,
and the number that it sets for a type holds after that. A number that is absent stays; a member
whose pod has failed, or is gone, does not count to it, and the number is made up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from allranks import names
from allranks.elastic import changing, counting, pods, renewing, serving, supersede, verbatim
from allranks.elastic.clamp import bounds, clamp, usage
from allranks.elastic.members import Group
from allranks.elastic.plan import MANUAL, GroupAsk, ScalePlan, parse_pod_name
from allranks.elastic.reasons import INVALID, NO_SUCH_POD, NO_TEMPLATE
from allranks.elastic.verbatim import Notes
from allranks.words import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from allranks.elastic.job import ElasticJob
    from allranks.elastic.members import Member
    from allranks.elastic.plan import PodMeta
    from allranks.elastic.resource import Resource
    from allranks.elastic.target import Target

# The order in which types get their share of the limits: who is needed most goes first.
_FIRST = (names.ROLE_PS, names.ROLE_CHIEF, names.ROLE_WORKER)
_NOTES_MAX = 8
_NO_ASK = GroupAsk()


@dataclass(frozen=True, slots=True)
class Applied:
    """A target with a plan in it.

    Attributes:
        target: the target.
        clamped: what the job did not allow, in sentences.
        odd: what could not be done as it stands, in sentences.
    """

    target: Target
    clamped: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()


def refusal(job: ElasticJob, plan: ScalePlan) -> tuple[str, str] | None:
    """Why a plan cannot be taken, as reason and sentence; None where it can."""
    if plan.invalid:
        return INVALID, plan.invalid
    wanted = {kind for kind, ask in plan.groups.items() if ask.replicas}
    wanted |= {one.type for one in plan.create}
    for kind in sorted(wanted):
        stranger = job.workers_alone and kind not in job.replicas
        if stranger or pods.template_of(job, kind) is None:
            why = f"; with {job.strategy} all pods are workers" if job.workers_alone else ""
            return NO_TEMPLATE, f"the job has no pod template for {kind}{why}"
    return None


def lost(
    target: Target, plan: ScalePlan, job: ElasticJob, foreign: Collection[str]
) -> tuple[str, str] | None:
    """Why nothing of a plan can be done: the job has none of its pods; None where some can be.

    Args:
        target: the target.
        plan: a plan that `refusal` has nothing against.
        job: the job.
        foreign: pods of others, which may be called like one of the job's.
    """
    named = (*plan.remove, *plan.migrate)
    if plan.groups or plan.create or plan.ps_hosts or not named:
        return None
    found = verbatim.unknown(job, target.groups, plan, foreign)
    if len(found) < len(named):
        return None
    more = f", nor are {len(found) - 1} more" if len(found) > 1 else ""
    return NO_SUCH_POD, f"{found[0]} is no pod of this job that runs{more}"


def apply(
    target: Target, plan: ScalePlan, job: ElasticJob, foreign: Collection[str] = ()
) -> Applied:
    """Take a plan into a target.

    Args:
        target: the target.
        plan: a plan that `refusal` has nothing against.
        job: the job.
        foreign: pods of others, which may be called like one of the job's.
    """
    groups, notes = dict(target.groups), Notes()
    stale = supersede.stale_types(plan, target)
    notes.odd.extend(f"{kind}: a newer plan has set the number" for kind in sorted(stale))
    made = _by_type(plan.create, stale)
    for kind, metas in _by_type(plan.remove, stale).items():
        before = groups.get(kind) or Group(kind)
        # A number holds after what goes by name, and has bounds of its own.
        more = None if plan.groups.get(kind, _NO_ASK).replicas else len(made.get(kind, ()))
        group = verbatim.remove(job, before, metas, notes, foreign, more=more)
        groups |= {kind: group} if kind in groups else {}
    for kind, metas in made.items():
        groups[kind] = verbatim.create(job, groups, kind, metas, notes)
    for kind, metas in _by_type(plan.migrate, stale).items():
        group = groups.get(kind) or Group(kind)
        groups[kind] = verbatim.migrate(job, group, metas, notes)
    if plan.ps_hosts and not job.parameter_servers:
        notes.odd.append("psHosts tells nobody anything: the job's strategy has no such servers")
    hosts = plan.ps_hosts or target.ps_hosts
    asks = {kind: ask for kind, ask in plan.groups.items() if kind not in stale}
    for kind in sorted(asks, key=lambda one: _turn(groups, one, asks[one])):
        groups[kind] = _ask(job, plan, groups, kind, ps_hosts=hosts, notes=notes)
    if hosts:
        servers = groups.get(names.ROLE_PS) or Group(names.ROLE_PS)
        if plan.ps_hosts:
            notes.odd.extend(serving.unknown(job, servers, hosts))
        else:
            had = target.groups.get(names.ROLE_PS)
            hosts = serving.followed(job, had, servers, hosts)
    found = replace(target, groups=counting.counted(target.groups, groups), ps_hosts=hosts)
    return Applied(found, tuple(notes.clamped[:_NOTES_MAX]), tuple(notes.odd[:_NOTES_MAX]))


def within(target: Target, job: ElasticJob) -> Applied:
    """A target within bounds that were moved since its numbers were set.

    More pods are made only where the job was edited just now: a plan may have taken away some
    that had ended, and their master knows why.

    Args:
        target: the target.
        job: the job.

    Returns:
        The target, and in `clamped` what goes and what comes.
    """
    groups, notes = dict(target.groups), []
    was_edited = job.status.get("observedGeneration") != job.generation
    for kind, group in target.groups.items():
        least, most = bounds(job, kind)
        if most is not None and group.replicas > most:
            used = _used(job, groups, target.ps_hosts)
            found = _sized(group, most, used, Notes())
            told = f"{group.replicas - found.replicas} of {plural(group.replicas, 'pod')} go"
            why = f"maxReplicas {job.replicas[kind].max}"
        elif group.replicas < least and was_edited:
            allowed = clamp(job, groups, kind, group.replicas, group.resource)
            found = changing.grown(group, max(0, allowed.replicas - group.replicas))
            told = f"{found.replicas - group.replicas} more than {group.replicas} are made"
            why = f"minReplicas {job.replicas[kind].min}"
        else:
            continue
        if found.replicas != group.replicas:
            groups[kind] = found
            notes.append(f"{kind}: {told} ({why})")
    return Applied(replace(target, groups=groups) if notes else target, tuple(notes))


def from_specs(job: ElasticJob) -> ScalePlan:
    """The plan that a job's own counts amount to.

    A job with parameter servers has a chief, and where it names none its first worker is it: so
    its master counts, too.
    """
    asked = job.asked
    workers = asked.get(names.ROLE_WORKER, 0)
    if job.parameter_servers and names.ROLE_CHIEF not in job.replicas and workers:
        asked |= {names.ROLE_CHIEF: 1, names.ROLE_WORKER: workers - 1}
    asks = {kind: GroupAsk(replicas) for kind, replicas in asked.items()}
    return ScalePlan(name="", namespace=job.namespace, uid="", groups=asks)


def _by_type(metas: tuple[PodMeta, ...], stale: frozenset[str]) -> dict[str, list[PodMeta]]:
    found: dict[str, list[PodMeta]] = {}
    for one in metas:
        if one.type not in stale:
            found.setdefault(one.type, []).append(one)
    return found


def _turn(groups: dict[str, Group], kind: str, ask: GroupAsk) -> tuple[bool, int, str]:
    """Types that shrink go first, for the limits hold for all together."""
    group = groups.get(kind)
    shrinks = group is not None and ask.replicas is not None and ask.replicas < group.replicas
    return (not shrinks, _FIRST.index(kind) if kind in _FIRST else len(_FIRST), kind)


def _ask(
    job: ElasticJob,
    plan: ScalePlan,
    groups: dict[str, Group],
    kind: str,
    *,
    ps_hosts: tuple[str, ...],
    notes: Notes,
) -> Group:
    """A group with the number that a plan sets, and what its pods get."""
    ask, before = plan.groups[kind], groups.get(kind)
    group = before or Group(kind)
    count = ask.replicas
    if count is None:
        count = group.replicas if before is not None else job.asked.get(kind, 0)
    resource = ask.resource.over(group.resource) if ask.resource else group.resource
    keeps = sum(one.alive for one in group.members) if ask.resource else 0
    allowed = clamp(job, groups, kind, count, resource, keeps=keeps)
    notes.clamped.extend(allowed.notes)
    notes.odd.extend(_surprising(job, kind, ask.resource))
    had, group = group, replace(group, resource=allowed.resource)
    if ask.replicas is not None:
        since = max(int(plan.created_at), group.planned_at)
        group = replace(group, plan=plan.name, planned_at=since)
        group = changing.without(group, [one for one in group.current if not one.alive])
    group = _sized(group, allowed.replicas, _used(job, groups, ps_hosts), notes)
    if plan.scale_type == MANUAL and ask.resource:
        group = renewing.marked(job, had, group)
    return group


def _surprising(job: ElasticJob, kind: str, asked: Resource | None) -> Iterator[str]:
    """What a plan gives pods that nothing in their job speaks of."""
    known = usage(job, kind, None).gpus or (job.limits is not None and job.limits.gpus)
    if asked is not None and asked.gpus and not known:
        gpus = plural(asked.gpus, "GPU")
        yield f"{kind}: {gpus} for each pod, and neither its template nor resourceLimits has any"


def _sized(group: Group, count: int, used: Callable[[Member], bool], notes: Notes) -> Group:
    have = group.replicas
    if count >= have:
        return changing.grown(group, count - have)
    if group.type == names.ROLE_CHIEF and count == 0:
        notes.clamped.append("chief: 0 pods asked for, 1 kept (the training is led by it)")
        count = 1
    if group.type != names.ROLE_PS:
        return changing.shrunk(group, have - count, lambda _: False)
    found = changing.shrunk(group, have - max(count, 1), used)
    if found.replicas > count:
        asked = plural(count, "pod")
        why = "workers may use them; removePods takes one away"
        notes.clamped.append(f"ps: {asked} asked for, {found.replicas} kept ({why})")
    return found


def _used(
    job: ElasticJob, groups: Mapping[str, Group], ps_hosts: tuple[str, ...]
) -> Callable[[Member], bool]:
    """Whether pods may use a parameter server: one that `psHosts` names.

    Where no plan named any, pods were told of all there were when they started.
    """
    if ps_hosts:
        named, addresses = _ranks(ps_hosts), set(ps_hosts)
        return lambda one: one.service in addresses if one.service else one.rank in named
    others = [group for kind, group in groups.items() if kind != names.ROLE_PS]
    told = any(one.seen and not one.ended for group in others for one in group.members)
    return lambda _: job.parameter_servers and told


def _ranks(hosts: tuple[str, ...]) -> frozenset[int]:
    """The ranks in the addresses of parameter servers, which are called by their rank."""
    found = [parse_pod_name(one.partition(":")[0].partition(".")[0]) for one in hosts]
    return frozenset(one[1] for one in found if one is not None and one[0] == names.ROLE_PS)
