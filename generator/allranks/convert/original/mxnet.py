"""The pods of MXJobs: Kubeflow's operator, fioravanzo.org's and mpba.fbk.eu's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.convert.original import OriginalPod
from allranks.convert.original.templates import (
    main,
    name_of,
    pod_count,
    pod_template,
    replica_specs,
)
from allranks.k8s.fields import count, items, mapping, text

if TYPE_CHECKING:
    from allranks.convert.documents.document import Manifest

_PORT = 9091
_OLD_PORT = 9000


def pods(manifest: Manifest) -> list[OriginalPod]:
    """The pods of Kubeflow's MXJob.

    Args:
        manifest: the object.
    """
    return _pods(manifest, list(replica_specs(manifest, "mxReplicaSpecs")), _PORT)


def pods_of_list(manifest: Manifest) -> list[OriginalPod]:
    """The pods of an MXJob of fioravanzo.org.

    Args:
        manifest: the object.
    """
    replica_specs = items(mapping(manifest.get("spec")).get("replicaSpecs"))
    ports = [
        count(item.get("mxPort"))
        for item in replica_specs
        if item.get("mxReplicaType") == "SCHEDULER"
    ]
    replicas = [
        (str(item.get("mxReplicaType")), pod_count(item.get("replicas", 1)), pod_template(item))
        for item in replica_specs
    ]
    scheduler = text(manifest, "spec", "schedulerName")
    for _, _, template in replicas if scheduler else ():
        template["spec"]["schedulerName"] = scheduler
    return _pods(manifest, replicas, (ports or [0])[0] or _OLD_PORT)


def pods_of_bare_list(manifest: Manifest) -> list[OriginalPod]:
    """The pods of an MXJob of mpba.fbk.eu.

    Args:
        manifest: the object.
    """
    replicas = [
        (str(item.get("replicaType")), pod_count(item.get("replicas", 1)), pod_template(item))
        for item in items(manifest.get("spec"))
    ]
    return _pods(manifest, replicas, _PORT)


def _pods(
    manifest: Manifest, replicas: list[tuple[str, int, dict[str, Any]]], port: int
) -> list[OriginalPod]:
    name = name_of(manifest)
    counts = {role.lower(): number for role, number, _ in replicas}
    return [
        OriginalPod(
            f"{name}-{role.lower()}-{index}",
            role.lower(),
            index,
            template,
            main(template, "mxnet"),
            env={
                "DMLC_ROLE": role.lower(),
                "DMLC_PS_ROOT_PORT": str(port),
                "DMLC_NUM_WORKER": str(counts.get("worker", 0)),
                "DMLC_NUM_SERVER": str(counts.get("server", 0)),
            },
        )
        for role, number, template in replicas
        for index in range(number)
    ]
