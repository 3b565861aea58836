"""The queues of a cluster: ConfigMaps that `charts/queue` made.

A queue is read with one request. Only where it is not there the others are listed, for the nearest
name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks import names
from allranks.cluster import paths
from allranks.cluster.errors import namespace_missing
from allranks.errors import ApiError, ForbiddenError, NotFoundError
from allranks.humanize import list_some
from allranks.k8s.fields import text

if TYPE_CHECKING:
    from allranks.cluster.interface import KubeClient, Manifests, ObjectLister
    from allranks.k8s.manifest import Manifest

_SHOWN = 8
# Kueue serves one or both of these.
_KUEUE = ("apis/kueue.x-k8s.io/v1beta2", "apis/kueue.x-k8s.io/v1beta1")


def get(cluster: KubeClient, name: str, namespace: str) -> Manifest:
    """The ConfigMap of a queue.

    Args:
        cluster: the cluster.
        name: the queue.
        namespace: its namespace.

    Raises:
        NotFoundError: there is no such queue; the nearest is named.
        ForbiddenError: ConfigMaps may not be read.
        ToolError: the cluster does not answer.
    """
    try:
        return cluster.get(paths.CONFIG_MAPS, f"{names.QUEUE_PREFIX}{name}", namespace=namespace)
    except NotFoundError:
        raise missing(cluster, name, namespace) from None
    except ForbiddenError as error:
        raise type(error)(
            f"{error.problem.message}: queue {name} is the ConfigMap {names.QUEUE_PREFIX}{name}",
            hint=f"ask for a Role with get on configmaps in namespace {namespace}, which the "
            "queue's release gives to those in its value `team`; or name the queue's file "
            "with --queue-file",
            status=error.status,
            reason=error.reason,
            detail=error.detail,
        ) from error


def list_all(cluster: ObjectLister, namespace: str | None) -> Manifests:
    """The ConfigMaps of all queues of a namespace, or of the whole cluster.

    Args:
        cluster: the cluster.
        namespace: only there; None is everywhere.

    Raises:
        ForbiddenError: they may not be listed.
        ToolError: the cluster does not answer.
    """
    items = cluster.list(paths.CONFIG_MAPS, namespace=namespace, label_selector=names.QUEUE)
    # The ConfigMaps of its jobs bear a queue's label, too.
    return [item for item in items if name_of(item)]


def name_of(manifest: Manifest) -> str:
    """The name of the queue of a ConfigMap; "" for another ConfigMap."""
    name = text(manifest, "metadata", "labels", names.QUEUE)
    is_queue = text(manifest, "metadata", "name") == f"{names.QUEUE_PREFIX}{name}"
    return name if name and is_queue else ""


def missing(cluster: KubeClient, name: str, namespace: str) -> NotFoundError:
    """The error for a queue that is not there."""
    # Imported only here: a miss may take a moment longer.
    from difflib import get_close_matches

    try:
        queue_names = sorted(name_of(item) for item in list_all(cluster, namespace))
        if not queue_names:
            cluster.get(paths.NAMESPACES, namespace)
    except NotFoundError:
        return namespace_missing(namespace)
    except ApiError:
        queue_names = []
    near = get_close_matches(name, queue_names, n=1)
    if near:
        every = list_some(queue_names, _SHOWN)
        hint = f"did you mean {near[0]!r}? The queues there are {every}"
    elif queue_names:
        hint = f"use one of {list_some(queue_names, _SHOWN)}"
    else:
        hint = (
            f"`{names.CLI} queue list -A` shows the queues of every namespace; pass another one "
            "with -n"
        )
    return NotFoundError(f"there is no queue {name!r} in namespace {namespace}", hint=hint)


def bounds(cluster: KubeClient, namespace: str, local_queue: str) -> tuple[Manifests, list[str]]:
    """What may bound a queue's GPUs: ResourceQuotas, and Kueue's queues where it has one.

    Args:
        cluster: the cluster.
        namespace: the queue's namespace.
        local_queue: the LocalQueue of its jobs; "" for none.

    Returns:
        The objects, and sentences about what may not be seen.

    Raises:
        ToolError: the cluster does not answer.
    """
    notes: list[str] = []
    objects: Manifests = []
    try:
        quotas = cluster.list(paths.QUOTAS, namespace=namespace)
        objects += [{**quota, "kind": "ResourceQuota"} for quota in quotas]
    except ForbiddenError:
        notes.append("its ResourceQuota may not be read: what is left may be less")
    if local_queue:
        local = _kueue(cluster, "localqueues", local_queue, namespace, notes)
        if local is not None:
            objects.append({**local, "kind": "LocalQueue"})
            name = text(local, "spec", "clusterQueue")
            whole = _kueue(cluster, "clusterqueues", name, "", notes) if name else None
            objects += [{**whole, "kind": "ClusterQueue"}] if whole is not None else []
    return objects, notes


def _kueue(
    cluster: KubeClient, plural: str, name: str, namespace: str, notes: list[str]
) -> Manifest | None:
    for version in _KUEUE:
        try:
            return cluster.get(f"{version}/{plural}", name, namespace=namespace)
        except NotFoundError:
            continue
        except ForbiddenError:
            notes.append(f"the {plural[:-1]} {name} may not be read: what is left may be less")
            return None
    return None
