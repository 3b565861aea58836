"""The events of a run: what Kubernetes says about its objects, those that are gone included."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks import names
from allranks.cluster import paths
from allranks.errors import ForbiddenError, NotFoundError
from allranks.k8s.fields import text

if TYPE_CHECKING:
    from allranks.cluster.interface import Manifests, ObjectLister
    from allranks.status.observation import Observation

# A pod of an Indexed Job has an index and five letters of its own, one of a StatefulSet the index.
_POD = "-[0-9]+(-[a-z0-9]{5})?"
# One of an elastic job has its role and a number, its master a number.
_ELASTIC = "{0}-edljob-[-a-z]+-[0-9]+|elasticjob-{0}-dlrover-master(-[0-9]+)?"


def run_events(cluster: ObjectLister, observation: Observation, *, fields: str = "") -> Manifests:
    """The events about a run's controllers, pods and claims.

    Args:
        cluster: the cluster.
        observation: the run.
        fields: only those that this field selector selects; "" is all.

    Raises:
        ForbiddenError: events may not be listed.
        ToolError: the cluster does not answer.
    """
    selector = paths.selector(observation.release)
    try:
        claims = cluster.list(
            paths.CLAIMS,
            namespace=observation.namespace,
            label_selector=selector,
            metadata_only=True,
        )
    except ForbiddenError:
        claims = []  # a run without volumes is told all the same
    objects = [
        manifest
        for manifest in (*observation.objects, *observation.pods)
        if manifest["metadata"].get("name")
    ]
    exact = {
        (str(manifest.get("kind") or "Pod"), manifest["metadata"]["name"]) for manifest in objects
    }
    exact |= {("PersistentVolumeClaim", claim["metadata"]["name"]) for claim in claims}
    exact.add((names.TRAINING_RUN, observation.release))
    forms = [re.escape(name) + _POD for kind, name in exact if kind in {"Job", "StatefulSet"}]
    elastic = {name for kind, name in exact if kind == names.ELASTIC_JOB}
    forms += [_ELASTIC.format(re.escape(name)) for name in elastic]
    deleted_names = re.compile("|".join(forms) or r"(?!)")
    plans = _Plans(cluster, observation.namespace, elastic)
    return [
        event
        for event in cluster.list(
            paths.EVENTS, namespace=observation.namespace, field_selector=fields
        )
        if _involved_object(event) in exact
        or (
            _involved_object(event)[0] == "Pod"
            and deleted_names.fullmatch(_involved_object(event)[1])
        )
        or (_involved_object(event)[0] == names.SCALE_PLAN and _involved_object(event)[1] in plans)
    ]


class _Plans:
    """The plans of elastic jobs: those that name them, and of those that are gone, by their names.

    A plan is of the job that its `ownerJob` says, whatever its name is.
    """

    def __init__(self, cluster: ObjectLister, namespace: str, elastic: set[str]) -> None:
        self._elastic = elastic
        self._owners: dict[str, str] = {}
        if not elastic:
            return
        try:
            # One that nobody can read goes by its name.
            plans = cluster.list(paths.SCALE_PLANS, namespace=namespace, unread=lambda _: None)
        except (ForbiddenError, NotFoundError):
            return  # their names have to do
        self._owners = {
            text(plan, "metadata", "name"): text(plan, "spec", "ownerJob") for plan in plans
        }

    def __contains__(self, name: str) -> bool:
        """Whether a plan is of one of the jobs."""
        owner = self._owners.get(name)
        if owner is not None:
            return owner in self._elastic
        return any(name.startswith(f"{job}-") for job in self._elastic)


def _involved_object(event: dict[str, object]) -> tuple[str, str]:
    about = event.get("involvedObject")
    reference = about if isinstance(about, dict) else {}
    return str(reference.get("kind") or ""), str(reference.get("name") or "")
