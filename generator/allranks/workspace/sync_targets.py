"""The runs of a cluster that take newer code, through `exec`, and what all such runs share."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.cluster import paths, pod_selection, scale
from allranks.errors import (
    ConflictError,
    ExistsError,
    InputError,
    NotFoundError,
    RunError,
)
from allranks.k8s.fields import items, mapping, text
from allranks.workspace import record, transport
from allranks.workspace.model import Archive
from allranks.workspace.sync import ARCHIVE, END, OFFER, Offer, Published

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allranks.cluster.interface import KubeClient
    from allranks.k8s.manifest import Manifest

# The volume that newer code is published in; only pods that can take any have it.
VOLUME = "workspace-sync"
SUFFIX = "-sync"
TRAINER = "trainer"
_FILES = "/etc/allranks"
# In a container the image's own Python runs it, whatever it is called there.
_SHELL = (
    "for python in python3 python; do command -v $python >/dev/null && "
    f'exec $python -I -S -B -X utf8 {_FILES}/sync.py "$@"; done; '
    "echo no python3 and no python is on PATH >&2; exit 127"
)


def check_takes_code(name: str, objects: Iterable[Manifest]) -> Published:
    """The code that a run was started with.

    Args:
        name: the run.
        objects: its controllers.

    Raises:
        InputError: it takes no code, with the reason.
    """
    controllers = list(objects)
    code = record.of_objects(controllers)
    if not code.digest:
        raise InputError(
            f"run {name!r} was started without a workspace: its code is in its image",
            hint=f"`{names.CLI} submit {name} --replace` removes it, and runs it with a folder",
        )
    if not any(_takes_code(manifest) for manifest in controllers):
        reason = (
            "a static rendezvous cannot keep nodes with different code apart"
            if code.workload == "torchrun"
            else f"only torchrun runs take code while they run, and this is {code.workload}"
        )
        raise InputError(
            f"run {name!r} takes no newer code: {reason}",
            hint=f"`{names.CLI} submit {name} --replace` removes it, and runs what the folder has",
        )
    return Published(0, code.digest, code.archive_digest)


def _takes_code(manifest: Manifest) -> bool:
    pod = mapping(manifest, "spec", "template", "spec")
    return any(text(volume, "name") == VOLUME for volume in items(pod, "volumes"))


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
            if _takes_code({"spec": {"template": pod}})
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
        controllers = [manifest for manifest in self.controllers if _takes_code(manifest)]
        labels = mapping(controllers[0], "metadata", "labels")
        kept = (names.APP_INSTANCE, names.APP_PART_OF, names.APP_MANAGED_BY, names.WORKLOAD)
        return {
            "name": self.name + SUFFIX,
            "labels": {key: labels[key] for key in kept if key in labels},
            "ownerReferences": [transport.owner(manifest) for manifest in controllers],
        }


def synced(cluster: KubeClient | None, namespace: str, name: str) -> Offer | None:
    """What was synced last into a run; None where nothing was.

    Args:
        cluster: where the run is; None is this machine.
        namespace: its namespace.
        name: the run.

    Raises:
        RunError: what is kept of it is broken.
        AllranksError: the cluster does not answer, or forbids it.
    """
    try:
        if cluster is None:
            from allranks.local.state import store

            folder = store.run_folder(name, namespace).config_maps / (name + SUFFIX)
            offer, data = (folder / OFFER).read_text("utf-8"), (folder / ARCHIVE).read_bytes()
        else:
            config_map = cluster.get(paths.CONFIG_MAPS, name + SUFFIX, namespace=namespace)
            offer = text(config_map, "data", OFFER)
            data = base64.b64decode(text(config_map, "binaryData", ARCHIVE))
    except (NotFoundError, FileNotFoundError):
        return None
    published, fields = published_in(offer), json.loads(offer)
    archive = Archive(data, fields.get("compression", ""), published.archive_digest)
    if f"sha256:{hashlib.sha256(data).hexdigest()}" != archive.digest:
        raise RunError(
            f"what was synced last into {name!r} is broken: it has not the digest {archive.digest}",
            hint="sync again",
        )
    return Offer(published.generation, published.digest, archive)


def published_in(offer: str) -> Published:
    """What an offer says that the pods are to have.

    Raises:
        RunError: it is none.
    """
    try:
        fields = json.loads(offer)
        digests = str(fields["digest"]), str(fields["archiveDigest"])
        return Published(int(fields["generation"]), *digests)
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"what was synced before is no offer: {offer[:100]!r}",
            hint=f"delete the ConfigMap NAME{SUFFIX}, and sync again",
        ) from error


def overtaken() -> RunError:
    """The error of a sync that another one was faster than."""
    return RunError(
        "another sync of this run came first; nothing was changed by this one",
        hint="sync again: it brings what the folder has now",
    )
