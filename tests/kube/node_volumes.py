"""Volumes for claims: what a cluster's storage provider does, with folders of this machine.

Two storage classes: `standard`, the default one, gives a folder; `small` gives a file system that
is really as small as the claim says, to be filled. Both are `local` volumes, whose owner and mode
the kubelet sets as a pod's fsGroup asks, and both go with their claim. Run by `node` as a program:

    python -m tests.kube.node_volumes KUBECONFIG PLACE_PID FOLDER
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.kube import node_config
from tests.kube.api import Api, ApiError
from tests.kube.errors import BenchError
from tests.kube.image_programs import run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STANDARD, SMALL = "standard", "small"
_PROVIDER = "bench.allranks.dev/folders"
_VOLUMES = "/api/v1/persistentvolumes"
_CONFLICT, _NOT_FOUND = 409, 404
_PAUSE = 0.3  # seconds between two looks


def classes() -> list[dict[str, Any]]:
    """The storage classes."""
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name, "annotations": annotations},
            "provisioner": _PROVIDER,
            "reclaimPolicy": "Delete",
        }
        for name, annotations in ((STANDARD, default), (SMALL, {}))
    ]


def install(api: Api) -> None:
    """Make the storage classes."""
    for storage_class in classes():
        api.request("POST", "/apis/storage.k8s.io/v1/storageclasses", storage_class)


@dataclass(frozen=True, slots=True)
class Provider:
    """Serves claims.

    Attributes:
        api: the API server.
        place: a process in the node's namespaces, where small file systems are mounted.
        folder: keeps the volumes.
    """

    api: Api
    place: int
    folder: Path

    def look(self) -> None:
        """Serve every claim that waits, and remove every volume whose claim is gone."""
        for claim in self._list("/api/v1/persistentvolumeclaims"):
            if claim["status"]["phase"] == "Pending" and not claim["spec"].get("volumeName"):
                self._try(self._make, claim)
        for volume in self._list(_VOLUMES):
            if volume["status"].get("phase") == "Released":
                self._try(self._remove, volume)

    def _try(self, step: Callable[[dict[str, Any]], None], subject: dict[str, Any]) -> None:
        """Do something about an object of ours; what fails is tried again at the next look."""
        if subject["spec"].get("storageClassName") not in {STANDARD, SMALL}:
            return
        try:
            step(subject)
        except (ApiError, BenchError, OSError) as error:
            sys.stderr.write(f"{subject['metadata']['name']}: {error}\n")

    def _list(self, path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.api.request("GET", path).body["items"]
        return items

    def _make(self, claim: Mapping[str, Any]) -> None:
        name = f"pvc-{claim['metadata']['uid']}"
        folder, spec = self.folder / name, claim["spec"]
        size = spec["resources"]["requests"]["storage"]
        if not folder.exists():
            folder.mkdir(parents=True)
            if spec["storageClassName"] == SMALL:
                options = f"size={size.replace('Ki', 'k').replace('Mi', 'm').replace('Gi', 'g')}"
                self._mount("mount", "-t", "tmpfs", "-o", f"mode=755,{options}", "tmpfs", folder)
        self._ask("POST", _VOLUMES, _volume(name, folder, claim), unless=_CONFLICT)

    def _remove(self, volume: Mapping[str, Any]) -> None:
        name = volume["metadata"]["name"]
        folder = self.folder / name
        if folder.exists():  # else this is the second look, and Kubernetes is about to drop it
            if volume["spec"]["storageClassName"] == SMALL:
                self._mount("umount", "--lazy", folder)
            shutil.rmtree(folder, ignore_errors=True)
        self._ask("DELETE", f"{_VOLUMES}/{name}", None, unless=_NOT_FOUND)

    def _mount(self, *words: str | Path) -> None:
        entered = ("nsenter", f"--target={self.place}", "--mount", "--")
        run(*entered, *words, purpose=f"{words[0]} a volume")

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None, unless: int) -> None:
        try:
            self.api.request(method, path, body)
        except ApiError as error:
            if error.status != unless:
                raise


def _volume(name: str, folder: Path, claim: Mapping[str, Any]) -> dict[str, Any]:
    metadata, spec = claim["metadata"], claim["spec"]
    here = {
        "key": "kubernetes.io/hostname",
        "operator": "In",
        "values": [node_config.NAME],
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        # Without it Kubernetes takes the removal for its own, and fails at it.
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": _PROVIDER}},
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "claimRef": {
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "local": {"path": str(folder)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": spec["storageClassName"],
        },
    }


def main() -> None:
    """Serve claims until the end."""
    kubeconfig, place, folder = sys.argv[1:]
    config = json.loads(Path(kubeconfig).read_text(encoding="utf-8"))
    server, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    port = urlsplit(server["server"]).port
    assert port is not None
    api = Api(port, user["token"], Path(server["certificate-authority"]))
    provider = Provider(api, int(place), Path(folder))
    while True:
        try:
            provider.look()
        except (ApiError, OSError) as error:
            sys.stderr.write(f"{error}\n")
        time.sleep(_PAUSE)


if __name__ == "__main__":
    main()
