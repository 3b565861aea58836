"""The pods of a cluster whose ranks can be asked to save, through `exec`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.cluster import paths
from allranks.cluster.observe import observe
from allranks.cluster.pod_selection import is_running, main_container
from allranks.k8s.fields import items, text

if TYPE_CHECKING:
    from allranks.cluster.interface import KubeClient
    from allranks.k8s.manifest import Manifest

_PROGRAM = "/etc/allranks/save.sh"
_END = b"allranks-save-done"
_REPLICA_SET = "ReplicaSet"  # of a Deployment


@dataclass(frozen=True, slots=True)
class ClusterSavingPod:
    """A pod of a cluster."""

    cluster: KubeClient
    namespace: str
    name: str
    container: str

    def ask_to_save(self, request: int, seconds: float) -> bytes:
        """See `allranks.workspace.saves.SavingPod`."""
        return self.cluster.ask(
            self.name,
            ("/bin/sh", _PROGRAM, str(request)),
            b"",
            namespace=self.namespace,
            container=self.container,
            end=_END,
            seconds=seconds,
        )


def _trains(pod: Manifest) -> bool:
    """Whether a pod of a release is one of its training, and none of a service beside it."""
    owners = items(pod, "metadata", "ownerReferences")
    return all(text(owner, "kind") != _REPLICA_SET for owner in owners)


def saving_pods(cluster: KubeClient, namespace: str, name: str) -> list[ClusterSavingPod]:
    """The running pods of a run.

    Raises:
        NotFoundError: there is no such run.
        AllranksError: the cluster does not answer, or forbids it.
    """
    pods = cluster.list(paths.PODS, namespace=namespace, label_selector=paths.selector(name))
    if not pods:
        observe(cluster, name, namespace)  # which says that there is no such run
    return [
        ClusterSavingPod(cluster, namespace, text(pod, "metadata", "name"), main_container(pod))
        for pod in pods
        if _trains(pod) and is_running(pod) and not text(pod, "metadata", "deletionTimestamp")
    ]
