"""Find the objects of a release that helm leaves behind, and delete them.

Helm removes what it knows. What it does not (a release record that was deleted, objects that were
applied from `allranks render`, a chart that changed) is found by the labels that every object of
ours has.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from allranks import names
from allranks.cluster import paths
from allranks.errors import ForbiddenError, NotFoundError
from allranks.k8s.fields import text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allranks.cluster.interface import KubeClient, Manifests
    from allranks.k8s.manifest import Manifest


KEEP = "keep"
# All that a chart of ours, or a scheduler's dialect, makes, besides elastic jobs. Controllers
# first: they own the pods.
_KINDS = (
    paths.JOBS,
    paths.STATEFUL_SETS,
    paths.SCALE_PLANS,
    paths.TRAINING_RUNS,
    paths.SERVICES,
    paths.CONFIG_MAPS,
    paths.SECRETS,
    paths.CLAIMS,
    paths.SERVICE_ACCOUNTS,
    paths.ROLE_BINDINGS,
    paths.ROLES,
    paths.NETWORK_POLICIES,
    *paths.POD_GROUPS,
)
_WORKLOADS = (paths.JOBS, paths.STATEFUL_SETS)


@dataclass(frozen=True, slots=True)
class Leftover:
    """An object of a release.

    Attributes:
        resource_path: where it is; see `allranks.cluster.paths`.
        name: its name.
        keep: whether it is marked to be kept (``helm.sh/resource-policy: keep``).
        workload: the workload it belongs to; "" where nothing says it.
    """

    resource_path: str
    name: str
    keep: bool
    workload: str = ""

    def __str__(self) -> str:
        """The object as kubectl names it: ``persistentvolumeclaims/demo-checkpoints``."""
        return f"{paths.kubectl_name(self.resource_path)}/{self.name}"


def leftovers(cluster: KubeClient, release: str, namespace: str) -> tuple[Leftover, ...]:
    """The objects of a release that exist and are not being deleted.

    A kind that the cluster does not have, or that the user may not list, has none.

    Raises:
        ToolError: the cluster does not answer, or forbids to list Jobs and StatefulSets.
    """
    selector = paths.selector(release)
    elastic = elastic_jobs(cluster, release, namespace)
    objects = [_leftover(paths.ELASTIC_JOBS, job["metadata"]) for job in elastic if not _going(job)]
    for resource_path in _KINDS:
        try:
            items = cluster.list(
                resource_path, namespace=namespace, label_selector=selector, metadata_only=True
            )
        except NotFoundError:
            continue
        except ForbiddenError:
            if resource_path in _WORKLOADS:
                raise
            continue
        objects += [
            _leftover(resource_path, item["metadata"]) for item in items if not _going(item)
        ]
    return (
        *objects,
        *_plans(cluster, namespace, objects),
        *_histories(cluster, namespace, objects),
    )


def _plans(cluster: KubeClient, namespace: str, objects: list[Leftover]) -> tuple[Leftover, ...]:
    """Other tools' plans for the run's elastic jobs; they have other labels, and maybe no owner."""
    existing = {(item.resource_path, item.name) for item in objects}
    plans: list[Leftover] = []
    for job in (item for item in objects if item.resource_path == paths.ELASTIC_JOBS):
        items = cluster.list(
            paths.SCALE_PLANS,
            namespace=namespace,
            label_selector=f"{names.EDL_NAME}={job.name}",
            metadata_only=True,
        )
        plans += [
            _leftover(paths.SCALE_PLANS, plan["metadata"]) for plan in items if not _going(plan)
        ]
    return tuple(plan for plan in plans if (plan.resource_path, plan.name) not in existing)


def _histories(
    cluster: KubeClient, namespace: str, objects: list[Leftover]
) -> tuple[Leftover, ...]:
    """The histories of elastic jobs without a release, kept for the next jobs of their names."""
    job_names = {item.name for item in objects if item.resource_path == paths.CONFIG_MAPS}
    jobs = {item.name for item in objects if item.resource_path == paths.ELASTIC_JOBS}
    histories: list[Leftover] = []
    for name in sorted({f"{job}{names.HISTORY_SUFFIX}" for job in jobs} - job_names):
        with suppress(NotFoundError, ForbiddenError):
            metadata = cluster.get(paths.CONFIG_MAPS, name, namespace=namespace)["metadata"]
            histories.append(replace(_leftover(paths.CONFIG_MAPS, metadata), keep=True))
    return tuple(histories)


def remove(
    cluster: KubeClient, namespace: str, objects: tuple[Leftover, ...]
) -> tuple[Leftover, ...]:
    """Delete the objects that are not marked to be kept; return those that were deleted.

    Raises:
        ToolError: the cluster does not answer, or forbids it.
    """
    doomed = tuple(item for item in objects if not item.keep)
    for item in doomed:
        cluster.delete(item.resource_path, item.name, namespace=namespace)
    return doomed


def remove_release(
    cluster: KubeClient, release: str, namespace: str, manifests: Iterable[Manifest]
) -> None:
    """Remove a release with kinds that the cluster no longer has, which helm cannot.

    All that there is goes by its labels, then what else its record names, and the record last: cut
    off in between, the same can be done again.

    Raises:
        ToolError: the cluster does not answer, or forbids it.
    """
    remove(cluster, namespace, leftovers(cluster, release, namespace))
    for item in manifests:
        if not outlives_release(item):
            inside = str(item["metadata"].get("namespace") or namespace)
            cluster.delete(
                paths.manifest_path(item), str(item["metadata"]["name"]), namespace=inside
            )
    for resource_path in (paths.SECRETS, paths.CONFIG_MAPS):  # helm keeps its records in either
        for item in cluster.list(
            resource_path, namespace=namespace, label_selector=_records(release)
        ):
            cluster.delete(resource_path, str(item["metadata"]["name"]), namespace=namespace)


def _records(release: str) -> str:
    return f"owner=helm,name={release}"


def outlives_release(item: Manifest) -> bool:
    """Whether an object is marked to outlive its release."""
    return text(item, "metadata", "annotations", names.HELM_RESOURCE_POLICY) == KEEP


def _leftover(resource_path: str, metadata: Manifest) -> Leftover:
    labels = metadata.get("labels") or {}
    return Leftover(
        resource_path=resource_path,
        name=str(metadata["name"]),
        keep=outlives_release({"metadata": metadata}),
        workload=str(labels.get(names.WORKLOAD) or ""),
    )


def _going(item: Manifest) -> bool:
    return bool(item["metadata"].get("deletionTimestamp"))


def elastic_jobs(cluster: KubeClient, release: str, namespace: str) -> Manifests:
    """The elastic jobs of a run; () where the cluster has no such kind, or shows none.

    One that was applied by hand may have no label of ours: it is a run by its own name, as `list`
    and `status` show it.

    Raises:
        ToolError: the cluster does not answer.
    """
    selector = paths.selector(release)
    try:
        jobs = cluster.list(paths.ELASTIC_JOBS, namespace=namespace, label_selector=selector)
    except (NotFoundError, ForbiddenError):
        return []
    if any(job["metadata"]["name"] == release for job in jobs):
        return jobs
    try:
        manifest = cluster.get(paths.ELASTIC_JOBS, release, namespace=namespace)
    except (NotFoundError, ForbiddenError):
        return jobs
    owner = (manifest["metadata"].get("labels") or {}).get(names.APP_INSTANCE) or release
    return [*jobs, manifest] if owner == release else jobs
