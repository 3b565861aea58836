"""The ways by which a snapshot reaches the pods, in one table.

Whichever it is, the pods find one folder with the archive in it; what differs is who puts it there,
what the values say of it, and what has to be cleaned up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from allranks.workspace import archive as archives
from allranks.workspace import claim, config_maps, image, objects, registry
from allranks.workspace.config_maps import Sent
from allranks.workspace.model import SnapshotDestination

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from allranks.cluster.interface import KubeClient
    from allranks.cluster.permissions import Need
    from allranks.k8s.manifest import Manifest
    from allranks.workspace.model import Archive, Route, Snapshot

_NOWHERE = SnapshotDestination()


class SnapshotTransport(Protocol):
    """A way to send one snapshot."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """The rights that it takes in the namespace."""

    def values(self) -> dict[str, Any]:
        """The values for the chart: `workspace.snapshot`."""

    def manifests(self, namespace: str) -> list[Manifest]:
        """The objects that hold it, for `render` and local runs; [] where it is in none."""

    def send(self, cluster: KubeClient, namespace: str, *, nodes: int = 1) -> Sent:
        """Send what is not there.

        Args:
            cluster: where to.
            namespace: the namespace.
            nodes: how many nodes will have it at the same time.

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
        destination: not used: they are in the job's namespace.
    """

    snapshot: Snapshot
    archive: Archive
    destination: SnapshotDestination = _NOWHERE

    @property
    def needs(self) -> tuple[Need, ...]:
        """See `SnapshotTransport`."""
        return config_maps.NEEDS

    def values(self) -> dict[str, Any]:
        """See `SnapshotTransport`."""
        return _values(self.snapshot, self.archive)

    def manifests(self, namespace: str) -> list[Manifest]:
        """See `SnapshotTransport`."""
        return objects.config_maps(self.snapshot, self.archive, namespace)

    def send(self, cluster: KubeClient, namespace: str, *, nodes: int = 1) -> Sent:
        """See `SnapshotTransport`; any number of nodes can have it."""
        del nodes
        return config_maps.send(cluster, self.manifests(namespace), namespace)

    def own(self, cluster: KubeClient, namespace: str, controllers: Iterable[Manifest]) -> None:
        """See `SnapshotTransport`."""
        config_maps.own(cluster, self.manifests(namespace), namespace, controllers)

    def withdraw(self, cluster: KubeClient, namespace: str, sent: Sent) -> None:
        """See `SnapshotTransport`."""
        config_maps.withdraw(cluster, sent, namespace)


@dataclass(frozen=True, slots=True)
class RunFolderCopy(ConfigMaps):
    """A snapshot for processes of this machine, which find it in the folder of their run.

    The charts know it as ConfigMaps; as none of them is one of a cluster, they hold any size.
    """

    @property
    def needs(self) -> tuple[Need, ...]:
        """See `SnapshotTransport`."""
        return ()

    def values(self) -> dict[str, Any]:
        """See `SnapshotTransport`."""
        size = archives.part_bytes_here(self.archive)
        return _values(self.snapshot, self.archive, size=size)

    def manifests(self, namespace: str) -> list[Manifest]:
        """See `SnapshotTransport`."""
        size = archives.part_bytes_here(self.archive)
        return objects.config_maps(self.snapshot, self.archive, namespace, size)


class _Elsewhere:
    """The part that ways share which leave nothing in the namespace to own or to remove."""

    __slots__ = ()

    def manifests(self, namespace: str) -> list[Manifest]:
        """See `SnapshotTransport`."""
        del namespace
        return []

    def own(self, cluster: KubeClient, namespace: str, controllers: Iterable[Manifest]) -> None:
        """See `SnapshotTransport`; it stays where it is."""

    def withdraw(self, cluster: KubeClient, namespace: str, sent: Sent) -> None:
        """See `SnapshotTransport`; the next run of the same code finds it there."""


@dataclass(frozen=True, slots=True)
class RegistryImage(_Elsewhere):
    """A snapshot as an image of a registry, which pods mount.

    Attributes:
        snapshot: what is sent.
        archive: the same, packed.
        destination: the registry.
    """

    snapshot: Snapshot
    archive: Archive
    destination: SnapshotDestination = _NOWHERE

    @property
    def needs(self) -> tuple[Need, ...]:
        """See `SnapshotTransport`."""
        return ()

    @property
    def reference(self) -> str:
        """The image, by its digest."""
        built = image.build(self.snapshot, self.archive)
        return f"{self.destination.registry}@{built.index.digest}"

    def values(self) -> dict[str, Any]:
        """See `SnapshotTransport`."""
        return _values(self.snapshot, self.archive, via="image", image=self.reference)

    def send(self, cluster: KubeClient, namespace: str, *, nodes: int = 1) -> Sent:
        """See `SnapshotTransport`; any number of nodes can have it."""
        del namespace, nodes
        registry.check_version(cluster)
        is_new = registry.push(self.destination.registry, image.build(self.snapshot, self.archive))
        names = (self.reference,)
        return Sent(names, names if is_new else ())


@dataclass(frozen=True, slots=True)
class FilledClaim(_Elsewhere):
    """A snapshot as a file of a claim.

    Attributes:
        snapshot: what is sent.
        archive: the same, packed.
        destination: the claim.
    """

    snapshot: Snapshot
    archive: Archive
    destination: SnapshotDestination = _NOWHERE

    @property
    def needs(self) -> tuple[Need, ...]:
        """See `SnapshotTransport`."""
        return claim.NEEDS

    @property
    def path(self) -> str:
        """The folder of the claim that has the archive."""
        return claim.folder(self.snapshot, self.archive)

    def values(self) -> dict[str, Any]:
        """See `SnapshotTransport`."""
        name = self.destination.claim
        return _values(self.snapshot, self.archive, via="pvc", claim=name, path=self.path)

    def send(self, cluster: KubeClient, namespace: str, *, nodes: int = 1) -> Sent:
        """See `SnapshotTransport`."""
        is_new = claim.fill(
            cluster, namespace, self.snapshot, self.archive, self.destination, nodes=nodes
        )
        names = (f"{self.destination.claim}/{self.path}",)
        return Sent(names, names if is_new else ())


def _values(snapshot: Snapshot, archive: Archive, **where: Any) -> dict[str, Any]:
    """`workspace.snapshot` of the values, with the commit for the record."""
    values: dict[str, Any] = objects.values(snapshot, archive, **where)["workspace"]
    return {**values["snapshot"], **recorded(snapshot)}


def recorded(snapshot: Snapshot) -> dict[str, Any]:
    """The commit in the values, for the record: it is no part of what is sent."""
    revision = snapshot.revision
    if revision is None:
        return {}
    branch = {"branch": revision.branch} if revision.branch else {}
    return {"commit": revision.commit, **branch, "dirty": revision.is_dirty}


WAYS: dict[Route, Callable[[Snapshot, Archive, SnapshotDestination], SnapshotTransport]] = {
    "configMap": ConfigMaps,
    "image": RegistryImage,
    "pvc": FilledClaim,
    "local": RunFolderCopy,
}


def transport_of(
    via: Route, snapshot: Snapshot, archive: Archive, destination: SnapshotDestination
) -> SnapshotTransport:
    """The transport of a snapshot by a way, which `choice` has chosen.

    Args:
        via: the way.
        snapshot: what is sent.
        archive: the same, packed.
        destination: where the values let it go.
    """
    return WAYS[via](snapshot, archive, destination)
