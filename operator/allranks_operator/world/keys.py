"""Which runs and which elastic jobs an object belongs to; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from allranks import names
from allranks.elastic.pods import naming
from allranks.status.fields import items, mapping, text
from allranks_operator.kube.bounds import Unread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.model.manifest import Manifest

RUN, JOB, UNREAD = "run", "job", "unread"


class Key(NamedTuple):
    """What is looked at as a whole.

    Attributes:
        kind: `run` (a release and its TrainingRun), `job` (an ElasticJob) or `unread` (an object
            that is kept by its name alone).
        namespace: its namespace.
        name: the release's, or the job's; "" for plans that name no job, which are refused. Of an
            unread object its kind and name, as `ElasticJob/j`.
    """

    kind: str
    namespace: str
    name: str


def of(found: Manifest) -> tuple[Key, ...]:
    """The keys that an object belongs to; () for one that is nobody's."""
    namespace = text(found, "metadata", "namespace")
    if isinstance(found, Unread):
        return (Key(UNREAD, namespace, f"{found['kind']}/{found['metadata'].get('name')}"),)
    is_plan = text(found, "kind") == names.SCALE_PLAN
    return tuple(Key(kind, namespace, name) for kind, name in _names(found) if name or is_plan)


def _names(found: Manifest) -> Iterator[tuple[str, str]]:
    kind, name = text(found, "kind"), text(found, "metadata", "name")
    labels = mapping(found, "metadata", "labels")
    release = text(labels, names.APP_INSTANCE)
    if kind == names.TRAINING_RUN:
        yield RUN, text(found, "spec", "release") or name
    elif kind == names.ELASTIC_JOB:
        yield JOB, name
        yield RUN, release or name
    elif kind == names.SCALE_PLAN:
        yield JOB, owner_of_plan(found)
    elif kind == "Service":
        yield JOB, _elastic_owner(found)
    elif kind == "Pod":
        yield RUN, release
        # One that is in the way of a job's pod is to be seen, whoever made it.
        yield JOB, _elastic_owner(found) or naming.job_of(name)
    else:
        yield RUN, release


def owner_of_plan(plan: Manifest) -> str:
    """The job that a plan is for: by its own field, by a label of new or old, or by its owner."""
    labels = mapping(plan, "metadata", "labels")
    return (
        text(plan, "spec", "ownerJob")
        or text(labels, names.EDL_NAME)
        or text(labels, names.EDL_NAME_OLD)
        or next(
            (
                text(one, "name")
                for one in items(plan, "metadata", "ownerReferences")
                # Some masters write the kind in lower case.
                if text(one, "kind").lower() == names.ELASTIC_JOB.lower()
            ),
            "",
        )
    )


def _elastic_owner(found: Manifest) -> str:
    for one in items(found, "metadata", "ownerReferences"):
        if one.get("controller") and one.get("kind") == names.ELASTIC_JOB:
            return text(one, "name")
    return ""
