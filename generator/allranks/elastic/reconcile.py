"""The differences between target and pods: what to create, and what to delete."""

from __future__ import annotations

from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from allranks.elastic import pods
from allranks.elastic.actions import CreatePod, CreateService, DeletePod, DeleteService
from allranks.elastic.api.plan import parse_pod_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from allranks.elastic.actions import Action
    from allranks.elastic.api.job import ElasticJob
    from allranks.elastic.members import Member
    from allranks.elastic.observed_pods import ObservedPod, ObservedPods
    from allranks.elastic.target import DesiredState


# How many pods are asked for at once, and how many Services. A decision is made anew with each
# change that is seen, and manifests that nobody comes to send are work for nothing; and a look that
# takes long is a turn that no other job gets.
_AT_ONCE = 1_000
_SERVICES_AT_ONCE = 500
_NOTHING: Mapping[str, str] = MappingProxyType({})


class PodDifference(NamedTuple):
    """The differences between the pods of a job and its target.

    Attributes:
        missing: members whose pods are to be made now, each with its replica type.
        unwanted: pods that are to go, each with the reason.
        unsettled: replica types of which something is still to happen.
        withheld: why the missing pods of some replica types are not made, by type (see `withheld`).
    """

    missing: tuple[tuple[str, Member], ...]
    unwanted: tuple[tuple[ObservedPod, str], ...]
    unsettled: frozenset[str]
    withheld: Mapping[str, str] = _NOTHING


def difference(
    job: ElasticJob,
    target: DesiredState,
    observed: ObservedPods,
    pod_names: Collection[str],
    withheld: Mapping[str, str] = _NOTHING,
) -> PodDifference:
    """Compare the pods of a job with its target.

    Args:
        job: the job.
        target: what they are to agree with.
        observed: its pods.
        pod_names: pods that a plan has removed by name, which go though they have ended.
        withheld: why no pod is made of some replica types, by type.
    """
    active = target.end is None and not job.suspend
    lacking = list(_missing(job, target, observed)) if active else []
    # An edit may have removed a template since a plan was admitted; the job's status says so.
    possible = {kind for kind in target.groups if pods.template_of(job, kind) is not None}
    possible -= withheld.keys()
    # Whose name is still held by a pod that is going is made when that has gone.
    missing = tuple(
        [
            (kind, member)
            for kind, member, name in lacking
            if kind in possible and name not in observed.passing
        ]
    )
    unwanted = tuple(_unwanted_pods(job, target, observed, pod_names))
    short = {kind for kind, _, _ in lacking}
    unsettled = short | {pod.type for pod, _ in unwanted}
    for kind, group in target.groups.items():
        if any(member.leaving or member.renew for member in group.members):
            unsettled.add(kind)
    barred = {kind: withheld[kind] for kind in sorted(short & withheld.keys())}
    return PodDifference(missing, unwanted, frozenset(unsettled), barred)


def pod_actions(job: ElasticJob, target: DesiredState, changes: PodDifference) -> Iterator[Action]:
    """Yield the creations and deletions of pods; `requeue_after` says when more are due."""
    secret = pods.token(job) if job.master == "own" else None
    for kind, member in changes.missing[:_AT_ONCE]:
        yield CreatePod(pods.build_pod(job, kind, member, target), secret)
    for pod, reason in changes.unwanted:
        yield DeletePod(pod.name, pod.uid, reason=reason)


def requeue_after(changes: PodDifference, services: Sequence[Action] = ()) -> float | None:
    """Return the seconds until the remaining creations are due; None where there are none.

    Args:
        changes: the pods.
        services: what `service_actions` gave.
    """
    more = len(changes.missing) > _AT_ONCE or len(services) >= _SERVICES_AT_ONCE
    return 0.0 if more else None


def service_actions(
    job: ElasticJob, target: DesiredState, present: Mapping[str, str]
) -> tuple[Action, ...]:
    """Return the creations and deletions of Services; `requeue_after` says when more are due.

    Args:
        job: the job.
        target: what they are to agree with.
        present: the Services that are there, as `JobView.services`.
    """
    return tuple(islice(_services(job, target, present), _SERVICES_AT_ONCE))


def _services(
    job: ElasticJob, target: DesiredState, present: Mapping[str, str]
) -> Iterator[Action]:
    if target.end is not None:
        return
    needed: set[str] = set()
    if pods.needs_services(job):
        for kind, group in target.groups.items():
            for rank in sorted({member.rank for member in group.members}):
                name = pods.service_name(job.name, kind, rank)
                needed.add(name)
                if name not in present:
                    yield CreateService(pods.service(job, kind, rank))
    for name, uid in sorted(present.items()):
        # Without a uid it is another owner's: its name is taken, and that is all.
        if uid and name not in needed and parse_pod_name(name) is not None:
            yield DeleteService(name, uid)


def _missing(
    job: ElasticJob, target: DesiredState, observed: ObservedPods
) -> Iterator[tuple[str, Member, str]]:
    for kind, group in target.groups.items():
        prefix = pods.pod_name(job.name, kind, 0)[:-1]
        for member in group.members:
            name = f"{prefix}{member.id}"
            if not member.ended and not member.leaving and name not in observed.trainers:
                yield kind, member, name


def _unwanted_pods(
    job: ElasticJob, target: DesiredState, observed: ObservedPods, pod_names: Collection[str]
) -> Iterator[tuple[ObservedPod, str]]:
    """Yield the pods to delete, with the reason; a pod newer than the target is none of them."""
    groups = {
        kind: (
            group.next_id,
            {member.id for member in group.members},
            {member.rank for member in group.members},
        )
        for kind, group in target.groups.items()
    }
    for pod in observed.trainers.values():
        next_id, ids, ranks = groups.get(pod.type, (0, (), ()))
        if pod.deleting or pod.id >= next_id:
            continue
        if target.end is not None:
            reason = "" if pod.ended else "the job has ended"
        elif pod.name in pod_names and pod.id not in ids:
            reason = "a plan removed it"
        elif not pod.ended:
            unwanted = "" if pod.id in ids else "it is not wanted any more"
            reason = "the job is suspended" if job.suspend else unwanted
        else:
            # What ended by itself stays for its log, as long as another has its rank.
            reason = "" if pod.id in ids or pod.rank in ranks else "its rank is no more"
        if reason:
            yield pod, reason
