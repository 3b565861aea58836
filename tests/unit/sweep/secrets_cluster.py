"""A cluster for journals in Secrets: it makes objects, and refuses a patch of another version."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from allranks.cluster import paths
from allranks.errors import ConflictError
from tests.unit.cluster.fake_cluster import FakeCluster

if TYPE_CHECKING:
    from allranks.k8s.manifest import Manifest


class SecretsCluster(FakeCluster):
    """Objects with a uid and a version, as those of a real server have."""

    def __init__(self, *objects: Manifest) -> None:
        super().__init__(*objects)
        self._version = 100

    def create(self, resource_path: str, body: Manifest, *, namespace: str = "") -> Manifest:
        """Make an object, of which there is none yet."""
        self._ask("create", resource_path, body, namespace)
        key = (resource_path, body["metadata"]["name"])
        if key in self.objects:
            raise ConflictError(f"there is a {key[1]} already")
        item = copy.deepcopy(body)
        item["metadata"].setdefault("uid", f"uid-{len(self.objects)}-{self._version}")
        self.objects[key] = item
        return self._changed(item)

    def patch(self, resource_path: str, name: str, body: Any, **options: Any) -> Manifest:
        """Merge a patch, if it is for the version that is there."""
        version = body.get("metadata", {}).get("resourceVersion")
        item = self.get(resource_path, name)
        if version is not None and version != item["metadata"]["resourceVersion"]:
            raise ConflictError(f"{name} was changed")
        super().patch(resource_path, name, body, **options)
        return self._changed(self.objects[resource_path, name])

    def secrets(self) -> list[Manifest]:
        """All Secrets, in the order of their names."""
        return [item for (path, _), item in sorted(self.objects.items()) if path == paths.SECRETS]

    def _changed(self, item: Manifest) -> Manifest:
        self._version += 1
        item["metadata"]["resourceVersion"] = str(self._version)
        item["metadata"].pop("managedFields", None)
        return copy.deepcopy(item)
