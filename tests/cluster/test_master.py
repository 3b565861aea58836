"""Our master against a real API server, with the rights that it is given and no others."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from allranks import names
from tests.waiting import until

from .watching import replicas

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kube.cluster import Cluster

    from .watching import Lab

GROUP = "elastic.iml.github.io"
RULES = [
    {"apiGroups": [GROUP], "resources": ["elasticjobs"], "verbs": ["get"]},
    {"apiGroups": [GROUP], "resources": ["scaleplans"], "verbs": ["get", "list", "create"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch"]},
]


def _job(worker: dict[str, Any]) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "main", "image": "any"}]}}
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": "demo"},
        "spec": {"replicaSpecs": {"worker": {**worker, "template": template}}},
    }


def _apply(cluster: Cluster, namespace: str, *objects: dict[str, Any]) -> None:
    for manifest in objects:
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest), namespace=namespace)


def _rights(namespace: str) -> list[dict[str, Any]]:
    rbac = "rbac.authorization.k8s.io"
    return [
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "Role",
            "metadata": {"name": "master", "namespace": namespace},
            "rules": RULES,
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "master", "namespace": namespace},
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "master"},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": "guest"}],
        },
    ]


def test_a_master_plans_says_so_and_is_started_again(
    elastic_cluster: Cluster, tmp_path: Path
) -> None:
    """Its first plan is owned by the job and made once; its event is about the job."""
    cluster, namespace = elastic_cluster, f"master-{secrets.token_hex(4)}"
    metadata = {"name": namespace}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    cluster.api("POST", "/api/v1/namespaces", body)
    _apply(cluster, namespace, *_rights(namespace), _job({"minReplicas": 2, "maxReplicas": 4}))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {
        **os.environ,
        "KUBECONFIG": str(cluster.guest_kubeconfig),
        "ALLRANKS_NAMESPACE": namespace,
        "ALLRANKS_JOB": "demo",
        "ALLRANKS_MASTER_PORT": str(port),
    }
    env.pop("KUBERNETES_SERVICE_HOST", None)

    def plans() -> list[dict[str, Any]]:
        listing: dict[str, Any] = json.loads(
            cluster.kubectl("get", "scaleplans", "-o", "json", namespace=namespace)
        )
        items: list[dict[str, Any]] = listing["items"]
        return items

    for attempt in range(2):
        log = tmp_path / f"master.{attempt}.log"
        with log.open("wb") as out:
            master = subprocess.Popen(
                [sys.executable, "-m", "allranks_operator.master"], env=env, stdout=out, stderr=out
            )
        try:
            until(lambda path=log: '"leads"' in path.read_text(), log.read_text)
        finally:
            master.send_signal(signal.SIGTERM)
            code = master.wait(timeout=100)
        assert 128 + signal.SIGTERM == code
        assert "cannot" not in log.read_text()
    (plan,) = plans()
    assert "demo-plan-0" == plan["metadata"]["name"]
    assert {"worker": {"replicas": 2}} == plan["spec"]["replicaResourceSpecs"]
    assert ["demo"] == [owner["name"] for owner in plan["metadata"]["ownerReferences"]]
    events = json.loads(cluster.kubectl("get", "events", "-o", "json", namespace=namespace))
    (event,) = [item for item in events["items"] if item["reason"] == "FirstPlan"]
    assert ("ElasticJob", "demo") == (
        event["involvedObject"]["kind"],
        event["involvedObject"]["name"],
    )


def test_a_verdict_that_a_worker_leaves_is_the_end_of_its_job(lab: Lab) -> None:
    """The operator reads it from the first pod that ends with it, and makes no other in its place.

    The master is not asked: here it only pretends to run.
    """
    lab.watch("--master-image", "allranks/operator:1")
    master = replicas()
    master["template"]["spec"]["serviceAccountName"] = "default"
    specs = {"worker": replicas(), names.EDL_MASTER: master}
    lab.job("j", annotations={names.MASTER: "own"}, specs=specs)
    lab.plan("j", 0, worker=3)
    workers = lab.running("j", 3, kind="worker")
    reason = f"{workers[1]}: rank 0 ended with exit code 13"
    (before,) = [pod for pod in lab.pods("j") if pod["metadata"]["name"] == workers[1]]
    (container,) = before["status"]["containerStatuses"]
    end_of_container = {
        "exitCode": 13,
        "reason": "Error",
        "message": f"{names.JOB_HAS_FAILED}{reason}",
    }
    failed = {"ready": False, "started": False, "state": {"terminated": end_of_container}}
    status = {"phase": "Failed", "containerStatuses": [{**container, **failed}]}
    path = lab.path("pods", workers[1]) + "/status"
    merge = "application/merge-patch+json"
    lab.cluster.admin.request("PATCH", path, {"status": status}, content_type=merge)
    until(lambda: lab.status("j").get("phase") == "Failed", "the end of the job")
    conditions = lab.status("j")["status"]["conditions"]
    (end,) = [condition for condition in conditions if condition["type"] == "Failed"]
    assert ("TrainingFailed", reason) == (end["reason"], end["message"])
    until(lambda: [workers[1]] == lab.names("j", "worker"), "the end of the others")
    assert [] == lab.events("PodsReplaced")
