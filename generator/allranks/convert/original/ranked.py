"""The pods of Kubeflow's training-operator for XGBoostJob, PaddleJob and JAXJob (v1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.original import OriginalPod
from allranks.convert.original.templates import main, name_of, replica_specs

if TYPE_CHECKING:
    from allranks.convert.documents.document import Manifest

_KEYS = {
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
}


def pods(manifest: Manifest) -> list[OriginalPod]:
    """The pods of one of these jobs; the master has rank 0.

    Args:
        manifest: the object.
    """
    name = name_of(manifest)
    replicas = list(replica_specs(manifest, _KEYS[str(manifest.get("kind"))]))
    replicas.sort(key=lambda item: item[0] != "Master")
    total = sum(number for _, number, _ in replicas)
    kind = manifest.get("kind")
    has_servers = kind == "PaddleJob" and any(role == "Master" for role, _, _ in replicas)
    alike = not has_servers and len({repr(template["spec"]) for _, _, template in replicas}) == 1
    result: list[OriginalPod] = []
    for role, number, template in replicas:
        for index in range(number):
            own = "worker" if alike or role != "Master" else "ps"
            env = {"WORLD_SIZE": str(total), "RANK": str(len(result))}
            result.append(
                OriginalPod(
                    f"{name}-{role.lower()}-{index}",
                    own,
                    index,
                    template,
                    main(template, "xgboost", "paddle", "jax"),
                    env=env,
                    world=total,
                    ranks=1,
                )
            )
    return result
