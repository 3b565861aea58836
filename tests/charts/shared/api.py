"""The fields and types that Kubernetes has for what the charts render."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml
from kubernetes.client.models.v1_config_map import V1ConfigMap
from kubernetes.client.models.v1_deployment import V1Deployment
from kubernetes.client.models.v1_job import V1Job
from kubernetes.client.models.v1_network_policy import V1NetworkPolicy
from kubernetes.client.models.v1_persistent_volume import V1PersistentVolume
from kubernetes.client.models.v1_persistent_volume_claim import V1PersistentVolumeClaim
from kubernetes.client.models.v1_role import V1Role
from kubernetes.client.models.v1_role_binding import V1RoleBinding
from kubernetes.client.models.v1_secret import V1Secret
from kubernetes.client.models.v1_service import V1Service
from kubernetes.client.models.v1_service_account import V1ServiceAccount
from kubernetes.client.models.v1_stateful_set import V1StatefulSet
from kubernetes.client.models.v1_storage_class import V1StorageClass

_MODELS: dict[str, Any] = {
    "v1/ConfigMap": V1ConfigMap,
    "v1/PersistentVolume": V1PersistentVolume,
    "v1/PersistentVolumeClaim": V1PersistentVolumeClaim,
    "v1/Secret": V1Secret,
    "v1/Service": V1Service,
    "v1/ServiceAccount": V1ServiceAccount,
    "batch/v1/Job": V1Job,
    "apps/v1/Deployment": V1Deployment,
    "apps/v1/StatefulSet": V1StatefulSet,
    "storage.k8s.io/v1/StorageClass": V1StorageClass,
    "networking.k8s.io/v1/NetworkPolicy": V1NetworkPolicy,
    "rbac.authorization.k8s.io/v1/Role": V1Role,
    "rbac.authorization.k8s.io/v1/RoleBinding": V1RoleBinding,
}


def check_types(manifests: dict[str, Any]) -> None:
    """Kubernetes' own models take each manifest and give it back as it was.

    The models are strict: an unknown field, or a number where Kubernetes has a string, is refused.
    """
    for name, manifest in manifests.items():
        if manifest["kind"] == "PostRendererRequired":
            continue
        if manifest["kind"] in _own():
            _check_own(manifest, _own()[manifest["kind"]], name)
            continue
        model = _MODELS[f"{manifest['apiVersion']}/{manifest['kind']}"]
        typed_object = model.model_validate(manifest)
        assert manifest == typed_object.model_dump(by_alias=True, exclude_none=True), name


@cache
def _own() -> dict[str, Any]:
    """The schemas of our own kinds."""
    folder = Path(__file__).parents[3] / "charts/operator/crds"
    crds = [yaml.safe_load(path.read_text("utf-8"))["spec"] for path in folder.glob("*.yaml")]
    return {crd["names"]["kind"]: crd["versions"][0]["schema"]["openAPIV3Schema"] for crd in crds}


_TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}


def _check_own(value: Any, schema: dict[str, Any], path: str) -> None:
    """The definition of the kind takes a manifest, and would drop nothing of it."""
    if "type" not in schema or (schema.get("nullable") and value is None):
        return
    assert isinstance(value, _TYPES[schema["type"]]), path
    if isinstance(value, list):
        for index, item in enumerate(value):
            _check_own(item, schema["items"], f"{path}[{index}]")
    elif isinstance(value, dict) and not path.endswith(".metadata"):
        properties = schema.get("properties", {})
        for key, item in value.items():
            if key in properties:
                _check_own(item, properties[key], f"{path}.{key}")
            elif "additionalProperties" in schema:
                _check_own(item, schema["additionalProperties"], f"{path}.{key}")
            else:
                assert schema.get("x-kubernetes-preserve-unknown-fields"), f"{path}.{key}"


def check_no_nulls(value: Any, path: str = "") -> None:
    """No null stands anywhere: server-side apply would take it for a wish to own the field."""
    assert value is not None, path
    if isinstance(value, dict):
        for key, below in value.items():
            check_no_nulls(below, f"{path}.{key}")
    elif isinstance(value, list):
        for index, below in enumerate(value):
            check_no_nulls(below, f"{path}[{index}]")
