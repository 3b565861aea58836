"""The runs and elastic jobs that an object belongs to; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from allranks import names
from allranks.elastic.pods import metadata as pod_metadata
from allranks.k8s.fields import items, mapping, text
from allranks_operator.kube.bounds import UnreadObject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.k8s.manifest import Manifest

RUN, JOB, UNREAD = "run", "job", "unread"


class Key(NamedTuple):
    """The key of what is reconciled as a whole: a run, or an elastic job.

    Attributes:
        kind: `run` (a release and its TrainingRun), `job` (an ElasticJob) or `unread` (an object
            that is kept as a stub).
        namespace: its namespace.
        name: the release's, or the job's; "" for plans that name no job, which are refused. Of an
            unread object its kind and name, as `ElasticJob/j`.
    """

    kind: str
    namespace: str
    name: str


def of(manifest: Manifest) -> tuple[Key, ...]:
    """The keys that an object belongs to; () for one that belongs to none."""
    namespace = text(manifest, "metadata", "namespace")
    if isinstance(manifest, UnreadObject):
        return (Key(UNREAD, namespace, f"{manifest['kind']}/{manifest['metadata'].get('name')}"),)
    is_plan = text(manifest, "kind") == names.SCALE_PLAN
    return tuple(Key(kind, namespace, name) for kind, name in _names(manifest) if name or is_plan)


def _names(manifest: Manifest) -> Iterator[tuple[str, str]]:
    kind, name = text(manifest, "kind"), text(manifest, "metadata", "name")
    labels = mapping(manifest, "metadata", "labels")
    release = text(labels, names.APP_INSTANCE)
    if kind == names.TRAINING_RUN:
        yield RUN, text(manifest, "spec", "release") or name
    elif kind == names.ELASTIC_JOB:
        yield JOB, name
        yield RUN, release or name
    elif kind == names.SCALE_PLAN:
        yield JOB, owner_of_plan(manifest)
    elif kind == "Service":
        yield JOB, _elastic_owner(manifest)
    elif kind == "Pod":
        yield RUN, release
        # A pod under the name of a job's pod belongs to the key, whoever created it.
        yield JOB, _elastic_owner(manifest) or pod_metadata.job_of(name)
    else:
        yield RUN, release


def owner_of_plan(plan: Manifest) -> str:
    """The job that a plan is for, by its own field, a label (new or old), or its owner."""
    labels = mapping(plan, "metadata", "labels")
    return (
        text(plan, "spec", "ownerJob")
        or text(labels, names.EDL_NAME)
        or text(labels, names.EDL_NAME_OLD)
        or next(
            (
                text(owner, "name")
                for owner in items(plan, "metadata", "ownerReferences")
                # Some masters write the kind in lower case.
                if text(owner, "kind").lower() == names.ELASTIC_JOB.lower()
            ),
            "",
        )
    )


def _elastic_owner(manifest: Manifest) -> str:
    for owner in items(manifest, "metadata", "ownerReferences"):
        if owner.get("controller") and owner.get("kind") == names.ELASTIC_JOB:
            return text(owner, "name")
    return ""
