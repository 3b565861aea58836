"""Kubeflow's jobs that their operator does not run: none of their containers has the name it knows.

Each kind's validation asks for a container of a fixed name in the pods of every role, and fails the
job otherwise. Such a job never had a pod, and here it has. Source: kubeflow/training-operator,
pkg/webhooks and pkg/apis/kubeflow.org/v1 (``There is no container named pytorch in Worker``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.pods.podsets import KUBEFLOW
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from allranks.convert.verdicts import Conversion

# By the kind, where its roles stand, and the name that one of their containers has.
_CONTAINERS = {
    "PyTorchJob": ("pytorchReplicaSpecs", "pytorch"),
    "TFJob": ("tfReplicaSpecs", "tensorflow"),
    "MXJob": ("mxReplicaSpecs", "mxnet"),
    "XGBoostJob": ("xgbReplicaSpecs", "xgboost"),
    "PaddleJob": ("paddleReplicaSpecs", "paddle"),
    "JAXJob": ("jaxReplicaSpecs", "jax"),
}


def noted(conversion: Conversion, group: str, manifest: Mapping[str, Any]) -> Conversion:
    """A conversion that says where the job's operator refuses it for the names of its containers.

    Args:
        conversion: the conversion.
        group: the object's API group.
        manifest: the object.
    """
    key, name = _CONTAINERS.get(conversion.kind, ("", ""))
    if group != KUBEFLOW or not key:
        return conversion
    for role, specs in k8s.mapping(manifest, "spec", key).items():
        containers = k8s.items(k8s.mapping(specs), "template", "spec", "containers")
        if containers and name not in [k8s.text(item, "name") for item in containers]:
            note = (
                f"its operator refuses a {conversion.kind} whose {role} has no container named "
                f"{name}: this one had no pods there, and has some here"
            )
            return conversion.with_notes([note])
    return conversion
