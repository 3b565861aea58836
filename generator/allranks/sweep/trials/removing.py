"""Removing a release as helm would, without helm: a sweep does it as often as it installs.

Helm's record of a release holds its manifests. They are deleted, and then the record: killed in
between, the record is still there, and all of it is done once more. A helm that was killed while it
installed has left the same record: it is written before the first object, and after helm has seen
that none of them is there already. Whatever is not plain (hooks, several revisions, an install that
failed, a kind whose place is not certain) is left to helm.
"""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.cluster import paths
from allranks.errors import InputError
from allranks.yamlio import load

if TYPE_CHECKING:
    from allranks.cluster.port import Cluster, Manifests
    from allranks.model.manifest import Manifest

# Kinds whose place in the API is known, by group and kind.
_KNOWN = frozenset(
    {
        ("v1", "ConfigMap"),
        ("v1", "PersistentVolumeClaim"),
        ("v1", "Secret"),
        ("v1", "Service"),
        ("v1", "ServiceAccount"),
        ("apps/v1", "StatefulSet"),
        ("batch/v1", "Job"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
        ("rbac.authorization.k8s.io/v1", "Role"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        (names.API_VERSION, "TrainingRun"),
        (names.ELASTIC_API_VERSION, names.ELASTIC_JOB),
    }
)
_KEEP = "keep"
# Helm's words for a release of which nothing is there but what its record says.
_PLAIN = frozenset({"deployed", "pending-install"})


def records(cluster: Cluster, namespace: str, release: str) -> Manifests:
    """Helm's records of a release; none where there is no such release.

    Raises:
        ToolError: the cluster does not answer, or forbids it.
    """
    return cluster.list(
        paths.SECRETS, namespace=namespace, label_selector=f"owner=helm,name={release}"
    )


def labels(record: Manifest) -> dict[str, str]:
    """The labels of a record."""
    return record["metadata"].get("labels") or {}


def chart(record: Manifest) -> str:
    """The name of the chart that a release is of; "" where its record cannot be read."""
    try:
        return str(_unpacked(record)["chart"]["metadata"]["name"])
    except (KeyError, TypeError, ValueError, OSError, EOFError):
        return ""


def remove(cluster: Cluster, namespace: str, there: Manifests) -> bool:
    """Remove a release, where that is plain.

    Args:
        cluster: the cluster.
        namespace: the release's.
        there: of `records`.

    Returns:
        Whether it is removed; if not, nothing was done, and helm has to do it.

    Raises:
        ToolError: the cluster does not answer, or forbids it; some of it may be removed.
    """
    if len(there) != 1:
        return False
    found = _manifests(there[0])
    if found is None or not all(_is_plain(one, namespace) for one in found):
        return False
    for one in found:
        annotations = one["metadata"].get("annotations") or {}
        if annotations.get(names.HELM_RESOURCE_POLICY) != _KEEP:
            cluster.delete(paths.of_manifest(one), one["metadata"]["name"], namespace=namespace)
    cluster.delete(paths.SECRETS, there[0]["metadata"]["name"], namespace=namespace)
    return True


def _manifests(record: Manifest) -> list[Manifest] | None:
    """What a release is made of, controllers first; None where its record is not plain."""
    if labels(record).get("status") not in _PLAIN:
        return None
    try:
        release = _unpacked(record)
        found = [one for one in load.load_all(release["manifest"]) if one is not None]
    except (KeyError, TypeError, ValueError, OSError, EOFError, InputError):
        return None
    if release.get("hooks"):
        return None
    if not all(isinstance(one, dict) for one in found):
        return None
    return sorted(found, key=lambda one: one.get("kind") not in ("Job", "StatefulSet"))


def _unpacked(record: Manifest) -> dict[str, Any]:
    packed = base64.b64decode(base64.b64decode(record["data"]["release"]))
    found: dict[str, Any] = json.loads(gzip.decompress(packed))
    return found


def _is_plain(one: Manifest, namespace: str) -> bool:
    metadata = one.get("metadata")
    if not isinstance(metadata, dict):
        return False
    known = (one.get("apiVersion"), one.get("kind")) in _KNOWN
    return known and bool(metadata.get("name")) and metadata.get("namespace") in (None, namespace)
