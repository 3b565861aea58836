"""The rendered fields are ones that Kubernetes has, with the types it has for them."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes.client.models.v1_config_map import V1ConfigMap
from kubernetes.client.models.v1_job import V1Job
from kubernetes.client.models.v1_persistent_volume_claim import V1PersistentVolumeClaim
from kubernetes.client.models.v1_service import V1Service
from kubernetes.client.models.v1_service_account import V1ServiceAccount
from kubernetes.client.models.v1_stateful_set import V1StatefulSet

_MODELS: dict[str, Any] = {
    "v1/ConfigMap": V1ConfigMap,
    "v1/PersistentVolumeClaim": V1PersistentVolumeClaim,
    "v1/Service": V1Service,
    "v1/ServiceAccount": V1ServiceAccount,
    "batch/v1/Job": V1Job,
    "apps/v1/StatefulSet": V1StatefulSet,
}


def test_every_field_exists(ci: dict[str, Any]) -> None:
    """Kubernetes' own models take each manifest and give it back: no field is lost, none re-typed.

    The models are strict: a number where Kubernetes has a string is refused.
    """
    for name, manifest in ci.items():
        if manifest["kind"] == "PostRendererRequired":
            continue
        model = _MODELS[f"{manifest['apiVersion']}/{manifest['kind']}"]
        taken = model.model_validate(manifest)
        assert manifest == taken.model_dump(by_alias=True, exclude_none=True), name


def test_an_unknown_field_would_be_seen() -> None:
    """The check above does see a misspelt field and a wrong type."""
    with pytest.raises(ValueError, match="clusterIp"):
        V1Service.model_validate({"spec": {"clusterIp": "None"}})
    with pytest.raises(ValueError, match="replicas"):
        V1StatefulSet.model_validate({"spec": {"replicas": "2"}})


def test_no_nulls(ci: dict[str, Any]) -> None:
    """No manifest has a null: server-side apply would take it for a wish to own the field."""

    def walk(value: Any, path: str) -> None:
        assert value is not None, path
        if isinstance(value, dict):
            for key, below in value.items():
                walk(below, f"{path}.{key}")
        elif isinstance(value, list):
            for index, below in enumerate(value):
                walk(below, f"{path}[{index}]")

    walk(ci, "")
