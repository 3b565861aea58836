"""What the tests of queues share: a release of the chart, and objects to be judged."""

from __future__ import annotations

import copy
import secrets
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks.yamlio.dump import dump
from tests.kube.api import ApiError
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kube.api import Api
    from tests.kube.cluster import Cluster

CHART = Path(__file__).parents[2] / "charts/queue"
GPU = "nvidia.com/gpu"
GROUPS = {
    "pods": "/api/v1",
    "replicationcontrollers": "/api/v1",
    "jobs": "/apis/batch/v1",
    "cronjobs": "/apis/batch/v1",
    "statefulsets": "/apis/apps/v1",
    "deployments": "/apis/apps/v1",
    "replicasets": "/apis/apps/v1",
    "daemonsets": "/apis/apps/v1",
    "elasticjobs": "/apis/elastic.iml.github.io/v1alpha1",
}
KINDS = {
    "pods": "Pod",
    "replicationcontrollers": "ReplicationController",
    "jobs": "Job",
    "cronjobs": "CronJob",
    "statefulsets": "StatefulSet",
    "deployments": "Deployment",
    "replicasets": "ReplicaSet",
    "daemonsets": "DaemonSet",
    "elasticjobs": "ElasticJob",
}


@dataclass(frozen=True, slots=True)
class Team:
    """A namespace with a queue.

    Attributes:
        cluster: where it is.
        namespace: its name.
    """

    cluster: Cluster
    namespace: str

    def path(self, plural: str, name: str = "", part: str = "") -> str:
        """The path of objects, of an object or of a part of it."""
        words = (GROUPS[plural], "namespaces", self.namespace, plural, name, part)
        return "/".join(word for word in words if word)

    def refusal(
        self, plural: str, manifest: dict[str, Any], *, api: Api | None = None, method: str = "POST"
    ) -> str:
        """What the server has against an object, which it does not keep; "" where it takes it."""
        named = "" if method == "POST" else manifest["metadata"]["name"]
        path = f"{self.path(plural, named)}?dryRun=All"
        return refusal(api or self.cluster.admin, method, path, manifest)

    def create(self, plural: str, manifest: dict[str, Any]) -> dict[str, Any]:
        """Create an object."""
        return self.cluster.api("POST", self.path(plural), manifest)


def refusal(api: Api, method: str, path: str, body: dict[str, Any]) -> str:
    """The server's own sentence where it refuses a request; "" where it takes it."""
    try:
        api.request(method, path, body)
    except ApiError as error:
        return f"{error.status} {error.message}"
    return ""


@contextmanager
def team(cluster: Cluster) -> Iterator[Team]:
    """A namespace without a release, which goes with the block."""
    name = f"team-{secrets.token_hex(4)}"
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    cluster.api("POST", "/api/v1/namespaces", body)
    accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
    until(lambda: cluster.items(accounts), "the namespace's service account")
    yield Team(cluster, name)
    cluster.api("DELETE", f"/api/v1/namespaces/{name}")


def install(team: Team, helm: Any, values: dict[str, Any], name: str = "h100") -> None:
    """Install or upgrade a queue as an administrator does."""
    helm.run(
        *("upgrade", "--install", name, CHART, "-n", team.namespace, "-f", "-"),
        *("--kubeconfig", team.cluster.kubeconfig),
        stdin=dump(values),
    )


def container(gpus: int = 0, image: str = "pytorch/pytorch:2", **fields: Any) -> dict[str, Any]:
    """A container with GPUs."""
    limits = {"resources": {"limits": {GPU: str(gpus)}}} if gpus else {}
    return {"name": "trainer", "image": image, **limits, **fields}


def pod_spec(gpus: int = 0, **fields: Any) -> dict[str, Any]:
    """A pod of one container; more of its fields replace."""
    return {"restartPolicy": "Never", "containers": [container(gpus)], **fields}


def manifest(plural: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """An object of its own words, without a label of ours unless one is given."""
    group = GROUPS[plural].removeprefix("/apis/").removeprefix("/api/")
    head = {"apiVersion": group, "kind": KINDS[plural]}
    return {**head, "metadata": {"name": "x", **metadata}, "spec": copy.deepcopy(spec)}


def job(pods: int = 1, spec: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """The spec of a Job with a deadline of an hour."""
    template = {"spec": spec or pod_spec()}
    return {
        "parallelism": pods,
        "completions": pods,
        "completionMode": "Indexed",
        "activeDeadlineSeconds": 3600,
        "template": template,
        **fields,
    }


def replicated(replicas: int, spec: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The spec of what has replicas."""
    return {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "x"}},
        "template": {
            "metadata": {"labels": {"app": "x"}},
            "spec": {**spec, "restartPolicy": "Always"},
        },
        **fields,
    }
