"""The queues of a cluster: ConfigMaps that `charts/queue` made.

A queue is read with one request. Only where it is not there the others are listed, for the nearest
name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks import names
from allranks.cluster import paths, permissions
from allranks.cluster.errors import namespace_missing
from allranks.errors import ApiError, ForbiddenError, NotFoundError
from allranks.humanize import list_some
from allranks.k8s.fields import text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allranks.cluster.interface import KubeClient, Manifests, ObjectLister
    from allranks.k8s.manifest import Manifest

_SHOWN = 8
_ADMISSION = "apis/admissionregistration.k8s.io/v1"
# Kueue serves one or both of these.
_KUEUE = ("apis/kueue.x-k8s.io/v1beta2", "apis/kueue.x-k8s.io/v1beta1")
# What a release of charts/queue may have left, in the order of its removal: what holds jobs first,
# and last what a queue is found by. Its claims stay.
_IN_CLUSTER = (
    f"{_ADMISSION}/validatingadmissionpolicybindings",
    f"{_ADMISSION}/validatingadmissionpolicies",
    f"{_KUEUE[0]}/clusterqueues",
    f"{_KUEUE[0]}/resourceflavors",
    f"{_KUEUE[0]}/topologies",
    "apis/scheduling.run.ai/v2/queues",
    "apis/scheduling.volcano.sh/v1beta1/queues",
)
_IN_NAMESPACE = (
    paths.ROLE_BINDINGS,
    paths.ROLES,
    f"{_KUEUE[0]}/localqueues",
    paths.QUOTAS,
    "api/v1/limitranges",
    paths.NETWORK_POLICIES,
    paths.CONFIG_MAPS,
)


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
        manifest = cluster.get(
            paths.CONFIG_MAPS, f"{names.QUEUE_PREFIX}{name}", namespace=namespace
        )
    except NotFoundError:
        raise missing(cluster, name, namespace) from None
    except ForbiddenError as error:
        raise type(error)(
            f"queue {name} cannot be read: {error.problem.message}",
            hint=f"queue {name} is the ConfigMap {names.QUEUE_PREFIX}{name}: ask for a Role with "
            f"get on configmaps in namespace {namespace}, which the queue's release gives to those "
            "in its value `team`; or name the queue's file with --queue-file",
            status=error.status,
            reason=error.reason,
            detail=error.detail,
        ) from error
    if name_of(manifest) != name:  # somebody's own, or its label was changed
        raise missing(cluster, name, namespace)
    return manifest


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


def check_namespace(cluster: KubeClient, namespace: str) -> None:
    """Refuse a namespace that is not there; who may not look at it is let through.

    Raises:
        NotFoundError: it is not there.
    """
    try:
        cluster.get(paths.NAMESPACES, namespace)
    except NotFoundError:
        raise namespace_missing(namespace) from None
    except ForbiddenError:
        return


def name_of(manifest: Manifest) -> str:
    """The name of the queue of a ConfigMap; "" for another object."""
    if manifest.get("kind", "ConfigMap") != "ConfigMap":
        return ""  # its ResourceQuota has the same name and labels; items of a list have no kind
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


@dataclass(frozen=True, slots=True)
class Remains:
    """The objects of a queue, whether or not its release and its ConfigMap are there.

    Attributes:
        objects: what goes with the queue, in the order of its removal; each has a kind.
        claims: its PersistentVolumeClaims, which stay.
        releases: the Helm releases that the objects say they are of.
        unseen: the kinds that may not be listed.
    """

    objects: tuple[Manifest, ...]
    claims: tuple[Manifest, ...]
    releases: tuple[str, ...]
    unseen: tuple[str, ...]


def remains(cluster: ObjectLister, name: str, namespace: str) -> Remains:
    """The objects of a queue, found by the labels and annotations of its release.

    Args:
        cluster: the cluster.
        name: the queue.
        namespace: its namespace.

    Raises:
        ToolError: the cluster does not answer.
    """
    selector = f"{names.QUEUE}={name},{names.APP_NAME}={names.QUEUE_CHART}"
    unseen: list[str] = []

    def items(resource_path: str, space: str | None) -> list[Manifest]:
        try:
            listed = cluster.list(resource_path, namespace=space, label_selector=selector)
        except NotFoundError:  # the cluster has no such kind
            return []
        except ForbiddenError:
            unseen.append(paths.kubectl_name(resource_path))
            return []
        return [item for item in listed if _is_of_release(item, namespace)]

    whole = [item for path in _IN_CLUSTER for item in items(path, None)]
    own = [item for path in _IN_NAMESPACE for item in items(path, namespace)]
    claims = items(paths.CLAIMS, namespace)
    releases = (text(item, "metadata", "annotations", names.HELM_RELEASE) for item in whole + own)
    return Remains(
        (*whole, *own), tuple(claims), tuple(dict.fromkeys(filter(None, releases))), tuple(unseen)
    )


def _is_of_release(manifest: Manifest, namespace: str) -> bool:
    """Whether a Helm release of a namespace has an object; other namespaces may have its name."""
    return text(manifest, "metadata", "annotations", names.HELM_RELEASE_NAMESPACE) == namespace


def check_rights(
    cluster: KubeClient, manifests: Iterable[Manifest], namespace: str, unseen: Iterable[str] = ()
) -> None:
    """Refuse to remove a queue's objects before any of them is removed.

    Each right is asked for by itself: those on the whole cluster are not among the rules of a
    namespace.

    Args:
        cluster: the cluster.
        manifests: the objects.
        namespace: the queue's.
        unseen: the kinds that may not be listed, and have to be.

    Raises:
        ForbiddenError: a right is missing; each is named.
        ToolError: the cluster does not answer.
    """
    needs = {(need, namespace): None for need in permissions.uninstall_needs(())}
    for manifest in manifests:
        space = namespace if text(manifest, "metadata", "namespace") else ""
        needs |= {(need, space): None for need in permissions.removal_needs(manifest)}
    missing_rights = [f"list {kind}" for kind in unseen]
    missing_rights += [
        f"{need} in namespace {space}" if space else f"{need} in the whole cluster"
        for need, space in needs
        if not cluster.may(
            need.verb,
            paths.plural(need.resource_path),
            group=paths.group(need.resource_path),
            namespace=space,
        )
    ]
    if missing_rights:
        raise ForbiddenError(
            f"{cluster.where} does not let you {list_some(missing_rights, _SHOWN)}; nothing was "
            "deleted",
            hint="a queue is its administrator's to delete: ask a cluster administrator",
        )


def remove(cluster: KubeClient, remaining: Remains) -> None:
    """Remove what there is of a queue.

    Raises:
        ToolError: the cluster does not answer, or forbids it (ForbiddenError).
    """
    for manifest in remaining.objects:
        path, space = paths.manifest_path(manifest), text(manifest, "metadata", "namespace")
        cluster.delete(path, text(manifest, "metadata", "name"), namespace=space)


def bounds(cluster: KubeClient, namespace: str, local_queue: str) -> tuple[Manifests, list[str]]:
    """The objects that may bound a queue's GPUs: ResourceQuotas, and Kueue's own.

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
