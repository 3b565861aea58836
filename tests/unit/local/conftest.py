"""Manifests and plans that tests of the local runtime start from."""

from __future__ import annotations

from typing import Any

import pytest


class Manifests:
    """Builders of small manifests."""

    @staticmethod
    def container(name: str = "trainer", **fields: Any) -> dict[str, Any]:
        """A container that does nothing."""
        return {"name": name, "command": ["true"], **fields}

    def job(self, name: str = "train", nodes: int = 2, **spec: Any) -> dict[str, Any]:
        """An Indexed Job with one container per pod; `pod` is merged into the pods' spec."""
        pod = {"subdomain": name, "containers": [self.container()], **spec.pop("pod", {})}
        labels = spec.pop("labels", {})
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": spec.pop("job_labels", {})},
            "spec": {
                "completionMode": "Indexed",
                "completions": nodes,
                "parallelism": nodes,
                "template": {"metadata": {"labels": labels}, "spec": pod},
                **spec,
            },
        }

    def stateful_set(self, name: str = "train", nodes: int = 2, **spec: Any) -> dict[str, Any]:
        """A StatefulSet with one container per pod."""
        pod = {"containers": [self.container()], **spec.pop("pod", {})}
        return {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": name},
            "spec": {"replicas": nodes, "serviceName": name, "template": {"spec": pod}, **spec},
        }

    @staticmethod
    def service(name: str = "train", **spec: Any) -> dict[str, Any]:
        """A headless Service on rank 0 unless told otherwise."""
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {
                "clusterIP": "None",
                "selector": {"batch.kubernetes.io/job-completion-index": "0"},
                "ports": [{"name": "rdzv", "port": 29500}],
                **spec,
            },
        }

    @staticmethod
    def data(kind: str, name: str, **fields: Any) -> dict[str, Any]:
        """A ConfigMap or Secret."""
        return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **fields}


@pytest.fixture
def manifests() -> Manifests:
    """Builders of small manifests."""
    return Manifests()
