"""Where objects live in an API: from a manifest to the path it is sent to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.kube.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.kube.api import Answer, Api

_APPLY = "application/apply-patch+yaml"
_STRICT = "fieldValidation=Strict"


@dataclass(frozen=True, slots=True)
class Objects:
    """Objects of any kind that an API server serves.

    Attributes:
        api: the server, as one user.
    """

    api: Api
    _kinds: dict[str, dict[str, tuple[str, bool]]] = field(default_factory=dict, repr=False)

    def path(self, manifest: Mapping[str, Any], namespace: str) -> str:
        """The address of an object.

        Args:
            manifest: the object.
            namespace: used where the manifest names none and the kind has namespaces.

        Raises:
            BenchError: the server does not serve the kind.
        """
        version, kind = manifest["apiVersion"], manifest["kind"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if version not in self._kinds:
            resources = self.api.request("GET", root).body["resources"]
            self._kinds[version] = {
                resource["kind"]: (resource["name"], resource["namespaced"])
                for resource in resources
                if "/" not in resource["name"]
            }
        if kind not in self._kinds[version]:
            raise BenchError(f"the API server knows no {kind} in {version}")
        plural, namespaced = self._kinds[version][kind]
        where = manifest["metadata"].get("namespace") or namespace
        folder = f"{root}/namespaces/{where}" if namespaced else root
        return f"{folder}/{plural}/{manifest['metadata']['name']}"

    def apply(self, manifest: Mapping[str, Any], namespace: str) -> Answer:
        """Apply an object on the server, whether it is there or not; unknown fields are errors.

        Args:
            manifest: the object.
            namespace: as in `path`.

        Raises:
            ApiError: the server refuses it.
            BenchError: the server does not serve the kind.
        """
        path = f"{self.path(manifest, namespace)}?fieldManager=bench&force=true&{_STRICT}"
        return self.api.request("PATCH", path, manifest, content_type=_APPLY)

    def judge(self, manifest: Mapping[str, Any], namespace: str) -> Answer:
        """What the server says to the making of an object; it keeps nothing.

        Raises:
            ApiError: the server refuses it; unknown fields are errors.
            BenchError: the server does not serve the kind.
        """
        folder = self.path(manifest, namespace).rpartition("/")[0]
        return self.api.request("POST", f"{folder}?dryRun=All&{_STRICT}", manifest)
