"""Which objects of an input can refer to each other: those of one namespace.

An object that names no namespace goes wherever it is applied, so it fits those of any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

# Kinds whose objects are of no namespace, whatever their metadata says.
_CLUSTER_WIDE = (
    *("ClusterTrainingRuntime", "ClusterQueue", "ResourceFlavor", "PriorityClass"),
    *("PersistentVolume", "StorageClass", "Namespace", "CustomResourceDefinition"),
    *("ClusterRole", "ClusterRoleBinding"),
)


def of(manifest: Mapping[str, Any]) -> str:
    """The namespace of an object; "" where it names none, or is of the whole cluster."""
    if manifest.get("kind") in _CLUSTER_WIDE:
        return ""
    return k8s.text(manifest, "metadata", "namespace")


def match(first: str, second: str) -> bool:
    """Whether objects of two namespaces can be of one; "" is a namespace that is not named."""
    return first == second or "" in (first, second)


def nearest_first(
    manifests: Iterable[Mapping[str, Any]], namespace: str
) -> list[Mapping[str, Any]]:
    """Objects in their order, those of a namespace before those of none, and these before others.

    Args:
        manifests: the objects.
        namespace: the namespace.
    """
    return sorted(manifests, key=lambda item: (of(item) != namespace, of(item) != ""))
