"""The nodes of a run: one list, where the user may read nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.cluster import paths
from allranks.errors import ForbiddenError, NotFoundError
from allranks.k8s.fields import text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allranks.cluster.interface import KubeClient, Manifests, ObjectLister
    from allranks.k8s.manifest import Manifest


def of_pods(cluster: ObjectLister, pods: Iterable[Manifest]) -> tuple[Manifests, str]:
    """The nodes that pods are on.

    Args:
        cluster: the cluster.
        pods: the pods; no request is made where none of them has a node.

    Returns:
        Nodes, others than theirs too, and a note where they may not be listed.

    Raises:
        ToolError: the cluster does not answer.
    """
    on = {name for pod in pods if (name := text(pod, "spec", "nodeName"))}
    if not on:
        return [], ""
    field = f"metadata.name={next(iter(on))}" if len(on) == 1 else ""
    try:
        return cluster.list(paths.NODES, field_selector=field), ""
    except ForbiddenError:
        return [], "the state of its nodes is not shown: you may not list nodes"


def find(cluster: KubeClient, name: str) -> Manifest | None:
    """A node by its name; None where it may not be read.

    Raises:
        NotFoundError: there is no such node.
        ToolError: the cluster does not answer.
    """
    try:
        return cluster.get(paths.NODES, name, metadata_only=True)
    except ForbiddenError:
        return None


def known(cluster: ObjectLister) -> list[str]:
    """The names of all nodes; [] where they may not be listed."""
    try:
        nodes = cluster.list(paths.NODES, metadata_only=True)
    except (ForbiddenError, NotFoundError):
        return []
    return sorted(text(node, "metadata", "name") for node in nodes)
