"""What is left of a release, and taking it away.

Helm removes what it knows. What it does not (a release record that was deleted, objects that were
applied from `allranks render`, a chart that changed) is found by the labels that every object of
ours has.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from allranks import names
from allranks.cluster import elasticjobs, paths
from allranks.errors import ForbiddenError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allranks.cluster.port import Cluster
    from allranks.model.manifest import Manifest

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
class Left:
    """An object of a release.

    Attributes:
        resource_path: where it is; see `allranks.cluster.paths`.
        name: its name.
        kept: whether it was asked to be kept (``helm.sh/resource-policy: keep``).
        workload: the workload it belongs to; "" where nothing says it.
    """

    resource_path: str
    name: str
    kept: bool
    workload: str = ""

    def __str__(self) -> str:
        """The object as kubectl names it: ``persistentvolumeclaims/demo-checkpoints``."""
        return f"{paths.spoken(self.resource_path)}/{self.name}"


def left(cluster: Cluster, release: str, namespace: str) -> tuple[Left, ...]:
    """All objects of a release that are there and are not being deleted.

    A kind that the cluster does not have, or that the user may not list, has none.

    Raises:
        ToolError: the cluster does not answer, or forbids to list Jobs and StatefulSets.
    """
    selector = paths.selector(release)
    elastic = elasticjobs.of_run(cluster, release, namespace)
    found = [_left(paths.ELASTIC_JOBS, one["metadata"]) for one in elastic if not _going(one)]
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
        found += [_left(resource_path, item["metadata"]) for item in items if not _going(item)]
    return (*found, *_plans(cluster, namespace, found), *_histories(cluster, namespace, found))


def _plans(cluster: Cluster, namespace: str, found: list[Left]) -> tuple[Left, ...]:
    """Other tools' plans for the run's elastic jobs: they have other labels, and maybe no owner."""
    known = {(one.resource_path, one.name) for one in found}
    plans: list[Left] = []
    for job in (one for one in found if one.resource_path == paths.ELASTIC_JOBS):
        items = cluster.list(
            paths.SCALE_PLANS,
            namespace=namespace,
            label_selector=f"{names.EDL_NAME}={job.name}",
            metadata_only=True,
        )
        plans += [_left(paths.SCALE_PLANS, one["metadata"]) for one in items if not _going(one)]
    return tuple(one for one in plans if (one.resource_path, one.name) not in known)


def _histories(cluster: Cluster, namespace: str, found: list[Left]) -> tuple[Left, ...]:
    """What masters remember of jobs of no release, for the next ones of their names: it stays."""
    known = {left.name for left in found if left.resource_path == paths.CONFIG_MAPS}
    jobs = {left.name for left in found if left.resource_path == paths.ELASTIC_JOBS}
    histories: list[Left] = []
    for name in sorted({f"{job}{names.HISTORY_SUFFIX}" for job in jobs} - known):
        with suppress(NotFoundError, ForbiddenError):
            metadata = cluster.get(paths.CONFIG_MAPS, name, namespace=namespace)["metadata"]
            histories.append(replace(_left(paths.CONFIG_MAPS, metadata), kept=True))
    return tuple(histories)


def remove(cluster: Cluster, namespace: str, objects: tuple[Left, ...]) -> tuple[Left, ...]:
    """Delete what was not asked to be kept; return what was deleted.

    Raises:
        ToolError: the cluster does not answer, or forbids it.
    """
    doomed = tuple(one for one in objects if not one.kept)
    for one in doomed:
        cluster.delete(one.resource_path, one.name, namespace=namespace)
    return doomed


def remove_release(
    cluster: Cluster, release: str, namespace: str, manifests: Iterable[Manifest]
) -> None:
    """Remove a release that helm cannot: it holds kinds that the cluster no longer has.

    All that there is goes by its labels, then what else its record names, and the record last: cut
    off in between, the same can be done again.

    Raises:
        ToolError: the cluster does not answer, or forbids it.
    """
    remove(cluster, namespace, left(cluster, release, namespace))
    for one in manifests:
        if not is_kept(one):
            inside = str(one["metadata"].get("namespace") or namespace)
            cluster.delete(paths.of_manifest(one), str(one["metadata"]["name"]), namespace=inside)
    for where in (paths.SECRETS, paths.CONFIG_MAPS):  # helm keeps its records in either
        for one in cluster.list(where, namespace=namespace, label_selector=_records(release)):
            cluster.delete(where, str(one["metadata"]["name"]), namespace=namespace)


def _records(release: str) -> str:
    return f"owner=helm,name={release}"


def is_kept(item: Manifest) -> bool:
    """Whether an object was asked to outlive its release."""
    annotations = item["metadata"].get("annotations") or {}
    return bool(annotations.get(names.HELM_RESOURCE_POLICY) == KEEP)


def _left(resource_path: str, metadata: Manifest) -> Left:
    labels = metadata.get("labels") or {}
    return Left(
        resource_path=resource_path,
        name=str(metadata["name"]),
        kept=is_kept({"metadata": metadata}),
        workload=str(labels.get(names.WORKLOAD) or ""),
    )


def _going(item: Manifest) -> bool:
    return bool(item["metadata"].get("deletionTimestamp"))
