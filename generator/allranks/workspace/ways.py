"""The ways by which a snapshot reaches the pods, in one table.

Whichever it is, the pods find one folder with the archive in it; what differs is who puts it there,
what the values say of it, and what has to be cleaned up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from allranks.errors import InputError
from allranks.workspace import objects, transport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from allranks.cluster.interface import KubeClient
    from allranks.cluster.permissions import Need
    from allranks.k8s.manifest import Manifest
    from allranks.workspace.model import Archive, Snapshot, Transport
    from allranks.workspace.transport import Sent


class SnapshotTransport(Protocol):
    """A way to send one snapshot."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """The rights that it takes in the namespace."""

    def values(self) -> dict[str, Any]:
        """What the chart is told: `workspace.snapshot`."""

    def manifests(self, namespace: str) -> list[Manifest]:
        """The objects that hold it, where it is in objects; for `render` and local runs."""

    def send(self, cluster: KubeClient, namespace: str) -> Sent:
        """Send what is not there.

        Raises:
            AllranksError: the cluster does not answer, forbids it, or has no room for it.
        """

    def own(self, cluster: KubeClient, namespace: str, controllers: Iterable[Manifest]) -> None:
        """Make controllers its owners.

        Raises:
            AllranksError: the cluster does not answer, or forbids it.
        """

    def withdraw(self, cluster: KubeClient, namespace: str, sent: Sent) -> None:
        """Remove what was sent for a release that does not come."""


@dataclass(frozen=True, slots=True)
class ConfigMaps:
    """A snapshot in one ConfigMap or a few: it needs nothing of the cluster.

    Attributes:
        snapshot: what is sent.
        archive: the same, packed.
    """

    snapshot: Snapshot
    archive: Archive

    @property
    def needs(self) -> tuple[Need, ...]:
        """See `SnapshotTransport`."""
        return transport.NEEDS

    def values(self) -> dict[str, Any]:
        """See `SnapshotTransport`."""
        values: dict[str, Any] = objects.values(self.snapshot, self.archive)["workspace"]
        return {**values["snapshot"], **recorded(self.snapshot)}

    def manifests(self, namespace: str) -> list[Manifest]:
        """See `SnapshotTransport`."""
        return objects.config_maps(self.snapshot, self.archive, namespace)

    def send(self, cluster: KubeClient, namespace: str) -> Sent:
        """See `SnapshotTransport`."""
        return transport.send(cluster, self.manifests(namespace), namespace)

    def own(self, cluster: KubeClient, namespace: str, controllers: Iterable[Manifest]) -> None:
        """See `SnapshotTransport`."""
        transport.own(cluster, self.manifests(namespace), namespace, controllers)

    def withdraw(self, cluster: KubeClient, namespace: str, sent: Sent) -> None:
        """See `SnapshotTransport`."""
        transport.withdraw(cluster, sent, namespace)


def recorded(snapshot: Snapshot) -> dict[str, Any]:
    """What the values say of the commit, for the record: it is no part of what is sent."""
    revision = snapshot.revision
    if revision is None:
        return {}
    branch = {"branch": revision.branch} if revision.branch else {}
    return {"commit": revision.commit, **branch, "dirty": revision.is_dirty}


WAYS: dict[Transport, Callable[[Snapshot, Archive], SnapshotTransport]] = {"configMap": ConfigMaps}


def way(via: Transport, snapshot: Snapshot, archive: Archive) -> SnapshotTransport:
    """The transport of a snapshot by the way that was chosen.

    Args:
        via: the way.
        snapshot: what is sent.
        archive: the same, packed.

    Raises:
        InputError: this version has no such way.
    """
    make = WAYS.get(via)
    if make is None:
        raise InputError(
            f"the way {via!r} is not part of this version; there is {', '.join(WAYS)}",
            path="workspace.via",
            hint="leave files out with .allranksignore until the rest fits (`--dry-run` names the "
            "largest), and remove workspace.via",
        )
    return make(snapshot, archive)
