"""The nodes of a run, where the user may read nodes: they, and not all of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks import names
from allranks.cluster import paths
from allranks.errors import ForbiddenError, NotFoundError
from allranks.k8s.fields import text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allranks.cluster.interface import KubeClient, Manifests, ObjectLister
    from allranks.k8s.manifest import Manifest

# Nodes that are asked for by name: more make a selector that is longer than the answer is worth.
_NAMED_MAX = 200
_LABEL_MAX = 63  # characters of a label's value
_ALONE_MAX = 8  # nodes that are asked for one by one, where their label is not their name


def nodes_of_pods(cluster: ObjectLister, pods: Iterable[Manifest]) -> tuple[Manifests, str]:
    """The nodes that pods are on.

    Args:
        cluster: the cluster.
        pods: the pods; no request is made where none of them has a node.

    Returns:
        Nodes, of a large run others than theirs too, and a note where they may not be listed.

    Raises:
        ToolError: the cluster does not answer.
    """
    on = sorted({name for pod in pods if (name := text(pod, "spec", "nodeName"))})
    try:
        return _named(cluster, on) if len(on) <= _NAMED_MAX else cluster.list(paths.NODES), ""
    except ForbiddenError:
        return [], "the state of its nodes is not shown: you may not list nodes"


def _named(cluster: ObjectLister, on: Sequence[str]) -> Manifests:
    """The nodes of these names, of a cluster that may have thousands of others."""
    nodes: Manifests = []
    # Most clusters label a node with its name; only a label's values can be several.
    labelled = [name for name in on if len(name) <= _LABEL_MAX]
    if len(on) > 1 and labelled:
        selector = f"{names.HOSTNAME} in ({','.join(labelled)})"
        nodes += cluster.list(paths.NODES, label_selector=selector)
    listed = {text(node, "metadata", "name") for node in nodes}
    missing = [name for name in on if name not in listed]
    if len(missing) > _ALONE_MAX:
        return cluster.list(paths.NODES)
    for name in missing:
        nodes += cluster.list(paths.NODES, field_selector=f"metadata.name={name}")
    return nodes


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


def all_names(cluster: ObjectLister) -> list[str]:
    """The names of all nodes; [] where they may not be listed."""
    try:
        nodes = cluster.list(paths.NODES, metadata_only=True)
    except (ForbiddenError, NotFoundError):
        return []
    return sorted(text(node, "metadata", "name") for node in nodes)
