"""The TrainingRun of a release, as an object; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks import names
from allranks.status.fields import mapping, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.model.manifest import Manifest

_HELM = "Helm"
_OFF = "off"


def choose(found: Sequence[Manifest], release: str) -> Manifest | None:
    """The one of several that is the release's: that of its name, else the first."""
    ordered = sorted(
        found, key=lambda one: (one["metadata"]["name"] != release, one["metadata"]["name"])
    )
    return ordered[0] if ordered else None


def is_wanted(controllers: Sequence[Manifest]) -> bool:
    """Whether the release wants one: none of its controllers says no, and one stays."""
    staying = [one for one in controllers if "deletionTimestamp" not in one["metadata"]]
    said = (text(one, "metadata", "annotations", names.STATUS) for one in controllers)
    return bool(staying) and _OFF not in said


def make(namespace: str, release: str, controllers: Sequence[Manifest]) -> Manifest:
    """A TrainingRun for a release whose chart rendered none.

    Args:
        namespace: its namespace.
        release: the release.
        controllers: its Jobs, StatefulSets and ElasticJobs; it goes with the first of them.
    """
    staying = [one for one in controllers if "deletionTimestamp" not in one["metadata"]]
    first = min(staying, key=lambda one: (one["metadata"]["name"], one["kind"]))
    labels = mapping(first, "metadata", "labels")
    workload = text(labels, names.WORKLOAD) or (
        "elastic" if first["kind"] == names.ELASTIC_JOB else "job"
    )
    own = {
        names.APP_INSTANCE: release,
        names.APP_PART_OF: names.PART_OF,
        names.WORKLOAD: workload,
    }
    metadata: Manifest = {
        "name": release,
        "namespace": namespace,
        "labels": own,
        "ownerReferences": [
            {
                "apiVersion": first["apiVersion"],
                "kind": first["kind"],
                "name": first["metadata"]["name"],
                "uid": first["metadata"]["uid"],
            }
        ],
    }
    annotations = mapping(first, "metadata", "annotations")
    if text(annotations, names.HELM_RELEASE):
        # So Helm takes it for the release's own, should the chart render one some day.
        own[names.APP_MANAGED_BY] = _HELM
        metadata["annotations"] = {
            key: annotations[key] for key in (names.HELM_RELEASE, names.HELM_NAMESPACE)
        }
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.TRAINING_RUN,
        "metadata": metadata,
        "spec": {"release": release, "workload": workload},
    }
