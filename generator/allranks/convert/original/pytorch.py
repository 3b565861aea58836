"""The pods of Kubeflow's training-operator for a PyTorchJob (v1).

Shown by its controller's own sources: pkg/controller.v1/pytorch/envvar.go, master.go, elastic.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.original import OriginalPod
from allranks.convert.original.templates import main, name_of, replica_specs
from allranks.k8s.fields import mapping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.convert.documents.document import Manifest

_PORT = 23456


def pods(manifest: Manifest) -> list[OriginalPod]:
    """The pods of a PyTorchJob.

    Args:
        manifest: the object.
    """
    name, spec = name_of(manifest), mapping(manifest.get("spec"))
    replicas = {role: (number, own) for role, number, own in replica_specs(manifest, _KEY)}
    total = sum(number for number, _ in replicas.values())
    policy = mapping(spec.get("elasticPolicy"))
    processes = str(spec.get("nprocPerNode") or policy.get("nProcPerNode") or "auto")
    factor = int(processes) if processes.isdigit() else 1
    nodes = _nnodes(policy, total)
    most = int(nodes.rpartition(":")[2])
    result: list[OriginalPod] = []
    for role, (number, template) in replicas.items():
        for index in range(number):
            rank = index + (1 if role == "Worker" and "Master" in replicas else 0)
            # Workers alone are told nothing of each other but by an elasticPolicy.
            ranked = {
                "MASTER_ADDR": f"{name}-master-0",
                "MASTER_PORT": str(_PORT),
                "WORLD_SIZE": str(total * factor),
                "RANK": str(rank),
                "PET_NODE_RANK": str(rank),
            }
            result.append(
                OriginalPod(
                    f"{name}-{role.lower()}-{index}",
                    "node",
                    rank,
                    template,
                    main(template, "pytorch"),
                    env={
                        "PYTHONUNBUFFERED": "1",
                        "PET_NNODES": nodes,
                        "PET_NPROC_PER_NODE": processes,
                        **(ranked if "Master" in replicas else {}),
                    },
                    world=most * factor,
                    ranks=factor if processes.isdigit() else 0,
                )
            )
    return result


_KEY = "pytorchReplicaSpecs"


def _nnodes(policy: Mapping[str, object], total: int) -> str:
    least, most = policy.get("minReplicas"), policy.get("maxReplicas")
    is_range = isinstance(least, int) and isinstance(most, int) and 0 < least < most
    return f"{least}:{most}" if is_range else str(total)
