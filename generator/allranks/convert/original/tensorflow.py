"""The pods of Kubeflow's training-operator for a TFJob (v1), and of mpba.fbk.eu's for its own.

TF_CONFIG is what pkg/controller.v1/tensorflow/tensorflow.go makes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from allranks.convert.original import OriginalPod
from allranks.convert.original.templates import (
    main,
    name_of,
    namespace_of,
    pod_template,
    replica_count,
    replica_specs,
)
from allranks.k8s.fields import items

if TYPE_CHECKING:
    from allranks.convert.documents.document import Manifest

_PORT = 2222
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
        (str(item.get("replicaType")), replica_count(item.get("replicas", 1)), pod_template(item))
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
    result = []
    for role, number, template in replicas:
        kind = role.lower()
        for index in range(number):
            task = {"type": kind, "index": index}
            config = {"cluster": cluster, "task": task, "environment": "cloud"}
            result.append(
                OriginalPod(
                    f"{name}-{kind}-{index}",
                    "worker" if alone else _ROLES.get(kind, kind),
                    index,
                    template,
                    main(template, "tensorflow"),
                    env={"TF_CONFIG": json.dumps(config)},
                )
            )
    return result
