"""Pods on their nodes' network, of which two cannot have one node: they would have one port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

# By the workload, the value that says which port each of its pods opens.
_PORTS = {"torchrun": "torchrun.port", "mpi": "mpi.ssh.port"}


def noted(conversion: Conversion) -> Conversion:
    """A conversion that says where its pods take a port of their nodes, and so a node each.

    Args:
        conversion: the conversion.
    """
    values = conversion.values
    port = _PORTS.get(str(values.get("workload")), "")
    pods = k8s.at(values, "mpi", "numWorkers") or values.get("nodes") or 1
    if not port or k8s.at(values, "network", "hostNetwork") is not True or pods == 1:
        return conversion
    is_of_workers = values.get("workload") == "mpi" and not k8s.at(
        values, "mpi", "runLauncherAsWorker"
    )
    own = "workers" if is_of_workers else "pods"
    return conversion.with_notes(
        [f"on their nodes' network no two of the {own} can have one node: each opens {port} there"]
    )
