"""The runs of a cluster that take newer code: their pods are called through `exec`."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.cluster import paths, pod_selection, scale
from allranks.errors import ConflictError, ExistsError, NotFoundError
from allranks.k8s.fields import mapping, text
from allranks.workspace import config_maps
from allranks.workspace.sync import (
    ARCHIVE,
    END,
    OFFER,
    SUFFIX,
    TRAINER,
    Offer,
    Published,
    check_takes_code,
    has_volume,
    last_offer,
    overtaken,
    published_in,
)

if TYPE_CHECKING:
    from allranks.cluster.interface import KubeClient
    from allranks.k8s.manifest import Manifest

_FILES = "/etc/allranks"
# In a container the image's own Python runs it, whatever it is called there.
_SHELL = (
    "for python in python3 python; do command -v $python >/dev/null && "
    f'exec $python -I -S -B -X utf8 {_FILES}/sync.py "$@"; done; '
    "echo no python3 and no python is on PATH >&2; exit 127"
)


@dataclass(frozen=True, slots=True)
class ClusterPod:
    """A pod of a cluster, called through the API server."""

    cluster: KubeClient
    namespace: str
    name: str

    def call(self, words: tuple[str, ...], data: bytes, seconds: float) -> bytes:
        """See `SyncPod`."""
        return self.cluster.ask(
            self.name,
            ("/bin/sh", "-c", _SHELL, "sync", *words),
            data,
            namespace=self.namespace,
            container=TRAINER,
            end=END.encode(),
            seconds=seconds,
        )


@dataclass(frozen=True, slots=True)
class ClusterRun:
    """A run on a cluster.

    Attributes:
        cluster: the cluster.
        namespace: its namespace.
        name: the release.
        controllers: its Jobs and StatefulSets, with their kinds.
        code: what it was started with.
    """

    cluster: KubeClient
    namespace: str
    name: str
    controllers: tuple[Manifest, ...]
    code: Published

    @classmethod
    def find(cls, cluster: KubeClient, namespace: str, name: str) -> ClusterRun:
        """The run of a name.

        Raises:
            NotFoundError: there is none.
            InputError: it takes no newer code.
            AllranksError: the cluster does not answer, or forbids it.
        """
        objects = scale.controllers(cluster, name, namespace).objects
        return cls(cluster, namespace, name, objects, check_takes_code(name, objects))

    def pods(self) -> dict[str, ClusterPod]:
        """See `SyncTarget`."""
        pods = self.cluster.list(
            paths.PODS, namespace=self.namespace, label_selector=paths.selector(self.name)
        )
        return {
            text(pod, "metadata", "uid"): ClusterPod(
                self.cluster, self.namespace, text(pod, "metadata", "name")
            )
            for pod in pods
            if has_volume({"spec": {"template": pod}})
            and pod_selection.is_running(pod)
            and not text(pod, "metadata", "deletionTimestamp")
        }

    def published(self) -> Published:
        """See `SyncTarget`."""
        try:
            return published_in(text(self._config_map(), "data", OFFER))
        except NotFoundError:
            return self.code

    def _config_map(self) -> Manifest:
        return self.cluster.get(paths.CONFIG_MAPS, self.name + SUFFIX, namespace=self.namespace)

    def publish(self, offer: Offer) -> None:
        """See `SyncTarget`; the ConfigMap goes with the run's controllers, which own it."""
        data = {
            "data": {OFFER: offer.text()},
            "binaryData": {ARCHIVE: base64.b64encode(offer.archive.data).decode()},
        }
        if offer.generation == 1:
            body = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": self._metadata(),
                **data,
            }
            try:
                self.cluster.create(paths.CONFIG_MAPS, body, namespace=self.namespace)
            except ExistsError as error:
                raise overtaken() from error
            return
        config_map = self._config_map()
        if published_in(text(config_map, "data", OFFER)).generation != offer.generation - 1:
            raise overtaken()
        version = {"metadata": {"resourceVersion": text(config_map, "metadata", "resourceVersion")}}
        try:
            self.cluster.patch(
                paths.CONFIG_MAPS,
                self.name + SUFFIX,
                version | data,
                namespace=self.namespace,
            )
        except ConflictError as error:
            raise overtaken() from error

    def _metadata(self) -> dict[str, Any]:
        controllers = [manifest for manifest in self.controllers if has_volume(manifest)]
        labels = mapping(controllers[0], "metadata", "labels")
        keys = (names.APP_INSTANCE, names.APP_PART_OF, names.APP_MANAGED_BY, names.WORKLOAD)
        return {
            "name": self.name + SUFFIX,
            "labels": {key: labels[key] for key in keys if key in labels},
            "ownerReferences": [config_maps.owner(manifest) for manifest in controllers],
        }


def synced(cluster: KubeClient, namespace: str, name: str) -> Offer | None:
    """The offer that was synced last into a run; None where none was.

    Args:
        cluster: where the run is.
        namespace: its namespace.
        name: the run.

    Raises:
        RunError: what is kept of it is broken.
        AllranksError: the cluster does not answer, or forbids it.
    """
    try:
        config_map = cluster.get(paths.CONFIG_MAPS, name + SUFFIX, namespace=namespace)
    except NotFoundError:
        return None
    data = base64.b64decode(text(config_map, "binaryData", ARCHIVE))
    return last_offer(name, text(config_map, "data", OFFER), data)
