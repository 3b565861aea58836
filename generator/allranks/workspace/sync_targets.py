"""The runs that take newer code: on a cluster through `exec`, on this machine as processes."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks import atomic, names
from allranks.cluster import paths, pod_selection, scale
from allranks.errors import (
    ConflictError,
    ExistsError,
    InputError,
    NotFoundError,
    RunError,
)
from allranks.k8s.fields import items, mapping, text
from allranks.local import runs as local_runs
from allranks.local.state import store
from allranks.model.status import PodPhase
from allranks.workspace import record, transport
from allranks.workspace.model import Archive
from allranks.workspace.sync import ARCHIVE, END, OFFER, Offer, Published

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from allranks.cluster.interface import KubeClient
    from allranks.k8s.manifest import Manifest

# The volume that newer code is published in; only pods that can take any have it.
_VOLUME = "workspace-sync"
_SUFFIX = "-sync"
_TRAINER = "trainer"
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
            hint=f"`{names.CLI} submit {name} --replace` removes it, and runs what the folder has now",
        )
    return Published(0, code.digest, code.archive_digest)


def _takes_code(manifest: Manifest) -> bool:
    pod = mapping(manifest, "spec", "template", "spec")
    return any(text(volume, "name") == _VOLUME for volume in items(pod, "volumes"))


# --- on a cluster ---------------------------------------------------------------------------------


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
            container=_TRAINER,
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
            return _published(text(self._config_map(), "data", OFFER))
        except NotFoundError:
            return self.code

    def _config_map(self) -> Manifest:
        return self.cluster.get(paths.CONFIG_MAPS, self.name + _SUFFIX, namespace=self.namespace)

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
                raise _overtaken() from error
            return
        config_map = self._config_map()
        if _published(text(config_map, "data", OFFER)).generation != offer.generation - 1:
            raise _overtaken()
        version = {"metadata": {"resourceVersion": text(config_map, "metadata", "resourceVersion")}}
        try:
            self.cluster.patch(
                paths.CONFIG_MAPS,
                self.name + _SUFFIX,
                version | data,
                namespace=self.namespace,
            )
        except ConflictError as error:
            raise _overtaken() from error

    def _metadata(self) -> dict[str, Any]:
        controllers = [manifest for manifest in self.controllers if _takes_code(manifest)]
        labels = mapping(controllers[0], "metadata", "labels")
        kept = (names.APP_INSTANCE, names.APP_PART_OF, names.APP_MANAGED_BY, names.WORKLOAD)
        return {
            "name": self.name + _SUFFIX,
            "labels": {key: labels[key] for key in kept if key in labels},
            "ownerReferences": [transport.owner(manifest) for manifest in controllers],
        }


# --- on this machine ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LocalPod:
    """A pod of this machine."""

    name: str
    folder: Path

    def call(self, words: tuple[str, ...], data: bytes, seconds: float) -> bytes:
        """See `SyncPod`."""
        code = self.folder / "volumes/workspace-code"
        mounts = self.folder / "mounts" / _TRAINER
        env = {
            "ALLRANKS_WORKSPACE_STATE": str(code),
            "ALLRANKS_WORKSPACE_FOLDER": str(code / "code"),
            "ALLRANKS_WORKSPACE_SYNC": str(mounts / _VOLUME),
        }
        program = mounts / "entry/sync.py"
        if not program.exists():
            raise NotFoundError(f"pod {self.name} has ended")
        command = [sys.executable, "-I", "-S", "-B", "-X", "utf8", str(program), *words]
        try:
            result = subprocess.run(  # noqa: S603 - our own program, in the folder of the run
                command, input=data, capture_output=True, check=False, env=env, timeout=seconds
            )
        except subprocess.TimeoutExpired as error:
            raise RunError(f"pod {self.name} has not answered within {seconds:.0f} s") from error
        answer, _, rest = result.stdout.partition(END.encode())
        if not rest:
            if not self.folder.exists():
                raise NotFoundError(f"pod {self.name} has ended")
            lines = result.stderr.decode(errors="replace").strip().splitlines()
            raise RunError(f"pod {self.name} cannot take code: {(lines or ['no answer'])[-1]}")
        return answer


@dataclass(frozen=True, slots=True)
class LocalRun:
    """A run of this machine."""

    name: str
    namespace: str
    code: Published

    @classmethod
    def find(cls, name: str, namespace: str) -> LocalRun:
        """The run of a name.

        Raises:
            NotFoundError: there is none.
            InputError: it takes no newer code.
        """
        objects = local_runs.manifests(name, namespace)
        return cls(name, namespace, check_takes_code(name, objects))

    @property
    def _folder(self) -> store.RunFolder:
        return store.run_folder(self.name, self.namespace)

    def pods(self) -> dict[str, LocalPod]:
        """See `SyncTarget`."""
        status = local_runs.status(self.name, self.namespace)
        running = [pod.name for pod in status.pods if pod.phase == PodPhase.RUNNING]
        pods = {}
        for name in running:
            with suppress(FileNotFoundError):  # it has ended since
                for attempt in (self._folder.pods / name).iterdir():
                    pods[attempt.name] = LocalPod(name, attempt)
        return pods

    @property
    def _config_map(self) -> Path:
        return self._folder.config_maps / (self.name + _SUFFIX)

    def published(self) -> Published:
        """See `SyncTarget`."""
        try:
            return _published((self._config_map / OFFER).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return self.code

    def publish(self, offer: Offer) -> None:
        """See `SyncTarget`; the archive comes first, because a pod reads the offer first."""
        if self.published().generation != offer.generation - 1:
            raise _overtaken()
        self._config_map.mkdir(parents=True, exist_ok=True)
        atomic.write(self._config_map / ARCHIVE, offer.archive.data)
        atomic.write(self._config_map / OFFER, offer.text())


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
            folder = store.run_folder(name, namespace).config_maps / (name + _SUFFIX)
            offer, data = (folder / OFFER).read_text("utf-8"), (folder / ARCHIVE).read_bytes()
        else:
            config_map = cluster.get(paths.CONFIG_MAPS, name + _SUFFIX, namespace=namespace)
            offer = text(config_map, "data", OFFER)
            data = base64.b64decode(text(config_map, "binaryData", ARCHIVE))
    except (NotFoundError, FileNotFoundError):
        return None
    published, fields = _published(offer), json.loads(offer)
    archive = Archive(data, fields.get("compression", ""), published.archive_digest)
    if f"sha256:{hashlib.sha256(data).hexdigest()}" != archive.digest:
        raise RunError(
            f"what was synced last into {name!r} is broken: it has not the digest {archive.digest}",
            hint="sync again",
        )
    return Offer(published.generation, published.digest, archive)


def _published(offer: str) -> Published:
    try:
        fields = json.loads(offer)
        digests = str(fields["digest"]), str(fields["archiveDigest"])
        return Published(int(fields["generation"]), *digests)
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"what was synced before is no offer: {offer[:100]!r}",
            hint=f"delete the ConfigMap NAME{_SUFFIX}, and sync again",
        ) from error


def _overtaken() -> RunError:
    return RunError(
        "another sync of this run came first; nothing was changed by this one",
        hint="sync again: it brings what the folder has now",
    )
