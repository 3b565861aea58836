"""The pods of Kubeflow's training-operator for a TFJob (v1), and of mpba.fbk.eu's for its own.

TF_CONFIG is what pkg/controller.v1/tensorflow/tensorflow.go makes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks.convert.original import OriginalPod, templates
from allranks.convert.original.templates import (
    main,
    name_of,
    namespace_of,
    pod_count,
    pod_template,
    replica_specs,
)
from allranks.k8s.fields import items

if TYPE_CHECKING:
    from allranks.convert.documents.document import Manifest

_PORT = 2222
_CONFIG = "TF_CONFIG"
_ROLES = {"master": "chief", "eval": "evaluator"}


def pods(manifest: Manifest) -> list[OriginalPod]:
    """The pods of a TFJob.

    Args:
        manifest: the object.
    """
    return _pods(manifest, list(replica_specs(manifest, "tfReplicaSpecs")))


def pods_of_bare_list(manifest: Manifest) -> list[OriginalPod]:
    """The pods of a TFJob of mpba.fbk.eu, whose spec is a list.

    Args:
        manifest: the object.
    """
    replicas = [
        (str(item.get("replicaType")), pod_count(item.get("replicas", 1)), pod_template(item))
        for item in items(manifest.get("spec"))
    ]
    return _pods(manifest, replicas)


def _pods(manifest: Manifest, replicas: list[tuple[str, int, dict[str, Any]]]) -> list[OriginalPod]:
    name, namespace = name_of(manifest), namespace_of(manifest)
    cluster = {
        role.lower(): [
            f"{name}-{role.lower()}-{index}.{namespace}.svc:{_PORT}" for index in range(number)
        ]
        for role, number, _ in replicas
        if role.lower() not in ("evaluator", "eval")
    }
    alone = {role.lower() for role, _, _ in replicas} <= {"master", "chief"}
    templates.check_count(sum(number for _, number, _ in replicas))
    return [
        OriginalPod(
            f"{name}-{role.lower()}-{index}",
            "worker" if alone else _ROLES.get(role.lower(), role.lower()),
            index,
            template,
            main(template, "tensorflow"),
            env=_Environment(cluster, role.lower(), index),
        )
        for role, number, template in replicas
        for index in range(number)
    ]


@dataclass(frozen=True, slots=True)
class _Environment(Mapping[str, str]):
    """TF_CONFIG, written where it is read: each pod's has the names of all pods."""

    cluster: Mapping[str, list[str]]
    kind: str
    index: int

    def __getitem__(self, name: str) -> str:
        if name != _CONFIG:
            raise KeyError(name)
        task = {"type": self.kind, "index": self.index}
        return json.dumps({"cluster": self.cluster, "task": task, "environment": "cloud"})

    def __iter__(self) -> Iterator[str]:
        return iter((_CONFIG,))

    def __len__(self) -> int:
        return 1
