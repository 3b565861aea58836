"""From the target to the pods and Services: what is to be made, and what is to go."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from allranks.elastic import pods
from allranks.elastic.actions import CreatePod, CreateService, DeletePod, DeleteService
from allranks.elastic.plan import parse_pod_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from allranks.elastic.actions import Action
    from allranks.elastic.job import ElasticJob
    from allranks.elastic.members import Member
    from allranks.elastic.sights import Sight, Sights
    from allranks.elastic.target import Target


# How many pods are asked for at once, and how many Services. A decision is made anew with each
# change that is seen, and manifests that nobody comes to send are work for nothing; and a look that
# takes long is a turn that no other job gets.
_AT_ONCE = 1_000
_SERVICES_AT_ONCE = 500


class Difference(NamedTuple):
    """Where the pods of a job do not agree with its target.

    Attributes:
        missing: members whose pods are to be made now, each with its replica type.
        unwanted: pods that are to go, each with the reason.
        unsettled: replica types of which something is still to happen.
    """

    missing: tuple[tuple[str, Member], ...]
    unwanted: tuple[tuple[Sight, str], ...]
    unsettled: frozenset[str]


def difference(
    job: ElasticJob, target: Target, sights: Sights, named: Collection[str]
) -> Difference:
    """Compare the pods of a job with its target.

    Args:
        job: the job.
        target: what they are to agree with.
        sights: its pods.
        named: pods that a plan has removed by name, which go though they have ended.
    """
    wanted = target.end is None and not job.suspend
    lacking = list(_missing(job, target, sights)) if wanted else []
    # Whose name is still held by a pod that is going is made when that has gone.
    missing = tuple([(kind, one) for kind, one, name in lacking if name not in sights.passing])
    unwanted = tuple(_unwanted(job, target, sights, named))
    unsettled = {kind for kind, _, _ in lacking} | {sight.type for sight, _ in unwanted}
    for kind, group in target.groups.items():
        if any(one.leaving or one.renew for one in group.members):
            unsettled.add(kind)
    return Difference(missing, unwanted, frozenset(unsettled))


def trainers(job: ElasticJob, target: Target, found: Difference) -> Iterator[Action]:
    """The pods that are to be made and to go; see `rest` for those that must wait."""
    # An edit may have taken a template away since a plan was taken; the job's status says so.
    possible = {kind for kind in target.groups if pods.template_of(job, kind) is not None}
    secret = pods.token(job) if job.master == "own" else None
    for kind, member in found.missing[:_AT_ONCE]:
        if kind in possible:
            yield CreatePod(pods.build(job, kind, member, target), secret)
    for sight, why in found.unwanted:
        yield DeletePod(sight.name, sight.uid, why=why)


def rest(found: Difference, services: Sequence[Action] = ()) -> float | None:
    """In how many seconds to look again for what is not asked for yet; None for nothing.

    Args:
        found: the pods.
        services: what `services` gave.
    """
    more = len(found.missing) > _AT_ONCE or len(services) >= _SERVICES_AT_ONCE
    return 0.0 if more else None


def services(job: ElasticJob, target: Target, present: Mapping[str, str]) -> tuple[Action, ...]:
    """The Services of the ranks that are to be made and to go; see `rest` for what must wait.

    Args:
        job: the job.
        target: what they are to agree with.
        present: the Services that are there, as `JobView.services`.
    """
    return tuple(islice(_services(job, target, present), _SERVICES_AT_ONCE))


def _services(job: ElasticJob, target: Target, present: Mapping[str, str]) -> Iterator[Action]:
    if target.end is not None:
        return
    wanted: set[str] = set()
    if pods.needs_services(job):
        for kind, group in target.groups.items():
            for rank in sorted({one.rank for one in group.members}):
                name = pods.service_name(job.name, kind, rank)
                wanted.add(name)
                if name not in present:
                    yield CreateService(pods.service(job, kind, rank))
    for name, uid in sorted(present.items()):
        # Without a uid it is another owner's: its name is taken, and that is all.
        if uid and name not in wanted and parse_pod_name(name) is not None:
            yield DeleteService(name, uid)


def _missing(job: ElasticJob, target: Target, sights: Sights) -> Iterator[tuple[str, Member, str]]:
    seen = sights.trainers
    for kind, group in target.groups.items():
        prefix = pods.pod_name(job.name, kind, 0)[:-1]
        for one in group.members:
            name = f"{prefix}{one.id}"
            if not one.ended and not one.leaving and name not in seen:
                yield kind, one, name


def _unwanted(
    job: ElasticJob, target: Target, sights: Sights, named: Collection[str]
) -> Iterator[tuple[Sight, str]]:
    """The pods that are to go. One that is newer than what is known here is none of them."""
    known = {
        kind: (
            group.next_id,
            {one.id for one in group.members},
            {one.rank for one in group.members},
        )
        for kind, group in target.groups.items()
    }
    for sight in sights.trainers.values():
        next_id, ids, ranks = known.get(sight.type, (0, (), ()))
        if sight.deleting or sight.id >= next_id:
            continue
        if target.end is not None:
            why = "" if sight.ended else "the job has ended"
        elif sight.name in named and sight.id not in ids:
            why = "a plan removed it"
        elif not sight.ended:
            unwanted = "" if sight.id in ids else "it is not wanted any more"
            why = "the job is suspended" if job.suspend else unwanted
        else:
            # What ended by itself stays for its log, as long as another has its rank.
            why = "" if sight.id in ids or sight.rank in ranks else "its rank is no more"
        if why:
            yield sight, why
